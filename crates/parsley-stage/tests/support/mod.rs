//! A host for tests: a log in memory whose steps append all or nothing, and committed stores.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use parsley_core::{
    Channel, Clock, Header, MemoryStore, Offset, OpenFacts, Opened, Record, SenderId, StateStore,
    StoreError, TopicId, Visit, wire,
};
use parsley_stage::{Processed, RawSend, Stage, Task, TaskConfig, TaskError, Topic, TopicInfo};

/// Topics of the names given, with a partition count each; identities are those of node scripts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    pub topics: BTreeMap<String, TopicInfo>,
    pub records: BTreeMap<Channel, Vec<Record>>,
}

impl Log {
    pub fn new(topics: &[(&str, i32)]) -> Self {
        let mut log = Self::default();
        for &(name, partitions) in topics {
            log.create(name, TopicId::of_name(name), partitions);
        }
        log
    }

    pub fn create(&mut self, name: &str, id: TopicId, partitions: i32) {
        self.topics
            .insert(name.to_owned(), TopicInfo { id, partitions });
        for partition in 0..partitions {
            self.records.insert(id.partition(partition), Vec::new());
        }
    }

    pub fn channel(&self, topic: &str, partition: i32) -> Channel {
        self.topics[topic].id.partition(partition)
    }

    pub fn end(&self, channel: Channel) -> Offset {
        self.records
            .get(&channel)
            .map_or(0, |records| records.len() as Offset)
    }

    pub fn ends(&self) -> BTreeMap<Channel, Offset> {
        self.records
            .keys()
            .map(|&channel| (channel, self.end(channel)))
            .collect()
    }

    /// The records of partition 0.
    pub fn of(&self, topic: &str) -> &[Record] {
        &self.records[&self.channel(topic, 0)]
    }

    /// Appends what a producer outside of the application wrote, to partition 0.
    pub fn produce<K, V>(
        &mut self,
        topic: &Topic<K, V>,
        key: &K,
        value: &V,
        headers: Vec<Header>,
    ) -> Offset {
        let channel = self.channel(topic.name(), 0);
        let offset = self.end(channel);
        let mut record = topic.record(channel, offset, key, value).unwrap();
        record.timestamp_ms = 1000 + offset;
        record.headers = headers;
        self.append(record);
        offset
    }

    fn append(&mut self, record: Record) {
        self.records
            .get_mut(&record.channel)
            .expect("the topic exists")
            .push(record);
    }
}

/// A store that the test and a task share: the test commits to it, the task reads.
#[derive(Clone, Debug, Default)]
pub struct Committed(Arc<Mutex<MemoryStore>>);

impl Committed {
    pub fn contents(&self) -> MemoryStore {
        self.0.lock().unwrap().clone()
    }
}

impl StateStore for Committed {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.0.lock().unwrap().get(key)
    }
    fn put(&mut self, _: &[u8], _: Bytes) -> Result<(), StoreError> {
        Err(StoreError::new("a task wrote to a committed store"))
    }
    fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
        Err(StoreError::new("a task deleted from a committed store"))
    }
    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        self.0.lock().unwrap().scan(prefix, from, visit)
    }
}

/// After what a step is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenUp {
    Fed,
    LogicRun,
    HandedOver,
    Fenced,
    CommitAsked,
}

impl GivenUp {
    pub const ALL: [Self; 5] = [
        Self::Fed,
        Self::LogicRun,
        Self::HandedOver,
        Self::Fenced,
        Self::CommitAsked,
    ];
}

/// One task with what is durable of it.
pub struct Host {
    stage: Stage,
    config: fn(&mut TaskConfig),
    partition: i32,
    pub ordering: Committed,
    pub fold: Committed,
    pub positions: BTreeMap<Channel, Offset>,
    pub offsets_known: bool,
    task: Option<Task>,
    fetched: BTreeMap<Channel, Offset>,
    /// Deliveries of committed steps.
    pub delivered: Vec<Processed>,
}

impl Host {
    pub fn new(stage: &Stage) -> Self {
        Self::of_partition(stage, 0)
    }

    pub fn of_partition(stage: &Stage, partition: i32) -> Self {
        Self {
            stage: stage.clone(),
            config: |_| {},
            partition,
            ordering: Committed::default(),
            fold: Committed::default(),
            positions: BTreeMap::new(),
            offsets_known: true,
            task: None,
            fetched: BTreeMap::new(),
            delivered: Vec::new(),
        }
    }

    /// Changes the configuration that tasks are opened with.
    pub fn configured(mut self, config: fn(&mut TaskConfig)) -> Self {
        self.config = config;
        self
    }

    /// Opens the task from committed state, and commits the opening.
    pub fn open(&mut self, log: &Log) -> Result<Opened, TaskError> {
        self.open_knowing(log, OpenFacts::default())
    }

    pub fn open_knowing(&mut self, log: &Log, mut facts: OpenFacts) -> Result<Opened, TaskError> {
        let mut config = TaskConfig::new("shop", self.partition, log.topics.clone());
        (self.config)(&mut config);
        facts.start = self.positions.clone();
        facts.group_has_positions = !self.positions.is_empty();
        facts.ends = log.ends();
        let stores = (Box::new(self.ordering.clone()), Box::new(self.fold.clone()));
        let (task, opened) = Task::open(self.stage.clone(), config, &facts, stores.0, stores.1)?;
        self.fetched = task
            .inputs()
            .map(|(channel, _)| (channel, self.positions.get(&channel).copied().unwrap_or(0)))
            .collect();
        self.fetched.extend(&opened.resume);
        self.task = Some(task);
        self.commit(&[])?;
        Ok(opened)
    }

    /// Drops the task with all that is not committed; the stage may be declared anew.
    pub fn redeploy(&mut self, stage: &Stage) {
        self.task = None;
        self.stage = stage.clone();
    }

    pub fn task(&mut self) -> &mut Task {
        self.task.as_mut().expect("the task is open")
    }

    /// Feeds what the log has beyond the fetch positions on these topics, all of it.
    pub fn feed(&mut self, log: &Log, topics: &[&str]) -> Result<(), TaskError> {
        for topic in topics {
            let channel = log.channel(topic, self.partition);
            let from = self.fetched[&channel];
            for record in &log.records[&channel][from as usize..] {
                self.task().receive(record.clone())?;
            }
            let end = log.end(channel);
            self.task().advance(channel, end)?;
            self.fetched.insert(channel, end);
        }
        Ok(())
    }

    /// Feeds the topics and runs steps until nothing is deliverable.
    pub fn run(&mut self, log: &mut Log, topics: &[&str]) -> Result<(), TaskError> {
        self.feed(log, topics)?;
        while self.step(log, None)? > 0 {}
        Ok(())
    }

    /// Runs one step over what was fed, and commits it, unless it is to be given up: then the task is gone, and nothing was appended.
    /// Returns the number of deliveries.
    pub fn step(&mut self, log: &mut Log, abort: Option<GivenUp>) -> Result<usize, TaskError> {
        if abort == Some(GivenUp::Fed) {
            self.task = None;
            return Ok(0);
        }
        let mut appended: Vec<Record> = Vec::new();
        let mut delivered = Vec::new();
        // A tick, if the test has asked for one.
        self.hand_over(log, &mut appended);
        while let Some(processed) = self.task().process_next()? {
            delivered.push(processed);
            if abort != Some(GivenUp::LogicRun) {
                self.hand_over(log, &mut appended);
            }
        }
        while self.task().has_later_rounds() {
            if matches!(abort, Some(GivenUp::LogicRun | GivenUp::HandedOver)) {
                break;
            }
            let acks = self.acks(&appended);
            self.task().fence(&acks)?;
            self.hand_over(log, &mut appended);
            if abort == Some(GivenUp::Fenced) {
                break;
            }
        }
        if abort.is_some_and(|abort| abort != GivenUp::CommitAsked) {
            self.task = None;
            return Ok(0);
        }
        let acks = self.acks(&appended);
        if abort.is_some() {
            let _dropped = self.task().finish_step(&acks)?;
            self.task = None;
            return Ok(0);
        }
        self.commit(&acks)?;
        for record in appended {
            log.append(record);
        }
        let count = delivered.len();
        self.delivered.extend(delivered);
        Ok(count)
    }

    fn hand_over(&mut self, log: &Log, appended: &mut Vec<Record>) {
        for send in self.task().take_sends() {
            let channel = send.channel;
            let before = appended
                .iter()
                .filter(|sent| sent.channel == channel)
                .count();
            appended.push(record_of(send, log.end(channel) + before as Offset));
        }
    }

    fn acks(&self, appended: &[Record]) -> Vec<(Channel, Offset)> {
        if !self.offsets_known {
            return Vec::new();
        }
        let last: BTreeMap<Channel, Offset> = appended
            .iter()
            .map(|sent| (sent.channel, sent.offset))
            .collect();
        last.into_iter().collect()
    }

    /// Ends the step and makes it durable.
    pub fn commit(&mut self, acks: &[(Channel, Offset)]) -> Result<(), TaskError> {
        let step = self.task().finish_step(acks)?;
        self.positions.extend(step.positions);
        self.ordering.0.lock().unwrap().apply(step.ordering);
        self.fold.0.lock().unwrap().apply(step.fold);
        self.task().step_committed();
        Ok(())
    }
}

fn record_of(send: RawSend, offset: Offset) -> Record {
    Record {
        channel: send.channel,
        offset,
        timestamp_ms: send.timestamp_ms,
        key: send.key,
        value: send.value,
        headers: send.headers,
    }
}

/// The values of a record's headers of this name.
pub fn headers(record: &Record, name: &str) -> Vec<Bytes> {
    let named = record
        .headers
        .iter()
        .filter(|header| header.name == name.as_bytes());
    named.filter_map(|header| header.value.clone()).collect()
}

pub fn clock_of(record: &Record) -> Clock {
    let clocks = headers(record, wire::CLOCK_HEADER);
    assert_eq!(clocks.len(), 1, "exactly one stamp");
    wire::decode(&clocks[0]).unwrap().into_clock()
}

/// The highest offset that a record claims on a channel.
pub fn claimed_offset(record: &Record, channel: Channel) -> Option<Offset> {
    let clock = clock_of(record);
    let claim = clock
        .offsets()
        .iter()
        .find(|claim| claim.channel == channel);
    claim.map(|claim| claim.offset)
}

pub fn sequence_of(record: &Record) -> i64 {
    let sequences = headers(record, wire::SEQUENCE_HEADER);
    i64::from_be_bytes(sequences[0].as_ref().try_into().unwrap())
}

/// A header that claims offsets.
pub fn claims(offsets: &[(Channel, Offset)]) -> Vec<Header> {
    let mut clock = Clock::new();
    for &(channel, offset) in offsets {
        clock.claim_offset(channel, offset);
    }
    vec![Header::new(wire::CLOCK_HEADER, wire::encode(&clock))]
}

/// A header that claims what alice sent to a channel, by sequence.
pub fn by_sequence(channel: Channel, sequence: i64) -> Vec<Header> {
    let mut clock = Clock::new();
    clock.claim_sequence(channel, SenderId::of_name("alice"), sequence);
    vec![Header::new(wire::CLOCK_HEADER, wire::encode(&clock))]
}
