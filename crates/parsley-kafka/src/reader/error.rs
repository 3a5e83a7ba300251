//! Why topics cannot be read.

use parsley_core::{Offset, TopicId};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use crate::cluster::ClusterError;
use crate::config::ConfigError;
use crate::event::{ConsumerError, Partition};
use crate::topic::DescribeError;

/// Topics cannot be read, or not any further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReaderError {
    /// The configuration is none that a reader can work with.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The client in this process could not be made or does not do as it is told.
    #[error("no client for the cluster: {0}")]
    Client(KafkaError),
    /// No broker answered.
    #[error("no broker of {brokers} answered: {reason}")]
    NoAnswer {
        /// Those that it was to be found by.
        brokers: String,
        /// librdkafka's words.
        reason: String,
    },
    /// The cluster does not allow it.
    #[error("the cluster denied {what}: {code}")]
    Denied {
        /// What was asked for.
        what: String,
        /// The cluster's code.
        code: RDKafkaErrorCode,
    },
    /// The cluster answered with an error.
    #[error("the cluster gave no {what}: {reason}")]
    Refused {
        /// What was asked for.
        what: String,
        /// Its words.
        reason: String,
    },
    /// The cluster knows no topic of that name, or shows none to this client.
    #[error("topic `{topic}` is unknown to the cluster")]
    UnknownTopic {
        /// The name.
        topic: String,
    },
    /// The topic has no such partition.
    #[error("topic `{topic}` has no partition {partition}: it has {partitions}, counted from 0")]
    UnknownPartition {
        /// The topic.
        topic: String,
        /// The partition asked for.
        partition: i32,
        /// How many it has.
        partitions: i32,
    },
    /// The position is outside of what is there: retention has passed it, or it is above the end.
    #[error(
        "offset {offset} of {partition} is out of range: its records are from {start} to below {end}"
    )]
    OutOfRange {
        /// The partition.
        partition: Partition,
        /// The position.
        offset: Offset,
        /// The log start.
        start: Offset,
        /// The high watermark.
        end: Offset,
    },
    /// The topic was deleted while it was read, and perhaps made anew: what stands there now is on other channels.
    #[error(
        "topic `{topic}` is not the one that was opened ({opened}): {}",
        .found.map_or_else(|| "it is gone".to_owned(), |found| format!("it is now {found}"))
    )]
    IdentityChanged {
        /// The name.
        topic: String,
        /// What it was.
        opened: TopicId,
        /// What is found under the name now.
        found: Option<TopicId>,
    },
    /// The consumer failed for good.
    #[error("reading failed: {0}")]
    Consumer(ConsumerError),
}

impl ReaderError {
    /// Whether the code says that it is not allowed. The group it never joins, and need not be allowed to.
    pub(super) fn is_denial(code: RDKafkaErrorCode) -> bool {
        matches!(
            code,
            RDKafkaErrorCode::TopicAuthorizationFailed
                | RDKafkaErrorCode::ClusterAuthorizationFailed
                | RDKafkaErrorCode::SaslAuthenticationFailed
                | RDKafkaErrorCode::Authentication
        )
    }

    /// What a failed request for topics comes to. `heard` is what the client has heard of the brokers meanwhile.
    pub(super) fn of_cluster(
        brokers: &str,
        error: ClusterError,
        heard: Option<ConsumerError>,
    ) -> Self {
        let (code, what, reason) = match error {
            ClusterError::Describe(DescribeError::Topic { name, code, reason }) => {
                (Some(code), format!("topic `{name}`"), reason)
            }
            ClusterError::Describe(DescribeError::Request { code, reason }) => {
                (Some(code), "topics".to_owned(), reason)
            }
            ClusterError::Request { what, source } => {
                (source.rdkafka_error_code(), what, source.to_string())
            }
            other => (None, "topics".to_owned(), other.to_string()),
        };
        match code {
            Some(code) if Self::is_denial(code) => Self::Denied { what, code },
            Some(code) if is_silence(code) => match heard {
                Some(ConsumerError { code, .. }) if Self::is_denial(code) => {
                    Self::Denied { what, code }
                }
                heard => Self::NoAnswer {
                    brokers: brokers.to_owned(),
                    reason: heard.map_or(reason, |heard| heard.reason),
                },
            },
            _ => Self::Refused { what, reason },
        }
    }

    /// What a failed request about a partition comes to.
    pub(super) fn of_partition(
        brokers: &str,
        partition: &Partition,
        what: &str,
        source: KafkaError,
    ) -> Self {
        let what = format!("{what} of {partition}");
        Self::of_cluster(brokers, ClusterError::Request { what, source }, None)
    }
}

/// Whether the code says that nobody answered.
fn is_silence(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::RequestTimedOut
            | RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::Resolve
            | RDKafkaErrorCode::MessageTimedOut
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: RDKafkaErrorCode, heard: Option<RDKafkaErrorCode>) -> ReaderError {
        let heard = heard.map(|code| ConsumerError {
            code,
            fatal: false,
            partition: None,
            reason: "what was heard".to_owned(),
        });
        let error = DescribeError::Request {
            code,
            reason: "what was answered".to_owned(),
        };
        ReaderError::of_cluster("here:9092", error.into(), heard)
    }

    #[test]
    fn silence_is_told_with_what_was_heard_of_the_brokers() {
        let told = of(
            RDKafkaErrorCode::OperationTimedOut,
            Some(RDKafkaErrorCode::Resolve),
        );
        let expected = "no broker of here:9092 answered: what was heard";
        assert_eq!(told.to_string(), expected);
        let told = of(RDKafkaErrorCode::OperationTimedOut, None);
        let expected = "no broker of here:9092 answered: what was answered";
        assert_eq!(told.to_string(), expected);
    }

    #[test]
    fn a_denial_is_one_whoever_tells_it() {
        let denied = RDKafkaErrorCode::TopicAuthorizationFailed;
        let told = of(denied, None);
        assert!(matches!(told, ReaderError::Denied { code, .. } if code == denied));
        let denied = RDKafkaErrorCode::Authentication;
        let told = of(RDKafkaErrorCode::OperationTimedOut, Some(denied));
        assert!(matches!(told, ReaderError::Denied { code, .. } if code == denied));
        let topic = DescribeError::Topic {
            name: "t".to_owned(),
            code: RDKafkaErrorCode::TopicAuthorizationFailed,
            reason: String::new(),
        };
        let told = ReaderError::of_cluster("b", topic.into(), None);
        assert_eq!(
            told.to_string().split(':').next(),
            Some("the cluster denied topic `t`")
        );
    }

    #[test]
    fn another_answer_is_passed_on() {
        let told = of(RDKafkaErrorCode::UnsupportedVersion, None);
        assert_eq!(
            told.to_string(),
            "the cluster gave no topics: what was answered"
        );
    }
}
