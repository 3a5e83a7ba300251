//! What can go wrong with a database.

use std::io;

/// A database failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    /// The system failed to read or to write. What was being written is not there.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has something that was never written there.
    #[error("{0}")]
    Corrupt(String),
    /// A batch was being written, and whether it is there is not known: [`Database::resolve`](crate::Database::resolve) tells once the file can
    /// be opened.
    #[error("it is not known whether the last write took place: {0}")]
    InDoubt(#[source] Box<DatabaseError>),
    /// Another process, or another part of this one, has the file open.
    #[error("the file is open already")]
    InUse,
    /// What somebody else did at the same time failed, and took this with it.
    #[error("reading or writing it failed for others at the same time")]
    Interrupted,
    /// The library did not survive what it found in the file.
    #[error("the database gave up: {0}")]
    Panicked(String),
    /// The library refuses what it was asked for.
    #[error("{0}")]
    Refused(String),
}

impl DatabaseError {
    pub(crate) fn of(error: redb::Error) -> Self {
        match error {
            // So it ends when the file is none of the library's, or too short for one. It was one once.
            redb::Error::Io(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof
                ) =>
            {
                Self::Corrupt(error.to_string())
            }
            redb::Error::Io(error) => Self::Io(error),
            redb::Error::Corrupted(found) => Self::Corrupt(found),
            redb::Error::UpgradeRequired(version) => Self::Corrupt(format!(
                "it is of version {version}, which was never written"
            )),
            redb::Error::DatabaseAlreadyOpen => Self::InUse,
            redb::Error::TableDoesNotExist(name) => {
                Self::Corrupt(format!("table {name} is missing"))
            }
            redb::Error::PreviousIo | redb::Error::DatabaseClosed => Self::Interrupted,
            other => Self::Refused(other.to_string()),
        }
    }
}

macro_rules! from_redb {
    ($($error:ty),*) => {$(
        impl From<$error> for DatabaseError {
            fn from(error: $error) -> Self {
                Self::of(error.into())
            }
        }
    )*};
}

from_redb!(
    redb::DatabaseError,
    redb::TransactionError,
    redb::TableError,
    redb::StorageError,
    redb::CommitError,
    redb::SetDurabilityError
);
