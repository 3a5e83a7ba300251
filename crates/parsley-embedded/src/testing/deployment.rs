//! Tasks that end and open again, under the same declaration or another.

use parsley_stage::{App, Stage};

use super::driver::{Deployed, TestDriver, of_task};
use super::error::DriverError;
use crate::{Opening, Reads, StepReport};

impl TestDriver {
    /// Ends a task's execution between two steps, as a crash would. It is not open until it is [restarted](TestDriver::restart).
    ///
    /// # Errors
    ///
    /// When there is no such task.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.crash("settle", 0)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// assert_eq!(driver.run()?, 0, "nobody is there");
    /// driver.restart("settle", 0)?;
    /// assert_eq!(driver.run()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn crash(&mut self, stage: &str, partition: i32) -> Result<(), DriverError> {
        self.schedules.remove(&(stage.to_owned(), partition));
        self.drive(stage, partition, |stepper| stepper.crash(stage, partition))
    }

    /// Has a task take a step and ends its execution in the middle: behind that many deliveries, or all that are possible, and before the
    /// commit. Returns what the step had done. Nothing of it is kept: not the state, not the positions, and what it had sent
    /// is an aborted run of which readers see nothing. The task is not open until it is [restarted](TestDriver::restart).
    ///
    /// # Errors
    ///
    /// When the execution ends before that by itself.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// let order = driver.input(&orders).send("ann", 5_u64)?;
    /// driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    /// let lost = driver.crash_in_step("settle", 0, 2)?;
    /// assert_eq!((lost.delivered.len(), lost.appended.len()), (2, 1));
    ///
    /// driver.restart("settle", 0)?;
    /// driver.output(&owed).assert_empty();
    /// driver.run()?;
    /// driver.output(&owed).assert_read([("ann".into(), 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn crash_in_step(
        &mut self,
        stage: &str,
        partition: i32,
        deliveries: usize,
    ) -> Result<StepReport, DriverError> {
        let reads = self.without_withheld(stage, partition, Reads::everything());
        self.make_tick_due(stage, partition)?;
        self.schedules.remove(&(stage.to_owned(), partition));
        self.drive(stage, partition, |stepper| {
            stepper.crash_in_step(stage, partition, &reads, deliveries)
        })
    }

    /// Opens a task from what it has committed. One that is open is crashed first. Behind a crash its ticks are counted anew; behind a failure
    /// they are due as they were.
    ///
    /// # Errors
    ///
    /// When a guard refuses, or there is no such task.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// let opening = driver.restart("settle", 0)?;
    /// assert_eq!(opening.held, 0);
    /// assert_eq!(driver.run()?, 0, "what was committed does not come again");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn restart(&mut self, stage: &str, partition: i32) -> Result<Opening, DriverError> {
        if self.is_open(stage, partition)? {
            self.crash(stage, partition)?;
        }
        let opening = self.drive(stage, partition, |stepper| stepper.open(stage, partition))?;
        self.begin_schedule(stage, partition);
        Ok(opening)
    }

    /// Whether a task is open.
    ///
    /// # Errors
    ///
    /// When there is no such task.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// assert!(driver.is_open("settle", 0)?);
    /// driver.crash("settle", 0)?;
    /// assert!(!driver.is_open("settle", 0)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_open(&self, stage: &str, partition: i32) -> Result<bool, DriverError> {
        let open = self.deployed()?.stepper.is_open(stage, partition);
        open.map_err(|error| of_task(stage, partition, error))
    }

    /// Stops all tasks and opens those of another declaration on what is committed (`docs/protocol.md`, Scope changes). Topics that do not
    /// exist yet are created; what was withheld stays so for inputs that are still declared.
    ///
    /// # Errors
    ///
    /// When the application does not fit the topics; nothing is deployed then. When a task cannot be opened: the others are open, and the
    /// first error is returned. Deploying the former declaration again is possible in each case.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    ///
    /// let count = Stage::stateful("settle", codec::string(), codec::u64())
    ///     .sink(&owed)
    ///     .on(&payments, { let owed = owed.clone(); move |open, payment, out| {
    ///         *open = open.saturating_sub(payment.value);
    ///         out.send(&owed, &payment.key, open)
    ///     }})
    ///     .build()?;
    /// driver.redeploy(&App::named("shop").stage(count).build()?)?;
    /// driver.input(&payments).send("ann", 9_u64)?;
    /// driver.run()?;
    /// driver.output(&owed).assert_read([("ann".into(), 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn redeploy(&mut self, app: &App) -> Result<(), DriverError> {
        // The former one's groups have to be free.
        self.deployed = None;
        self.create_topics(app)?;
        let mut stepper = self.host.step_by_step(app)?;
        let tasks: Vec<(String, i32)> = stepper
            .tasks()
            .map(|(stage, partition)| (stage.to_owned(), partition))
            .collect();
        let mut opened = Ok(());
        for (stage, partition) in &tasks {
            if let Err(error) = stepper.open(stage, *partition) {
                opened = opened.and(Err(of_task(stage, *partition, error)));
            }
        }
        self.deployed = Some(Deployed {
            app: app.clone(),
            stepper,
        });
        self.schedules.clear();
        for (stage, partition) in &tasks {
            self.begin_schedule(stage, *partition);
        }
        opened
    }

    /// Creates the topics that do not exist, those of ticks with as many partitions as the widest other input of their stage.
    fn create_topics(&self, app: &App) -> Result<(), DriverError> {
        let log = self.host.log();
        let ticks: Vec<&str> = app.stages().iter().filter_map(Stage::tick_topic).collect();
        let others = app
            .topics()
            .into_iter()
            .filter(|topic| !ticks.contains(topic));
        for topic in others.filter(|topic| log.topic_id(topic).is_none()) {
            self.host.create_topic(topic, self.partitions)?;
        }
        for stage in app.stages() {
            let Some(ticks) = stage
                .tick_topic()
                .filter(|name| log.topic_id(name).is_none())
            else {
                continue;
            };
            let width = |topic: &str| log.partition_count(log.topic_id(topic)?);
            let widest = stage.inputs().filter_map(width).max();
            self.host
                .create_topic(ticks, widest.unwrap_or(self.partitions))?;
        }
        Ok(())
    }
}
