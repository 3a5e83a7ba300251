//! Why a command did not end well.

use std::io;

use crate::clock::ClockError;
use crate::demo::DemoError;
use crate::exit::Exit;
use crate::probe::ProbeError;
use crate::script::ScriptError;
use crate::sim::SimError;
use crate::topic::TopicError;

/// Why a command did not end well.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A node script is malformed.
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// Clocks on the command line, and `-` among them.
    #[error("found `-` among other clocks, expected it alone: it reads clocks from standard input")]
    DashAmongClocks,
    /// A clock is malformed.
    #[error(transparent)]
    Clock(#[from] ClockError),
    /// The demo cannot run to its end.
    #[error(transparent)]
    Demo(Box<DemoError>),
    /// A simulated world is not what was asked for.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// A command about topics did not end well.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A cluster cannot be probed.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// Input cannot be read.
    #[error("{input} cannot be read: {source}")]
    Read {
        /// Which input.
        input: String,
        /// Why.
        source: io::Error,
    },
    /// Standard output cannot be written.
    #[error("the output cannot be written: {0}")]
    Write(#[source] io::Error),
}

impl Failure {
    /// Whether nobody reads the output any more, which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The signal that the process was asked to end by, if that is why.
    pub fn signal(&self) -> Option<i32> {
        match self {
            Self::Demo(error) => error.signal(),
            _ => None,
        }
    }

    /// The exit code that stands for it.
    pub fn exit(&self) -> Exit {
        match self {
            _ if self.is_closed_pipe() => Exit::Done,
            Self::Script(error) => error.exit(),
            Self::Demo(error) => error.exit(),
            Self::Sim(error) => error.exit(),
            Self::Topic(error) => error.exit(),
            Self::Probe(error) => error.exit(),
            Self::DashAmongClocks => Exit::Usage,
            Self::Clock(_) => Exit::MalformedData,
            Self::Read { .. } | Self::Write(_) => Exit::Io,
        }
    }
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        Self::Demo(Box::new(error))
    }
}
