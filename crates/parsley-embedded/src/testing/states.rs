//! What a stateful stage has committed.

use bytes::Bytes;
use parsley_core::{MemoryStore, StateStore, StoreError, Visit};
use parsley_stage::codec::DecodeError;
use parsley_stage::{Codec, Part, fold, partition};

use super::error::DriverError;
use crate::ReadError;

/// The committed states of a stage, as they were when [`TestDriver::states`](super::TestDriver::states) was called.
#[derive(Debug)]
pub struct States<K, S> {
    stage: String,
    key: Codec<K>,
    state: Codec<S>,
    /// By partition; `None` where the task has never committed a step.
    stores: Vec<Option<MemoryStore>>,
}

impl<K, S> States<K, S> {
    pub(super) fn new(
        stage: String,
        key: Codec<K>,
        state: Codec<S>,
        stores: Vec<Option<MemoryStore>>,
    ) -> Self {
        Self {
            stage,
            key,
            state,
            stores,
        }
    }

    /// The state of a key, in the partition that the key chooses; `None` where none is stored, and logic would be given the default.
    ///
    /// # Errors
    ///
    /// When the key does not encode, or the stored state does not decode.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::builder().partitions(3).build(&app)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// let open = driver.states("settle", &codec::string(), &codec::u64())?;
    /// assert_eq!(open.get(&"ann".into())?, Some(5));
    /// assert_eq!(open.get(&"bob".into())?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, key: &K) -> Result<Option<S>, DriverError> {
        let key = self.encoded(key)?;
        let partitions = i32::try_from(self.stores.len()).unwrap_or(i32::MAX);
        self.stored(partition::partition_of(key.as_deref(), partitions), &key)
    }

    /// The state of a key in a partition of your choice, for records that were sent to one.
    ///
    /// # Errors
    ///
    /// As [`States::get`].
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::builder().partitions(2).build(&app)?;
    /// for partition in [0, 1] {
    ///     driver.input(&orders).partition(partition).send("ann", 5 + partition as u64)?;
    /// }
    /// driver.run()?;
    /// let open = driver.states("settle", &codec::string(), &codec::u64())?;
    /// assert_eq!(open.get_in(0, &"ann".into())?, Some(5));
    /// assert_eq!(open.get_in(1, &"ann".into())?, Some(6));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get_in(&self, partition: i32, key: &K) -> Result<Option<S>, DriverError> {
        self.stored(partition, &self.encoded(key)?)
    }

    /// All states, by partition and the bytes of the key.
    ///
    /// # Errors
    ///
    /// When a stored key or state does not decode.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).send("bob", 7_u64)?;
    /// driver.input(&orders).send("ann", 5_u64)?;
    /// driver.run()?;
    /// let open = driver.states("settle", &codec::string(), &codec::u64())?;
    /// assert_eq!(open.all()?, [("ann".to_owned(), 5), ("bob".to_owned(), 7)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn all(&self) -> Result<Vec<(K, S)>, DriverError> {
        let mut all = Vec::new();
        for (partition, store) in (0..).zip(&self.stores) {
            let Some(store) = store else { continue };
            let mut stored = Vec::new();
            let scanned = store.scan(b"", b"", &mut |key, state| {
                stored.push((Bytes::copy_from_slice(key), state.clone()));
                Visit::Continue(())
            });
            scanned.map_err(unreadable)?;
            for (stored_key, state) in stored {
                let key = match stored_key.first() {
                    Some(&fold::NULL_KEY) => None,
                    Some(&fold::PRESENT_KEY) => Some(stored_key.slice(1..)),
                    _ => continue,
                };
                let key = self.key.decode(key.as_ref());
                let key = key.map_err(|error| self.undecodable(partition, "key", error))?;
                all.push((key, self.decoded(partition, &state)?));
            }
        }
        Ok(all)
    }

    fn encoded(&self, key: &K) -> Result<Option<Bytes>, DriverError> {
        self.key.encode(key).map_err(|error| DriverError::Encode {
            topic: self.stage.clone(),
            part: Part::Key,
            error,
        })
    }

    fn stored(&self, partition: i32, key: &Option<Bytes>) -> Result<Option<S>, DriverError> {
        let index = usize::try_from(partition).ok();
        let Some(Some(store)) = index.and_then(|index| self.stores.get(index)) else {
            return Ok(None);
        };
        let stored = store.get(&fold::state_key(key.as_deref()));
        let stored = stored.map_err(unreadable)?;
        stored
            .map(|state| self.decoded(partition, &state))
            .transpose()
    }

    fn decoded(&self, partition: i32, state: &Bytes) -> Result<S, DriverError> {
        let decoded = self.state.decode(Some(state));
        decoded.map_err(|error| self.undecodable(partition, "state", error))
    }

    fn undecodable(&self, partition: i32, what: &'static str, error: DecodeError) -> DriverError {
        DriverError::State {
            stage: self.stage.clone(),
            partition,
            what,
            error,
        }
    }
}

fn unreadable(error: StoreError) -> DriverError {
    DriverError::Read(ReadError::from(error))
}
