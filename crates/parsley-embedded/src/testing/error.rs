//! What a test driver cannot do.

use parsley_stage::Part;
use parsley_stage::codec::{DecodeError, EncodeError};

use crate::{HostError, ReadError, SendError, StartError, StepError, TopicError};

/// A [`TestDriver`](super::TestDriver) could not do what it was told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A setting is out of range.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The application does not fit the topics.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A topic of the application cannot be created.
    #[error(transparent)]
    Topic(#[from] TopicError),
    /// A record could not be appended.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A topic, or committed state, could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A task could not be driven. Where its execution ended it is not open any more: [`TestDriver::restart`](super::TestDriver::restart)
    /// opens it again.
    #[error("{stage}/{partition}: {error}")]
    Task {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
        /// What became of it.
        #[source]
        error: StepError,
    },
    /// Tasks still had something to do behind as many steps as a run may take
    /// ([`TestDriverBuilder::steps_max`](super::TestDriverBuilder::steps_max)): an application that feeds itself, perhaps.
    #[error("the application is not idle after {steps} steps")]
    NotIdle {
        /// How many steps were taken.
        steps: usize,
    },
    /// A key or value that is to be sent has no bytes.
    #[error("a {part} for topic {topic} does not encode: {error}")]
    Encode {
        /// The topic.
        topic: String,
        /// Which of the two.
        part: Part,
        /// What the codec says.
        #[source]
        error: EncodeError,
    },
    /// A key or value that was read is none of the topic's codecs. The record stays unread.
    #[error(
        "the {part} at offset {offset} of topic {topic}, partition {partition}, does not decode: {error}"
    )]
    Decode {
        /// The topic.
        topic: String,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
        /// Which of the two.
        part: Part,
        /// What the codec says.
        #[source]
        error: DecodeError,
    },
    /// A message was to be read, and there is none.
    #[error("topic {topic} has no record that was not read before")]
    NothingToRead {
        /// The topic.
        topic: String,
    },
    /// The application has no such stage.
    #[error("there is no stage {stage}")]
    NoStage {
        /// The stage asked for.
        stage: String,
    },
    /// The stage does not consume the topic.
    #[error("stage {stage} does not consume {topic}")]
    NoInput {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// The stage keeps no state, or keeps it with other codecs.
    #[error("stage {stage} keeps no state with these codecs")]
    NoStates {
        /// The stage.
        stage: String,
    },
    /// A stored key or state does not decode.
    #[error("a stored {what} of {stage}/{partition} does not decode: {error}")]
    State {
        /// The stage.
        stage: String,
        /// The partition.
        partition: i32,
        /// The key or the state.
        what: &'static str,
        /// What the codec says.
        #[source]
        error: DecodeError,
    },
    /// A record was named that is in none of the topics.
    #[error("there is no topic {topic} any more")]
    UnknownTopic {
        /// The identity of its topic.
        topic: parsley_core::TopicId,
    },
    /// No application is deployed: the last redeployment failed.
    #[error("no application is deployed: the last redeployment failed")]
    NotDeployed,
}

impl DriverError {
    /// Why a task's execution ended, if that is the error.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 5_u64)?;
    /// let error = driver.run().unwrap_err();
    /// let failure = error.task_end().and_then(|end| end.application()).expect("logic fails");
    /// assert_eq!(failure.message, "paid more than was ordered");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn task_end(&self) -> Option<&crate::TaskEnd> {
        match self {
            Self::Task { error, .. } => error.end(),
            _ => None,
        }
    }
}
