//! A run from its beginning to its verdict.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};
use kafka_cluster::{ClusterConfig, KafkaCluster};
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use serde_json::{Value, json};

use crate::Trouble;
use crate::act::{Act, Field, late, wait};
use crate::chance::Chance;
use crate::clients::Clients;
use crate::collector::Collector;
use crate::feeder::{Load, feed};
use crate::instances::{COUNT, Instances};
use crate::journal::Journal;
use crate::judge::{Court, Verdict};
use crate::schedule::Lane;
use crate::topology::{
    ACCOUNT, PARTITIONS, SPARE_ACCOUNT, SPARE_PARTITIONS, SPARE_TOPICS, STAGES, TOPICS,
};

/// Streams of the seed besides those of the lanes.
const STARTS: u64 = 100;
const FEEDER: u64 = 101;

/// How long the application may take to start, and in the end to drain.
const START_BOUND: Duration = Duration::from_secs(120);
const DRAIN_BOUND: Duration = Duration::from_secs(300);

/// How long nothing of a row happens between two acts.
const PAUSE: Duration = Duration::from_secs(2);

/// What disturbs a run.
#[derive(Clone, Debug)]
pub enum Disturbance {
    /// All lanes, for so long.
    Drawn(Duration),
    /// These acts: each row one after the other, all rows at the same time.
    Rows(Vec<Vec<Act>>),
}

/// A run to be made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What everything is drawn from.
    pub seed: u64,
    /// What is written.
    pub commands: u64,
    /// In which time.
    pub feed_over: Duration,
    /// What disturbs it.
    pub disturbance: Disturbance,
    /// Heap of each broker, in MiB.
    pub heap_mb: u32,
    /// This crate's program.
    pub program: PathBuf,
    /// The program `parsley`.
    pub parsley: PathBuf,
    /// Where the evidence goes.
    pub folder: PathBuf,
    /// Whether only what is wrong is printed meanwhile.
    pub is_quiet: bool,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The figures, as JSON.
    pub figures: Value,
    /// Faults by kind.
    pub faults: BTreeMap<&'static str, u64>,
    /// The judges' verdict.
    pub verdict: Verdict,
    /// All else that is wrong: refusals that nothing justifies, ends of instances, panics, what did not drain.
    pub wrongs: Vec<String>,
}

impl Outcome {
    /// Whether nothing is wrong.
    pub fn is_right(&self) -> bool {
        self.wrongs.is_empty() && self.verdict.is_right()
    }

    /// All that is wrong, in words; some of it where there is much. Empty if nothing is.
    pub fn what_is_wrong(&self) -> Vec<String> {
        let unseen = self.verdict.unseen();
        let all = self.wrongs.iter().chain(&self.verdict.shown).chain(&unseen);
        all.cloned().collect()
    }
}

/// Makes a run and judges it.
///
/// # Errors
///
/// [`Trouble`], when it cannot be made or judged.
pub fn run(plan: &Plan) -> Result<Outcome, Trouble> {
    std::fs::create_dir_all(&plan.folder).map_err(Trouble::io("making the folder"))?;
    let kafka = KafkaCluster::start(&ClusterConfig {
        brokers: 3,
        heap_mb: plan.heap_mb,
        proxied: true,
        properties: properties(),
        ..ClusterConfig::default()
    })?;
    let journal = Journal::begin(&plan.folder.join("journal.jsonl"), plan.is_quiet)?;
    let journal = Arc::new(journal);
    let collector = Collector::default();
    let figures = disturb(plan, &kafka, &journal, &collector)?;
    // The judges need the memory and the processors that brokers take.
    drop(kafka);
    conclude(plan, &journal, collector, figures)
}

/// What two of three brokers have is safe, whichever is killed.
fn properties() -> BTreeMap<String, String> {
    let properties = [
        ("transaction.state.log.min.isr", "2"),
        ("min.insync.replicas", "2"),
        // A broker that is killed is found out soon.
        ("broker.session.timeout.ms", "4000"),
        ("broker.heartbeat.interval.ms", "1000"),
        ("replica.lag.time.max.ms", "5000"),
    ];
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    properties.into_iter().map(owned).collect()
}

/// What is known when the brokers are gone.
struct Figures {
    version: String,
    disturbed: Duration,
    starts: u64,
    joins: u64,
    written: u64,
    held_at_end: u64,
}

fn disturb(
    plan: &Plan,
    kafka: &KafkaCluster,
    journal: &Arc<Journal>,
    collector: &Collector,
) -> Result<Figures, Trouble> {
    let proxy = kafka.proxy().ok_or(Trouble::Late("the proxy"))?;
    let clients = Clients::new(&kafka.direct_bootstrap())?;
    clients.create(&TOPICS, PARTITIONS)?;
    clients.create(&[ACCOUNT], PARTITIONS)?;
    clients.create(&SPARE_TOPICS, SPARE_PARTITIONS)?;
    clients.create(&[SPARE_ACCOUNT], SPARE_PARTITIONS)?;
    let brokers = kafka.bootstrap();
    let (program, folder) = (plan.program.clone(), plan.folder.clone());
    let instances = Instances::new(program, brokers, folder, Arc::clone(journal));
    let joins = proxy.rule(Requests::of(ApiKey::JOIN_GROUP), Action::Watch);
    let field = Field {
        kafka,
        proxy,
        clients: &clients,
        instances: &instances,
        collector,
        journal,
    };
    let mut starts = Chance::of_stream(plan.seed, STARTS);
    instances.run_spare(Some(0));
    for number in 0..COUNT {
        instances.start(number, &late(&mut starts))?;
    }
    let stop = Stops::default();
    let written = AtomicU64::new(0);
    let (folder, direct) = (plan.folder.join("evidence"), kafka.direct_bootstrap());
    let load = Load {
        commands: plan.commands,
        over: plan.feed_over,
    };
    let (disturbed, held_at_end) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| collector.collect(&direct, &folder, &stop.reader));
        let spare = scope.spawn(|| feed_spare(&direct, &stop.spare));
        // Whatever ends this, the threads end as well.
        let _stops = StopAll(&stop);
        if !wait(START_BOUND, || runs(&instances)) {
            journal.wrong("the application did not start");
        }
        let began = journal.elapsed();
        let feeder = scope.spawn(|| {
            let mut chance = Chance::of_stream(plan.seed, FEEDER);
            feed(&direct, load, &mut chance, &written, &stop.feeder)
        });
        disturb_all(plan, &field, &stop, &mut starts)?;
        let disturbed = journal.elapsed().saturating_sub(began);
        journal.note("nothing disturbs any more");
        wait(DRAIN_BOUND, || feeder.is_finished());
        stop.feeder.store(true, Ordering::Relaxed);
        ended(feeder)?;
        stop.spare.store(true, Ordering::Relaxed);
        ended(spare)?;
        let is_drained = || {
            let is_empty = instances.stand().iter().all(|one| one.held == 0);
            is_empty && runs(&instances) && collector.with(|history| history.is_drained())
        };
        // Twice: the end of a transaction shows a moment after its commit is answered.
        let settled = || wait(DRAIN_BOUND, || is_drained() || reader.is_finished());
        if !settled()
            || !{
                std::thread::sleep(Duration::from_secs(3));
                settled()
            }
        {
            let left = collector.with(|history| {
                format!(
                    "{} of {} deliveries, {} of {} effects",
                    history.delivered(),
                    history.due(),
                    history.effects(),
                    history.effects_due()
                )
            });
            journal.wrong(format!(
                "it did not drain within {DRAIN_BOUND:?}: {left}; the instances stand {:?}",
                instances.stand()
            ));
        }
        let held = instances.stand().iter().map(|one| one.held).sum();
        for number in 0..COUNT {
            instances.end(number)?;
        }
        // What they committed as they ended.
        std::thread::sleep(Duration::from_secs(3));
        stop.reader.store(true, Ordering::Relaxed);
        ended(reader)?;
        Ok::<_, Trouble>((disturbed, held))
    })?;
    for fault in proxy.faults() {
        journal.wrong(format!("the proxy was sent what is no request: {fault:?}"));
    }
    Ok(Figures {
        version: kafka.version().to_owned(),
        disturbed,
        starts: instances.starts(),
        joins: joins.answered(),
        written: written.load(Ordering::Relaxed),
        held_at_end,
    })
}

/// What asks the threads to end.
#[derive(Default)]
struct Stops {
    reader: AtomicBool,
    feeder: AtomicBool,
    spare: AtomicBool,
    lanes: AtomicBool,
}

struct StopAll<'a>(&'a Stops);

impl Drop for StopAll<'_> {
    fn drop(&mut self) {
        let all = [&self.0.reader, &self.0.feeder, &self.0.spare, &self.0.lanes];
        for stop in all {
            stop.store(true, Ordering::Relaxed);
        }
    }
}

/// Whether every task of the application runs somewhere.
fn runs(instances: &Instances) -> bool {
    let stand = instances.stand();
    let sum =
        |count: fn(&crate::instances::Stands) -> usize| stand.iter().map(count).sum::<usize>();
    sum(|one| one.running) == STAGES.len() * PARTITIONS as usize && sum(|one| one.opening) == 0
}

/// What a thread ended with.
fn ended<T>(thread: ScopedJoinHandle<'_, Result<T, Trouble>>) -> Result<T, Trouble> {
    match thread.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn disturb_all(
    plan: &Plan,
    field: &Field<'_>,
    stop: &Stops,
    starts: &mut Chance,
) -> Result<(), Trouble> {
    let (time, rows) = match &plan.disturbance {
        Disturbance::Drawn(time) => (Some(*time), &[][..]),
        Disturbance::Rows(rows) => (None, &rows[..]),
    };
    std::thread::scope(|scope| {
        let _stops = StopLanes(stop);
        let chance = |stream| Chance::of_stream(plan.seed, stream);
        let mut lanes: Vec<_> = (0..)
            .zip(rows)
            .map(|(stream, row)| scope.spawn(move || go_through(row, field, stop, chance(stream))))
            .collect();
        if time.is_some() {
            let drawn = (0..).zip(Lane::ALL);
            lanes.extend(drawn.map(|(stream, lane)| {
                scope.spawn(move || disturb_one(lane, field, stop, chance(stream)))
            }));
        }
        let until = time.map(|time| field.journal.elapsed() + time);
        loop {
            let ended = lanes.iter().filter(|lane| lane.is_finished()).count();
            let is_over = match until {
                // One that ends has failed.
                Some(until) => field.journal.elapsed() >= until || ended > 0,
                None => ended == lanes.len(),
            };
            if is_over {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
            field.instances.look(&late(starts))?;
        }
        stop.lanes.store(true, Ordering::Relaxed);
        lanes.into_iter().try_for_each(ended)
    })
}

/// A row of acts, with a pause behind each.
fn go_through(
    row: &[Act],
    field: &Field<'_>,
    stop: &Stops,
    mut chance: Chance,
) -> Result<(), Trouble> {
    for act in row {
        field.perform(*act, &mut chance)?;
        wait(PAUSE, || stop.lanes.load(Ordering::Relaxed));
    }
    Ok(())
}

struct StopLanes<'a>(&'a Stops);

impl Drop for StopLanes<'_> {
    fn drop(&mut self) {
        self.0.lanes.store(true, Ordering::Relaxed);
    }
}

/// One lane, until it is asked to stop. It ends behind an act, when what that disturbed is as it was.
fn disturb_one(
    lane: Lane,
    field: &Field<'_>,
    stop: &Stops,
    mut chance: Chance,
) -> Result<(), Trouble> {
    loop {
        let pause = lane.pause(&mut chance);
        wait(pause, || stop.lanes.load(Ordering::Relaxed));
        if stop.lanes.load(Ordering::Relaxed) {
            return Ok(());
        }
        field.perform(lane.act(&mut chance), &mut chance)?;
    }
}

/// Writes to the spare application now and then, whether or not its topic is there.
fn feed_spare(brokers: &str, stop: &AtomicBool) -> Result<(), Trouble> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("message.timeout.ms", "5000")
        .set("topic.metadata.refresh.interval.ms", "2000")
        .create()?;
    let mut number = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..3 {
            let (key, value) = (format!("k{}", number % 8), number.to_string());
            // One that is lost is nobody's loss.
            let _ = producer.send(BaseRecord::to(SPARE_TOPICS[0]).key(&key).payload(&value));
            number += 1;
        }
        producer.poll(Duration::from_millis(300));
        std::thread::sleep(Duration::from_millis(300));
    }
    let _ = producer.flush(Duration::from_secs(5));
    Ok(())
}

fn conclude(
    plan: &Plan,
    journal: &Journal,
    collector: Collector,
    figures: Figures,
) -> Result<Outcome, Trouble> {
    let (stall, reopened) = (collector.longest_stall(), collector.reopened());
    let spare_entries = collector.spare_entries();
    let history = collector.into_history();
    let court = Court {
        folder: plan.folder.join("evidence"),
        parsley: plan.parsley.clone(),
    };
    let verdict = court.judge(&history)?;
    let mut refusals: BTreeMap<(String, String), u64> = BTreeMap::new();
    for one in journal.refusals() {
        let by = one.by.unwrap_or("nothing").to_owned();
        *refusals.entry((one.refused.code, by)).or_default() += 1;
    }
    let refusals = refusals
        .into_iter()
        .map(|((code, by), count)| json!({"code": code, "justified_by": by, "count": count}));
    let tampered = verdict
        .tampered
        .iter()
        .map(|(way, check, oracle)| json!({"way": way, "check": check, "oracle": oracle}));
    let faults = journal.faults();
    let wrongs = journal.wrongs();
    let outcome = json!({
        "kafka": figures.version,
        "seed": plan.seed,
        "disturbed_s": figures.disturbed.as_secs(),
        "commands": history.records_of(0),
        "written": figures.written,
        "deliveries": verdict.deliveries,
        "held": history.held(),
        "held_at_end": figures.held_at_end,
        "spare_entries": spare_entries,
        "faults": faults,
        "starts": figures.starts,
        "joins": figures.joins,
        "refusals": refusals.collect::<Vec<_>>(),
        "violations": verdict.violations(),
        "unseen": verdict.unseen(),
        "by_check": verdict.by_check,
        "by_oracle": verdict.by_oracle,
        "by_effects": verdict.by_effects,
        "of_spare": verdict.of_spare,
        "tampered": tampered.collect::<Vec<_>>(),
        "longest_stall_ms": u64::try_from(stall.as_millis()).unwrap_or(u64::MAX),
        "reader_reopened": reopened,
        "wrong": wrongs,
    });
    Ok(Outcome {
        figures: outcome,
        faults,
        verdict,
        wrongs,
    })
}

/// Removes the evidence.
///
/// # Errors
///
/// When it cannot.
pub fn forget(folder: &Path) -> Result<(), Trouble> {
    std::fs::remove_dir_all(folder).map_err(Trouble::io("removing the evidence"))
}
