//! Why a task stopped.

use std::fmt;
use std::sync::Arc;

use parsley_core::{NodeError, Refusal, StoreError, TopicId};

use crate::failure::ApplicationError;
use crate::ticks::TickTopicWidth;

/// A task stopped. It stays stopped: every later call that could change something gives the same error, and the host opens the task
/// anew from committed state, after a refusal not before someone has acted on it.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// A guard refused (`docs/protocol.md`, Guards). Opening the task again does not help.
    #[error(transparent)]
    Refused(Refusal),
    /// The ordering state or its store failed, or the host told the node something impossible.
    #[error(transparent)]
    Node(Arc<NodeError>),
    /// The fold store failed.
    #[error("fold state: {0}")]
    Fold(#[source] Arc<StoreError>),
    /// The application's logic or one of its codecs failed.
    #[error(transparent)]
    Application(Box<ApplicationError>),
    /// An input is not among the topics the host resolved.
    #[error("the input {topic} is not among the resolved topics")]
    UnresolvedInput {
        /// The topic.
        topic: Arc<str>,
    },
    /// The host resolved a topic to fewer partitions than 1.
    #[error("the topic {topic} was resolved with {found} partitions")]
    NoPartitions {
        /// The topic.
        topic: Arc<str>,
        /// How many partitions the host named.
        found: i32,
    },
    /// The tick topic has not as many partitions as the stage's widest input.
    #[error(transparent)]
    TickTopicWidth(TickTopicWidth),
    /// No input has a partition of this number.
    #[error("no input of the stage {stage} has a partition {partition}")]
    NoChannel {
        /// The stage.
        stage: Arc<str>,
        /// The partition.
        partition: i32,
    },
    /// The host resolved two topics to one identity.
    #[error("two topics were resolved to the identity {id}")]
    SharedIdentity {
        /// The identity.
        id: TopicId,
    },
    /// The host did not read the end of a sink's partition before it opened the task. Without it, a stamp could claim less than was sent
    /// (decision D17).
    #[error("the end offset of partition {partition} of the sink {topic} was not read")]
    MissingEnd {
        /// The sink.
        topic: Arc<str>,
        /// The partition.
        partition: i32,
    },
    /// The host made a call that the current step does not allow.
    #[error("{call} was called while {state}")]
    OutOfTurn {
        /// The call.
        call: &'static str,
        /// The state of the step.
        state: &'static str,
    },
}

impl TaskError {
    /// The refusal, if a guard refused.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// The application's failure, if that is what stopped the task.
    pub fn application(&self) -> Option<&ApplicationError> {
        match self {
            Self::Application(error) => Some(error),
            _ => None,
        }
    }
}

impl TaskError {
    /// The same without the words of the application's error, which may quote what a record says: for logs (decision T16).
    pub fn without_words(&self) -> impl fmt::Display + '_ {
        WithoutWords(self)
    }
}

struct WithoutWords<'a>(&'a TaskError);

impl fmt::Display for WithoutWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.application() {
            Some(error) => error.without_words().fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl From<NodeError> for TaskError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Refused(refusal) => Self::Refused(refusal),
            error => Self::Node(Arc::new(error)),
        }
    }
}

impl From<StoreError> for TaskError {
    fn from(error: StoreError) -> Self {
        Self::Fold(Arc::new(error))
    }
}
