//! An application that leaves everything in a directory that there can be: two stages, one of them stateful, held records, aborted runs,
//! open transactions, retention, deletions. What happens is a list, so that it can be done up to anywhere and gone on with from there.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parsley_embedded::{
    Host, HostError, Ids, LogConfig, NewRecord, ReadError, Reads, SendError, StartError, StepError,
    Stepper, StorageError, TimeSource, TopicError, Transaction,
};
use parsley_stage::App;

use crate::support::builder;
use crate::support::numbers::Numbers;
use crate::support::shop::{self, Books, PARTITIONS, STAGES, TOPICS, tasks};

/// A topic beside those of the shop, which is deleted and comes again.
const SCRATCH: (&str, Option<u64>) = ("scratch", None);
/// Little, so that what was written is read.
pub const CACHE_BYTES: usize = 256 << 10;
const PAYLOAD_BYTES: usize = 5000;

/// One thing that happens. Each is one write at most.
#[derive(Clone, Debug)]
pub enum Deed {
    Create((&'static str, Option<u64>)),
    DeleteScratch,
    Open(&'static str, i32),
    Send(Sent),
    /// Records of one transaction, committed.
    Together(Vec<Sent>),
    /// Records of one transaction, aborted.
    InVain(Vec<Sent>),
    /// A transaction that stays open.
    Begin(u64, Vec<Sent>),
    Commit(u64, Vec<Sent>),
    Step(&'static str, i32, Reads),
    /// A step whose logic fails once it has sent something.
    FailingStep(&'static str, i32),
    DeleteScratchRecords,
}

#[derive(Clone, Debug)]
pub struct Sent {
    topic: &'static str,
    number: u64,
}

impl Sent {
    fn record(&self) -> NewRecord {
        let payload_bytes = PAYLOAD_BYTES + self.number as usize % 700;
        shop::numbered(self.topic, self.number, payload_bytes)
    }
}

/// Everything that happens, in order.
pub fn story() -> Vec<Deed> {
    let mut numbers = Numbers::of_seed(4);
    let topics = TOPICS.into_iter().chain([SCRATCH]);
    let mut deeds: Vec<Deed> = topics.map(Deed::Create).collect();
    deeds.extend(tasks().map(|(stage, partition)| Deed::Open(stage, partition)));
    let mut next = 0;
    let mut sent = |topic, count: u64| -> Vec<Sent> {
        (0..count)
            .map(|_| {
                next += 1;
                Sent {
                    topic,
                    number: next,
                }
            })
            .collect()
    };
    let mut open: Vec<(u64, Vec<Sent>)> = Vec::new();
    for turn in 0..90 {
        let topic = ["orders", "orders", "payments"][numbers.below(3) as usize];
        match numbers.below(8) {
            0 => deeds.push(Deed::InVain(sent(topic, 2))),
            1 | 2 => {
                let records = sent(topic, 1 + numbers.below(4));
                deeds.push(Deed::Together(records));
            }
            3 if open.len() < 2 => {
                let records = sent(topic, 1 + numbers.below(3));
                open.push((turn, records.clone()));
                deeds.push(Deed::Begin(turn, records));
            }
            4 => deeds.push(Deed::Send(sent("scratch", 1).remove(0))),
            _ => deeds.push(Deed::Send(sent(topic, 1).remove(0))),
        }
        if open.len() == 2 || (!open.is_empty() && numbers.once_in(6)) {
            let (id, records) = open.remove(0);
            deeds.push(Deed::Commit(id, records));
        }
        if turn % 30 == 20 {
            deeds.push(Deed::DeleteScratchRecords);
        }
        if turn == 45 {
            deeds.extend([Deed::DeleteScratch, Deed::Create(SCRATCH)]);
        }
        for _ in 0..2 {
            let (stage, inputs) = STAGES[numbers.below(2) as usize];
            let partition = numbers.below(PARTITIONS as u64) as i32;
            if numbers.once_in(12) {
                deeds.extend([
                    Deed::FailingStep(stage, partition),
                    Deed::Open(stage, partition),
                ]);
                continue;
            }
            // Often without what the others are the causes of.
            let mut reads = Reads::everything();
            if inputs.len() > 1 && !numbers.once_in(3) {
                reads = reads.without(inputs[numbers.below(2) as usize]);
            }
            deeds.push(Deed::Step(stage, partition, reads));
        }
    }
    deeds
}

/// Anything that an application is told when its directory is no good.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    #[error("opening: {0}")]
    Open(#[from] HostError),
    #[error("starting: {0}")]
    Start(#[from] StartError),
    #[error("a topic: {0}")]
    Topic(#[from] TopicError),
    #[error("a send: {0}")]
    Send(#[from] SendError),
    #[error("a commit: {0}")]
    Commit(#[from] StorageError),
    #[error("a read: {0}")]
    Read(#[from] ReadError),
    #[error("a step: {0}")]
    Step(#[from] StepError),
}

/// The application at work.
pub struct World {
    /// Before the host: an open transaction is withdrawn from its log.
    open: BTreeMap<u64, Transaction>,
    stepper: Option<Stepper>,
    fails: Arc<AtomicBool>,
    app: App,
    pub host: Host,
}

impl World {
    /// Opens the directory, and the tasks if there are topics for them.
    pub fn open(dir: &Path) -> Result<Self, Refused> {
        let config = LogConfig::default()
            .ids(Ids::Seeded(1))
            .time(TimeSource::from_fn(|| 7))
            .cache_bytes(CACHE_BYTES);
        let host = builder().log_config(config).data_dir(dir).build()?;
        let fails = Arc::new(AtomicBool::new(false));
        let mut world = Self {
            open: BTreeMap::new(),
            stepper: None,
            app: shop::app(&fails),
            fails,
            host,
        };
        if world.has_topics() {
            for (stage, partition) in tasks() {
                world.open_task(stage, partition)?;
            }
        }
        Ok(world)
    }

    fn has_topics(&self) -> bool {
        let there = self.host.log().topics();
        TOPICS.iter().all(|(topic, _)| there.contains_key(*topic))
    }

    fn open_task(&mut self, stage: &str, partition: i32) -> Result<(), Refused> {
        let stepper = match &mut self.stepper {
            Some(stepper) => stepper,
            none => none.insert(self.host.step_by_step(&self.app)?),
        };
        stepper.open(stage, partition)?;
        Ok(())
    }

    fn step(&mut self, stage: &str, partition: i32, reads: &Reads) -> Result<bool, Refused> {
        let stepper = self.stepper.as_mut().expect("the tasks have been opened");
        Ok(stepper.step(stage, partition, reads)?.committed)
    }

    fn begin(&self, records: &[Sent]) -> Result<Transaction, Refused> {
        let mut transaction = self.host.producer().begin();
        for sent in records {
            transaction.send(sent.record())?;
        }
        Ok(transaction)
    }

    pub fn do_it(&mut self, deed: &Deed) -> Result<(), Refused> {
        match deed {
            Deed::Create(topic) => shop::create(&self.host, *topic)?,
            Deed::DeleteScratch => self.host.delete_topic("scratch")?,
            Deed::Open(stage, partition) => self.open_task(stage, *partition)?,
            Deed::Send(sent) => drop(self.host.producer().send(sent.record())?),
            Deed::Together(records) => self.begin(records)?.commit()?,
            Deed::InVain(records) => self.begin(records)?.abort(),
            Deed::Begin(id, records) => {
                let transaction = self.begin(records)?;
                self.open.insert(*id, transaction);
            }
            // What a killed process had not committed, its successor sends again.
            Deed::Commit(id, records) => match self.open.remove(id) {
                Some(transaction) => transaction.commit()?,
                None => self.begin(records)?.commit()?,
            },
            Deed::Step(stage, partition, reads) => drop(self.step(stage, *partition, reads)?),
            Deed::FailingStep(stage, partition) => {
                self.fails.store(true, Ordering::SeqCst);
                let stepped = self.step(stage, *partition, &Reads::everything());
                self.fails.store(false, Ordering::SeqCst);
                match stepped {
                    Err(Refused::Step(StepError::Ended { end, .. }))
                        if end.application().is_some() => {}
                    // There was nothing to deliver.
                    Ok(_) => {}
                    Err(refused) => return Err(refused),
                }
            }
            Deed::DeleteScratchRecords => {
                let scratch = self.host.log().topic_id("scratch");
                let channel = scratch.expect("it is there").partition(0);
                let end = self.host.log().last_stable_offset(channel);
                self.host
                    .log()
                    .delete_records(channel, end.expect("it is there") / 2)?;
            }
        }
        Ok(())
    }

    /// Goes on until nothing is left to do.
    pub fn finish(&mut self, deeds: &[Deed]) -> Result<(), Refused> {
        for deed in deeds {
            self.do_it(deed)?;
        }
        loop {
            let mut committed = false;
            for (stage, partition) in tasks() {
                if !self.opened().is_open(stage, partition)? {
                    self.open_task(stage, partition)?;
                }
                committed |= self.step(stage, partition, &Reads::everything())?;
                committed |= self.opened().give_evidence(stage, partition)?;
            }
            if !committed {
                return Ok(());
            }
        }
    }

    fn opened(&mut self) -> &mut Stepper {
        self.stepper.as_mut().expect("the tasks have been opened")
    }

    pub fn held(&self) -> u64 {
        let Some(stepper) = &self.stepper else {
            return 0;
        };
        tasks()
            .filter_map(|(stage, partition)| stepper.held(stage, partition).ok())
            .sum()
    }

    pub fn has_open_transactions(&self) -> bool {
        !self.open.is_empty()
    }
}

/// Fails unless all that was sent has had its effect, once.
pub fn assert_done(world: &World) {
    let books = Books::check(world.host.log());
    books.check_done();
    let mut sent: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for deed in story() {
        let records = match deed {
            Deed::Send(record) => vec![record],
            Deed::Together(records) | Deed::Begin(_, records) => records,
            _ => continue,
        };
        for record in records {
            sent.entry(record.topic).or_default().insert(record.number);
        }
    }
    for topic in shop::FROM_OUTSIDE {
        assert_eq!(books.numbers(topic).collect::<BTreeSet<_>>(), sent[topic]);
    }
}
