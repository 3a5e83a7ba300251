//! What has happened, as a reader beside the application knows it: which records stand committed, and what each task was handed.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use parsley_core::wire::ProtocolHeaders;
use parsley_core::{Offset, TopicId};
use parsley_kafka::ReadRecord;
use parsley_stage::{AuditRecord, Audited};

use crate::topology::{self, Effect, STAGES, TOPICS};

/// A partition of one of the [`TOPICS`], by its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Which topic.
    pub topic: usize,
    /// The partition.
    pub partition: i32,
}

/// A record.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Its offset.
    pub offset: Offset,
    /// Its key.
    pub key: Bytes,
    /// The number that its sender gave it; a client gives none.
    pub sequence: Option<i64>,
    /// What its value says; `None` is a command.
    pub effect: Option<Cause>,
}

/// Of which delivery a record came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Where the delivered record stands.
    pub place: Place,
    /// And its offset.
    pub offset: Offset,
    /// How many deliveries the key had had.
    pub count: u64,
}

/// A delivery.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Where the record stands.
    pub place: Place,
    /// And its offset.
    pub offset: Offset,
    /// Its key.
    pub key: Option<Bytes>,
    /// Its clock, encoded.
    pub clock: Bytes,
    /// Whether it had to wait.
    pub was_held: bool,
}

/// A task: which of the [`STAGES`], and its partition.
pub type Task = (usize, i32);

/// All that is known.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// The topics' identities.
    pub ids: BTreeMap<usize, TopicId>,
    /// The records of each partition, in the order of their offsets.
    pub records: BTreeMap<Place, Vec<Standing>>,
    /// The deliveries of each task, in their order.
    pub deliveries: BTreeMap<Task, Vec<Delivery>>,
    /// What cannot be: a value that nobody writes, an entry about what there is not.
    pub oddities: Vec<String>,
}

impl History {
    /// How many records stand in a topic.
    pub fn records_of(&self, topic: usize) -> u64 {
        let partitions = self.records.iter();
        partitions
            .filter(|(place, _)| place.topic == topic)
            .map(|(_, records)| records.len() as u64)
            .sum()
    }

    /// How many deliveries there were.
    pub fn delivered(&self) -> u64 {
        self.deliveries.values().map(|all| all.len() as u64).sum()
    }

    /// How many of them had to wait.
    pub fn held(&self) -> u64 {
        let all = self.deliveries.values().flatten();
        all.filter(|delivery| delivery.was_held).count() as u64
    }

    /// How many deliveries are due: one of each record to each stage that consumes its topic.
    pub fn due(&self) -> u64 {
        let consumers = |topic: usize| {
            let stages = STAGES.iter();
            stages
                .filter(|(_, inputs)| inputs.contains(&TOPICS[topic]))
                .count() as u64
        };
        (0..TOPICS.len())
            .map(|topic| self.records_of(topic) * consumers(topic))
            .sum()
    }

    /// How many records are due as effects of what was delivered.
    pub fn effects_due(&self) -> u64 {
        let all = self.deliveries.iter().flat_map(|((stage, _), all)| {
            all.iter()
                .map(|delivery| topology::effects(STAGES[*stage].0, TOPICS[delivery.place.topic]))
        });
        all.map(|effects| effects.len() as u64).sum()
    }

    /// How many records stand that stages have written.
    pub fn effects(&self) -> u64 {
        (1..TOPICS.len()).map(|topic| self.records_of(topic)).sum()
    }

    /// Whether everything was delivered, and everything that comes of it stands and was delivered as well.
    pub fn is_drained(&self) -> bool {
        self.delivered() >= self.due() && self.effects() >= self.effects_due()
    }

    /// Up to which offset each partition of a topic was delivered to all of its consumers; those that nobody was delivered anything of are left out.
    pub fn delivered_by_all(&self, topic: usize) -> BTreeMap<i32, Offset> {
        let mut lowest = BTreeMap::new();
        for partition in 0..topology::PARTITIONS {
            let place = Place { topic, partition };
            let consumers =
                (0..STAGES.len()).filter(|stage| STAGES[*stage].1.contains(&TOPICS[topic]));
            let last = consumers.map(|stage| {
                let task = self.deliveries.get(&(stage, partition))?;
                let last = task.iter().rev().find(|delivery| delivery.place == place);
                last.map(|delivery| delivery.offset)
            });
            if let Some(Some(offset)) = last.min() {
                lowest.insert(partition, offset);
            }
        }
        lowest
    }

    /// Takes a record of a topic.
    pub fn take(&mut self, record: &ReadRecord) {
        match &*record.topic {
            topology::ACCOUNT => self.take_entry(record),
            _ => self.take_record(record),
        }
    }

    fn odd(&mut self, record: &ReadRecord, what: impl std::fmt::Display) {
        let (topic, offset) = (&record.topic, record.offset);
        let partition = record.channel.partition;
        self.oddities
            .push(format!("{topic}:{partition}@{offset}: {what}"));
    }

    fn take_record(&mut self, record: &ReadRecord) {
        let Some(topic) = TOPICS.iter().position(|name| **name == *record.topic) else {
            return self.odd(record, "a topic that is not read");
        };
        self.ids.insert(topic, record.channel.topic);
        let effect = match topology::writer(&record.topic) {
            None => None,
            Some(_) => match cause(record) {
                Ok(cause) => Some(cause),
                Err(what) => return self.odd(record, what),
            },
        };
        let place = Place {
            topic,
            partition: record.channel.partition,
        };
        self.records.entry(place).or_default().push(Standing {
            offset: record.offset,
            key: record.key.clone().unwrap_or_default(),
            sequence: match ProtocolHeaders::read(&record.headers) {
                Ok(read) => read.sender.map(|(_, sequence)| sequence),
                Err(error) => return self.odd(record, error),
            },
            effect,
        });
    }

    fn take_entry(&mut self, record: &ReadRecord) {
        let entry = match AuditRecord::decode(record.value.as_deref()) {
            Ok(entry) => entry,
            Err(error) => return self.odd(record, error),
        };
        let Audited::Delivered {
            arrival,
            key,
            clock,
            ..
        } = entry.audited
        else {
            return;
        };
        let stage = STAGES.iter().position(|(name, _)| **name == *entry.stage);
        let topic = TOPICS.iter().position(|name| **name == *entry.topic);
        let is_partition = (0..topology::PARTITIONS).contains(&entry.channel.partition);
        let (Some(stage), Some(topic), true) = (stage, topic, is_partition) else {
            return self.odd(record, "an entry of another application");
        };
        let delivery = Delivery {
            place: Place {
                topic,
                partition: entry.channel.partition,
            },
            offset: entry.offset,
            key,
            clock,
            was_held: arrival.is_none(),
        };
        let task = (stage, entry.partition);
        self.deliveries.entry(task).or_default().push(delivery);
    }

    /// The records by where they stand.
    pub fn standing(&self) -> HashMap<(Place, Offset), &Standing> {
        let records = self.records.iter();
        records
            .flat_map(|(place, all)| all.iter().map(|one| ((*place, one.offset), one)))
            .collect()
    }

    /// The records that came of each delivery, in the order of the topics that the logic sends to.
    pub fn sent(&self) -> HashMap<(usize, Place, Offset), Vec<(Place, Offset)>> {
        let mut sent: HashMap<(usize, Place, Offset), Vec<(Place, Offset)>> = HashMap::new();
        for (place, records) in &self.records {
            let Some((writer, _)) = topology::writer(TOPICS[place.topic]) else {
                continue;
            };
            let stage = STAGES.iter().position(|(name, _)| *name == writer);
            let stage = stage.expect("a test holds the tables against each other");
            for record in records {
                if let Some(cause) = record.effect {
                    let delivery = (stage, cause.place, cause.offset);
                    sent.entry(delivery)
                        .or_default()
                        .push((*place, record.offset));
                }
            }
        }
        sent
    }
}

fn cause(record: &ReadRecord) -> Result<Cause, String> {
    let value = record.value.as_deref().ok_or("a null value")?;
    let effect: Effect = serde_json::from_slice(value).map_err(|error| error.to_string())?;
    let topic = TOPICS.iter().position(|name| *name == effect.topic);
    if !(0..topology::PARTITIONS).contains(&effect.partition) {
        return Err("it came of a partition that there is not".to_owned());
    }
    Ok(Cause {
        place: Place {
            topic: topic.ok_or("it came of a topic that is not read")?,
            partition: effect.partition,
        },
        offset: effect.offset,
        count: effect.count,
    })
}
