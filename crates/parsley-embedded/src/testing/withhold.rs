//! Causes that come late when the test says so, and what waits for them.

use std::collections::BTreeMap;

use parsley_core::Offset;
use parsley_stage::Topic;
use parsley_stage::report::Holds;

use super::driver::TestDriver;
use super::error::DriverError;
use crate::{Appended, Reads};

/// What the tasks of a stage do not get of a topic.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    all: bool,
    /// By partition, from where on.
    from: BTreeMap<i32, Offset>,
}

impl TestDriver {
    /// From here on the tasks of a stage do not get what they have not read of a topic, as if it were late, until it is
    /// [released](TestDriver::release). What depends on it has to wait.
    ///
    /// # Errors
    ///
    /// When the stage does not consume the topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.withhold("settle", &orders)?;
    /// let order = driver.input(&orders).send("ann", 5_u64)?;
    /// driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    /// driver.run()?;
    /// driver.output(&owed).assert_empty();
    ///
    /// driver.release("settle", &orders)?;
    /// driver.run()?;
    /// driver.output(&owed).assert_read([("ann".into(), 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withhold<K, V>(&mut self, stage: &str, topic: &Topic<K, V>) -> Result<(), DriverError> {
        self.withheld_of(stage, topic.name())?.all = true;
        Ok(())
    }

    /// The same for one partition, from a record on: that one and all behind it.
    ///
    /// # Errors
    ///
    /// When the stage does not consume the record's topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 1_u64)?;
    /// let second = driver.input(&orders).send("ann", 2_u64)?;
    /// driver.withhold_from("settle", second)?;
    /// driver.run()?;
    /// assert_eq!(driver.delivered_to("settle"), [("orders", 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn withhold_from(&mut self, stage: &str, record: Appended) -> Result<(), DriverError> {
        let topic = record.channel.topic;
        let topics = self.host.log().topics();
        let name = topics.into_iter().find(|(_, id)| *id == topic);
        let (name, _) = name.ok_or(DriverError::UnknownTopic { topic })?;
        let from = &mut self.withheld_of(stage, &name)?.from;
        let at = from
            .entry(record.channel.partition)
            .or_insert(record.offset);
        *at = record.offset.min(*at);
        Ok(())
    }

    /// Lets the tasks of a stage have what was withheld of a topic.
    ///
    /// # Errors
    ///
    /// When the stage does not consume the topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.withhold("settle", &orders)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// assert_eq!(driver.run()?, 0);
    /// driver.release("settle", &orders)?;
    /// assert_eq!(driver.run()?, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn release<K, V>(&mut self, stage: &str, topic: &Topic<K, V>) -> Result<(), DriverError> {
        *self.withheld_of(stage, topic.name())? = Withheld::default();
        Ok(())
    }

    /// What the open tasks hold, what that waits for, and which record is missing in the end: one entry for each channel that holds anything. An
    /// entry prints as a sentence that names topics, offsets and the reason.
    ///
    /// # Errors
    ///
    /// When no application is deployed.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.withhold("settle", &orders)?;
    /// let order = driver.input(&orders).send("ann", 5_u64)?;
    /// driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    /// driver.run()?;
    ///
    /// let hold = &driver.holds()?.holds[0];
    /// assert_eq!((&*hold.stage, &*hold.place.topic, hold.offset), ("settle", "payments", 0));
    /// assert!(hold.to_string().starts_with("payments:0@0 waits for orders:0 up to 0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn holds(&self) -> Result<Holds, DriverError> {
        let stepper = &self.deployed()?.stepper;
        // A task that is not open holds what is in its committed state, which nobody looks at.
        let held = |(stage, partition)| stepper.holds(stage, partition).ok();
        let holds = stepper.tasks().filter_map(held).flatten().collect();
        Ok(Holds { holds })
    }

    fn withheld_of(&mut self, stage: &str, topic: &str) -> Result<&mut Withheld, DriverError> {
        let declared = self.deployed()?.app.stage(stage);
        let declared = declared.ok_or_else(|| DriverError::NoStage {
            stage: stage.to_owned(),
        })?;
        if !declared.inputs().any(|input| input == topic) {
            return Err(DriverError::NoInput {
                stage: stage.to_owned(),
                topic: topic.to_owned(),
            });
        }
        let key = (stage.to_owned(), topic.to_owned());
        Ok(self.withheld.entry(key).or_default())
    }

    /// The reads of a task's step, without what is withheld of the inputs that its stage has now.
    pub(super) fn without_withheld(&self, stage: &str, partition: i32, reads: Reads) -> Reads {
        let declared = self
            .deployed
            .as_ref()
            .and_then(|deployed| deployed.app.stage(stage));
        let inputs = declared.into_iter().flat_map(|stage| stage.inputs());
        inputs.fold(reads, |reads, topic| {
            let withheld = self.withheld.get(&(stage.to_owned(), topic.to_owned()));
            let (Some(limit), Some(withheld)) = (reads.of(topic), withheld) else {
                return reads;
            };
            if withheld.all {
                return reads.without(topic);
            }
            let from = withheld.from.get(&partition).copied();
            match from.into_iter().chain(limit.until).min() {
                Some(until) => reads.until(topic, until),
                None => reads,
            }
        })
    }
}
