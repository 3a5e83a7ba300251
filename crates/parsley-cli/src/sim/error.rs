//! Why `parsley sim` cannot do what was asked.

use std::io;
use std::path::PathBuf;

use parsley_sim::shrink::{KeepError, PartError};

use super::names::Unknown;
use super::seeds::SeedsError;
use crate::exit::Exit;

/// Why `parsley sim` cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A name that nothing has.
    #[error(transparent)]
    Unknown(#[from] Unknown),
    /// Seeds that are none.
    #[error(transparent)]
    Seeds(#[from] SeedsError),
    /// A list of actions that is none.
    #[error("--keep: {0}")]
    Keep(#[from] KeepError),
    /// The run does not have that part.
    #[error(transparent)]
    Part(#[from] PartError),
    /// A run without a world leaves nothing to draw.
    #[error("there is no world to show: {why}")]
    NoWorld {
        /// Why there is none.
        why: String,
    },
    /// A picture is to go where it would have to be called a file.
    #[error(
        "found `--out -`, expected a file; `parsley sim replay --format html` writes to standard output"
    )]
    OutToStandardOutput,
    /// A picture cannot be written.
    #[error("{} cannot be written: {source}", path.display())]
    Out {
        /// Where to.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl SimError {
    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Unknown(_)
            | Self::Seeds(_)
            | Self::Keep(_)
            | Self::Part(_)
            | Self::OutToStandardOutput => Exit::Usage,
            Self::NoWorld { .. } => Exit::Failed,
            Self::Out { .. } => Exit::Io,
        }
    }
}
