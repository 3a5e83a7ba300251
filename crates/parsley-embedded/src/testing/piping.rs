//! Records in and out, through the codecs of their topics.

use std::collections::VecDeque;

use bytes::Bytes;
use parsley_core::{Clock, Header, Record, wire};
use parsley_stage::{Message, Part, Topic};

use super::driver::TestDriver;
use super::error::DriverError;
use crate::{Appended, Consumer, Host, NewRecord};

/// A record being put together, from [`TestDriver::input`]. [`Input::send`] appends it.
#[must_use = "a record is appended once it is sent"]
pub struct Input<'a, K, V> {
    host: &'a Host,
    topic: &'a Topic<K, V>,
    record: NewRecord,
    claims: Option<Clock>,
}

impl<'a, K, V> Input<'a, K, V> {
    pub(super) fn new(host: &'a Host, topic: &'a Topic<K, V>) -> Self {
        Self {
            host,
            topic,
            record: NewRecord::to(topic.name()),
            claims: None,
        }
    }

    /// Sets the timestamp, in milliseconds since the Unix epoch, instead of the driver's clock.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).timestamp_ms(99).send("ann", 5_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.deliveries()[0].record.timestamp_ms, 99);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.record = self.record.timestamp_ms(timestamp_ms);
        self
    }

    /// Names the partition, instead of having the key choose it.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::builder().partitions(3).build(&app)?;
    /// let appended = driver.input(&orders).partition(2).send("ann", 5_u64)?;
    /// assert_eq!(appended.channel.partition, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn partition(mut self, partition: i32) -> Self {
        self.record = self.record.partition(partition);
        self
    }

    /// Adds a header. Names may repeat. Names of the protocol are taken as they are, so that a test can send what a broken client would.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&orders).header("vc", "no clock").send("ann", 5_u64)?;
    /// let error = driver.run().unwrap_err();
    /// let refusal = error.task_end().and_then(|end| end.refusal()).expect("a guard refuses it");
    /// assert_eq!(refusal.code.to_string(), "vc-corrupt-clock");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn header(mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) -> Self {
        self.record = self.record.header(name, value);
        self
    }

    /// Adds headers as they are, such as those that an edge client has stamped.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use parsley_core::{Clock, Header, wire};
    ///
    /// let driver = TestDriver::new(&app)?;
    /// let stamp = Header::new(wire::CLOCK_HEADER, wire::encode(&Clock::new()));
    /// driver.input(&orders).headers([stamp]).send("ann", 5_u64)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn headers(mut self, headers: impl IntoIterator<Item = Header>) -> Self {
        self.record = self.record.headers(headers);
        self
    }

    /// Has the record's clock claim these records: it is delivered behind them, wherever both are consumed.
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
    pub fn caused_by(mut self, causes: impl IntoIterator<Item = Appended>) -> Self {
        let claims = self.claims.get_or_insert_default();
        for cause in causes {
            claims.claim_offset(cause.channel, cause.offset);
        }
        self
    }

    /// Has the record carry a clock, merged with what [`Input::caused_by`] claims. That of an edge client is
    /// [`CausalClock::claims`](parsley_stage::CausalClock::claims).
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// use parsley_core::Clock;
    ///
    /// let mut driver = TestDriver::new(&app)?;
    /// let mut clock = Clock::new();
    /// let orders_id = driver.host().log().topic_id("orders").expect("the driver created it");
    /// clock.claim_offset(orders_id.partition(0), 0);
    /// driver.input(&payments).clock(&clock).send("ann", 0_u64)?;
    /// assert_eq!(driver.run()?, 0, "it waits for an order that is not there");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: &Clock) -> Self {
        self.claims.get_or_insert_default().merge(clock);
        self
    }

    /// Appends the record, committed at once, and returns where it stands.
    ///
    /// # Errors
    ///
    /// When key or value does not encode, or there is no such topic or partition.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let driver = TestDriver::new(&app)?;
    /// assert_eq!(driver.input(&orders).send("ann", 5_u64)?.offset, 0);
    /// assert_eq!(driver.input(&orders).send("ann", 6_u64)?.offset, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn send(self, key: impl Into<K>, value: impl Into<V>) -> Result<Appended, DriverError> {
        let Self {
            host,
            topic,
            mut record,
            claims,
        } = self;
        let unencodable = |part| {
            move |error| DriverError::Encode {
                topic: topic.name().to_owned(),
                part,
                error,
            }
        };
        let key = topic.key().encode(&key.into());
        let value = topic.value().encode(&value.into());
        if let Some(key) = key.map_err(unencodable(Part::Key))? {
            record = record.key(key);
        }
        if let Some(value) = value.map_err(unencodable(Part::Value))? {
            record = record.value(value);
        }
        if let Some(claims) = claims {
            record = record.header(wire::CLOCK_HEADER, wire::encode(&claims));
        }
        Ok(host.producer().send(record)?)
    }
}

/// What is left of a topic to read.
#[derive(Debug)]
pub(super) struct Reader {
    consumer: Consumer,
    unread: VecDeque<Record>,
}

/// What a topic has that was not read before, from [`TestDriver::output`]. Records are read partition by partition, those of each in offset order.
pub struct Output<'a, K, V> {
    pub(super) driver: &'a mut TestDriver,
    pub(super) topic: &'a Topic<K, V>,
}

impl<'a, K, V> Output<'a, K, V> {
    pub(super) fn new(driver: &'a mut TestDriver, topic: &'a Topic<K, V>) -> Self {
        Self { driver, topic }
    }

    /// The next message.
    ///
    /// # Errors
    ///
    /// [`DriverError::NothingToRead`] when there is none, [`DriverError::Decode`] when it does not decode, and when there is no such topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 0_u64)?;
    /// driver.run()?;
    /// let message = driver.output(&owed).read()?;
    /// assert_eq!((message.key.as_str(), message.value, message.offset), ("ann", 0, 0));
    /// assert!(driver.output(&owed).read().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read(self) -> Result<Message<K, V>, DriverError> {
        let topic = self.topic;
        let unread = &mut self.reader()?.unread;
        let first = unread.front().ok_or_else(|| DriverError::NothingToRead {
            topic: topic.name().to_owned(),
        })?;
        let message = decoded(topic, first)?;
        unread.pop_front();
        Ok(message)
    }

    /// All messages.
    ///
    /// # Errors
    ///
    /// When one does not decode, and then none counts as read; when there is no such topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 0_u64)?;
    /// driver.input(&payments).send("bob", 0_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.output(&owed).read_all()?.len(), 2);
    /// assert_eq!(driver.output(&owed).read_all()?.len(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_all(self) -> Result<Vec<Message<K, V>>, DriverError> {
        let topic = self.topic;
        let unread = &mut self.reader()?.unread;
        let messages: Vec<_> = unread
            .iter()
            .map(|record| decoded(topic, record))
            .collect::<Result<_, _>>()?;
        unread.clear();
        Ok(messages)
    }

    /// Keys and values of all messages.
    ///
    /// # Errors
    ///
    /// As [`Output::read_all`].
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 0_u64)?;
    /// driver.run()?;
    /// assert_eq!(driver.output(&owed).read_pairs()?, [("ann".to_owned(), 0)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_pairs(self) -> Result<Vec<(K, V)>, DriverError> {
        let messages = self.read_all()?.into_iter();
        Ok(messages
            .map(|message| (message.key, message.value))
            .collect())
    }

    /// All records as they stand in the log, those with headers of the protocol and bytes that do not decode included.
    ///
    /// # Errors
    ///
    /// When there is no such topic.
    ///
    /// ```
    #[doc = include_str!("shop.txt")]
    /// let mut driver = TestDriver::new(&app)?;
    /// driver.input(&payments).send("ann", 0_u64)?;
    /// driver.run()?;
    /// let record = &driver.output(&owed).read_raw()?[0];
    /// assert!(record.headers.iter().any(|header| &*header.name == b"vc"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn read_raw(self) -> Result<Vec<Record>, DriverError> {
        Ok(self.reader()?.unread.drain(..).collect())
    }

    /// The topic's reader, at its end. A topic that was deleted and created anew is read from its start.
    fn reader(self) -> Result<&'a mut Reader, DriverError> {
        let (driver, name) = (self.driver, self.topic.name());
        let is_current =
            |reader: &Reader| driver.host.log().topic_id(name) == Some(reader.consumer.topic_id());
        if !driver.readers.get(name).is_some_and(is_current) {
            let reader = Reader {
                consumer: driver.host.consumer(name)?,
                unread: VecDeque::new(),
            };
            driver.readers.insert(name.to_owned(), reader);
        }
        let reader = driver
            .readers
            .get_mut(name)
            .expect("it was there or has just been inserted");
        reader.unread.extend(reader.consumer.read_to_end()?);
        Ok(reader)
    }
}

fn decoded<K, V>(topic: &Topic<K, V>, record: &Record) -> Result<Message<K, V>, DriverError> {
    let undecodable = |part| {
        move |error| DriverError::Decode {
            topic: topic.name().to_owned(),
            partition: record.channel.partition,
            offset: record.offset,
            part,
            error,
        }
    };
    let key = topic.key().decode(record.key.as_ref());
    let value = topic.value().decode(record.value.as_ref());
    let headers = record.headers.iter();
    Ok(Message {
        key: key.map_err(undecodable(Part::Key))?,
        value: value.map_err(undecodable(Part::Value))?,
        timestamp_ms: record.timestamp_ms,
        headers: headers
            .filter(|header| !wire::is_reserved(&header.name))
            .cloned()
            .collect(),
        topic: topic.name().into(),
        partition: record.channel.partition,
        offset: record.offset,
    })
}
