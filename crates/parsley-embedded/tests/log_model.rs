//! The log against a model that keeps everything and looks at everything each time.

use std::collections::BTreeMap;

use parsley_core::{Channel, Offset};
use parsley_embedded::{
    Log, LogConfig, NewRecord, ReadError, TopicConfig, TopicError, Transaction,
};
use proptest::prelude::*;
use tempfile::TempDir;

mod support;

const TOPICS: [&str; 2] = ["a", "b"];
const PARTITIONS: i32 = 2;

#[derive(Clone, Debug)]
enum Action {
    Create {
        topic: usize,
        offsets_max: Option<u64>,
    },
    Delete {
        topic: usize,
    },
    Send {
        topic: usize,
        partition: i32,
    },
    Begin,
    SendIn {
        transaction: usize,
        topic: usize,
        partition: i32,
    },
    Commit {
        transaction: usize,
    },
    Abort {
        transaction: usize,
    },
    DeleteRecords {
        topic: usize,
        partition: i32,
        before: Offset,
    },
    Consume {
        topic: usize,
    },
    Read {
        topic: usize,
    },
    /// The process ends, and another one opens the directory. Nothing happens to a log in memory.
    Restart,
}

fn action() -> impl Strategy<Value = Action> {
    let topic = 0..TOPICS.len();
    let partition = 0..PARTITIONS;
    let transaction = 0..3_usize;
    prop_oneof![
        2 => (topic.clone(), prop::option::of(1..6_u64))
            .prop_map(|(topic, offsets_max)| Action::Create { topic, offsets_max }),
        1 => topic.clone().prop_map(|topic| Action::Delete { topic }),
        6 => (topic.clone(), partition.clone()).prop_map(|(topic, partition)| Action::Send { topic, partition }),
        3 => Just(Action::Begin),
        8 => (transaction.clone(), topic.clone(), partition.clone())
            .prop_map(|(transaction, topic, partition)| Action::SendIn { transaction, topic, partition }),
        3 => transaction.clone().prop_map(|transaction| Action::Commit { transaction }),
        3 => transaction.prop_map(|transaction| Action::Abort { transaction }),
        2 => (topic.clone(), partition, -1..12_i64)
            .prop_map(|(topic, partition, before)| Action::DeleteRecords { topic, partition, before }),
        2 => topic.clone().prop_map(|topic| Action::Consume { topic }),
        5 => topic.prop_map(|topic| Action::Read { topic }),
        1 => Just(Action::Restart),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Written {
    /// A record: its number in the run, and the transaction it belongs to.
    Record(u64, Option<u64>),
    Marker,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Open,
    Committed,
    Aborted,
}

#[derive(Clone, Debug, Default)]
struct ModelPartition {
    written: Vec<Written>,
    log_start: i64,
}

#[derive(Clone, Debug)]
struct ModelTopic {
    offsets_max: Option<u64>,
    partitions: Vec<ModelPartition>,
}

#[derive(Clone, Debug, Default)]
struct Model {
    topics: BTreeMap<&'static str, ModelTopic>,
    fates: BTreeMap<u64, Fate>,
    records: u64,
}

impl ModelPartition {
    fn end(&self) -> i64 {
        self.written.len() as i64
    }

    fn last_stable(&self, fates: &BTreeMap<u64, Fate>) -> i64 {
        let undecided = |written: &Written| matches!(written, Written::Record(_, Some(id)) if fates[id] == Fate::Open);
        let first = self
            .written
            .iter()
            .position(undecided)
            .map_or(self.end(), |index| index as i64);
        first.max(self.log_start)
    }

    fn committed(&self, fates: &BTreeMap<u64, Fate>, from: i64) -> Vec<(i64, u64)> {
        let mut seen = Vec::new();
        for offset in from..self.last_stable(fates) {
            if let Written::Record(number, transaction) = self.written[offset as usize]
                && transaction.is_none_or(|id| fates[&id] == Fate::Committed)
            {
                seen.push((offset, number));
            }
        }
        seen
    }
}

impl Model {
    fn retain(&mut self) {
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                if let Some(offsets_max) = topic.offsets_max {
                    let bound = (partition.end() - offsets_max as i64)
                        .min(partition.last_stable(&self.fates));
                    partition.log_start = partition.log_start.max(bound);
                }
            }
        }
    }

    fn write(
        &mut self,
        topic: &str,
        partition: i32,
        transaction: Option<u64>,
    ) -> Option<(i64, u64)> {
        let partition = &mut self.topics.get_mut(topic)?.partitions[partition as usize];
        let number = self.records;
        self.records += 1;
        partition.written.push(Written::Record(number, transaction));
        Some((partition.end() - 1, number))
    }

    fn end(&mut self, id: u64, fate: Fate) {
        self.fates.insert(id, fate);
        for topic in self.topics.values_mut() {
            for partition in &mut topic.partitions {
                let ours = |written: &Written| matches!(written, Written::Record(_, of) if *of == Some(id));
                if partition.written.iter().any(ours) {
                    partition.written.push(Written::Marker);
                }
            }
        }
        self.retain();
    }
}

fn number(record: &parsley_core::Record) -> u64 {
    let value = record.value.as_deref().expect("every record has a value");
    u64::from_be_bytes(value.try_into().expect("eight bytes"))
}

struct Run {
    log: Log,
    dir: Option<TempDir>,
    model: Model,
    /// What a directory has for certain.
    durable: Model,
    open: Vec<(u64, Transaction)>,
    began: u64,
    consumers: BTreeMap<&'static str, parsley_embedded::Consumer>,
}

impl Run {
    fn in_memory() -> Self {
        Self::over(Log::new(LogConfig::default()), None)
    }

    fn on_disk(config: LogConfig) -> Self {
        let dir = support::dir::fast_dir();
        Self::over(Log::open(dir.path(), config).unwrap(), Some(dir))
    }

    fn over(log: Log, dir: Option<TempDir>) -> Self {
        Self {
            log,
            dir,
            model: Model::default(),
            durable: Model::default(),
            open: Vec::new(),
            began: 0,
            consumers: BTreeMap::new(),
        }
    }

    /// Everything that was written until now outlives the process.
    fn saved(&mut self) {
        if self.dir.is_some() {
            self.durable = self.model.clone();
        }
    }

    fn restart(&mut self) {
        let Some(dir) = &self.dir else {
            return;
        };
        let config = self.log.config().clone();
        self.consumers.clear();
        self.open.clear();
        // Another one takes its place, so that the directory is left.
        self.log = Log::new(LogConfig::default());
        self.log = Log::open(dir.path(), config).unwrap();
        let open = self.durable.fates.iter();
        let open: Vec<u64> = open
            .filter(|(_, fate)| **fate == Fate::Open)
            .map(|(id, _)| *id)
            .collect();
        for id in open {
            self.durable.end(id, Fate::Aborted);
        }
        // Numbers of records are not used again.
        self.durable.records = self.model.records;
        self.model = self.durable.clone();
    }

    fn record(&self, topic: &str, partition: i32) -> NewRecord {
        NewRecord::to(topic)
            .value(self.model.records.to_be_bytes().to_vec())
            .partition(partition)
    }

    fn apply(&mut self, action: Action) {
        match action {
            Action::Create { topic, offsets_max } => self.create(TOPICS[topic], offsets_max),
            Action::Delete { topic } => {
                let existed = self.model.topics.remove(TOPICS[topic]).is_some();
                self.durable.topics.remove(TOPICS[topic]);
                assert_eq!(self.log.delete_topic(TOPICS[topic]).is_ok(), existed);
            }
            Action::Send { topic, partition } => {
                let sent = self
                    .log
                    .producer()
                    .send(self.record(TOPICS[topic], partition));
                let expected = self.model.write(TOPICS[topic], partition, None);
                assert_eq!(
                    sent.ok().map(|sent| sent.offset),
                    expected.map(|(offset, _)| offset)
                );
                self.model.retain();
                if expected.is_some() {
                    self.saved();
                }
            }
            Action::Begin if self.open.len() < 3 => {
                self.open.push((self.began, self.log.producer().begin()));
                self.model.fates.insert(self.began, Fate::Open);
                self.began += 1;
            }
            Action::SendIn {
                transaction,
                topic,
                partition,
            } if transaction < self.open.len() => {
                let record = self.record(TOPICS[topic], partition);
                let (id, transaction) = &mut self.open[transaction];
                let sent = transaction.send(record);
                let expected = self.model.write(TOPICS[topic], partition, Some(*id));
                assert_eq!(
                    sent.ok().map(|sent| sent.offset),
                    expected.map(|(offset, _)| offset)
                );
                self.model.retain();
            }
            Action::Commit { transaction } if transaction < self.open.len() => {
                let (id, transaction) = self.open.swap_remove(transaction);
                transaction.commit().unwrap();
                self.model.end(id, Fate::Committed);
                self.saved();
            }
            Action::Abort { transaction } if transaction < self.open.len() => {
                let (id, transaction) = self.open.swap_remove(transaction);
                transaction.abort();
                self.model.end(id, Fate::Aborted);
            }
            Action::DeleteRecords {
                topic,
                partition,
                before,
            } => {
                self.delete_records(TOPICS[topic], partition, before);
            }
            Action::Consume { topic } => {
                self.consumers.remove(TOPICS[topic]);
                if let Ok(consumer) = self.log.consumer(TOPICS[topic]) {
                    self.consumers.insert(TOPICS[topic], consumer);
                }
            }
            Action::Read { topic } => self.read(TOPICS[topic]),
            Action::Restart => self.restart(),
            _ => {}
        }
    }

    fn create(&mut self, name: &'static str, offsets_max: Option<u64>) {
        let mut config = TopicConfig::partitions(PARTITIONS);
        config.offsets_max = offsets_max;
        let created = self.log.create_topic_with(name, config);
        if self.model.topics.contains_key(name) {
            assert_eq!(
                created,
                Err(TopicError::Exists {
                    topic: name.to_owned()
                })
            );
        } else {
            let partitions = (0..PARTITIONS).map(|_| ModelPartition::default()).collect();
            let topic = ModelTopic {
                offsets_max,
                partitions,
            };
            self.model.topics.insert(name, topic.clone());
            self.durable.topics.insert(name, topic);
        }
    }

    fn delete_records(&mut self, name: &str, partition: i32, before: Offset) {
        let (Some(id), Some(topic)) = (self.log.topic_id(name), self.model.topics.get_mut(name))
        else {
            return;
        };
        let model = &mut topic.partitions[partition as usize];
        let deleted = self.log.delete_records(id.partition(partition), before);
        assert_eq!(
            deleted.is_ok(),
            (0..=model.end()).contains(&before),
            "{deleted:?}"
        );
        if deleted.is_ok() {
            model.log_start = model.log_start.max(before);
            self.saved();
        }
    }

    fn read(&mut self, name: &'static str) {
        let Some(consumer) = self.consumers.get_mut(name) else {
            return;
        };
        let before = consumer.positions().clone();
        let found = consumer.read_to_end();
        if self.log.topic_id(name) != Some(consumer.topic_id()) {
            assert_eq!(
                found,
                Err(ReadError::DeletedTopic {
                    topic: name.to_owned()
                })
            );
            return;
        }
        let topic = &self.model.topics[name];
        if let Err(error) = &found {
            let ReadError::OutOfRange {
                channel,
                position,
                log_start,
                ..
            } = error
            else {
                panic!("{error}")
            };
            assert_eq!(
                topic.partitions[channel.partition as usize].log_start,
                *log_start
            );
            assert!(position < log_start);
            assert_eq!(*consumer.positions(), before);
            return;
        }
        let mut expected = BTreeMap::new();
        for (partition, from) in before {
            let model = &topic.partitions[partition as usize];
            assert!(
                from >= model.log_start,
                "a position below the log start was read"
            );
            assert_eq!(
                consumer.positions()[&partition],
                from.max(model.last_stable(&self.model.fates))
            );
            expected.insert(partition, model.committed(&self.model.fates, from));
        }
        let mut read: BTreeMap<i32, Vec<(i64, u64)>> = (0..PARTITIONS)
            .map(|partition| (partition, vec![]))
            .collect();
        for record in found.expect("judged above") {
            read.entry(record.channel.partition)
                .or_default()
                .push((record.offset, number(&record)));
        }
        assert_eq!(read, expected);
    }

    fn check_bounds(&self) {
        assert_eq!(self.log.topics().len(), self.model.topics.len());
        for (name, topic) in &self.model.topics {
            let id = self.log.topic_id(name).expect("the model has it");
            for (partition, model) in (0..).zip(&topic.partitions) {
                let channel: Channel = id.partition(partition);
                assert_eq!(
                    self.log.log_start(channel),
                    Some(model.log_start),
                    "{name}:{partition}"
                );
                assert_eq!(
                    self.log.high_watermark(channel),
                    Some(model.end()),
                    "{name}:{partition}"
                );
                assert_eq!(
                    self.log.last_stable_offset(channel),
                    Some(model.last_stable(&self.model.fates))
                );
            }
        }
    }
}

fn run(mut run: Run, actions: Vec<Action>) {
    for action in actions {
        run.apply(action);
        run.check_bounds();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_does_what_the_model_does(actions in prop::collection::vec(action(), 1..80)) {
        run(Run::in_memory(), actions);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// With restarts: what was acknowledged is there, and what was open is aborted.
    #[test]
    fn a_log_in_a_directory_does_what_the_model_does(
        actions in prop::collection::vec(action(), 1..120),
        caches in any::<bool>(),
    ) {
        let config = LogConfig::default();
        run(Run::on_disk(if caches { config } else { config.cache_bytes(0) }), actions);
    }
}
