//! What a caller who steps tasks is told.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_core::{Channel, Offset};
use parsley_stage::{Processed, RawSend};

use super::end::TaskEnd;
use super::journal::Journal;

/// What an opening found in committed state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Opening {
    /// How many records are held that an earlier execution received.
    pub held: u64,
    /// The inputs that joined since the last execution, in channel order. None on a first start.
    pub joined: Vec<JoinedInput>,
    /// The next position to read, of every input.
    pub positions: BTreeMap<Channel, Offset>,
}

/// An input that joined (`docs/protocol.md`, Scope changes).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JoinedInput {
    /// The topic.
    pub topic: Arc<str>,
    /// The channel.
    pub channel: Channel,
    /// The highest offset that the delivered past claims on it: up to there it is skipped.
    pub seed: Option<Offset>,
    /// The first position that is read.
    pub position: Offset,
}

/// What a step did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StepReport {
    /// Whether the step was committed. One that moved no position, emitted no tick and delivered nothing is not: there is nothing to commit.
    pub committed: bool,
    /// The records that the task took in, in the order in which it was fed.
    pub received: Vec<(Channel, Offset)>,
    /// The records that it had been fed before and dropped.
    pub dropped: Vec<(Channel, Offset)>,
    /// The deliveries, in their order.
    pub delivered: Vec<Processed>,
    /// The sends, in the order in which they were appended: round by round.
    pub appended: Vec<AppendedSend>,
    /// The next position to read, of every input, behind the step.
    pub positions: BTreeMap<Channel, Offset>,
    /// Whether the step ended because it was full. The next one goes on with its drain, and reads nothing. A step can be full with the last
    /// record that there was: the next one then delivers nothing.
    pub is_full: bool,
}

/// A send, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AppendedSend {
    /// The send as it was stamped.
    pub send: RawSend,
    /// Its offset on the send's channel.
    pub offset: Offset,
}

impl Journal for StepReport {
    fn received(&mut self, channel: Channel, offset: Offset) {
        self.received.push((channel, offset));
    }

    fn dropped(&mut self, channel: Channel, offset: Offset) {
        self.dropped.push((channel, offset));
    }

    fn delivered(&mut self, delivery: &Processed) {
        self.delivered.push(delivery.clone());
    }

    fn keeps_sends(&self) -> bool {
        true
    }

    fn appended(&mut self, send: RawSend, offset: Offset) {
        self.appended.push(AppendedSend { send, offset });
    }
}

/// A task could not be driven on.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StepError {
    /// The application has no such task.
    #[error("there is no task {partition} of a stage {stage}")]
    NoTask {
        /// The stage asked for.
        stage: String,
        /// The partition asked for.
        partition: i32,
    },
    /// The task is not open: it was never opened, it was crashed, or its execution ended.
    #[error("task {partition} of stage {stage} is not open")]
    NotOpen {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
    },
    /// [`Reads`](crate::Reads) names a topic that the stage does not consume.
    #[error("stage {stage} does not consume {topic}, which a step is to read")]
    NoInput {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// A tick is asked for of a stage that declares none.
    #[error("stage {stage} declares no ticks")]
    NoTicks {
        /// The stage.
        stage: String,
    },
    /// The execution ended. The task is no longer open.
    #[error("{end}")]
    Ended {
        /// Why.
        end: TaskEnd,
        /// What the step had done until then, of which nothing is kept: the deliveries are made again, and the sends, as far as any had been
        /// appended, are an aborted run in the log. Empty where no step was under way.
        given_up: Box<StepReport>,
    },
}

impl StepError {
    /// Why the execution ended, if it did.
    pub fn end(&self) -> Option<&TaskEnd> {
        match self {
            Self::Ended { end, .. } => Some(end),
            _ => None,
        }
    }
}

impl From<TaskEnd> for StepError {
    fn from(end: TaskEnd) -> Self {
        Self::Ended {
            end,
            given_up: Box::default(),
        }
    }
}
