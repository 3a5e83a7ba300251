//! An instance: a process that runs its share of the application and of the spare one, tells what becomes of it, and ends when it is asked to.
//!
//! It prints a line of JSON for each [`Told`], and takes an [`Order`] a line. When its standard input closes, the process that started it has died,
//! and it ends at once.

use std::collections::BTreeSet;
use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use parsley_kafka::{KafkaConfig, KafkaHost, KafkaRunning, Status, WorkerState};
use serde::{Deserialize, Serialize};

use crate::topology;

/// How often it is looked whether something is to be told.
const LOOK: Duration = Duration::from_millis(100);

/// How an instance is started.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Which one it is
    #[arg(long)]
    pub number: usize,
    /// Where to find the cluster
    #[arg(long)]
    pub brokers: String,
    /// Where it keeps its state
    #[arg(long)]
    pub state: PathBuf,
    /// The generation of the spare application to run from the start
    #[arg(long)]
    pub spare: Option<u32>,
    /// By how many milliseconds inputs are let in late, in the order of the table of the topology
    #[arg(long = "late")]
    pub late: Vec<u64>,
}

/// What an instance is ordered to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Stop the spare application, and run this generation of it, or none.
    Spare(Option<u32>),
}

/// Which application something is told of: the spare one's generation, `None` for the other.
pub type Generation = Option<u32>;

/// A refusal as an instance tells it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Refused {
    /// Of which application.
    pub spare: Generation,
    /// The stage.
    pub stage: String,
    /// The stage's partition.
    pub partition: i32,
    /// The guard's code.
    pub code: String,
    /// The channel that it is about.
    pub channel: Option<String>,
    /// In words.
    pub text: String,
}

/// A worker that has not ended in time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Of which application.
    pub spare: Generation,
    /// Its stage.
    pub stage: String,
    /// Its number.
    pub worker: usize,
    /// How it stands, in words: what it does, and the state and steps of each of its tasks.
    pub stands: String,
}

/// What an instance tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The application has started.
    Started,
    /// The spare one has started, or could not.
    Spare {
        /// Its generation.
        generation: u32,
        /// Why it could not.
        error: Option<String>,
    },
    /// How it stands, several times a second when it has changed.
    Stands {
        /// Tasks that run.
        running: usize,
        /// Tasks that do not run yet.
        opening: usize,
        /// Records that wait for others.
        held: u64,
        /// What it has of the spare application: its generation, and its tasks that run, that do not run yet, and that have refused themselves.
        spare: Option<(u32, [usize; 3])>,
    },
    /// A guard has stopped a task.
    Refused(Refused),
    /// A worker has ended, or the application did not start.
    Failed {
        /// Of which application.
        spare: Generation,
        /// Why.
        reason: String,
    },
    /// Something has panicked.
    Panicked {
        /// What it said, and where.
        message: String,
    },
    /// A worker did not end in time when its application was stopped.
    Left(Left),
    /// It has been asked to end, and has.
    Ended {
        /// Whether each worker ended in time.
        in_time: bool,
    },
}

fn tell(told: &Told) {
    let line = serde_json::to_string(told).expect("text, numbers and arrays of them are JSON");
    let mut out = io::stdout().lock();
    // Nobody is there to be told when this fails, and the orders end as well then.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Tells which workers have not ended. Returns whether each has.
fn tell_left(spare: Generation, status: &Status) -> bool {
    for worker in status.left() {
        let tasks = worker.tasks.iter();
        let tasks = tasks.map(|(partition, task)| {
            let (state, steps) = (&task.state, task.steps);
            format!("; task {partition} {state:?} after {steps} steps")
        });
        tell(&Told::Left(Left {
            spare,
            stage: worker.stage.to_string(),
            worker: worker.number,
            stands: format!("{:?}{}", worker.state, tasks.collect::<String>()),
        }));
    }
    status.is_over()
}

/// The spare application, while there is one.
type Spare = Arc<Mutex<Option<SpareRun>>>;

struct SpareRun {
    generation: u32,
    /// Which start of it this was, from 0.
    start: u64,
    running: KafkaRunning,
}

fn locked(spare: &Spare) -> MutexGuard<'_, Option<SpareRun>> {
    spare.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The host's settings: everything that depends on time happens soon.
fn config(arguments: &Arguments) -> KafkaConfig {
    let mut config = KafkaConfig::new(arguments.brokers.as_str(), arguments.state.join("app"))
        .commit_interval(Duration::from_millis(200))
        .transaction_timeout(Duration::from_secs(10))
        .property("client.id", format!("instance-{}", arguments.number))
        .property("session.timeout.ms", SESSION.as_millis().to_string())
        .property("heartbeat.interval.ms", "1500")
        .property("reconnect.backoff.max.ms", "1000")
        .property("topic.metadata.refresh.interval.ms", "5000");
    config.check_interval = Duration::from_secs(2);
    config.sweep_interval = Duration::from_secs(5);
    config.truncation_delay = Duration::from_secs(60);
    config.backoff_longest = Duration::from_secs(2);
    config.stop_timeout = Duration::from_secs(40);
    config.changelog.replication = Some(3);
    config.changelog.min_insync_replicas = Some(2);
    config
}

/// After how long without a sign of life the group goes on without an instance.
pub const SESSION: Duration = Duration::from_millis(6000);

/// Runs an instance until it is asked to end.
pub fn run(arguments: &Arguments) -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(io::stderr)
        .with_ansi(false)
        .init();
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.to_string();
        eprintln!("{message}");
        tell(&Told::Panicked { message });
    }));
    match start(arguments).and_then(|app| serve(arguments, app).map_err(|error| error.to_string()))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(3),
        Err(reason) => {
            tell(&Told::Failed {
                spare: None,
                reason,
            });
            ExitCode::from(4)
        }
    }
}

fn start(arguments: &Arguments) -> Result<Arc<KafkaRunning>, String> {
    let mut host = KafkaHost::new(config(arguments))
        .map_err(|error| error.to_string())?
        .audit(topology::ACCOUNT);
    for ((stage, topic, _), late) in topology::LATE.iter().zip(&arguments.late) {
        host = host.delay(*stage, *topic, Duration::from_millis(*late));
    }
    let app = topology::app().map_err(|error| error.to_string())?;
    let running = host.start(app).map_err(|error| error.to_string())?;
    tell(&Told::Started);
    Ok(Arc::new(running))
}

/// Whether all workers ended as they should.
fn serve(arguments: &Arguments, app: Arc<KafkaRunning>) -> io::Result<bool> {
    let spare = Spare::default();
    let ordered = arguments
        .spare
        .map(|generation| Order::Spare(Some(generation)));
    std::thread::spawn({
        let (spare, arguments) = (Arc::clone(&spare), arguments.clone());
        move || {
            take_orders(&spare, &arguments, ordered);
            // Whoever gave them is gone.
            std::process::exit(5);
        }
    });
    std::thread::spawn({
        let (spare, app) = (Arc::clone(&spare), Arc::clone(&app));
        move || look(&spare, &app)
    });
    let status = app.run_until_signalled()?;
    let mut in_time = tell_left(None, &status);
    // One that is slow is given up, and told of; one that failed is no end in order.
    let has_failed = |state: &WorkerState| matches!(state, WorkerState::Failed { .. });
    let is_well = !status
        .workers
        .iter()
        .any(|worker| has_failed(&worker.state));
    if let Some(spare) = locked(&spare).take() {
        in_time &= tell_left(Some(spare.generation), &spare.running.stop());
    }
    tell(&Told::Ended { in_time });
    Ok(is_well)
}

fn take_orders(spare: &Spare, arguments: &Arguments, first: Option<Order>) {
    let lines = io::stdin().lock().lines().map_while(Result::ok);
    let orders = lines.filter_map(|line| serde_json::from_str::<Order>(&line).ok());
    for (start, Order::Spare(generation)) in (0..).zip(first.into_iter().chain(orders)) {
        // It is told of no more while it stops.
        if let Some(run) = { locked(spare).take() } {
            tell_left(Some(run.generation), &run.running.stop());
        }
        let Some(generation) = generation else {
            continue;
        };
        let started = start_spare(arguments, generation);
        let error = started.as_ref().err().cloned();
        *locked(spare) = started.ok().map(|running| SpareRun {
            generation,
            start,
            running,
        });
        tell(&Told::Spare { generation, error });
    }
}

fn start_spare(arguments: &Arguments, generation: u32) -> Result<KafkaRunning, String> {
    let mut config = config(arguments);
    config.state_dir = arguments.state.join("spare");
    let host = KafkaHost::new(config).map_err(|error| error.to_string())?;
    let late = Duration::from_millis(topology::SPARE_LATE_MS);
    let app = topology::spare(generation).map_err(|error| error.to_string())?;
    host.audit(topology::SPARE_ACCOUNT)
        .delay(topology::meet(generation), topology::SPARE_TOPICS[0], late)
        .start(app)
        .map_err(|error| error.to_string())
}

/// Tells what is new.
fn look(spare: &Spare, app: &KafkaRunning) {
    let mut known = BTreeSet::new();
    let mut stood = None;
    loop {
        // Signals are waited for when it is told for the first time.
        std::thread::sleep(LOOK);
        let status = app.status();
        let spare_status = locked(spare)
            .as_ref()
            .map(|run| (run.generation, run.start, run.running.status()));
        tell_troubles(None, 0, &status, &mut known);
        if let Some((generation, start, status)) = &spare_status {
            tell_troubles(Some(*generation), *start, status, &mut known);
        }
        let [running, opening, _] = tasks(&status);
        let stands = Told::Stands {
            running,
            opening,
            held: status.tasks().map(|(.., task)| task.held).sum(),
            spare: spare_status.map(|(generation, _, status)| (generation, tasks(&status))),
        };
        if stood.as_ref() != Some(&stands) {
            tell(&stands);
            stood = Some(stands);
        }
    }
}

/// How many tasks run, do not run yet, have refused themselves.
fn tasks(status: &Status) -> [usize; 3] {
    use parsley_kafka::TaskState::{Assigned, Refused, Restoring, Running};
    let mut counts = [0; 3];
    for (.., task) in status.tasks() {
        let kind = match task.state {
            Running => 0,
            Assigned | Restoring { .. } => 1,
            Refused(_) => 2,
            _ => 1,
        };
        counts[kind] += 1;
    }
    counts
}

/// Tells each trouble of a start once.
fn tell_troubles(spare: Generation, start: u64, status: &Status, known: &mut BTreeSet<String>) {
    let mut tell_once = |told: Told| {
        if known.insert(format!("{start} {told:?}")) {
            tell(&told);
        }
    };
    for (stage, partition, refusal) in status.refused() {
        tell_once(Told::Refused(Refused {
            spare,
            stage: stage.to_owned(),
            partition,
            code: refusal.code.to_string(),
            channel: refusal.channel.map(|channel| channel.to_string()),
            text: refusal.to_string(),
        }));
    }
    for worker in &status.workers {
        if let WorkerState::Failed { message } = &worker.state {
            let reason = format!("stage {}: {message}", worker.stage);
            tell_once(Told::Failed { spare, reason });
        }
    }
}
