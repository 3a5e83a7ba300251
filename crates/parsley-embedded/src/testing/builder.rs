//! How a test driver is set up.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use parsley_stage::{App, TaskConfig};

use super::driver::TestDriver;
use super::error::DriverError;
use crate::{Backoff, Host, Ids, LogConfig, TimeSource};

/// Sets up a [`TestDriver`]: [`TestDriver::builder`] begins, [`TestDriverBuilder::build`] ends.
///
/// ```
#[doc = include_str!("shop.txt")]
/// let driver = TestDriver::builder()
///     .partitions(3)
///     .topic("owed", 1)
///     .start_ms(1_700_000_000_000)
///     .build(&app)?;
/// assert!(driver.tasks()?.into_iter().eq([("settle", 0), ("settle", 1), ("settle", 2)]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a driver exists once it is built"]
pub struct TestDriverBuilder {
    pub(super) partitions: i32,
    pub(super) partitions_of: BTreeMap<String, i32>,
    pub(super) start_ms: i64,
    pub(super) seed: u64,
    pub(super) steps_max: usize,
    pub(super) max_step_deliveries: usize,
}

impl Default for TestDriverBuilder {
    fn default() -> Self {
        Self {
            partitions: 1,
            partitions_of: BTreeMap::new(),
            start_ms: 0,
            seed: 0,
            steps_max: 10_000,
            max_step_deliveries: TaskConfig::MAX_STEP_DELIVERIES,
        }
    }
}

impl TestDriverBuilder {
    /// Sets how many partitions each topic has that is not named: 1 to [`PARTITIONS_MAX`](crate::PARTITIONS_MAX). Default 1.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::builder().partitions(2).build(&app)?;
    /// assert_eq!(driver.tasks()?.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn partitions(mut self, partitions: i32) -> Self {
        self.partitions = partitions;
        self
    }

    /// Sets how many partitions one topic has: 1 to [`PARTITIONS_MAX`](crate::PARTITIONS_MAX). The inputs of a stage need the same number. A
    /// topic that no stage declares is created as well, for plain clients of the test.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::builder().topic("owed", 4).topic("mail", 1).build(&app)?;
    /// assert_eq!(driver.tasks()?.len(), 1);
    /// assert!(driver.host().log().topic_id("mail").is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn topic(mut self, name: impl Into<String>, partitions: i32) -> Self {
        self.partitions_of.insert(name.into(), partitions);
        self
    }

    /// Sets where the driver's clock begins, in milliseconds since the Unix epoch. Default 0.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::builder().start_ms(5_000).build(&app)?;
    /// assert_eq!(driver.now_ms(), 5_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_ms(mut self, start_ms: i64) -> Self {
        self.start_ms = start_ms;
        self
    }

    /// Sets from which number the identities of topics are made. Default 0. Records that do not depend on each other are delivered in an order
    /// that goes by identities (`docs/protocol.md`, Order); on a cluster those are random. What an application promises holds for every seed.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// for seed in 0..8 {
    ///     let mut driver = TestDriver::builder().seed(seed).build(&app)?;
    ///     let order = driver.input(&orders).send("ann", 5_u64)?;
    ///     driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    ///     driver.run()?;
    ///     driver.output(&owed).assert_read([("ann".into(), 0)]);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many steps a [run](TestDriver::run) takes before it gives up with [`DriverError::NotIdle`]. Default 10,000.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::builder().steps_max(0).build(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// assert!(driver.run().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn steps_max(mut self, steps: usize) -> Self {
        self.steps_max = steps;
        self
    }

    /// Sets after how many deliveries a step ends, at least 1. Default 1,000.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::builder().max_step_deliveries(1).build(&app)?;
    /// for amount in [3_u64, 4] {
    ///     driver.input(&orders).send("ann", amount)?;
    /// }
    /// assert_eq!(driver.step("settle", 0)?.delivered.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_step_deliveries(mut self, deliveries: usize) -> Self {
        self.max_step_deliveries = deliveries;
        self
    }

    /// Makes the driver: creates the topics, takes the application's tasks, and opens each.
    ///
    /// # Errors
    ///
    /// When a number is out of range, the inputs of a stage have different numbers of partitions, or a task cannot be opened.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let refused = TestDriver::builder().topic("orders", 2).build(&app);
    /// assert!(refused.unwrap_err().to_string().contains("co-partition"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build(self, app: &App) -> Result<TestDriver, DriverError> {
        let clock = Arc::new(AtomicI64::new(self.start_ms));
        let time = TimeSource::from_fn({
            let clock = Arc::clone(&clock);
            move || clock.load(Ordering::SeqCst)
        });
        let config = LogConfig::default()
            .ids(Ids::Seeded(self.seed))
            .time(time.clone());
        let host = Host::builder()
            .log_config(config)
            .time(time)
            .backoff(Backoff::NONE)
            .max_step_deliveries(self.max_step_deliveries)
            .build()?;
        for (topic, partitions) in &self.partitions_of {
            host.create_topic(topic, *partitions)?;
        }
        let mut driver = TestDriver::over(host, clock, self.partitions, self.steps_max);
        driver.redeploy(app)?;
        Ok(driver)
    }
}
