//! Why a declaration does not make a stage or an application.

use std::fmt;

/// A fault in a declaration, found when a stage or an application is built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A name cannot be used on Kafka, where names of applications and stages become parts of topic and group names.
    #[error("{what} name {name:?} {fault}")]
    Name {
        /// Whose name it is.
        what: Named,
        /// The name.
        name: String,
        /// What is wrong with it.
        fault: NameFault,
    },
    /// An application without a stage.
    #[error("the application {application} has no stage")]
    NoStage {
        /// The application.
        application: String,
    },
    /// Two stages of one name; they would share a consumer group, positions and state.
    #[error("two stages of the application {application} are named {stage}")]
    DuplicateStage {
        /// The application.
        application: String,
        /// The name.
        stage: String,
    },
    /// A stage that consumes nothing.
    #[error("the stage {stage} has no input")]
    NoInput {
        /// The stage.
        stage: String,
    },
    /// An input declared twice on one stage; which logic should see a record of it?
    #[error("the stage {stage} declares the input {topic} twice")]
    DuplicateInput {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// A sink declared twice on one stage.
    #[error("the stage {stage} declares the sink {topic} twice")]
    DuplicateSink {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// Ticks declared twice on one stage; at which interval should it tick?
    #[error("the stage {stage} declares ticks twice")]
    DuplicateTicks {
        /// The stage.
        stage: String,
    },
    /// Ticks at an interval of zero.
    #[error("the ticks of the stage {stage} have an interval of zero")]
    NoTickInterval {
        /// The stage.
        stage: String,
    },
    /// One topic with two codecs: one of the places that use it could not read what the other writes.
    #[error("the topic {topic} is declared with two {part} codecs: {first}, and {second}")]
    TwoCodecs {
        /// The topic.
        topic: String,
        /// Whether it is the keys or the values.
        part: Part,
        /// The codec declared first.
        first: String,
        /// The codec declared later.
        second: String,
    },
    /// An input of a stateful stage writes keys in another way than the stage: one key would have two states.
    #[error(
        "the stage {stage} keeps state by keys in {expected}, and its input {topic} has keys in {found}"
    )]
    KeyCodec {
        /// The stage.
        stage: String,
        /// The input.
        topic: String,
        /// The stage's key codec.
        expected: String,
        /// The input's key codec.
        found: String,
    },
    /// A declared topic has the name of one that a host creates for the application's own state.
    #[error("the topic {topic} has the name of an internal topic of the stage {stage}")]
    InternalTopic {
        /// The stage whose internal topic it would be.
        stage: String,
        /// The topic.
        topic: String,
    },
}

/// What a name belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Named {
    /// An application.
    Application,
    /// A stage.
    Stage,
    /// A topic.
    Topic,
    /// A topic or group that a host names after an application and a stage.
    Internal,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Application => "the application",
            Self::Stage => "the stage",
            Self::Topic => "the topic",
            Self::Internal => "the derived",
        })
    }
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameFault {
    /// No characters.
    #[error("is empty")]
    Empty,
    /// More characters than a topic name can have.
    #[error("has {found} characters, {max} are allowed")]
    TooLong {
        /// How many it has.
        found: usize,
        /// How many it may have.
        max: usize,
    },
    /// A character outside `a-z A-Z 0-9 . _ -`.
    #[error(
        "contains {found:?}, where only letters and digits of ASCII, '.', '_' and '-' are allowed"
    )]
    Character {
        /// The first such character.
        found: char,
    },
    /// `.` or `..`, which are directories.
    #[error("is a directory of every file system")]
    Directory,
}

impl NameFault {
    /// What Kafka would find wrong with a topic's name; `None` when it would take it.
    pub fn of_topic(name: &str) -> Option<Self> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if name.is_empty() {
            return Some(Self::Empty);
        }
        if let Some(found) = name.chars().find(|&c| !allowed(c)) {
            return Some(Self::Character { found });
        }
        if name.len() > MAX_NAME_LENGTH {
            return Some(Self::TooLong {
                found: name.len(),
                max: MAX_NAME_LENGTH,
            });
        }
        matches!(name, "." | "..").then_some(Self::Directory)
    }
}

/// Keys or values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Keys.
    Key,
    /// Values.
    Value,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key => "key",
            Self::Value => "value",
        })
    }
}

/// The length of the longest name that Kafka takes for a topic.
const MAX_NAME_LENGTH: usize = 249;

/// Checks a name against Kafka's rules for topics.
pub(crate) fn check_name(what: Named, name: &str) -> Result<(), BuildError> {
    match NameFault::of_topic(name) {
        None => Ok(()),
        Some(fault) => Err(BuildError::Name {
            what,
            name: name.to_owned(),
            fault,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(name: &str) -> Option<NameFault> {
        match check_name(Named::Topic, name) {
            Ok(()) => None,
            Err(BuildError::Name { fault, .. }) => Some(fault),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn parts_of_a_record_are_told_by_name() {
        assert_eq!(
            [Part::Key, Part::Value].map(|part| part.to_string()),
            ["key", "value"]
        );
    }

    #[test]
    fn names_are_those_that_kafka_takes() {
        assert_eq!(fault("a-Z_09.x"), None);
        assert_eq!(fault("..."), None);
        assert_eq!(fault(&"n".repeat(249)), None);
        assert_eq!(fault(""), Some(NameFault::Empty));
        assert_eq!(fault("."), Some(NameFault::Directory));
        assert_eq!(fault(".."), Some(NameFault::Directory));
        assert_eq!(fault("a/b"), Some(NameFault::Character { found: '/' }));
        assert_eq!(fault("größe"), Some(NameFault::Character { found: 'ö' }));
        assert_eq!(fault("a b"), Some(NameFault::Character { found: ' ' }));
        assert_eq!(
            fault(&"n".repeat(250)),
            Some(NameFault::TooLong {
                found: 250,
                max: 249
            })
        );
    }

    #[test]
    fn errors_read_as_sentences() {
        let error = check_name(Named::Stage, "a/b").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the stage name \"a/b\" contains '/', where only letters and digits of ASCII, '.', '_' and '-' are allowed"
        );
    }
}
