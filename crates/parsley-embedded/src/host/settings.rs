//! What a host is configured with.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parsley_core::NodeLimits;
use parsley_stage::TaskConfig;

use super::Host;
use super::backoff::Backoff;
use super::delay::Delay;
use super::error::HostError;
use super::events::{DeliveryEvent, HoldEvent};
use crate::log::{Log, LogConfig, RECORD_BYTES_MAX};
use crate::time::TimeSource;

type Observer<E> = Arc<dyn Fn(&E) + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) backoff: Backoff,
    pub(crate) check_every_steps: u64,
    pub(crate) truncation_delay: Duration,
    pub(crate) time: TimeSource,
    pub(crate) hold_warning_after: Duration,
    pub(crate) node: NodeLimits,
    pub(crate) max_rounds: usize,
    pub(crate) max_step_deliveries: usize,
    pub(crate) fetch_records_max: usize,
    pub(crate) fetch_bytes_max: usize,
    /// Delays, by stage and topic.
    pub(crate) delays: BTreeMap<(String, String), Delay>,
    /// The topic of the account of deliveries.
    pub(crate) audit: Option<String>,
    pub(crate) on_delivery: Option<Observer<DeliveryEvent>>,
    pub(crate) on_hold: Option<Observer<HoldEvent>>,
}

/// Configures a host: [`Host::builder`] begins, [`HostBuilder::build`] ends.
///
/// # Observers and logic
///
/// Both run on a task's thread. What waits for tasks must not be called from there about the application that the task belongs to, or the
/// task waits for itself: [`Running::stop`], and dropping the last [`Running`], which stops; [`Running::check_now`];
/// [`Running::explain_holds`]; [`Running::wait`]; [`Running::wait_until_idle`]. [`Running::status`] and the [`Log`] may be used.
///
/// [`Running`]: crate::Running
/// [`Running::stop`]: crate::Running::stop
/// [`Running::check_now`]: crate::Running::check_now
/// [`Running::explain_holds`]: crate::Running::explain_holds
/// [`Running::wait`]: crate::Running::wait
/// [`Running::wait_until_idle`]: crate::Running::wait_until_idle
/// [`Running::status`]: crate::Running::status
///
/// ```
/// use parsley_embedded::{Backoff, Host, Ids, LogConfig};
///
/// let host = Host::builder()
///     .log_config(LogConfig::default().ids(Ids::Seeded(42)))
///     .backoff(Backoff::NONE)
///     .on_delivery(|delivery| println!("{} delivers {}@{}", delivery.stage, delivery.topic, delivery.offset))
///     .build()?;
/// # Ok::<(), parsley_embedded::HostError>(())
/// ```
#[must_use = "a host exists once it is built"]
pub struct HostBuilder {
    config: LogConfig,
    log: Option<Log>,
    data_dir: Option<PathBuf>,
    settings: Settings,
}

impl Default for HostBuilder {
    fn default() -> Self {
        let settings = Settings {
            backoff: Backoff::default(),
            check_every_steps: 1000,
            truncation_delay: Duration::from_secs(3600),
            time: TimeSource::system(),
            hold_warning_after: Duration::from_secs(30),
            node: NodeLimits::default(),
            max_rounds: TaskConfig::MAX_ROUNDS,
            max_step_deliveries: TaskConfig::MAX_STEP_DELIVERIES,
            fetch_records_max: 500,
            fetch_bytes_max: 4 << 20,
            delays: BTreeMap::new(),
            audit: None,
            on_delivery: None,
            on_hold: None,
        };
        Self {
            config: LogConfig::default(),
            log: None,
            data_dir: None,
            settings,
        }
    }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder")
            .field("config", &self.config)
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

impl HostBuilder {
    /// Sets how the log behaves that the host makes. A log given with [`HostBuilder::over`] keeps its own settings.
    pub fn log_config(mut self, config: LogConfig) -> Self {
        self.config = config;
        self
    }

    /// Has the host work over an existing log, and with what applications have committed there, instead of an empty one.
    pub fn over(mut self, log: Log) -> Self {
        self.log = Some(log);
        self
    }

    /// Has the host work over the log in a directory ([`Log::open`]), which is made when there is none.
    pub fn data_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.data_dir = Some(dir.into());
        self
    }

    /// Sets how long a task waits before it tries a failed step again. Default 100 ms, doubling up to 30 s.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Sets after how many steps a task looks at log starts and topic identities although it heard of no deletion, at least 1, and drops
    /// claims from its stamps that nobody can wait for any more. Default 1,000. [`Running::check_now`](crate::Running::check_now) asks for it at once.
    pub fn check_every_steps(mut self, steps: u64) -> Self {
        self.settings.check_every_steps = steps;
        self
    }

    /// Sets how long a deletion has to be known before stamps stop claiming what it deleted (`docs/protocol.md`, Truncation). Default 1
    /// hour. It has to exceed the time that records are held.
    pub fn truncation_delay(mut self, delay: Duration) -> Self {
        self.settings.truncation_delay = delay;
        self
    }

    /// Sets after how long a record that is held is warned of in the log (target `parsley::hold`), once for each record that stands first on
    /// its channel; with its code, the coordinates and the record that is missing, and nothing of what it says. Measured with the host's
    /// [clock](HostBuilder::time), from when this process took the record in. Default 30 s.
    pub fn hold_warning_after(mut self, age: Duration) -> Self {
        self.settings.hold_warning_after = age;
        self
    }

    /// Sets the clock that the truncation delay and the age of what is held are measured with. Default: the system's.
    pub fn time(mut self, time: TimeSource) -> Self {
        self.settings.time = time;
        self
    }

    /// Sets the bounds of each task's ordering state.
    pub fn node_limits(mut self, limits: NodeLimits) -> Self {
        self.settings.node = limits;
        self
    }

    /// Sets after how many rounds of sends a step ends, at least 1. Default 8.
    pub fn max_rounds(mut self, rounds: usize) -> Self {
        self.settings.max_rounds = rounds;
        self
    }

    /// Sets after how many deliveries a step ends, at least 1. Default 1,000.
    pub fn max_step_deliveries(mut self, deliveries: usize) -> Self {
        self.settings.max_step_deliveries = deliveries;
        self
    }

    /// Sets how many records a task fetches from each input for a step, at least 1. Default 500.
    pub fn fetch_records_max(mut self, records: usize) -> Self {
        self.settings.fetch_records_max = records;
        self
    }

    /// Sets how many bytes of keys, values and headers a task fetches from each input for a step, at least 1; a record that is larger is
    /// fetched alone. Default 4 MiB.
    pub fn fetch_bytes_max(mut self, bytes: usize) -> Self {
        self.settings.fetch_bytes_max = bytes;
        self
    }

    /// Has a topic reach a stage late, for demonstrations and tests: a record becomes fetchable for a task of the stage after that many
    /// fetch rounds of the task beyond the one that first saw it.
    ///
    /// This counts rounds and not time. A round in which the task has nothing to do lasts until the log changes, or until no other task
    /// of the application has anything to do either; so the delay is over in the end, whatever its length.
    pub fn delay(mut self, stage: impl Into<String>, topic: impl Into<String>, polls: u64) -> Self {
        self.delay_of(stage, topic).rounds = polls;
        self
    }

    /// Has a topic not reach a stage at all for a time that begins with this call, a year at most: an input that has come to a standstill, for
    /// demonstrations and tests. What comes of its records elsewhere waits for them at the stage, and is held. A wait for idleness waits for the
    /// end of it.
    pub fn withhold(
        mut self,
        stage: impl Into<String>,
        topic: impl Into<String>,
        span: Duration,
    ) -> Self {
        self.delay_of(stage, topic).withhold(span);
        self
    }

    fn delay_of(&mut self, stage: impl Into<String>, topic: impl Into<String>) -> &mut Delay {
        let key = (stage.into(), topic.into());
        self.settings.delays.entry(key).or_default()
    }

    /// Has every task write an account of what it was handed to a topic: each delivery, and each record that had to wait. It is part of
    /// the transaction of the step, so that nothing is missing in it and nothing is in it twice, whatever became of the process
    /// (decision E11). Its records are [`AuditRecord`](parsley_stage::AuditRecord)s, in the order of delivery, on the partition of the
    /// task's number.
    ///
    /// The topic has to exist when an application starts, with as many partitions as its widest stage has tasks, and no stage may declare it.
    /// Nothing is deleted from it but by its own retention.
    ///
    /// ```
    /// use parsley_embedded::{Host, NewRecord};
    /// use parsley_stage::{App, AuditRecord, Stage, Topic, codec};
    ///
    /// let orders = Topic::new("orders", codec::string(), codec::string());
    /// let pack = Stage::stateless("pack").on(&orders, |_order, _out| Ok(())).build()?;
    ///
    /// let host = Host::builder().audit("handed").build()?;
    /// host.create_topic("orders", 1)?;
    /// host.create_topic("handed", 1)?;
    /// let running = host.start(App::named("shop").stage(pack).build()?)?;
    /// host.producer().send(NewRecord::to("orders").key("ann").value("tea"))?;
    /// running.wait_until_idle().reached()?;
    ///
    /// let account = host.consumer("handed")?.read_to_end()?;
    /// let entry = AuditRecord::decode(account[0].value.as_deref())?;
    /// assert_eq!((&*entry.stage, &*entry.topic, entry.offset), ("pack", "orders", 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn audit(mut self, topic: impl Into<String>) -> Self {
        self.settings.audit = Some(topic.into());
        self
    }

    /// Sets an observer of deliveries. It is called on the task's thread after the step's commit, in the order of delivery, and the task
    /// waits for it: [what waits for tasks](HostBuilder#observers-and-logic) must not be called from it.
    pub fn on_delivery(
        mut self,
        observer: impl Fn(&DeliveryEvent) + Send + Sync + 'static,
    ) -> Self {
        self.settings.on_delivery = Some(Arc::new(observer));
        self
    }

    /// Sets an observer of records that cannot be delivered when they are received. It is called on the task's thread after the commit
    /// of the step that received them, and of those that go on with its drain, behind their deliveries. The task waits for it:
    /// [what waits for tasks](HostBuilder#observers-and-logic) must not be called from it.
    pub fn on_hold(mut self, observer: impl Fn(&HoldEvent) + Send + Sync + 'static) -> Self {
        self.settings.on_hold = Some(Arc::new(observer));
        self
    }

    /// Makes the host.
    ///
    /// # Errors
    ///
    /// When a number is 0 that has to be at least 1, the log is to take records larger than [`RECORD_BYTES_MAX`], both a log and a directory
    /// are named, or the directory cannot be opened.
    pub fn build(self) -> Result<Host, HostError> {
        let Self {
            config,
            log,
            data_dir,
            settings,
        } = self;
        let at_least_1 = [
            ("check_every_steps", settings.check_every_steps == 0),
            ("max_rounds", settings.max_rounds == 0),
            ("max_step_deliveries", settings.max_step_deliveries == 0),
            ("fetch_records_max", settings.fetch_records_max == 0),
            ("fetch_bytes_max", settings.fetch_bytes_max == 0),
            ("window_records", settings.node.window_records == 0),
            ("clock_budget_bytes", settings.node.clock_budget_bytes == 0),
            ("record_bytes_max", config.record_bytes_max == 0),
        ];
        if let Some((setting, _)) = at_least_1.into_iter().find(|(_, is_zero)| *is_zero) {
            return Err(HostError::Zero { setting });
        }
        if config.record_bytes_max > RECORD_BYTES_MAX {
            return Err(HostError::TooLarge {
                setting: "record_bytes_max",
                found: config.record_bytes_max,
                max: RECORD_BYTES_MAX,
            });
        }
        let log = match (log, data_dir) {
            (Some(_), Some(_)) => return Err(HostError::TwoLogs),
            (Some(log), None) => log,
            (None, Some(dir)) => Log::open(dir, config)?,
            (None, None) => Log::new(config),
        };
        Ok(Host {
            log,
            settings: Arc::new(settings),
        })
    }
}
