//! The names that a script gives to topics, channels and senders.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use parsley_core::{Channel, SenderId, TopicId};
use serde::{Deserialize, Deserializer};

use crate::object::hyphenated;
use crate::plain::clipped;

/// A channel as a script writes it: `topic:partition`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChannelName {
    /// The topic's name; it may hold colons itself.
    pub topic: String,
    /// The partition, `>= 0`.
    pub partition: i32,
}

/// Text is not `topic:partition`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "found `{}`, expected a channel, `topic:partition` with a partition from 0 to {max}",
    clipped(.0),
    max = i32::MAX
)]
pub struct NotAChannel(String);

impl FromStr for ChannelName {
    type Err = NotAChannel;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let channel = text.rsplit_once(':').filter(|(topic, partition)| {
            !topic.is_empty()
                && !partition.is_empty()
                && partition.bytes().all(|byte| byte.is_ascii_digit())
        });
        channel
            .and_then(|(topic, partition)| {
                Some(Self {
                    topic: topic.to_owned(),
                    partition: partition.parse().ok()?,
                })
            })
            .ok_or_else(|| NotAChannel(text.to_owned()))
    }
}

impl fmt::Display for ChannelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.partition)
    }
}

impl<'de> Deserialize<'de> for ChannelName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

/// The sender that a script calls by a UUID, or by a name that stands for one.
pub fn sender(name: &str) -> SenderId {
    hyphenated(name).map_or_else(|| SenderId::of_name(name), SenderId::from_uuid)
}

/// What topics are called.
#[derive(Debug, Default)]
pub struct Names {
    /// As `open` lines gave them, until a later one gives another; other names stand for the UUID made from them.
    given: BTreeMap<String, TopicId>,
    /// Every name that was used, by what it last stood for.
    used: BTreeMap<TopicId, String>,
}

impl Names {
    /// Takes the names that an execution is opened with. Those of earlier ones stay.
    pub fn give(&mut self, given: BTreeMap<String, TopicId>) {
        self.given.extend(given);
    }

    /// The topic of that name.
    pub fn topic(&mut self, name: &str) -> TopicId {
        let topic = self.resolve(name);
        if self.used.get(&topic).is_none_or(|used| used != name) {
            self.used.insert(topic, name.to_owned());
        }
        topic
    }

    /// The channel of that name.
    pub fn channel(&mut self, name: &ChannelName) -> Channel {
        self.topic(&name.topic).partition(name.partition)
    }

    /// What a channel is called: by its topic's name, or by its UUID when no name stands for it (now).
    pub fn show(&self, channel: Channel) -> String {
        match self.used.get(&channel.topic) {
            Some(name) if self.resolve(name) == channel.topic => {
                format!("{name}:{}", channel.partition)
            }
            _ => channel.to_string(),
        }
    }

    fn resolve(&self, name: &str) -> TopicId {
        self.given
            .get(name)
            .copied()
            .unwrap_or_else(|| TopicId::of_name(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_is_a_topic_and_a_partition() {
        assert_eq!(
            "t:0".parse(),
            Ok(ChannelName {
                topic: "t".into(),
                partition: 0
            })
        );
        assert_eq!(
            "a:b:2147483647".parse(),
            Ok(ChannelName {
                topic: "a:b".into(),
                partition: i32::MAX
            })
        );
        for text in [
            "",
            "t",
            "t:",
            ":0",
            "t:-1",
            "t:+1",
            "t: 1",
            "t:x",
            "t:2147483648",
            "t:1:",
        ] {
            assert!(text.parse::<ChannelName>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_sender_is_a_hyphenated_uuid_or_a_name() {
        let alice = SenderId::of_name("alice");
        assert_eq!(sender("alice"), alice);
        assert_eq!(sender(&alice.to_string()), alice);
        let digits = alice.to_string().replace('-', "");
        assert_eq!(sender(&digits), SenderId::of_name(&digits));
    }

    #[test]
    fn a_topic_that_a_name_no_longer_stands_for_is_shown_by_its_uuid() {
        let mut names = Names::default();
        let (first, second) = (TopicId::of_name("one"), TopicId::of_name("two"));
        names.give(BTreeMap::from([("t".to_owned(), first)]));
        assert_eq!(names.topic("t"), first);
        assert_eq!(names.show(first.partition(3)), "t:3");
        names.give(BTreeMap::from([("t".to_owned(), second)]));
        assert_eq!(names.topic("t"), second);
        assert_eq!(names.show(second.partition(3)), "t:3");
        assert_eq!(names.show(first.partition(3)), format!("{first}:3"));
        names.give(BTreeMap::from([("former-t".to_owned(), first)]));
        assert_eq!(names.topic("former-t"), first);
        assert_eq!(names.show(first.partition(3)), "former-t:3");
        assert_eq!(names.show(second.partition(3)), "t:3");
    }
}
