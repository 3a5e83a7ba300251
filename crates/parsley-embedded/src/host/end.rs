//! Why an execution of a task ended.

use parsley_core::{NodeError, Refusal};
use parsley_stage::{ApplicationError, TaskError};

use crate::log::{SendError, StorageError};

/// An execution of a task ended: nothing of the step in flight is kept, and the task goes on from committed state once it is opened anew.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskEnd {
    /// A guard refused (`docs/protocol.md`, Guards). A running application does not try again.
    #[error(transparent)]
    Refused(Refusal),
    /// The application's code failed, or the task's state did. A running application tries again.
    #[error(transparent)]
    Task(TaskError),
    /// A send could not be appended (decisions E5 and E6). A running application tries again.
    #[error(transparent)]
    Append(SendError),
    /// The log's directory could not be read or written. A running application tries again.
    #[error(transparent)]
    Storage(StorageError),
}

impl TaskEnd {
    /// The refusal, if a guard refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The same without the words of the application's error, which may quote what a record says: for logs (decision T16).
    pub(crate) fn without_words(&self) -> String {
        match self {
            Self::Task(error) => error.without_words().to_string(),
            end => end.to_string(),
        }
    }

    /// The failure of the log's directory, if that is what ended the execution.
    pub fn storage(&self) -> Option<&StorageError> {
        match self {
            Self::Storage(error) | Self::Append(SendError::Storage(error)) => Some(error),
            _ => None,
        }
    }

    /// The application's failure, if that is what ended the execution.
    pub fn application(&self) -> Option<&ApplicationError> {
        match self {
            Self::Task(error) => error.application(),
            _ => None,
        }
    }
}

impl From<Refusal> for TaskEnd {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<TaskError> for TaskEnd {
    fn from(error: TaskError) -> Self {
        match error {
            TaskError::Refused(refusal) => Self::Refused(refusal),
            error => Self::Task(error),
        }
    }
}

impl From<NodeError> for TaskEnd {
    fn from(error: NodeError) -> Self {
        TaskError::from(error).into()
    }
}

impl From<SendError> for TaskEnd {
    fn from(error: SendError) -> Self {
        Self::Append(error)
    }
}

impl From<StorageError> for TaskEnd {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
