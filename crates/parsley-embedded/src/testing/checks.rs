//! What a test expects: these panic where it is not so, at the line of the test.

use std::fmt::Debug;

use parsley_core::{Channel, Offset};
use parsley_stage::Topic;

use super::driver::TestDriver;
use super::error::DriverError;
use super::piping::Output;

impl<K: PartialEq + Debug, V: PartialEq + Debug> Output<'_, K, V> {
    /// Reads all messages and expects these keys and values, in this order.
    ///
    /// # Panics
    ///
    /// When they are others, or cannot be read.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 0_u64)?;
    /// driver.run()?;
    /// driver.output(&owed).assert_read([("ann".into(), 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_read(self, expected: impl IntoIterator<Item = (K, V)>) {
        let topic = self.topic.name().to_owned();
        let expected: Vec<(K, V)> = expected.into_iter().collect();
        let found = self.read_pairs().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            found == expected,
            "topic {topic} has {found:?} to read, and not {expected:?}"
        );
    }
}

impl<K, V> Output<'_, K, V> {
    /// Expects that there is nothing to read.
    ///
    /// # Panics
    ///
    /// When there is, or the topic cannot be read.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// driver.output(&owed).assert_empty();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_empty(self) {
        let topic = self.topic.name().to_owned();
        let found = self.read_raw().unwrap_or_else(|error| panic!("{error}"));
        assert!(
            found.is_empty(),
            "topic {topic} has {} records to read, the first at {}",
            found.len(),
            found
                .first()
                .map_or_else(String::new, |record| place(record.channel, record.offset))
        );
    }
}

impl TestDriver {
    /// Runs until idle.
    ///
    /// # Panics
    ///
    /// When a run fails.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.assert_runs();
    /// assert_eq!(driver.deliveries().len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_runs(&mut self) {
        self.run().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Expects that a stage holds a record of a topic back, for one of another topic.
    ///
    /// # Panics
    ///
    /// When none of its tasks does. What they hold is in the message.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.withhold("settle", &orders)?;
    /// let order = driver.input(&orders).send("ann", 5_u64)?;
    /// driver.input(&payments).caused_by([order]).send("ann", 5_u64)?;
    /// driver.run()?;
    /// driver.assert_waits("settle", &payments, &orders);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_waits<K, V, L, W>(&self, stage: &str, effect: &Topic<K, V>, cause: &Topic<L, W>) {
        let holds = self.holds().unwrap_or_else(|error| panic!("{error}"));
        let of_stage = holds.holds.iter().filter(|hold| hold.stage == stage);
        let holds: Vec<_> = of_stage.collect();
        let waits = holds.iter().any(|hold| {
            let for_cause = |name: &str| name == cause.name();
            hold.place.topic == effect.name()
                && hold.waits.iter().any(|wait| for_cause(&wait.place.topic))
        });
        let held: Vec<String> = holds.iter().map(ToString::to_string).collect();
        assert!(
            waits,
            "stage {stage} holds nothing of {} for {}; it holds {held:?}",
            effect.name(),
            cause.name()
        );
    }

    /// Expects that no task holds anything.
    ///
    /// # Panics
    ///
    /// When one does. What it holds is in the message.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// driver.assert_nothing_held();
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn assert_nothing_held(&self) {
        let holds = self
            .holds()
            .unwrap_or_else(|error: DriverError| panic!("{error}"));
        let held: Vec<String> = holds
            .holds
            .iter()
            .map(|hold| format!("{}/{}: {hold}", hold.stage, hold.place.partition))
            .collect();
        assert!(held.is_empty(), "held: {held:?}");
    }
}

fn place(channel: Channel, offset: Offset) -> String {
    format!("partition {}, offset {offset}", channel.partition)
}
