//! `parsley node`: one bare node driven by a script (`docs/node-script.md`).

mod answer;
mod line;
pub(crate) mod names;
mod run;

use std::io::{self, BufReader, Read, Write};

use parsley_core::StoreError;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::lines::{Line, Lines};
use run::{Fault, Run};

/// The longest script line: a clock far past the metadata budget still fits.
const LINE_LIMIT: usize = 16 << 20;

/// Why a script did not run through.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScriptError {
    /// A line is not one of `docs/node-script.md`, or stands where it may not.
    #[error("line {line}: {reason}")]
    Malformed {
        /// Its number, from 1.
        line: u64,
        /// What was found and what was expected.
        reason: String,
    },
    /// The store failed.
    #[error("line {line}: {source}")]
    Store {
        /// The line's number, from 1.
        line: u64,
        /// Why.
        source: StoreError,
    },
}

impl ScriptError {
    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            Self::Malformed { .. } => Exit::Usage,
            Self::Store { .. } => Exit::Failed,
        }
    }
}

/// Runs a script. Answers are written out before a line has to be waited for.
pub fn run(input: &Input, out: &mut impl Write) -> Result<Exit, Failure> {
    let unreadable = |error| input.unreadable(error);
    answer(input.open()?, unreadable, out)
}

/// Answers the lines that a reader has.
pub(crate) fn answer<R: Read>(
    reader: BufReader<R>,
    unreadable: impl Fn(io::Error) -> Failure,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let mut lines = Lines::new(reader, LINE_LIMIT);
    let limit = lines.limit();
    let mut run = Run::new(out);
    let exit = loop {
        if lines.may_wait() {
            run.flush().map_err(Failure::Write)?;
        }
        let Some((number, line)) = lines.next().map_err(&unreadable)? else {
            break Ok(if run.refused() {
                Exit::Refused
            } else {
                Exit::Done
            });
        };
        let malformed = |reason: String| {
            Failure::from(ScriptError::Malformed {
                line: number,
                reason,
            })
        };
        let ran = match line {
            Line::TooLong => Err(malformed(format!(
                "longer than {limit} bytes, expected a line that fits"
            ))),
            Line::NotUtf8 { valid_up_to } => Err(malformed(format!(
                "not UTF-8 from byte {valid_up_to} on, expected a line of JSON"
            ))),
            Line::Text(text)
                if text.trim_start().is_empty() || text.trim_start().starts_with('#') =>
            {
                Ok(())
            }
            Line::Text(text) => match line::parse(text) {
                Ok(line) => run.line(line).map_err(|fault| match fault {
                    Fault::Malformed(misplaced) => malformed(misplaced.to_string()),
                    Fault::Store(source) => ScriptError::Store {
                        line: number,
                        source,
                    }
                    .into(),
                    Fault::Write(error) => Failure::Write(error),
                }),
                Err(error) => Err(malformed(error.to_string())),
            },
        };
        if let Err(failure) = ran {
            break Err(failure);
        }
    };
    // What was answered is printed whatever comes after; of two failures the first counts.
    let flushed = run.flush().map_err(Failure::Write);
    exit.and_then(|exit| flushed.map(|()| exit))
}
