//! What the cluster does not let this client do, and what is to be granted for it (docs/operations.md, Access).

use std::collections::BTreeMap;
use std::fmt;

use rdkafka::types::RDKafkaErrorCode;
use rdkafka::types::RDKafkaErrorCode::{
    GroupAuthorizationFailed, TopicAuthorizationFailed, TransactionalIdAuthorizationFailed,
};

use super::Trouble;
use crate::cluster::Cluster;
use crate::producer::ProduceError;
use crate::restore::RestoreError;
use crate::stage::Declared;
use crate::topic::Permitted;

/// Whether an error says that this client may not use its group.
pub(crate) fn is_of_group(code: RDKafkaErrorCode) -> bool {
    code == GroupAuthorizationFailed
}

/// Whether an error says that this client may not do something.
pub(crate) fn is_denial(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        GroupAuthorizationFailed | TopicAuthorizationFailed | TransactionalIdAuthorizationFailed
    )
}

/// What is to be granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    Topics(BTreeMap<String, Permitted>),
    /// The cluster does not tell which topic it is.
    SomeOf(Vec<String>),
    Group(String),
    /// Every transactional id that begins so.
    TransactionalIds(String),
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topics(topics) => {
                for (place, (topic, needed)) in topics.iter().enumerate() {
                    let and = if place == 0 { "" } else { ", and " };
                    let operations = match (needed.reads, needed.writes) {
                        (true, true) => "Read and Write",
                        (false, true) => "Write",
                        (_, false) => "Read",
                    };
                    write!(f, "{and}{operations} on topic {topic}")?;
                }
                Ok(())
            }
            Self::SomeOf(topics) => write!(
                f,
                "what the stage does with topics: it is one of {}, the cluster does not tell which",
                topics.join(", ")
            ),
            Self::Group(group) => write!(f, "Read and Describe on group {group}"),
            Self::TransactionalIds(prefix) => {
                write!(
                    f,
                    "Write and Describe on transactional ids with the prefix {prefix}"
                )
            }
        }
    }
}

impl Trouble {
    /// The same, with what is to be granted where the cluster denies something. It is asked which topic it is if nothing else tells.
    pub(crate) fn with_grant(self, declared: &Declared, cluster: Option<&Cluster>) -> Self {
        let (code, topic) = match &self {
            Self::Produce(
                ProduceError::Abort { source, .. } | ProduceError::Fatal { source, .. },
            ) => (source.rdkafka_error_code(), None),
            Self::Consumer(error) | Self::Restore(RestoreError::Consumer(error)) => {
                let topic = error.partition.as_ref().map(|at| at.topic.to_string());
                (Some(error.code), topic)
            }
            _ => (None, None),
        };
        let grant = match (code, topic) {
            (Some(GroupAuthorizationFailed), _) => Grant::Group(declared.group.clone()),
            (Some(TransactionalIdAuthorizationFailed), _) => {
                Grant::TransactionalIds(format!("{}-", declared.group))
            }
            (Some(TopicAuthorizationFailed), Some(topic)) => {
                let reads = Permitted {
                    reads: true,
                    writes: false,
                };
                Grant::Topics(BTreeMap::from([(topic, reads)]))
            }
            (Some(TopicAuthorizationFailed), None) => {
                let needed = declared.access();
                let names: Vec<&str> = needed.keys().copied().collect();
                let permitted = cluster.and_then(|cluster| cluster.permitted(&names).ok());
                of_topics(&needed, permitted)
            }
            _ => return self,
        };
        Self::Denied {
            trouble: Box::new(self),
            grant,
        }
    }
}

/// What of what is needed is not permitted. `permitted` has nothing of topics that are not shown.
fn of_topics(
    needed: &BTreeMap<&str, Permitted>,
    permitted: Option<BTreeMap<String, Option<Permitted>>>,
) -> Grant {
    let lacking = |(topic, needed): (&&str, &Permitted)| {
        let permitted = match permitted.as_ref()?.get(*topic) {
            Some(told) => (*told)?,
            None => Permitted::default(),
        };
        let lacking = Permitted {
            reads: needed.reads && !permitted.reads,
            writes: needed.writes && !permitted.writes,
        };
        (lacking.reads || lacking.writes).then(|| ((*topic).to_owned(), lacking))
    };
    let denied: BTreeMap<String, Permitted> = needed.iter().filter_map(lacking).collect();
    match denied.is_empty() {
        false => Grant::Topics(denied),
        // Granted by now, or not told.
        true => Grant::SomeOf(needed.keys().map(|topic| (*topic).to_owned()).collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Permitted = Permitted {
        reads: true,
        writes: true,
    };
    const READS: Permitted = Permitted {
        reads: true,
        writes: false,
    };
    const WRITES: Permitted = Permitted {
        reads: false,
        writes: true,
    };

    fn granted(permitted: Option<&[(&str, Option<Permitted>)]>) -> String {
        let needed = BTreeMap::from([("in", READS), ("log", BOTH), ("out", WRITES)]);
        let permitted = permitted.map(|told| {
            let told = told
                .iter()
                .map(|(topic, told)| ((*topic).to_owned(), *told));
            told.collect()
        });
        of_topics(&needed, permitted).to_string()
    }

    #[test]
    fn what_is_needed_and_not_permitted_is_to_be_granted() {
        let told = [
            ("in", Some(WRITES)),
            ("log", Some(READS)),
            ("out", Some(BOTH)),
        ];
        let expected = "Read on topic in, and Write on topic log";
        assert_eq!(granted(Some(&told)), expected);
        // What is not shown is not permitted; of `in` nothing is told.
        let told = [("in", None), ("out", Some(WRITES))];
        assert_eq!(granted(Some(&told)), "Read and Write on topic log");
    }

    /// An authorizer of another make need not tell, and what was denied may be granted by the time it is asked for.
    #[test]
    fn where_nothing_tells_which_topic_it_is_all_are_named() {
        let expected = "what the stage does with topics: it is one of in, log, out, the cluster does not tell which";
        assert_eq!(granted(None), expected);
        let told = [("in", Some(READS)), ("log", None), ("out", Some(WRITES))];
        assert_eq!(granted(Some(&told)), expected);
    }
}
