//! A step of a task, with and without what a host tells of it: metrics, ages of what is held, its status.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusRecorder};
use parsley_core::{
    Channel, Clock, MemoryStore, Offset, OpenFacts, Record, StateStore, StoreError, TopicId, Visit,
};
use parsley_stage::meter::{StageMeter, StepCounts};
use parsley_stage::report::{InputReport, StateWord, TaskReport};
use parsley_stage::watch::TaskWatch;
use parsley_stage::{Processed, Stage, Task, TaskConfig, Topic, TopicInfo, codec};

use crate::STEP_RECORDS;
use crate::pipeline::Outcome;
use crate::world;

/// The inputs: records come on the first, and claim on the others.
const INPUTS: [&str; 5] = ["stream", "one", "two", "three", "four"];
const SINK: &str = "sink";

/// A store that a task reads and its host writes.
#[derive(Clone, Default)]
struct Shared(Arc<Mutex<MemoryStore>>);

impl Shared {
    fn with<T>(&self, ask: impl FnOnce(&mut MemoryStore) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl StateStore for Shared {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        self.with(|store| store.get(key))
    }

    fn put(&mut self, key: &[u8], value: Bytes) -> Result<(), StoreError> {
        self.with(|store| store.put(key, value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.with(|store| store.delete(key))
    }

    fn scan(
        &self,
        prefix: &[u8],
        from: &[u8],
        visit: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
    ) -> Result<(), StoreError> {
        self.with(|store| store.scan(prefix, from, visit))
    }
}

/// A task with a stream of records, each of which is sent on.
pub struct Told {
    task: Task,
    ordering: Shared,
    fold: Shared,
    channel: Channel,
    clock: Clock,
    next: Offset,
    processed: Vec<Processed>,
    telling: Option<Telling>,
}

/// What a host has beside a task.
struct Telling {
    recorder: PrometheusRecorder,
    watch: Mutex<TaskWatch>,
    stage: StageMeter,
    status: Mutex<TaskReport>,
    begun: Instant,
}

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told")
            .field("task", &self.task)
            .finish_non_exhaustive()
    }
}

impl Told {
    /// A task that has taken nothing in; with a recorder and a status when `is_told`.
    ///
    /// # Errors
    ///
    /// When the task does not open.
    pub fn new(is_told: bool) -> Outcome<Self> {
        let topic = |name: &'static str| Topic::new(name, codec::bytes(), codec::bytes());
        let sink = topic(SINK);
        let mut stage = Stage::stateless("stage").sink(&sink);
        for input in INPUTS {
            let sink = sink.clone();
            stage = stage.on(&topic(input), move |message, out| {
                out.send(&sink, &message.key, &message.value)
            });
        }
        let stage = stage.build()?;
        let info = |name: &str| TopicInfo {
            id: TopicId::of_name(name),
            partitions: 1,
        };
        let topics: BTreeMap<String, TopicInfo> = INPUTS
            .iter()
            .chain([&SINK])
            .map(|name| ((*name).to_owned(), info(name)))
            .collect();
        let (ordering, fold) = (Shared::default(), Shared::default());
        let facts = OpenFacts {
            ends: [(info(SINK).id.partition(0), 0)].into(),
            ..OpenFacts::default()
        };
        let telling = is_told.then(|| Telling::new(&stage, &topics));
        let config = TaskConfig::new("bench", 0, topics);
        let stores = (Box::new(ordering.clone()), Box::new(fold.clone()));
        let (task, _) = Task::open(stage, config, &facts, stores.0, stores.1)?;
        let mut told = Self {
            task,
            ordering,
            fold,
            channel: info(INPUTS[0]).id.partition(0),
            clock: Clock::new(),
            next: 0,
            processed: Vec::new(),
            telling,
        };
        // All that is claimed is met.
        for input in &INPUTS[1..] {
            let channel = info(input).id.partition(0);
            told.task.advance(channel, Offset::MAX)?;
            told.clock.claim_offset(channel, 0);
        }
        told.take(Vec::new(), Instant::now())?;
        Ok(told)
    }

    /// Takes the next step and returns how long it took: receipt, decision, delivery, logic, stamp, the commit, and what is told of it.
    ///
    /// # Errors
    ///
    /// When the task fails.
    ///
    /// # Panics
    ///
    /// When not all of its records were delivered.
    pub fn step(&mut self) -> Outcome<Duration> {
        let mut records = Vec::with_capacity(STEP_RECORDS);
        for _ in 0..STEP_RECORDS {
            let raised = self.clock.offsets()[self.next as usize % self.clock.width()];
            self.clock.claim_offset(raised.channel, raised.offset + 1);
            records.push(world::stamped(self.channel, self.next, &self.clock));
            self.next += 1;
        }
        let started = Instant::now();
        self.take(records, started)?;
        let took = started.elapsed();
        assert_eq!(
            self.processed.len(),
            STEP_RECORDS,
            "everything is delivered"
        );
        Ok(took)
    }

    #[inline(never)]
    fn take(&mut self, records: Vec<Record>, started: Instant) -> Outcome<()> {
        self.processed.clear();
        for record in records {
            self.task.receive(record)?;
        }
        if let Some(telling) = &self.telling {
            telling.taken_in(self.channel, self.next);
        }
        let mut sent = 0;
        while let Some(processed) = self.task.process_next()? {
            self.processed.push(processed);
            sent += black_box(self.task.take_sends()).len();
        }
        let commit = self.task.finish_step(&[])?;
        self.ordering.with(|store| store.apply(commit.ordering));
        self.fold.with(|store| store.apply(commit.fold));
        self.task.step_committed();
        assert_eq!(sent, self.processed.len(), "each is sent on");
        if let Some(telling) = &self.telling {
            telling.step_committed(&self.task, &self.processed, commit.positions, started);
        }
        Ok(())
    }

    /// What a scrape of the metrics says; `None` when nothing is told.
    pub fn metrics(&self) -> Option<String> {
        let telling = self.telling.as_ref();
        telling.map(|telling| telling.recorder.handle().render())
    }
}

impl Telling {
    fn new(stage: &Stage, topics: &BTreeMap<String, TopicInfo>) -> Self {
        let recorder = PrometheusBuilder::new().build_recorder();
        let (application, name): (Arc<str>, Arc<str>) = ("bench".into(), stage.name().into());
        let (watch, meter) = metrics::with_local_recorder(&recorder, || {
            let after = Duration::from_secs(30);
            let watch = TaskWatch::new(&application, stage, 0, topics, after);
            (watch, StageMeter::register(&application, &name))
        });
        Self {
            recorder,
            watch: Mutex::new(watch),
            stage: meter,
            status: Mutex::new(TaskReport::new(stage.name(), 0, StateWord::Running)),
            begun: Instant::now(),
        }
    }

    fn now_ms(&self) -> i64 {
        i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn watch(&self) -> std::sync::MutexGuard<'_, TaskWatch> {
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taken_in(&self, channel: Channel, next: Offset) {
        let now_ms = self.now_ms();
        self.watch().taken_in(channel, next, now_ms);
    }

    fn step_committed(
        &self,
        task: &Task,
        processed: &[Processed],
        positions: Vec<(Channel, Offset)>,
        started: Instant,
    ) {
        let (now_ms, delivered) = (self.now_ms(), processed.len() as u64);
        let counts = StepCounts {
            received: delivered,
            delivered,
            ..StepCounts::default()
        };
        self.stage.step_committed(started.elapsed().as_secs_f64());
        let mut watch = self.watch();
        watch.step_committed(task, counts, processed, now_ms);
        let input = |(channel, position): (Channel, Offset)| {
            let mut input = InputReport::new(INPUTS[0], channel.partition, position, 0);
            (input.held, input.oldest_hold_ms) = watch.held_on(channel, now_ms);
            input
        };
        let inputs = positions.into_iter().map(input).collect();
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        status.steps += 1;
        status.received += delivered;
        status.delivered += delivered;
        status.held = task.held();
        status.widest_clock_bytes = task.widest_clock_bytes() as u64;
        status.inputs = inputs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_what_was_done_and_changes_nothing_of_it() {
        let stores = [false, true].map(|is_told| {
            let mut told = Told::new(is_told).unwrap();
            for _ in 0..3 {
                told.step().unwrap();
            }
            if let Some(metrics) = told.metrics() {
                let delivered = "parsley_delivered_records_total{application=\"bench\",stage=\"stage\",task=\"0\"} 1500";
                assert!(metrics.contains(delivered), "{metrics}");
            }
            assert_eq!(told.metrics().is_some(), is_told);
            told.ordering.with(|store| store.clone())
        });
        assert_eq!(stores[0], stores[1]);
    }
}
