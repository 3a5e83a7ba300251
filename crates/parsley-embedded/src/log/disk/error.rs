//! What can go wrong with a directory.

use std::io;
use std::path::{Path, PathBuf};

use parsley_store::DatabaseError;

/// A log's directory could not be read or written.
///
/// Nothing that was acknowledged is lost. What was being written does not take effect, unless the error says that this is not known: a step
/// that fails with it is tried again, a send or a transaction may be. The directory works again as soon as its file system does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StorageError {
    /// The file system has no space left.
    #[error("no space is left for {}: free some, and it goes on ({reason})", dir.display())]
    Full {
        /// The directory.
        dir: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The system failed to read or to write.
    #[error("{} cannot be read or written: {reason}", dir.display())]
    Io {
        /// The directory.
        dir: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// Whether what was being written is in the directory cannot be told before it can be opened again. Until then nothing else is written,
    /// and nobody reads past it; then it takes effect if it is there, although it was not acknowledged.
    #[error("whether {} has what was written last is not known before it can be opened again: {reason}", dir.display())]
    InDoubt {
        /// The directory.
        dir: PathBuf,
        /// What went wrong.
        reason: String,
    },
    /// The directory has something that was never written there.
    #[error("{} is damaged: {found}; restore it from a copy", dir.display())]
    Corrupt {
        /// The directory.
        dir: PathBuf,
        /// What was found, and where.
        found: String,
    },
}

/// A log's directory could not be opened. It is left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// A process has it open, this one or another.
    #[error("{} is in use{}: one process can have it open, and once", dir.display(), by(*process))]
    InUse {
        /// The directory.
        dir: PathBuf,
        /// The process that has it open, if it said so.
        process: Option<u32>,
    },
    /// It holds other files and no log.
    #[error("{} is no directory of a log: it holds {found}; name an empty directory or a new one", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
        /// One of the files.
        found: String,
    },
    /// It was written in a format that this build does not know.
    #[error("{} is of format {found}, and this build reads format {expected}: use the version that wrote it", dir.display())]
    Format {
        /// The directory.
        dir: PathBuf,
        /// What its format file says, shortened when it is long.
        found: String,
        /// The format of this build.
        expected: u32,
    },
    /// The system failed to read or to write a file.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The system's words.
        reason: String,
    },
    /// The log in it cannot be read.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn by(process: Option<u32>) -> String {
    process.map_or_else(String::new, |process| format!(" by process {process}"))
}

impl StorageError {
    pub(crate) fn io(dir: &Path, error: &io::Error) -> Self {
        let (dir, reason) = (dir.to_owned(), error.to_string());
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { dir, reason },
            _ => Self::Io { dir, reason },
        }
    }

    pub(crate) fn of(dir: &Path, error: DatabaseError) -> Self {
        match error {
            DatabaseError::Io(error) => Self::io(dir, &error),
            DatabaseError::Corrupt(found) => Self::corrupt(dir, found),
            DatabaseError::InDoubt(error) => Self::InDoubt {
                dir: dir.to_owned(),
                reason: error.to_string(),
            },
            DatabaseError::Panicked(found) => Self::corrupt(dir, found),
            // The library takes what it is given here, unless somebody else has the file open.
            other => Self::Io {
                dir: dir.to_owned(),
                reason: other.to_string(),
            },
        }
    }

    pub(crate) fn corrupt(dir: &Path, found: impl std::fmt::Display) -> Self {
        Self::Corrupt {
            dir: dir.to_owned(),
            found: found.to_string(),
        }
    }
}

/// A batch was not written, or may not have been.
#[derive(Debug)]
pub(crate) enum WriteError {
    NotWritten(StorageError),
    /// [`Disk::resolve`](super::Disk::resolve) has to be asked before anything else is written.
    InDoubt(StorageError),
}

impl WriteError {
    pub(crate) fn into_error(self) -> StorageError {
        match self {
            Self::NotWritten(error) | Self::InDoubt(error) => error,
        }
    }
}

impl OpenError {
    pub(crate) fn io(path: &Path, error: &io::Error) -> Self {
        match StorageError::io(path, error) {
            StorageError::Io { dir, reason } => Self::Io { path: dir, reason },
            full => Self::Storage(full),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_what_was_found_where_and_what_to_do() {
        let dir = PathBuf::from("data");
        let full = io::Error::from(io::ErrorKind::StorageFull);
        assert_eq!(
            StorageError::io(&dir, &full).to_string(),
            "no space is left for data: free some, and it goes on (no storage space)"
        );
        let in_use = OpenError::InUse {
            dir: dir.clone(),
            process: Some(7),
        };
        assert_eq!(
            in_use.to_string(),
            "data is in use by process 7: one process can have it open, and once"
        );
        let foreign = OpenError::Foreign {
            dir,
            found: "photo.jpg".to_owned(),
        };
        assert_eq!(
            foreign.to_string(),
            "data is no directory of a log: it holds photo.jpg; name an empty directory or a new one"
        );
    }
}
