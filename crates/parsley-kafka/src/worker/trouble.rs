//! What stops a step.

use parsley_stage::TaskError;
use rdkafka::error::KafkaError;

use super::denied::{self, Grant};
use super::failing::Failed;
use crate::cluster::ClusterError;
use crate::event::ConsumerError;
use crate::producer::ProduceError;
use crate::restore::RestoreError;
use crate::stage::StageError;
use crate::state::StateError;

/// Something stopped the step at hand.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A guard refused, or the application's code failed.
    Task {
        partition: i32,
        error: TaskError,
    },
    Produce(ProduceError),
    Consumer(ConsumerError),
    Client(KafkaError),
    Cluster(ClusterError),
    Restore(RestoreError),
    State(StateError),
    Stage(StageError),
    /// One of the others, because of what the cluster does not let this client do.
    Denied {
        trouble: Box<Trouble>,
        grant: Grant,
    },
}

impl Trouble {
    pub(super) fn task(partition: i32, error: TaskError) -> Self {
        Self::Task { partition, error }
    }

    /// What failed: one task, where others can go on without it.
    pub(super) fn failed(&self) -> Failed {
        match self {
            Self::Task {
                partition,
                error: TaskError::Application(error),
            } => Failed::Record(*partition, (error.channel, error.offset)),
            Self::Task { partition, .. } => Failed::Task(*partition),
            Self::Produce(ProduceError::TooLarge { task, .. }) => Failed::Task(*task),
            Self::Denied { trouble, .. } => trouble.failed(),
            _ => Failed::Worker,
        }
    }

    /// The same without the words of the application's error, which may quote what a record says: for logs (decision T16).
    pub(super) fn without_words(&self) -> String {
        match self {
            Self::Task { error, .. } => error.without_words().to_string(),
            trouble => trouble.to_string(),
        }
    }

    /// Whether the clients have to be made anew.
    pub(super) fn is_fatal(&self) -> bool {
        match self {
            Self::Produce(error) => error.is_fatal(),
            // Of its group a consumer says it once.
            Self::Consumer(error) => error.fatal || denied::is_of_group(error.code),
            Self::Client(_) | Self::Stage(_) => true,
            Self::Denied { trouble, .. } => trouble.is_fatal(),
            _ => false,
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Task { error, .. } => error.fmt(f),
            Self::Produce(error) => error.fmt(f),
            Self::Consumer(error) => error.fmt(f),
            Self::Client(error) => error.fmt(f),
            Self::Cluster(error) => error.fmt(f),
            Self::Restore(error) => error.fmt(f),
            Self::State(error) => error.fmt(f),
            Self::Stage(error) => error.fmt(f),
            Self::Denied { trouble, grant } => write!(f, "{trouble}: grant {grant}"),
        }
    }
}

macro_rules! trouble_from {
    ($($variant:ident($error:ty)),*) => {$(
        impl From<$error> for Trouble {
            fn from(error: $error) -> Self {
                Self::$variant(error)
            }
        }
    )*};
}

trouble_from!(
    Produce(ProduceError),
    Consumer(ConsumerError),
    Client(KafkaError),
    Cluster(ClusterError),
    Restore(RestoreError),
    State(StateError),
    Stage(StageError)
);
