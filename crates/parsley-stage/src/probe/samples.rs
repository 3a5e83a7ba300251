//! Samples: records as an application's topics have them.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use parsley_core::{Header, Record};

use super::report::Place;
use crate::topic::{DeclaredTopic, Topic};

/// Samples of topics, in the order in which they were added.
///
/// ```
/// use parsley_stage::probe::Samples;
/// use parsley_stage::{Topic, codec};
///
/// let orders = Topic::new("orders", codec::string(), codec::u64());
/// let notes = Topic::new("notes", codec::string(), codec::string());
/// let samples = Samples::new()
///     .of(&orders, [("ann", 3_u64), ("bob", 0)])
///     .of(&notes, [("ann", "leave it at the door")]);
/// assert_eq!(samples.len(), 3);
/// ```
#[derive(Clone, Default)]
pub struct Samples {
    all: Vec<Sample>,
    story: bool,
}

/// A sample, its types erased.
#[derive(Clone)]
pub(super) struct Sample {
    pub(super) topic: Arc<DeclaredTopic>,
    /// Which one of the topic's samples it is.
    index: usize,
    encode: Arc<Encode>,
}

type Encode = dyn Fn() -> Result<Encoded, String>;

/// A sample's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Encoded {
    pub(super) key: Option<Bytes>,
    pub(super) value: Option<Bytes>,
    pub(super) timestamp_ms: i64,
    pub(super) headers: Vec<Header>,
}

impl Samples {
    /// No samples.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds keys and values of a topic, behind what is there.
    #[must_use]
    pub fn of<K, V, I, J>(
        mut self,
        topic: &Topic<K, V>,
        records: impl IntoIterator<Item = (I, J)>,
    ) -> Self
    where
        K: 'static,
        V: 'static,
        I: Into<K>,
        J: Into<V>,
    {
        for (key, value) in records {
            let (key, value): (K, V) = (key.into(), value.into());
            let codecs = topic.clone();
            let encode = move || {
                let unwritable = |part: &str, error| format!("the {part} does not encode: {error}");
                let encoded_key = codecs.key().encode(&key);
                let encoded_value = codecs.value().encode(&value);
                Ok(Encoded {
                    key: encoded_key.map_err(|error| unwritable("key", error))?,
                    value: encoded_value.map_err(|error| unwritable("value", error))?,
                    timestamp_ms: 0,
                    headers: Vec::new(),
                })
            };
            self.add(topic.declared(), Arc::new(encode));
        }
        self
    }

    /// Adds records of a topic as they stand in a log: bytes that nobody here has written, with their headers and timestamps. Their stamps are
    /// probed as well, and do not order what is delivered here. Channels and offsets are not looked at.
    ///
    /// ```
    /// use parsley_core::TopicId;
    /// use parsley_stage::probe::Samples;
    /// use parsley_stage::{Topic, codec};
    ///
    /// let orders = Topic::new("orders", codec::string(), codec::u64());
    /// let channel = TopicId::of_name("orders").partition(0);
    /// let fetched = orders.record(channel, 17, &"ann".into(), &3)?;
    /// assert_eq!(Samples::new().of_records(&orders, [fetched]).len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn of_records<K, V>(
        mut self,
        topic: &Topic<K, V>,
        records: impl IntoIterator<Item = Record>,
    ) -> Self {
        for record in records {
            let encoded = Encoded {
                key: record.key,
                value: record.value,
                timestamp_ms: record.timestamp_ms,
                headers: record.headers,
            };
            self.add(topic.declared(), Arc::new(move || Ok(encoded.clone())));
        }
        self
    }

    /// Says that the samples are a story, each of them possible behind those before it and nowhere else: they are probed in their order alone,
    /// instead of each one on the default state as well, and behind all of them. For logic that relies on what causal order gives it.
    ///
    /// ```
    /// use parsley_stage::probe::{Samples, probe};
    /// use parsley_stage::{App, Stage, Topic, codec};
    ///
    /// let openings = Topic::new("openings", codec::string(), codec::null());
    /// let deposits = Topic::new("deposits", codec::string(), codec::u64());
    /// let bank = Stage::stateful("bank", codec::string(), codec::nullable(codec::u64()))
    ///     .on(&openings, |balance, _opening, _out| { *balance = Some(0); Ok(()) })
    ///     .on(&deposits, |balance, deposit, _out| {
    ///         *balance.as_mut().ok_or("no such account")? += deposit.value;
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// let app = App::named("bank").stage(bank).build()?;
    /// let samples = Samples::new().of(&openings, [("ann", ())]).of(&deposits, [("ann", 5_u64)]);
    /// assert!(!probe(&app, &samples, || ()).is_clean(), "a deposit alone");
    /// probe(&app, &samples.as_story(), || ()).assert_clean();
    /// # Ok::<(), parsley_stage::BuildError>(())
    /// ```
    #[must_use]
    pub fn as_story(mut self) -> Self {
        self.story = true;
        self
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn all(&self) -> &[Sample] {
        &self.all
    }

    pub(super) fn is_story(&self) -> bool {
        self.story
    }

    pub(super) fn topics(&self) -> BTreeSet<&str> {
        self.all.iter().map(|sample| &*sample.topic.name).collect()
    }

    fn add(&mut self, topic: &Arc<DeclaredTopic>, encode: Arc<Encode>) {
        let of_topic = |sample: &&Sample| sample.topic.name == topic.name;
        let index = self.all.iter().filter(of_topic).count();
        self.all.push(Sample {
            topic: Arc::clone(topic),
            index,
            encode,
        });
    }
}

impl Sample {
    pub(super) fn encode(&self) -> Result<Encoded, String> {
        (self.encode)()
    }

    pub(super) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn place(&self) -> Place {
        Place {
            stage: None,
            topic: Some(self.topic.name.to_string()),
            sample: Some(self.index),
        }
    }
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let topics = self.all.iter().map(|sample| &sample.topic.name);
        f.debug_struct("Samples")
            .field("topics", &topics.collect::<Vec<_>>())
            .field("story", &self.story)
            .finish()
    }
}
