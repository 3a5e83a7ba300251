//! The acts that disturb a run, one function for each kind. An act ends when what it disturbed is as it was, as far as the act can bring that about.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_cluster::KafkaCluster;
use kafka_cluster::proxy::{Action, ApiKey, Proxy, Reach, Requests};

use crate::Trouble;
use crate::chance::Chance;
use crate::clients::Clients;
use crate::collector::Collector;
use crate::instance::SESSION;
use crate::instances::{COUNT, Instances};
use crate::journal::{Journal, Justifies};
use crate::topology::{LATE, SPARE_PARTITIONS, SPARE_TOPICS, TOPICS};

/// How long it is waited until a group, a broker or a refusal is there. Where it does not come the run goes on, and is judged all the same.
const PATIENCE: Duration = Duration::from_secs(90);

/// How long a refusal of the spare application is waited for.
const REFUSAL: Duration = Duration::from_secs(20);

/// What recreating an input justifies: the topic is another one (G12); the former one is gone while records of it are held (G9), which a task that opens
/// behind it finds as an input that is declared no more (G8).
const RECREATED_INPUT: &[&str] = &[
    "vc-identity-changed",
    "vc-deleted-input-held",
    "vc-removed-input-held",
];
/// A sink that is gone while a task opens cannot be resolved, besides (G6).
const RECREATED_SINK: &[&str] = &[
    "vc-identity-changed",
    "vc-deleted-input-held",
    "vc-removed-input-held",
    "vc-missing-sink",
];
/// And deleting records that were not delivered (G10).
const CUT: &[&str] = &["vc-positions-lost"];

/// Requests whose answers are disturbed.
pub const ANSWERS: [(&str, ApiKey); 5] = [
    ("EndTxn", ApiKey::END_TXN),
    ("TxnOffsetCommit", ApiKey::TXN_OFFSET_COMMIT),
    ("Produce", ApiKey::PRODUCE),
    ("Fetch", ApiKey::FETCH),
    ("Metadata", ApiKey::METADATA),
];

/// Something that disturbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Kill an instance, and start it again after a while.
    Kill(usize, Duration),
    /// Kill all of them at once.
    KillAll(Duration),
    /// Ask an instance to end, and start it again after a while.
    End(usize, Duration),
    /// Stop an instance where it is until its session is over, and for a while longer.
    Pause(usize, Duration),
    /// Kill a broker, and start it again after a while.
    KillBroker(u16, Duration),
    /// Have a broker end in order.
    EndBroker(u16, Duration),
    /// Cut all connections of clients to a broker.
    Cut(u16),
    /// Cut them, and refuse new ones for a while.
    Refuse(u16, Duration),
    /// Let nothing pass to or from a broker for a while.
    Silence(u16, Duration),
    /// Have the answers to so many of the next requests of a kind dropped, and their connections cut.
    Drop(usize, u64),
    /// Have the answers to so many of the next requests of a kind delayed.
    Delay(usize, u64, Duration),
    /// Delete the records that everybody was delivered.
    Retain,
    /// Delete a topic of the spare application and make it again.
    Recreate(usize),
    /// Delete all records of a topic of the spare application, whoever was delivered them.
    CutSpare(usize),
}

impl Act {
    /// The kind, as the figures name it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Kill(..) => "instance killed",
            Self::KillAll(_) => "all instances killed",
            Self::End(..) => "instance ended",
            Self::Pause(..) => "instance stopped past its session, and continued",
            Self::KillBroker(..) => "broker killed",
            Self::EndBroker(..) => "broker ended",
            Self::Cut(_) => "connections to a broker cut",
            Self::Refuse(..) => "broker refused",
            Self::Silence(..) => "broker silent",
            Self::Drop(0, _) => "answers to EndTxn dropped",
            Self::Drop(1, _) => "answers to TxnOffsetCommit dropped",
            Self::Drop(2, _) => "answers to Produce dropped",
            Self::Drop(3, _) => "answers to Fetch dropped",
            Self::Drop(..) => "answers to Metadata dropped",
            Self::Delay(0, ..) => "answers to EndTxn delayed",
            Self::Delay(1, ..) => "answers to TxnOffsetCommit delayed",
            Self::Delay(2, ..) => "answers to Produce delayed",
            Self::Delay(3, ..) => "answers to Fetch delayed",
            Self::Delay(..) => "answers to Metadata delayed",
            Self::Retain => "retention up to what was delivered",
            Self::Recreate(_) => "spare topic deleted and made again",
            Self::CutSpare(_) => "retention past what was delivered of a spare topic",
        }
    }
}

/// What acts act on.
pub struct Field<'a> {
    /// The brokers.
    pub kafka: &'a KafkaCluster,
    /// And the proxy before them.
    pub proxy: &'a Proxy,
    /// The driver's own access.
    pub clients: &'a Clients,
    /// The instances.
    pub instances: &'a Instances,
    /// What was read so far.
    pub collector: &'a Collector,
    /// Where all is noted.
    pub journal: &'a Journal,
}

impl Field<'_> {
    /// Acts. `chance` draws by how much inputs come late at instances that are started.
    pub fn perform(&self, act: Act, chance: &mut Chance) -> Result<(), Trouble> {
        // What justifies refusals notes itself, with what it is about.
        if !matches!(act, Act::Recreate(_) | Act::CutSpare(_)) {
            self.journal.inject(act.kind(), &format!("{act:?}"), None);
        }
        match act {
            Act::Kill(number, down) => {
                self.instances.kill(number)?;
                std::thread::sleep(down);
                self.instances.start(number, &late(chance))?;
            }
            Act::KillAll(down) => {
                for number in 0..COUNT {
                    self.instances.kill(number)?;
                }
                std::thread::sleep(down);
                for number in 0..COUNT {
                    self.instances.start(number, &late(chance))?;
                }
            }
            Act::End(number, down) => {
                self.instances.end(number)?;
                std::thread::sleep(down);
                self.instances.start(number, &late(chance))?;
            }
            Act::Pause(number, longer) => {
                self.instances.pause(number)?;
                std::thread::sleep(SESSION + longer);
                self.instances.resume(number)?;
            }
            Act::KillBroker(number, down) => {
                self.kafka.kill_broker(number)?;
                std::thread::sleep(down);
                self.bring_back(number)?;
            }
            Act::EndBroker(number, down) => {
                self.kafka.end_broker(number)?;
                std::thread::sleep(down);
                self.bring_back(number)?;
            }
            Act::Cut(number) => self.proxy.cut(number),
            Act::Refuse(number, time) => self.reach(number, Reach::Refused, time),
            Act::Silence(number, time) => self.reach(number, Reach::Silent, time),
            Act::Drop(api, count) => self.disturb(api, count, Action::DropResponse),
            Act::Delay(api, count, time) => self.disturb(api, count, Action::DelayResponse(time)),
            Act::Retain => self.retain(),
            Act::Recreate(topic) => self.recreate(topic)?,
            Act::CutSpare(topic) => self.cut_spare(topic)?,
        }
        Ok(())
    }

    /// Starts a broker, and waits until it has caught up: the next fault may take another one, and what two of three have is safe.
    fn bring_back(&self, number: u16) -> Result<(), Trouble> {
        self.kafka.start_broker(number)?;
        if !wait(PATIENCE, || self.clients.is_whole()) {
            self.journal.note(format!(
                "broker {number} has not caught up within {PATIENCE:?}"
            ));
        }
        Ok(())
    }

    fn reach(&self, number: u16, reach: Reach, time: Duration) {
        self.proxy.set_reach(number, reach);
        std::thread::sleep(time);
        self.proxy.set_reach(number, Reach::Open);
    }

    fn disturb(&self, api: usize, count: u64, action: Action) {
        let (_, key) = ANSWERS[api];
        let rule = self.proxy.rule(Requests::of(key).next(count), action);
        // Where there are not so many, it is over after a while.
        let _ = rule.wait_for_answers(count, Duration::from_secs(10));
        if let Action::DelayResponse(time) = action {
            std::thread::sleep(time);
        }
    }

    /// Has records deleted. The run goes on without it where brokers that come and go do not answer.
    fn delete(&self, topic: &str, below: &BTreeMap<i32, i64>) {
        if let Err(trouble) = self.clients.delete_records(topic, below) {
            self.journal
                .note(format!("records of {topic} below {below:?}: {trouble}"));
        }
    }

    fn retain(&self) {
        for (topic, name) in TOPICS.iter().enumerate() {
            let delivered = self
                .collector
                .with(|history| history.delivered_by_all(topic));
            let below: BTreeMap<i32, i64> = delivered
                .into_iter()
                .map(|(partition, offset)| (partition, offset + 1))
                .collect();
            if !below.is_empty() {
                self.delete(name, &below);
            }
        }
    }

    /// Waits until the spare application runs everywhere, and says as which generation.
    fn await_spare(&self) -> Option<u32> {
        let generation = self.instances.spare()?;
        self.spare_stands(generation, |[running, opening, refused]| {
            running == 2 * SPARE_PARTITIONS as usize && (opening, refused) == (0, 0)
        })
        .then_some(generation)
    }

    /// Waits until the spare application's tasks, all instances together, stand so.
    fn spare_stands(&self, generation: u32, is_reached: impl Fn([usize; 3]) -> bool) -> bool {
        wait(REFUSAL * 2, || {
            let mut sum = [0; 3];
            for stands in self.instances.stand() {
                if let Some((_, counts)) = stands.spare.filter(|(of, _)| *of == generation) {
                    for (sum, count) in sum.iter_mut().zip(counts) {
                        *sum += count;
                    }
                }
            }
            is_reached(sum)
        })
    }

    fn recreate(&self, topic: usize) -> Result<(), Trouble> {
        let (name, act) = (SPARE_TOPICS[topic], Act::Recreate(topic));
        let Some(generation) = self.await_spare() else {
            self.journal.note("the spare application does not run yet");
            return Ok(());
        };
        let justifies = Justifies {
            generation,
            codes: match topic {
                0 => RECREATED_INPUT,
                _ => RECREATED_SINK,
            },
            topic: self.clients.id(name)?,
        };
        self.journal.inject(act.kind(), name, Some(justifies));
        self.clients.delete(name)?;
        self.clients.create(&[name], SPARE_PARTITIONS)?;
        self.go_on(generation, "vc-identity-changed")
    }

    fn cut_spare(&self, topic: usize) -> Result<(), Trouble> {
        let (name, act) = (SPARE_TOPICS[topic], Act::CutSpare(topic));
        let Some(generation) = self.await_spare() else {
            self.journal.note("the spare application does not run yet");
            return Ok(());
        };
        let justifies = Justifies {
            generation,
            codes: CUT,
            topic: self.clients.id(name)?,
        };
        self.journal.inject(act.kind(), name, Some(justifies));
        let ends = self.clients.ends(name, SPARE_PARTITIONS)?;
        self.delete(name, &ends);
        self.go_on(generation, "")
    }

    /// Has the spare application go on after a refusal as its operator would: where each was of the code that a restart is the remedy of, it is restarted;
    /// otherwise, and where that does not help, it starts afresh.
    fn go_on(&self, generation: u32, restartable: &str) -> Result<(), Trouble> {
        let is_of = |one: &crate::journal::Judged| one.refused.spare == Some(generation);
        let before = self.journal.refusals().len();
        let is_refused = wait(REFUSAL, || {
            self.journal.refusals()[before..].iter().any(is_of)
        });
        if !is_refused {
            self.journal
                .note(format!("spare {generation} was not refused"));
        }
        // Others follow it soon.
        std::thread::sleep(Duration::from_secs(4));
        let refusals = self.journal.refusals();
        let mut of_it = refusals.iter().filter(|one| is_of(one));
        if of_it.all(|one| one.refused.code == restartable) {
            self.instances.run_spare(Some(generation));
            if self.await_spare().is_some() {
                self.journal.note(format!("spare {generation} goes on"));
                return Ok(());
            }
        }
        self.instances.run_spare(Some(generation + 1));
        self.journal
            .note(format!("spare {} starts afresh", generation + 1));
        Ok(())
    }
}

/// By how much the inputs of an instance come late.
pub fn late(chance: &mut Chance) -> Vec<u64> {
    let each = LATE.iter();
    each.map(|(.., [low, high])| chance.between(*low, *high))
        .collect()
}

/// Waits until something is so, or the time is over; returns whether it is.
pub fn wait(bound: Duration, mut is_reached: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + bound;
    while !is_reached() {
        if Instant::now() > until {
            return false;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    true
}
