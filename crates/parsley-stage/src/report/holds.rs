//! What is held, what it waits for, and which record is missing in the end.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

use parsley_core::{
    Channel, Hold, HoldCode, Offset, OffsetClaim, SenderId, SequenceClaim, TopicId, Wait,
};
use serde::{Serialize, Serializer};

/// What an application holds, in this process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Holds {
    /// One entry for each channel that holds records: stages in the order declared, partitions in order, channels in order.
    pub holds: Vec<HoldReport>,
}

impl Holds {
    /// Those of one task.
    pub fn of_task(&self, stage: &str, partition: i32) -> impl Iterator<Item = &HoldReport> {
        let is_of_task =
            move |hold: &&HoldReport| hold.stage == stage && hold.place.partition == partition;
        self.holds.iter().filter(is_of_task)
    }
}

/// The record that stands first on a channel and cannot be delivered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HoldReport {
    /// The stage. Its task is the one of the channel's partition.
    pub stage: String,
    /// The channel.
    #[serde(flatten)]
    pub place: Place,
    /// The record's offset.
    pub offset: Offset,
    /// How many records are held behind it.
    pub behind: u64,
    /// How long ago this process took the record in, in milliseconds. What an earlier process had taken in, or another one before the task
    /// moved here, counts from the task's opening.
    pub age_ms: u64,
    /// Every claim of the record that is not met. None when it can be delivered, and the step was full or the task has not gone on since.
    pub waits: Vec<WaitReport>,
    /// The records that are missing in the end, each once, nearest first: what the waits lead to when those for records that are themselves
    /// held are followed. When all of them are delivered, so is this one.
    pub missing: Vec<Missing>,
}

impl HoldReport {
    /// The same as the protocol's state machine says it.
    pub fn to_hold(&self) -> Hold {
        let wait = |wait: &WaitReport| {
            let (channel, code) = (wait.place.channel(), wait.code);
            match wait.claim {
                Claimed::Offset { offset, settled } => Wait::Offset {
                    claim: OffsetClaim { channel, offset },
                    settled,
                    code,
                },
                Claimed::Sequence {
                    sender,
                    sequence,
                    delivered,
                } => Wait::Sequence {
                    claim: SequenceClaim {
                        channel,
                        sender,
                        sequence,
                    },
                    delivered,
                    code,
                },
            }
        };
        Hold {
            channel: self.place.channel(),
            offset: self.offset,
            behind: self.behind,
            waits: self.waits.iter().map(wait).collect(),
        }
    }
}

/// A topic and one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Place {
    /// The topic's name.
    pub topic: String,
    /// The topic's identity: a UUID.
    #[serde(serialize_with = "shown")]
    pub topic_id: TopicId,
    /// The partition.
    pub partition: i32,
}

impl Place {
    /// The channel.
    pub fn channel(&self) -> Channel {
        self.topic_id.partition(self.partition)
    }
}

/// A claim that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WaitReport {
    /// Why it is not.
    #[serde(serialize_with = "hold_code")]
    pub code: HoldCode,
    /// What it claims on.
    #[serde(flatten)]
    pub place: Place,
    /// What it claims, and how far that is met.
    #[serde(flatten)]
    pub claim: Claimed,
}

/// What a claim names, and how far it is met. In JSON the fields tell which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Claimed {
    /// All up to an offset.
    Offset {
        /// The offset.
        offset: Offset,
        /// How far the channel is settled: `None` while nothing is known of it, -1 while its first record is held.
        settled: Option<Offset>,
    },
    /// All that a sender has sent there, up to a sequence number.
    Sequence {
        /// The sender: a UUID.
        #[serde(serialize_with = "shown")]
        sender: SenderId,
        /// The sequence number.
        sequence: i64,
        /// The highest one that was delivered; `None` when none was.
        delivered: Option<i64>,
    },
}

/// A record that was not taken in yet, and how the waiting for it gets there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// Where it is to come.
    #[serde(flatten)]
    pub place: Place,
    /// Which record.
    #[serde(flatten)]
    pub record: MissingRecord,
    /// The records on the way to it, nearest first, each the first held one of its channel. Empty when it is waited for directly.
    pub path: Vec<Hop>,
}

/// What is known of a missing record. In JSON the fields tell which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(untagged)]
pub enum MissingRecord {
    /// Its offset.
    Offset {
        /// The offset.
        offset: Offset,
    },
    /// Who sent it.
    Sequence {
        /// The sender: a UUID.
        #[serde(serialize_with = "shown")]
        sender: SenderId,
        /// The sequence number that the sender gave it.
        sequence: i64,
    },
}

/// A held record on the way to a missing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Hop {
    /// Its channel.
    #[serde(flatten)]
    pub place: Place,
    /// Its offset.
    pub offset: Offset,
}

fn shown<S: Serializer>(id: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(id)
}

fn hold_code<S: Serializer>(code: &HoldCode, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(code.as_str())
}

/// What a task knows of what it holds.
pub(crate) struct Held<'a> {
    pub(crate) stage: &'a str,
    /// The first record of each channel that has one, in channel order.
    pub(crate) holds: &'a [Hold],
    /// The names of the task's inputs.
    pub(crate) names: &'a BTreeMap<TopicId, &'a str>,
}

/// Where a wait leads.
enum Next {
    /// To what stands first on this channel.
    Head(Channel),
    Missing(Channel, MissingRecord),
}

impl Held<'_> {
    /// Says of every head what it waits for and what is missing in the end. `is_held` tells whether what a sequence claim names is held, and
    /// `age_ms` how long a record has been here.
    pub(crate) fn explain(
        &self,
        is_held: impl Fn(&SequenceClaim) -> bool,
        age_ms: impl Fn(Channel, Offset) -> u64,
    ) -> Vec<HoldReport> {
        let report = |hold: &Hold| HoldReport {
            stage: self.stage.to_owned(),
            place: self.place(hold.channel),
            offset: hold.offset,
            behind: hold.behind,
            age_ms: age_ms(hold.channel, hold.offset),
            waits: hold.waits.iter().map(|wait| self.wait(wait)).collect(),
            missing: self.missing(hold, &is_held),
        };
        self.holds.iter().map(report).collect()
    }

    fn place(&self, channel: Channel) -> Place {
        let name = self.names.get(&channel.topic);
        Place {
            topic: name.map_or_else(|| channel.topic.to_string(), |name| (*name).to_owned()),
            topic_id: channel.topic,
            partition: channel.partition,
        }
    }

    fn wait(&self, wait: &Wait) -> WaitReport {
        let (code, claim) = match *wait {
            Wait::Offset {
                claim,
                settled,
                code,
            } => {
                let offset = claim.offset;
                (code, Claimed::Offset { offset, settled })
            }
            Wait::Sequence {
                claim,
                delivered,
                code,
            } => {
                let SequenceClaim {
                    sender, sequence, ..
                } = claim;
                let claim = Claimed::Sequence {
                    sender,
                    sequence,
                    delivered,
                };
                (code, claim)
            }
        };
        WaitReport {
            code,
            place: self.place(wait.channel()),
            claim,
        }
    }

    /// Follows the waits of a head, the nearest first. Every channel is gone through once, so clocks that no node has made, and that wait for
    /// each other, lead nowhere.
    fn missing(&self, from: &Hold, is_held: &impl Fn(&SequenceClaim) -> bool) -> Vec<Missing> {
        // Each channel that was come to, with the one from which.
        let mut before: BTreeMap<Channel, Channel> = BTreeMap::new();
        let mut to_visit = VecDeque::from([from]);
        let (mut seen, mut missing) = (BTreeSet::new(), Vec::new());
        while let Some(hold) = to_visit.pop_front() {
            for wait in &hold.waits {
                match next(wait, is_held) {
                    Next::Missing(channel, record) => {
                        if seen.insert((channel, record)) {
                            missing.push(Missing {
                                place: self.place(channel),
                                record,
                                path: self.path(from.channel, hold.channel, &before),
                            });
                        }
                    }
                    Next::Head(channel) => {
                        if channel == from.channel || before.contains_key(&channel) {
                            continue;
                        }
                        if let Some(head) = self.head(channel) {
                            before.insert(channel, hold.channel);
                            to_visit.push_back(head);
                        }
                    }
                }
            }
        }
        missing
    }

    fn head(&self, channel: Channel) -> Option<&Hold> {
        let found = self
            .holds
            .binary_search_by_key(&channel, |hold| hold.channel);
        found.ok().map(|at| &self.holds[at])
    }

    /// The heads from the one behind `from` up to that of `to`.
    fn path(&self, from: Channel, to: Channel, before: &BTreeMap<Channel, Channel>) -> Vec<Hop> {
        let mut path = Vec::new();
        let mut at = to;
        while at != from
            && let Some(hold) = self.head(at)
            && let Some(earlier) = before.get(&at)
        {
            path.push(Hop {
                place: self.place(at),
                offset: hold.offset,
            });
            at = *earlier;
        }
        path.reverse();
        path
    }
}

fn next(wait: &Wait, is_held: impl Fn(&SequenceClaim) -> bool) -> Next {
    match wait {
        Wait::Offset { claim, code, .. } if *code == HoldCode::HeldUpstream => {
            Next::Head(claim.channel)
        }
        Wait::Offset { claim, .. } => {
            let offset = claim.offset;
            Next::Missing(claim.channel, MissingRecord::Offset { offset })
        }
        Wait::Sequence { claim, .. } if is_held(claim) => Next::Head(claim.channel),
        Wait::Sequence { claim, .. } => {
            let SequenceClaim {
                sender, sequence, ..
            } = *claim;
            Next::Missing(claim.channel, MissingRecord::Sequence { sender, sequence })
        }
    }
}

/// `orders:0`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.topic, self.partition)
    }
}

/// `payments:0@7 (3 more behind it) waits for orders:0 up to 9, settled up to 4 (vc-hold-not-fetched)`.
impl fmt::Display for HoldReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.place, self.offset)?;
        if self.behind > 0 {
            write!(f, " ({} more behind it)", self.behind)?;
        }
        for (index, wait) in self.waits.iter().enumerate() {
            let word = if index == 0 { "waits for" } else { "and for" };
            write!(f, " {word} {wait}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WaitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { code, place, claim } = self;
        write!(f, "{place}")?;
        match claim {
            Claimed::Offset { offset, settled } => {
                write!(f, " up to {offset}")?;
                match settled {
                    Some(settled) => write!(f, ", settled up to {settled} ({code})"),
                    None => write!(f, ", of which nothing is known ({code})"),
                }
            }
            Claimed::Sequence {
                sender,
                sequence,
                delivered,
            } => {
                write!(f, ", sends of {sender} up to {sequence}")?;
                match delivered {
                    Some(delivered) => write!(f, ", delivered up to {delivered} ({code})"),
                    None => write!(f, ", none of which was delivered ({code})"),
                }
            }
        }
    }
}

/// `orders:0@9` or `orders:0, send 3 of <sender>`.
impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.record {
            MissingRecord::Offset { offset } => write!(f, "{}@{offset}", self.place),
            MissingRecord::Sequence { sender, sequence } => {
                write!(f, "{}, send {sequence} of {sender}", self.place)
            }
        }
    }
}

#[cfg(test)]
mod tests;
