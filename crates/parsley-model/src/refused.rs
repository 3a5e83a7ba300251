//! Why a model stops.

use std::fmt;

use crate::id::{Channel, channel_text};

/// Not a guard: the host did not say where a joining channel ends that the past names by sequence (decision D8).
pub const MISSING_END: &str = "host: missing end offset";

/// Why the node stopped: a guard's code and its coordinate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The code of the guard, or [`MISSING_END`].
    pub code: &'static str,
    /// The channel it is about.
    pub on: Option<Channel>,
    /// The offset it is about.
    pub offset: Option<i64>,
}

impl Refused {
    /// A refusal about one record or position.
    pub fn at(code: &'static str, on: Channel, offset: i64) -> Refused {
        Refused {
            code,
            on: Some(on),
            offset: Some(offset),
        }
    }

    /// A refusal about a channel.
    pub fn on(code: &'static str, on: Channel) -> Refused {
        Refused {
            code,
            on: Some(on),
            offset: None,
        }
    }

    /// A refusal about the node as a whole.
    pub fn bare(code: &'static str) -> Refused {
        Refused {
            code,
            on: None,
            offset: None,
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code)?;
        if let Some(on) = self.on {
            write!(f, " on {}", channel_text(on))?;
        }
        if let Some(offset) = self.offset {
            write!(f, " at {offset}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refused {}
