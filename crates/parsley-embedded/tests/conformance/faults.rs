//! The embedded host with something wrong around it: the kit has to notice (`docs/protocol.md`, Host duties).

use std::collections::BTreeSet;

use bytes::Bytes;
use parsley_core::{Channel, Hold, Offset, Record, TopicId};
use parsley_sim::host::{
    AppendMode, ConformanceHost, Deployment, EdgeTransaction, Ends, Event, Setting, Started,
    StepPlan, Stop, TaskNo,
};

use crate::host::EmbeddedHost;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// H2: positions past what never arrives are not reported.
    WithholdsPositions,
    /// One of a task's partitions is never polled.
    ForgetsAPartition,
    /// H3: what an aborted step had sent stays in the log, outside of any transaction.
    KeepsSendsAfterAbort,
    /// H3: an aborted step counts as done.
    CountsAbortsAsCommits,
    /// H3, H5: what a stage starts from after a crash is not what it has committed, but nothing.
    ForgetsItsState,
    /// The log acknowledges the record at offset 3 of each partition and does not keep it.
    LosesOffsetThree,
    /// The log keeps no headers of plain clients, so nobody learns what their records follow from.
    LosesHeaders,
}

impl Fault {
    pub const ALL: [Self; 7] = [
        Self::WithholdsPositions,
        Self::ForgetsAPartition,
        Self::KeepsSendsAfterAbort,
        Self::CountsAbortsAsCommits,
        Self::ForgetsItsState,
        Self::LosesOffsetThree,
        Self::LosesHeaders,
    ];
}

/// An [`EmbeddedHost`] with a fault.
pub struct FaultyHost {
    host: EmbeddedHost,
    fault: Fault,
    /// Consumed by a task and never read.
    forgotten: BTreeSet<(usize, Channel)>,
}

impl FaultyHost {
    pub fn with(fault: Fault, setting: Setting) -> Self {
        Self {
            host: EmbeddedHost::new(setting),
            fault,
            forgotten: BTreeSet::new(),
        }
    }

    /// What was appended by the step that has just been aborted.
    fn given_up(&self) -> Vec<Record> {
        let sends = self.host.events.iter().filter_map(|event| match event {
            Event::Appended { record, .. } => Some(record.clone()),
            _ => None,
        });
        sends.collect()
    }
}

impl ConformanceHost for FaultyHost {
    fn supports(append: AppendMode) -> bool {
        EmbeddedHost::supports(append)
    }

    fn ticks() -> bool {
        EmbeddedHost::ticks()
    }

    fn can_withhold_offsets() -> bool {
        EmbeddedHost::can_withhold_offsets()
    }

    fn new(setting: Setting) -> Self {
        Self::with(Fault::WithholdsPositions, setting)
    }

    fn create_topic(&mut self, name: &str, partitions: i32) -> TopicId {
        self.host.create_topic(name, partitions)
    }

    fn delete_topic(&mut self, name: &str) {
        self.host.delete_topic(name);
    }

    fn delete_records(&mut self, channel: Channel, before: Offset) {
        self.host.delete_records(channel, before);
    }

    fn ends(&self, channel: Channel) -> Option<Ends> {
        self.host.ends(channel)
    }

    fn read(&self, channel: Channel, from: Offset, records_max: usize) -> (Vec<Record>, Offset) {
        self.host.read(channel, from, records_max)
    }

    fn begin(&mut self) -> EdgeTransaction {
        self.host.begin()
    }

    fn append(&mut self, mut record: Record, within: Option<EdgeTransaction>) -> Option<Offset> {
        if self.fault == Fault::LosesHeaders {
            record.headers.clear();
        }
        let end = self.host.ends(record.channel).map(|ends| ends.end);
        if self.fault == Fault::LosesOffsetThree && within.is_none() && end == Some(3) {
            let lost = self.host.begin();
            let offset = self.host.append(record, Some(lost));
            self.host.end(lost, false);
            return offset;
        }
        self.host.append(record, within)
    }

    fn is_acknowledged(&self, channel: Channel, offset: Offset) -> bool {
        self.host.is_acknowledged(channel, offset)
    }

    fn end(&mut self, transaction: EdgeTransaction, commit: bool) {
        self.host.end(transaction, commit);
    }

    fn deploy(&mut self, deployment: &Deployment, tasks: &[(TaskNo, i32)]) {
        self.host.deploy(deployment, tasks);
    }

    fn start(&mut self, task: TaskNo, now: u64) -> Result<Started, Stop> {
        let started = self.host.start(task, now)?;
        if self.fault == Fault::ForgetsAPartition
            && let [_, .., (last, _)] = started.consumed[..]
        {
            self.forgotten.insert((task.0, last));
        }
        Ok(started)
    }

    fn step(&mut self, task: TaskNo, plan: &StepPlan, now: u64) -> Result<(), Stop> {
        let mut plan = plan.clone();
        plan.reads
            .retain(|read| !self.forgotten.contains(&(task.0, read.channel)));
        if self.fault == Fault::WithholdsPositions {
            plan.reads.iter_mut().for_each(|read| read.advance = false);
        }
        let outcome = self.host.step(task, &plan, now);
        if self.fault == Fault::KeepsSendsAfterAbort
            && self.host.events.last() == Some(&Event::Aborted(task))
        {
            for record in self.given_up() {
                self.host.append(record, None);
            }
        }
        outcome
    }

    fn crash(&mut self, task: TaskNo) {
        self.host.crash(task);
        if self.fault == Fault::ForgetsItsState {
            self.host.application.push('0');
        }
    }

    fn evidence(&mut self, task: TaskNo) -> Result<(), Stop> {
        self.host.evidence(task)
    }

    fn check(&mut self, task: TaskNo, now: u64) -> Result<(), Stop> {
        self.host.check(task, now)
    }

    fn is_in_step(&self, task: TaskNo) -> bool {
        self.host.is_in_step(task)
    }

    fn position(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.host.position(task, channel)
    }

    fn resumes_at(&self, task: TaskNo, channel: Channel) -> Option<Offset> {
        self.host.resumes_at(task, channel)
    }

    fn held(&self, task: TaskNo) -> u64 {
        self.host.held(task)
    }

    fn holds(&self, task: TaskNo) -> Vec<Hold> {
        self.host.holds(task)
    }

    fn state_of(&self, task: TaskNo, key: Option<&[u8]>) -> Option<Bytes> {
        self.host.state_of(task, key)
    }

    fn tick_state_of(&self, task: TaskNo) -> Option<Bytes> {
        self.host.tick_state_of(task)
    }

    fn wants_evidence(&self, task: TaskNo) -> bool {
        self.host.wants_evidence(task)
    }

    fn take_events(&mut self, events: &mut Vec<Event>) {
        self.host.take_events(events);
        if self.fault == Fault::CountsAbortsAsCommits {
            for event in events {
                if let Event::Aborted(task) = *event {
                    *event = Event::Committed(task);
                }
            }
        }
    }
}
