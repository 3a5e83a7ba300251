//! What the program's exit codes mean. `docs/exit-codes.md` and `--help` show this table.

use std::fmt::Write;
use std::process::ExitCode;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// What was asked for was done.
    Done,
    /// A check failed, or the program itself did.
    Failed,
    /// The command line or a script is malformed.
    Usage,
    /// A guard refused.
    Refused,
    /// Data are malformed.
    MalformedData,
    /// Input could not be read, or output not written.
    Io,
    /// A Kafka cluster did not do its part.
    Cluster,
}

impl Exit {
    /// Every exit, in the order of its code.
    pub const ALL: [Self; 7] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::MalformedData,
        Self::Io,
        Self::Cluster,
    ];

    /// The number the process exits with. Stable.
    pub const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Refused => 3,
            Self::MalformedData => 4,
            Self::Io => 5,
            Self::Cluster => 6,
        }
    }

    /// When it is used.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done; also when the reader of the output went away",
            Self::Failed => {
                "a check failed (demo: an inversion, or views that differ; sim: a violation, a missed floor, or a sabotage that slipped through; topic: a violation, or nothing to judge; probe: what a host would refuse), or the program itself did"
            }
            Self::Usage => {
                "the command line, a node script, or a description of an application is malformed"
            }
            Self::Refused => "a guard refused, and the run ended there",
            Self::MalformedData => "data to decode, encode or judge are malformed",
            Self::Io => {
                "input could not be read, or output could not be written; also a directory of data that could not be used"
            }
            Self::Cluster => {
                "a Kafka cluster did not answer, denied what was asked for, or does not have it"
            }
        }
    }

    /// The table, for `--help`.
    pub fn table() -> String {
        let mut table = String::from("Exit codes:\n");
        for exit in Self::ALL {
            // Writing to a String cannot fail.
            let _ = writeln!(table, "  {}  {}", exit.code(), exit.meaning());
        }
        table
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
