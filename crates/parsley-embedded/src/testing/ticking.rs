//! Ticks: due by the driver's clock, emitted with the next step.

use std::time::Duration;

use parsley_core::StateStore;
use parsley_stage::{Codec, TickSchedule, fold};

use super::driver::{Deployed, TestDriver};
use super::error::DriverError;
use crate::ReadError;

impl TestDriver {
    /// The committed state of a task's ticks, with the codec that it was declared with; `None` where none is stored, and logic would be given the
    /// default.
    ///
    /// # Errors
    ///
    /// When there is no such stage, or its ticks keep no state with this codec.
    ///
    /// ```
    /// use std::time::Duration;
    /// use parsley_embedded::testing::TestDriver;
    /// use parsley_stage::{App, Stage, Topic, codec};
    ///
    /// let orders = Topic::new("orders", codec::string(), codec::u64());
    /// let clock = Stage::stateless("clock")
    ///     .on(&orders, |_order, _out| Ok(()))
    ///     .ticks(Duration::from_secs(60), codec::u64(), |minutes, _tick, _out| { *minutes += 1; Ok(()) })
    ///     .build()?;
    /// let mut driver = TestDriver::new(&App::named("shop").stage(clock).build()?)?;
    /// assert_eq!(driver.tick_state("clock", 0, &codec::u64())?, None);
    /// driver.advance(Duration::from_secs(60));
    /// driver.run()?;
    /// assert_eq!(driver.tick_state("clock", 0, &codec::u64())?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tick_state<T>(
        &self,
        stage: &str,
        partition: i32,
        state: &Codec<T>,
    ) -> Result<Option<T>, DriverError> {
        let app = &self.deployed()?.app;
        let named = || stage.to_owned();
        let declared = app
            .stage(stage)
            .ok_or_else(|| DriverError::NoStage { stage: named() })?;
        if !declared.keeps_ticks(state) {
            return Err(DriverError::NoStates { stage: named() });
        }
        let group = app.consumer_group(declared);
        let Some(store) = self.host.log().fold_state(&group, partition)? else {
            return Ok(None);
        };
        let stored = store.get(&[fold::TICK_STATE_KEY]);
        let stored = stored.map_err(|error| DriverError::Read(ReadError::from(error)))?;
        let Some(stored) = stored else {
            return Ok(None);
        };
        let decoded = state.decode(Some(&stored));
        decoded.map(Some).map_err(|error| DriverError::State {
            stage: named(),
            partition,
            what: "tick state",
            error,
        })
    }

    /// Has a ticking task emit a tick with its next step, if one is due.
    pub(super) fn make_tick_due(&mut self, stage: &str, partition: i32) -> Result<(), DriverError> {
        let now = self.since_start();
        let schedule = self.schedules.get(&(stage.to_owned(), partition));
        if !schedule.is_some_and(|schedule| schedule.is_due(now)) {
            return Ok(());
        }
        let now_ms = self.now_ms();
        self.drive(stage, partition, |stepper| {
            stepper.tick(stage, partition, now_ms)
        })
    }

    /// Takes note that a step was committed, and with it the tick that was due.
    pub(super) fn ticked(&mut self, stage: &str, partition: i32) {
        let now = self.since_start();
        if let Some(schedule) = self.schedules.get_mut(&(stage.to_owned(), partition)) {
            schedule.ticked(now);
        }
    }

    /// Begins a task's schedule, unless it has one: a task whose step failed goes on with it.
    pub(super) fn begin_schedule(&mut self, stage: &str, partition: i32) {
        let interval = self.deployed.as_ref().and_then(|Deployed { app, .. }| {
            let declared = app.stage(stage)?;
            declared.tick_interval()
        });
        if let Some(interval) = interval {
            let now = self.since_start();
            self.schedules
                .entry((stage.to_owned(), partition))
                .or_insert_with(|| TickSchedule::starting_at(now, interval));
        }
    }

    /// The time on a clock that does not go back.
    fn since_start(&self) -> Duration {
        let since = self.now_ms().saturating_sub(self.start_ms);
        Duration::from_millis(u64::try_from(since).unwrap_or(0))
    }
}
