//! How much of the input was taken: noted in the transaction that takes it, so that no line is taken twice and none is passed over.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::error::DemoError;
use super::ground::{Entry, Ground};
use super::topology;
use crate::failure::Failure;
use crate::input::{Input, Reader};
use crate::lines::{Line, Lines};

/// The key of every note.
const NOTE: &str = "taken";

/// Where lines come from. What was taken is noted for each apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The built-in commands.
    BuiltIn,
    /// A file, which can be read again.
    File,
    /// Standard input, a pipe or a device: what was read once is gone.
    Stream,
}

impl Origin {
    /// Where the lines of an input come from; `None` is no input.
    pub fn of(input: Option<&Input>) -> Self {
        match input {
            None => Self::BuiltIn,
            Some(input) if input.is_file() => Self::File,
            Some(_) => Self::Stream,
        }
    }

    /// Whether the same lines come again when it is opened again.
    pub fn comes_again(self) -> bool {
        self != Self::Stream
    }
}

/// The lines that were taken of one origin, in all runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakenLines {
    /// How many, whatever stood in them.
    pub lines: u64,
    /// How many of them are commands.
    pub commands: u64,
    /// How many of them are neither commands nor blank.
    pub malformed: u64,
    /// Their digest, where the same lines can come again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// What was taken in all runs: the value of a record of `demo-input`, the last of which holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    #[serde(default)]
    built_in: TakenLines,
    #[serde(default)]
    file: TakenLines,
    #[serde(default)]
    stream: TakenLines,
    /// Which topics the runs have had, by name: their identities. Notes of before have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    topics: BTreeMap<String, String>,
}

impl Taken {
    /// Reads what is noted.
    pub fn read(ground: &dyn Ground) -> Result<Self, DemoError> {
        let mut notes = ground.reader(topology::INPUT)?;
        let mut last = None;
        loop {
            let Some(next) = notes.read_on()?.pop() else {
                break;
            };
            last = Some(next);
        }
        let Some(last) = last else {
            return Ok(Self::default());
        };
        serde_json::from_slice(last.value.as_deref().unwrap_or_default()).map_err(|error| {
            DemoError::Record {
                topic: topology::INPUT.to_owned(),
                partition: last.channel.partition,
                offset: last.offset,
                reason: error.to_string(),
            }
        })
    }

    /// The record that notes it.
    pub fn entry(&self) -> Entry {
        Entry {
            topic: topology::INPUT,
            // A log that keeps the last note alone tells them by this.
            key: Some(NOTE.to_owned()),
            value: serde_json::to_vec(self).expect("numbers and text are JSON"),
            number: None,
        }
    }

    /// What was taken of an origin.
    pub fn of(&self, origin: Origin) -> &TakenLines {
        match origin {
            Origin::BuiltIn => &self.built_in,
            Origin::File => &self.file,
            Origin::Stream => &self.stream,
        }
    }

    /// What was taken of an origin, to be changed.
    pub fn of_mut(&mut self, origin: Origin) -> &mut TakenLines {
        match origin {
            Origin::BuiltIn => &mut self.built_in,
            Origin::File => &mut self.file,
            Origin::Stream => &mut self.stream,
        }
    }

    /// Holds the topics against those that were noted, and has them noted next time. A topic that was made anew has nothing of what was taken.
    pub fn stands_on(&mut self, topics: BTreeMap<String, String>) -> Result<(), DemoError> {
        for (topic, noted) in &self.topics {
            match topics.get(topic) {
                Some(found) if found != noted => {
                    return Err(DemoError::OtherTopic {
                        topic: topic.clone(),
                        noted: noted.clone(),
                        found: found.clone(),
                    });
                }
                _ => {}
            }
        }
        self.topics.extend(topics);
        Ok(())
    }

    /// The commands of all origins.
    pub fn commands(&self) -> u64 {
        self.sum(|taken| taken.commands)
    }

    /// The malformed lines of all origins.
    pub fn malformed(&self) -> u64 {
        self.sum(|taken| taken.malformed)
    }

    fn sum(&self, of: impl Fn(&TakenLines) -> u64) -> u64 {
        [&self.built_in, &self.file, &self.stream]
            .map(of)
            .iter()
            .sum()
    }
}

/// Passes over the lines that were taken, and has each looked at. They have to be those that were noted.
pub fn pass_over(
    lines: &mut Lines<Reader>,
    input: Option<&Input>,
    place: &'static str,
    taken: &TakenLines,
    mut look: impl FnMut(Line<'_>),
) -> Result<(), Failure> {
    let other = |fault| DemoError::OtherInput {
        input: input.map_or_else(|| "the built-in commands".to_owned(), Input::to_string),
        place,
        lines: taken.lines,
        fault,
    };
    for passed in 0..taken.lines {
        let line = lines
            .next()
            .map_err(|error| unreadable(input, error))?
            .ok_or_else(|| other(OtherInput::Shorter { lines: passed }))?;
        look(line.1);
    }
    if taken.lines > 0 && lines.digest() != taken.digest {
        return Err(other(OtherInput::Differs).into());
    }
    Ok(())
}

/// The failure to read an input. The built-in commands never fail.
pub fn unreadable(input: Option<&Input>, error: std::io::Error) -> Failure {
    match input {
        Some(input) => input.unreadable(error),
        None => Failure::Read {
            input: "the built-in commands".to_owned(),
            source: error,
        },
    }
}

/// How an input differs from the one that was begun with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherInput {
    /// It has fewer lines than were taken.
    #[error("has {lines}")]
    Shorter {
        /// How many it has.
        lines: u64,
    },
    /// Those lines are others.
    #[error("begins with others")]
    Differs,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topics(views: &str) -> BTreeMap<String, String> {
        [("commands", "c"), ("views", views)]
            .map(|(topic, id)| (topic.to_owned(), id.to_owned()))
            .into()
    }

    /// Topics that were made anew between two runs were taken for those that the earlier ones had written to: what was taken of the input was
    /// passed over, and nothing had come of it.
    #[test]
    fn a_topic_that_is_another_one_is_refused_and_named() {
        // A note of before, and one that tells.
        let mut taken: Taken =
            serde_json::from_str(r#"{"built_in": {"lines": 2, "commands": 2, "malformed": 0}}"#)
                .unwrap();
        assert!(taken.stands_on(topics("v")).is_ok());
        let noted = taken.entry().value;
        let mut taken: Taken = serde_json::from_slice(&noted).unwrap();
        assert!(taken.stands_on(topics("v")).is_ok());
        let error = taken.stands_on(topics("w")).expect_err("another");
        assert_eq!(error.exit(), crate::exit::Exit::Usage);
        assert_eq!(
            error.to_string(),
            "topic views is not the one that the runs before had: it was made anew, its identity is w and was v; nothing was changed"
        );
        // Where topics have no identity nothing is noted, as before.
        let mut taken = Taken::default();
        assert!(taken.stands_on(BTreeMap::new()).is_ok());
        let note = String::from_utf8(taken.entry().value).unwrap();
        assert!(!note.contains("topics"), "{note}");
    }
}
