//! `parsley clock`: clocks between their bytes and JSON (`docs/protocol.md`, Wire format).

pub(crate) mod json;

use std::io::Write;

use parsley_core::wire::{self, CorruptClock};

pub use json::{ClockJson, JsonFault};

use crate::failure::Failure;
use crate::input::Input;
use crate::lines::{Line, Lines};
use crate::object::{self, NotHexadecimal};

/// The longest line read: a clock of a million claims.
const LINE_LIMIT: usize = 128 << 20;

/// Where a clock stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On the command line, counted from 1.
    Argument(usize),
    /// In the input, counted from 1.
    Line(u64),
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Argument(number) => write!(f, "argument {number}"),
            Self::Line(number) => write!(f, "line {number}"),
        }
    }
}

/// A clock cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {fault}")]
pub struct ClockError {
    /// Where it stood.
    place: Place,
    /// What is wrong with it.
    fault: Fault,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    NotHexadecimal(#[from] NotHexadecimal),
    #[error("found a byte order mark, expected hexadecimal")]
    ByteOrderMark,
    #[error(transparent)]
    Clock(#[from] CorruptClock),
    #[error("not UTF-8 from byte {valid_up_to} on")]
    NotUtf8 { valid_up_to: usize },
    #[error("longer than {limit} bytes")]
    TooLong { limit: usize },
    #[error(transparent)]
    Json(#[from] json::JsonFault),
}

/// Prints the clocks given in hexadecimal, one JSON object a line; a single `-` stands for standard input, one clock a line.
pub fn decode(arguments: &[String], out: &mut impl Write) -> Result<(), Failure> {
    if let [only] = arguments
        && only == "-"
    {
        return each_line(&Input::standard(), out, |line, out| {
            let clock = decoded(line)?;
            json::write(&clock, out).map_err(Stop::Write)
        });
    }
    if arguments.iter().any(|argument| argument == "-") {
        return Err(Failure::DashAmongClocks);
    }
    for (number, argument) in (1..).zip(arguments) {
        let clock = decoded(argument.trim()).map_err(|fault| ClockError {
            place: Place::Argument(number),
            fault,
        })?;
        json::write(&clock, out).map_err(Failure::Write)?;
    }
    out.flush().map_err(Failure::Write)
}

/// Prints the bytes of clocks given in JSON, one hexadecimal line each.
pub fn encode(input: &Input, out: &mut impl Write) -> Result<(), Failure> {
    each_line(input, out, |line, out| {
        let clock = json::read(line).map_err(Fault::from)?;
        writeln!(out, "{}", hex::encode(wire::encode(&clock))).map_err(Stop::Write)
    })
}

pub(crate) fn decoded(hexadecimal: &str) -> Result<parsley_core::Clock, Fault> {
    if hexadecimal.starts_with('\u{feff}') {
        return Err(Fault::ByteOrderMark);
    }
    let bytes = object::hexadecimal(hexadecimal)?;
    Ok(wire::decode(&bytes)?.into_clock())
}

/// Why a line ends the run.
enum Stop {
    Fault(Fault),
    Write(std::io::Error),
}

impl<F: Into<Fault>> From<F> for Stop {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

fn each_line<W: Write>(
    input: &Input,
    out: &mut W,
    mut convert: impl FnMut(&str, &mut W) -> Result<(), Stop>,
) -> Result<(), Failure> {
    let mut lines = Lines::new(input.open()?, LINE_LIMIT);
    let limit = lines.limit();
    loop {
        if lines.may_wait() {
            out.flush().map_err(Failure::Write)?;
        }
        let Some((number, line)) = lines.next().map_err(|error| input.unreadable(error))? else {
            return out.flush().map_err(Failure::Write);
        };
        let converted = match line {
            Line::Text(text) if text.trim().is_empty() => Ok(()),
            Line::Text(text) => convert(text.trim(), out),
            Line::NotUtf8 { valid_up_to } => Err(Stop::Fault(Fault::NotUtf8 { valid_up_to })),
            Line::TooLong => Err(Stop::Fault(Fault::TooLong { limit })),
        };
        match converted {
            Ok(()) => {}
            Err(Stop::Fault(fault)) => {
                return Err(ClockError {
                    place: Place::Line(number),
                    fault,
                }
                .into());
            }
            Err(Stop::Write(error)) => return Err(Failure::Write(error)),
        }
    }
}
