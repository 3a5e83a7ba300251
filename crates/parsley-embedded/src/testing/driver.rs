//! The driver: an application's tasks, over a log in memory, at the word of a test.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use parsley_core::Offset;
use parsley_stage::{App, Codec, Processed, TickSchedule, Topic};

use super::builder::TestDriverBuilder;
use super::error::DriverError;
use super::piping::{Input, Output, Reader};
use super::states::States;
use super::withhold::Withheld;
use crate::{Appended, Host, NewRecord, Reads, StepError, StepReport, Stepper};

/// Runs an application in a test: no threads, no waiting, no clock but the test's own.
///
/// The tasks are the ones that every host runs, over a log in memory; see the [module](super) for what a test does with them. Nothing
/// happens that is not asked for, and two runs of one test are the same, down to the bytes.
///
/// Methods that name a task fail with [`DriverError::Task`] when there is none or it is not open.
///
/// ```
#[doc = include_str!("shop.txt")]
/// let mut driver = TestDriver::new(&app)?;
/// driver.input(&orders).send("ann", 5_u64)?;
/// driver.input(&orders).send("bob", 7_u64)?;
/// driver.run()?;
/// driver.input(&payments).send("ann", 2_u64)?;
/// driver.run()?;
///
/// let message = driver.output(&owed).read()?;
/// assert_eq!((&*message.key, message.value), ("ann", 3));
/// assert_eq!(driver.states("settle", &codec::string(), &codec::u64())?.get(&"bob".into())?, Some(7));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TestDriver {
    pub(super) host: Host,
    clock: Arc<AtomicI64>,
    pub(super) start_ms: i64,
    pub(super) partitions: i32,
    steps_max: usize,
    pub(super) deployed: Option<Deployed>,
    deliveries: Vec<Delivered>,
    /// By stage and topic, what its tasks do not get.
    pub(super) withheld: BTreeMap<(String, String), Withheld>,
    pub(super) readers: BTreeMap<String, Reader>,
    /// When tasks that tick do so next.
    pub(super) schedules: BTreeMap<(String, i32), TickSchedule>,
}

/// An application and its tasks.
pub(super) struct Deployed {
    pub(super) app: App,
    pub(super) stepper: Stepper,
}

/// A delivery whose step was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivered {
    /// The stage.
    pub stage: Arc<str>,
    /// The stage's partition.
    pub partition: i32,
    /// What was delivered.
    pub record: Processed,
}

/// `settle/0: orders:0@3`.
impl fmt::Display for Delivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Processed {
            topic,
            channel,
            offset,
            ..
        } = &self.record;
        let (stage, partition) = (&self.stage, self.partition);
        write!(
            f,
            "{stage}/{partition}: {topic}:{}@{offset}",
            channel.partition
        )
    }
}

impl fmt::Debug for TestDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stepper = self.deployed.as_ref().map(|deployed| &deployed.stepper);
        f.debug_struct("TestDriver")
            .field("now_ms", &self.now_ms())
            .field("stepper", &stepper)
            .field("withheld", &self.withheld)
            .finish_non_exhaustive()
    }
}

impl TestDriver {
    /// A driver with default settings: one partition for each topic, the clock at 0, every task open.
    ///
    /// # Errors
    ///
    /// When a task cannot be opened, which in an empty log means that a name is none for a topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::new(&app)?;
    /// assert_eq!(driver.tasks()?, [("settle", 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(app: &App) -> Result<Self, DriverError> {
        Self::builder().build(app)
    }

    /// Begins a driver with other settings.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::builder().partitions(4).build(&app)?;
    /// assert_eq!(driver.tasks()?.len(), 4);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> TestDriverBuilder {
        TestDriverBuilder::default()
    }

    pub(super) fn over(
        host: Host,
        clock: Arc<AtomicI64>,
        partitions: i32,
        steps_max: usize,
    ) -> Self {
        Self {
            start_ms: clock.load(Ordering::SeqCst),
            host,
            clock,
            partitions,
            steps_max,
            deployed: None,
            deliveries: Vec::new(),
            withheld: BTreeMap::new(),
            readers: BTreeMap::new(),
            schedules: BTreeMap::new(),
        }
    }

    /// The host below, for what the driver has no word for: transactions of plain producers, retention, deletion of topics.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use parsley_embedded::NewRecord;
    ///
    /// let mut driver = TestDriver::new(&app)?;
    /// let mut transaction = driver.host().producer().begin();
    /// transaction.send(NewRecord::to("orders").key("ann").value(5_u64.to_be_bytes().to_vec()))?;
    /// driver.run()?;
    /// assert!(driver.deliveries().is_empty(), "not committed yet");
    /// transaction.commit()?;
    /// driver.run()?;
    /// assert_eq!(driver.deliveries().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// The tasks, open or not: stages in the order declared, partitions in order.
    ///
    /// # Errors
    ///
    /// When no application is deployed.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// assert_eq!(TestDriver::new(&app)?.tasks()?, [("settle", 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tasks(&self) -> Result<Vec<(&str, i32)>, DriverError> {
        Ok(self.deployed()?.stepper.tasks().collect())
    }

    /// A typed record for a topic, as a client outside of the application writes it. Nothing is appended before [`Input::send`].
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::new(&app)?;
    /// let appended = driver.input(&orders).timestamp_ms(17).header("source", "web").send("ann", 5_u64)?;
    /// assert_eq!(appended.offset, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn input<'a, K, V>(&'a self, topic: &'a Topic<K, V>) -> Input<'a, K, V> {
        Input::new(&self.host, topic)
    }

    /// Appends a record as it is: bytes that no codec would write, for instance.
    ///
    /// # Errors
    ///
    /// When there is no such topic or partition.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use parsley_embedded::NewRecord;
    ///
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.send_raw(NewRecord::to("orders").key("ann").value("five"))?;
    /// let error = driver.run().unwrap_err();
    /// assert!(error.to_string().contains("does not decode"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send_raw(&self, record: NewRecord) -> Result<Appended, DriverError> {
        Ok(self.host.producer().send(record)?)
    }

    /// What a topic has that was not read before, through its codecs. Each topic is read from its start, once.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// driver.input(&payments).send("ann", 5_u64)?;
    /// assert!(driver.output(&owed).read_all()?.is_empty(), "nothing was run yet");
    /// driver.run()?;
    /// assert_eq!(driver.output(&owed).read()?.value, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn output<'a, K, V>(&'a mut self, topic: &'a Topic<K, V>) -> Output<'a, K, V> {
        Output::new(self, topic)
    }

    /// Runs the open tasks until none has anything to do, and returns how many records were delivered. Each takes a step in turn, in the
    /// order of [`TestDriver::tasks`], so the output of a stage is the input of the next one; when all rest they are given the high
    /// watermarks that may help them, as on a host.
    ///
    /// # Errors
    ///
    /// [`DriverError::Task`] as soon as an execution ends; what other tasks have committed stays, and a later run goes on without the
    /// task that failed until it is [restarted](TestDriver::restart). [`DriverError::NotIdle`] when it does not come to an end.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// assert_eq!(driver.run()?, 1);
    /// assert_eq!(driver.run()?, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(&mut self) -> Result<usize, DriverError> {
        let before = self.deliveries.len();
        let mut steps = 0;
        let tasks: Vec<(String, i32)> = self
            .tasks()?
            .into_iter()
            .map(|(stage, partition)| (stage.to_owned(), partition))
            .collect();
        loop {
            let mut moved = false;
            for (stage, partition) in &tasks {
                if self.is_open(stage, *partition)? {
                    // A step that only finds a drain at its end has not read on: the next one does.
                    let stepper = &self.deployed()?.stepper;
                    let was_draining = stepper.is_draining(stage, *partition);
                    moved |= was_draining.map_err(|error| of_task(stage, *partition, error))?;
                    let step = self.step(stage, *partition)?;
                    moved |= step.committed || step.is_full;
                    steps += usize::from(step.committed);
                }
            }
            if steps > self.steps_max {
                return Err(DriverError::NotIdle { steps });
            }
            if !moved && !self.give_evidence(&tasks)? {
                return Ok(self.deliveries.len() - before);
            }
        }
    }

    /// Takes one step of a task: reads on, emits a tick if one is due, delivers what can be delivered, commits. What it reads is all that is not
    /// [withheld](TestDriver::withhold).
    ///
    /// # Errors
    ///
    /// When the execution ends.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// let step = driver.step("settle", 0)?;
    /// assert_eq!((step.received.len(), step.delivered.len()), (1, 1));
    /// assert!(!driver.step("settle", 0)?.committed, "there was nothing to do");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step(&mut self, stage: &str, partition: i32) -> Result<StepReport, DriverError> {
        self.step_reading(stage, partition, Reads::everything())
    }

    /// The same, reading no more than `reads` says; what is withheld is left out besides.
    ///
    /// # Errors
    ///
    /// When the execution ends, or a topic is named that the stage does not consume.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use parsley_embedded::Reads;
    ///
    /// let mut driver = TestDriver::new(&app)?;
    /// for amount in [1_u64, 2, 3] {
    ///     driver.input(&orders).send("ann", amount)?;
    /// }
    /// let step = driver.step_reading("settle", 0, Reads::everything().at_most("orders", 2))?;
    /// assert_eq!(step.delivered.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn step_reading(
        &mut self,
        stage: &str,
        partition: i32,
        reads: Reads,
    ) -> Result<StepReport, DriverError> {
        let reads = self.without_withheld(stage, partition, reads);
        self.make_tick_due(stage, partition)?;
        let step = self.drive(stage, partition, |stepper| {
            stepper.step(stage, partition, &reads)
        })?;
        self.ticked(stage, partition);
        let name: Arc<str> = stage.into();
        let delivered = step.delivered.iter().map(|record| Delivered {
            stage: Arc::clone(&name),
            partition,
            record: record.clone(),
        });
        self.deliveries.extend(delivered);
        Ok(step)
    }

    /// The deliveries of all committed steps since the driver was made, in their order.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.deliveries()[0].to_string(), "settle/0: orders:0@0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn deliveries(&self) -> &[Delivered] {
        &self.deliveries
    }

    /// The topics and offsets of what a stage was delivered, of all its partitions, in their order.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// let order = driver.input(&orders).send("ann", 5_u64)?;
    /// driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.delivered_to("settle"), [("orders", 0), ("payments", 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn delivered_to(&self, stage: &str) -> Vec<(&str, Offset)> {
        let of_stage = self
            .deliveries
            .iter()
            .filter(|delivered| &*delivered.stage == stage);
        of_stage
            .map(|delivered| (&*delivered.record.topic, delivered.record.offset))
            .collect()
    }

    /// The committed states of a stage, with the codecs that it was declared with.
    ///
    /// # Errors
    ///
    /// When there is no such stage, or it keeps no state with these codecs.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// let open = driver.states("settle", &codec::string(), &codec::u64())?;
    /// assert_eq!(open.get(&"ann".into())?, Some(5));
    /// assert!(driver.states("settle", &codec::string(), &codec::i64()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn states<K, S>(
        &self,
        stage: &str,
        key: &Codec<K>,
        state: &Codec<S>,
    ) -> Result<States<K, S>, DriverError> {
        let Deployed { app, stepper } = self.deployed()?;
        let named = || stage.to_owned();
        let declared = app
            .stage(stage)
            .ok_or_else(|| DriverError::NoStage { stage: named() })?;
        if !declared.keeps(key, state) {
            return Err(DriverError::NoStates { stage: named() });
        }
        let group = app.consumer_group(declared);
        let mut stores = Vec::new();
        for (_, partition) in stepper.tasks().filter(|(name, _)| *name == stage) {
            stores.push(self.host.log().fold_state(&group, partition)?);
        }
        Ok(States::new(named(), key.clone(), state.clone(), stores))
    }

    /// What the driver's clock says, in milliseconds since the Unix epoch.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// assert_eq!(TestDriver::new(&app)?.now_ms(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn now_ms(&self) -> i64 {
        self.clock.load(Ordering::SeqCst)
    }

    /// Moves the driver's clock, which nothing else does. It gives the timestamps of records that name none, and makes ticks due, which the next
    /// steps emit. A tick is due one interval after its task was opened, and from then on once an interval; intervals that were leapt over come
    /// to one tick, as on a host that was late (`docs/protocol.md`, Tick record).
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use std::time::Duration;
    ///
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.advance(Duration::from_secs(2));
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.deliveries()[0].record.timestamp_ms, 2_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn advance(&mut self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.clock
            .store(self.now_ms().saturating_add(by), Ordering::SeqCst);
    }

    pub(super) fn deployed(&self) -> Result<&Deployed, DriverError> {
        self.deployed.as_ref().ok_or(DriverError::NotDeployed)
    }

    pub(super) fn drive<T>(
        &mut self,
        stage: &str,
        partition: i32,
        call: impl FnOnce(&mut Stepper) -> Result<T, StepError>,
    ) -> Result<T, DriverError> {
        let deployed = self.deployed.as_mut().ok_or(DriverError::NotDeployed)?;
        call(&mut deployed.stepper).map_err(|error| of_task(stage, partition, error))
    }

    /// Hands the open tasks the high watermarks that may help them. Whether there were such.
    fn give_evidence(&mut self, tasks: &[(String, i32)]) -> Result<bool, DriverError> {
        let mut given = false;
        for (stage, partition) in tasks {
            if self.is_open(stage, *partition)? {
                given |= self.drive(stage, *partition, |stepper| {
                    stepper.give_evidence(stage, *partition)
                })?;
            }
        }
        Ok(given)
    }
}

pub(super) fn of_task(stage: &str, partition: i32, error: StepError) -> DriverError {
    DriverError::Task {
        stage: stage.to_owned(),
        partition,
        error,
    }
}
