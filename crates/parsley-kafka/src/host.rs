//! The host: runs the tasks of an application that the cluster gives to this process.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use parsley_stage::App;
use parsley_stage::meter::{self, StageMeter};
use parsley_stage::report::{Holds, Observed, Report};

use crate::board::Board;
use crate::cluster::Cluster;
use crate::config::{ConfigError, KafkaConfig};
use crate::stage::{Adversary, Declared, StageError, StopFlag, audit_declared};
use crate::status::{DeliveryEvent, Status, WorkerState};
use crate::worker::{Ticks, Worker};

/// How often a wait for signals looks whether one has come.
const LOOK: Duration = Duration::from_millis(100);

type Observer = Arc<dyn Fn(&DeliveryEvent) + Send + Sync>;

/// Runs applications on Apache Kafka. Every process that runs one takes a share of its tasks.
#[derive(Clone)]
pub struct KafkaHost {
    config: Arc<KafkaConfig>,
    audit: Option<Arc<str>>,
    adversary: Adversary,
    on_delivery: Option<Observer>,
}

impl fmt::Debug for KafkaHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaHost")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

/// An application cannot be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// What the cluster says of a stage's topics does not fit.
    #[error(transparent)]
    Stage(#[from] StageError),
    /// A delay is set for a topic that the stage does not consume.
    #[error("a delay is set for {topic} at stage {stage}, which does not consume it")]
    Delay {
        /// The stage.
        stage: String,
        /// The topic.
        topic: String,
    },
    /// No client could be made.
    #[error("no client for the cluster: {0}")]
    Client(rdkafka::error::KafkaError),
    /// The system has no thread for a worker.
    #[error("no thread for a worker of stage {stage}: {source}")]
    Thread {
        /// The stage.
        stage: String,
        /// The system's error.
        source: std::io::Error,
    },
}

impl KafkaHost {
    /// A host.
    ///
    /// # Errors
    ///
    /// When the configuration fails its [check](KafkaConfig::check).
    pub fn new(config: KafkaConfig) -> Result<Self, ConfigError> {
        config.check()?;
        Ok(Self {
            config: Arc::new(config),
            audit: None,
            adversary: Adversary::default(),
            on_delivery: None,
        })
    }

    /// Has every task write an account of what it was handed to a topic: each delivery, and each record that had to wait. It is part of
    /// the step's transaction, so that for who reads what is committed nothing is missing in it and nothing is in it twice, whatever
    /// became of the process (decision E11). Its records are [`AuditRecord`](parsley_stage::AuditRecord)s, in the order of delivery, on the
    /// partition of the task's number.
    ///
    /// The topic has to exist when an application starts, with as many partitions as its widest stage has tasks, and no stage may declare it.
    /// Every process that runs the application has to name it, and nobody else writes to it.
    #[must_use]
    pub fn audit(mut self, topic: impl Into<Arc<str>>) -> Self {
        self.audit = Some(topic.into());
        self
    }

    /// Has a topic reach a stage late, in this process: an adversary, for demonstrations and tests. A record is let in when so much time has
    /// gone by since it was fetched, or when there are 10,000 younger ones, which is what memory keeps of each topic. The stage sees a slow network,
    /// no more: what is kept back counts as not read, so that positions, rebalances and restarts know nothing of it, and a stop does not wait
    /// for it.
    #[must_use]
    pub fn delay(
        mut self,
        stage: impl Into<String>,
        topic: impl Into<String>,
        delay: Duration,
    ) -> Self {
        self.adversary.delay(stage.into(), topic.into(), delay);
        self
    }

    /// Has a topic not reach a stage at all for a time that begins with this call, a year at most: an input that has come to a standstill. What
    /// comes of its records elsewhere waits for them at the stage, and is held. Otherwise as [`KafkaHost::delay`].
    #[must_use]
    pub fn withhold(
        mut self,
        stage: impl Into<String>,
        topic: impl Into<String>,
        span: Duration,
    ) -> Self {
        self.adversary.withhold(stage.into(), topic.into(), span);
        self
    }

    /// Sets an observer of deliveries. It is called on a worker's thread after the step's commit, in the order of each task's deliveries, and
    /// the worker waits for it.
    #[must_use]
    pub fn on_delivery(
        mut self,
        observer: impl Fn(&DeliveryEvent) + Send + Sync + 'static,
    ) -> Self {
        self.on_delivery = Some(Arc::new(observer));
        self
    }

    /// Starts an application: each of its stages joins its consumer group, with as many members as there are workers. A cluster that does not
    /// answer is asked again until it does.
    ///
    /// # Errors
    ///
    /// When the cluster answers, and a topic is missing, the inputs of a stage have different numbers of partitions, its tick topic among them, or a changelog topic
    /// or that of the [account](KafkaHost::audit) does not fit. When a delay is set for what is no input. When the system has no thread.
    pub fn start(&self, app: impl Borrow<App>) -> Result<KafkaRunning, StartError> {
        let app = app.borrow();
        if let Some(error) = audit_declared(app, self.audit.as_deref()) {
            return Err(error.into());
        }
        if let Some((stage, topic)) = self.adversary.stray(app) {
            return Err(StartError::Delay {
                stage: stage.to_owned(),
                topic: topic.to_owned(),
            });
        }
        let cluster = Cluster::new(&self.config).map_err(StartError::Client)?;
        let mut stages = Vec::new();
        for stage in app.stages() {
            let declared = Declared::new(
                Arc::clone(&self.config),
                &self.adversary,
                self.audit.clone(),
                app,
                stage,
            );
            let resolved = match declared.resolve(&cluster) {
                Ok(resolved) => Some(Arc::new(resolved)),
                Err(error) if error.may_pass() => None,
                Err(error) => return Err(error.into()),
            };
            stages.push((declared, resolved));
        }
        let numbers: Vec<(Arc<str>, usize)> = stages
            .iter()
            .flat_map(|(declared, _)| {
                std::iter::repeat_n(Arc::clone(&declared.stage_name), self.config.workers)
            })
            .enumerate()
            .map(|(number, stage)| (stage, number))
            .collect();
        let running = KafkaRunning {
            board: Arc::new(Board::new(numbers, self.on_delivery.clone())),
            stop: StopFlag::default(),
            stop_timeout: self.config.stop_timeout,
            threads: Mutex::default(),
            application: app.name().to_owned(),
        };
        meter::describe();
        let (application, workers) = (app.name(), self.config.workers * stages.len());
        tracing::info!(application, workers, "an application starts");
        let mut number = 0;
        for (declared, resolved) in &stages {
            for _ in 0..self.config.workers {
                let worker = Worker {
                    declared: declared.clone(),
                    number,
                    stop: running.stop.clone(),
                    board: Arc::clone(&running.board),
                    resolved: resolved.clone(),
                    refused: BTreeMap::new(),
                    failing: Default::default(),
                    unmarked: Vec::new(),
                    meter: StageMeter::register(&app.name().into(), &declared.stage_name),
                    watches: BTreeMap::new(),
                    ticks: Ticks::new(declared.stage.tick_interval()),
                };
                // Should one not start, dropping `running` stops those that did.
                let thread = std::thread::Builder::new()
                    .name(format!("{}-{number}", declared.group))
                    .spawn(move || worker.run())
                    .map_err(|source| StartError::Thread {
                        stage: declared.stage_name.to_string(),
                        source,
                    })?;
                running
                    .threads
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(thread);
                number += 1;
            }
        }
        Ok(running)
    }
}

/// An application that runs in this process. Dropping it stops it.
#[must_use = "dropping it stops the application"]
pub struct KafkaRunning {
    board: Arc<Board>,
    stop: StopFlag,
    stop_timeout: Duration,
    threads: Mutex<Vec<JoinHandle<()>>>,
    application: String,
}

impl fmt::Debug for KafkaRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaRunning")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl KafkaRunning {
    /// What each worker is doing.
    pub fn status(&self) -> Status {
        self.board.status()
    }

    /// The same as plain data: this process's share of the application.
    pub fn report(&self) -> Report {
        self.status().report(&self.application)
    }

    /// What the tasks of this process hold, for how long, what it waits for, and which record is missing in the end; as of a look at most
    /// half a second ago, or longer while a step is under way.
    pub fn explain_holds(&self) -> Holds {
        self.status().holds()
    }

    /// Waits until the status is as wished, or the time is over. Returns whether it is.
    pub fn wait(&self, bound: Duration, is_reached: impl FnMut(&Status) -> bool) -> bool {
        self.board.wait(bound, is_reached)
    }

    /// Stops the application in this process: each worker commits the step in flight and leaves its group. Returns the last status, after
    /// [`KafkaConfig::stop_timeout`] at the latest, whatever brokers do. A worker that did not end in that time is still running then; the log
    /// says which. Its step is given up when the process ends: it is committed as a whole by then, or never is. It is not waited for again: a
    /// second call, and dropping this, return at once.
    pub fn stop(&self) -> Status {
        self.stop.raise();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let is_over = threads.is_empty() || self.board.wait(self.stop_timeout, Status::is_over);
        for thread in threads.drain(..) {
            if is_over {
                // A panic inside is caught, and shows in the status.
                let _ = thread.join();
            }
        }
        drop(threads);
        let status = self.status();
        if !is_over {
            for left in status.left() {
                let (application, stage) = (&self.application, &left.stage);
                // Why it is tried again may be in words of the logic; the status has them.
                let is_retrying = matches!(left.state, WorkerState::Retrying { .. });
                let tasks: Vec<_> = left
                    .tasks
                    .iter()
                    .map(|(partition, task)| (partition, &task.state))
                    .collect();
                tracing::warn!(
                    application, %stage, worker = left.number, is_retrying, ?tasks,
                    "a worker has not ended in time, and is not waited for"
                );
            }
        }
        status
    }

    /// Waits until the process is asked to end (SIGTERM, SIGINT) or every worker has ended, and stops the application. Returns the last
    /// status. A second signal ends the process at once, as if it had not been asked for.
    ///
    /// # Errors
    ///
    /// When the system does not let signals be waited for.
    pub fn run_until_signalled(&self) -> std::io::Result<Status> {
        let asked = Arc::new(AtomicBool::new(false));
        let mut registered = Vec::new();
        for signal in signal_hook::consts::TERM_SIGNALS {
            // In this order: the first signal only raises the flag that makes the second end the process.
            let end =
                signal_hook::flag::register_conditional_shutdown(*signal, 1, Arc::clone(&asked))?;
            registered.push(end);
            registered.push(signal_hook::flag::register(*signal, Arc::clone(&asked))?);
        }
        while !asked.load(Ordering::SeqCst) && !self.board.wait(LOOK, Status::is_over) {}
        let status = self.stop();
        for registration in registered {
            signal_hook::low_level::unregister(registration);
        }
        Ok(status)
    }
}

impl Observed for KafkaRunning {
    fn report(&self) -> Report {
        Self::report(self)
    }

    fn holds(&self) -> Holds {
        self.explain_holds()
    }
}

impl Drop for KafkaRunning {
    fn drop(&mut self) {
        self.stop();
    }
}
