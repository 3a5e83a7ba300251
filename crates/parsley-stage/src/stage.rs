//! Stages: which topics a piece of logic consumes, which it may emit to, and the logic itself.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parsley_core::Delivery;

use crate::Outcome;
use crate::build_error::{BuildError, Named, Part, check_name};
use crate::codec::{Codec, CodecId, DecodeError, Rewrite};
use crate::failure::{Failure, FailureKind};
use crate::message::Message;
use crate::outbox::Outbox;
use crate::rounds::SendOrder;
use crate::ticks::{self, DeclaredTicks, Tick};
use crate::topic::{DeclaredTopic, Topic};

/// Where a stage begins to read an input on its first start, when neither its group nor its state has a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Initial {
    /// At the earliest record that the log retains.
    #[default]
    Earliest,
    /// At the end: only what is appended from then on.
    Latest,
}

/// A declared stage. Cheap to clone.
///
/// A stage is a consumer group of its own (decision S7); each of its partitions is a [`Task`](crate::Task). Its logic is a function of the
/// delivered message and, on a stateful stage, of the state of the message's key. Handlers are `Fn`, not `FnMut`: what they would change in
/// captured variables could not be rolled back with a step.
///
/// ```
/// use parsley_stage::{Stage, Topic, codec};
///
/// let visits = Topic::new("visits", codec::string(), codec::string());
/// let counts = Topic::new("counts", codec::string(), codec::u64());
/// let count = Stage::stateful("count", codec::string(), codec::u64())
///     .on(&visits, {
///         let counts = counts.clone();
///         move |seen, visit, out| {
///             *seen += 1;
///             out.send(&counts, &visit.key, seen)
///         }
///     })
///     .sink(&counts)
///     .build()?;
/// assert_eq!(count.name(), "count");
/// # Ok::<(), parsley_stage::BuildError>(())
/// ```
#[derive(Clone)]
pub struct Stage(Arc<DeclaredStage>);

#[derive(Clone)]
struct DeclaredStage {
    name: Arc<str>,
    states: Option<StateCodecs>,
    inputs: Vec<Input>,
    sinks: Vec<Arc<DeclaredTopic>>,
    initial: Initial,
    send_order: SendOrder,
    ticks: Option<DeclaredTicks>,
    /// Named after the application: a stage that is part of none has none.
    tick_topic: Option<Arc<DeclaredTopic>>,
}

/// How a stateful stage writes the states that it keeps, and their keys.
#[derive(Clone)]
struct StateCodecs {
    key: CodecId,
    state: CodecId,
    states: Arc<dyn Rewrite>,
}

/// An input of a stage with its logic, types erased.
#[derive(Clone)]
pub(crate) struct Input {
    pub(crate) topic: Arc<DeclaredTopic>,
    pub(crate) logic: Arc<Logic>,
    pub(crate) state: StateSlot,
}

/// Which state an input's logic is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StateSlot {
    /// None.
    None,
    /// That of the record's key.
    Key,
    /// The task's tick state.
    Ticks,
}

/// Decodes a delivery, runs a handler on it, and gives the state that its slot has now (`None`: no state). The state before is that of the
/// slot; logic without one looks at none and gives none.
pub(crate) type Logic = dyn Fn(&mut Delivery, Option<&Bytes>, &mut Outbox) -> Result<Option<Bytes>, Failure>
    + Send
    + Sync;

impl Stage {
    /// Begins a stage whose logic sees a message and nothing else.
    pub fn stateless(name: impl Into<Arc<str>>) -> StageBuilder<Stateless> {
        StageBuilder::new(name.into(), Stateless)
    }

    /// Begins a stage that keeps a state for each key: all inputs have keys of one type, written by one codec.
    ///
    /// A key without a stored state has `S::default()`. The state is found by the bytes of the record's key. It is stored when a delivery
    /// has changed its bytes; a state codec that gives null ([`codec::nullable`](crate::codec::nullable)) removes it.
    pub fn stateful<K: 'static, S: Default + 'static>(
        name: impl Into<Arc<str>>,
        key: Codec<K>,
        state: Codec<S>,
    ) -> StageBuilder<Stateful<K, S>> {
        StageBuilder::new(name.into(), Stateful { key, state })
    }

    /// The stage's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether the stage keeps state by key.
    pub fn is_stateful(&self) -> bool {
        self.0.states.is_some()
    }

    /// Whether the stage keeps states by key with these codecs: what others make of the bytes is not what was stored. Codecs are compared as those of
    /// topics are, by types and names (decision T3).
    ///
    /// ```
    /// use parsley_stage::{Stage, Topic, codec};
    ///
    /// let visits = Topic::new("visits", codec::string(), codec::string());
    /// let count = Stage::stateful("count", codec::string(), codec::u64())
    ///     .on(&visits, |seen, _visit, _out| { *seen += 1; Ok(()) })
    ///     .build()?;
    /// assert!(count.keeps(&codec::string(), &codec::u64()));
    /// assert!(!count.keeps(&codec::string(), &codec::i64()));
    /// # Ok::<(), parsley_stage::BuildError>(())
    /// ```
    pub fn keeps<K, S>(&self, key: &Codec<K>, state: &Codec<S>) -> bool {
        let states = self.0.states.as_ref();
        states.is_some_and(|states| states.key == *key.id() && states.state == *state.id())
    }

    /// The same for the state of ticks: whether the stage has ticks, and keeps their state with this codec.
    ///
    /// ```
    /// use std::time::Duration;
    /// use parsley_stage::{Stage, Topic, codec};
    ///
    /// let visits = Topic::new("visits", codec::string(), codec::string());
    /// let count = Stage::stateless("count")
    ///     .on(&visits, |_visit, _out| Ok(()))
    ///     .ticks(Duration::from_secs(1), codec::u64(), |seconds, _tick, _out| { *seconds += 1; Ok(()) })
    ///     .build()?;
    /// assert!(count.keeps_ticks(&codec::u64()) && !count.keeps_ticks(&codec::i64()));
    /// # Ok::<(), parsley_stage::BuildError>(())
    /// ```
    pub fn keeps_ticks<T>(&self, state: &Codec<T>) -> bool {
        let ticks = self.0.ticks.as_ref();
        ticks.is_some_and(|ticks| ticks.state == *state.id())
    }

    /// The topics that the stage consumes, in the order declared; in an application, the tick topic of a stage with ticks comes last.
    pub fn inputs(&self) -> impl Iterator<Item = &str> {
        self.0.inputs.iter().map(|input| &*input.topic.name)
    }

    /// The topics that the stage may emit to, in the order declared; in an application, the tick topic of a stage with ticks comes last.
    pub fn sinks(&self) -> impl Iterator<Item = &str> {
        self.0.sinks.iter().map(|sink| &*sink.name)
    }

    /// Where the stage begins to read on its first start.
    pub fn initial(&self) -> Initial {
        self.0.initial
    }

    /// Which sends of a step are ordered among each other.
    pub fn send_order(&self) -> SendOrder {
        self.0.send_order
    }

    /// The interval of the stage's ticks, if it declares ticks.
    pub fn tick_interval(&self) -> Option<Duration> {
        self.0.ticks.as_ref().map(|ticks| ticks.every)
    }

    /// The topic of the stage's ticks, `<application>-<stage>-ticks`: an input and a sink. `None` when the stage declares no ticks, and as
    /// long as it is part of no application.
    pub fn tick_topic(&self) -> Option<&str> {
        self.0.tick_topic.as_ref().map(|topic| &*topic.name)
    }

    /// The stage as the stage of an application with this consumer group: with its tick topic, if it declares ticks.
    pub(crate) fn in_group(self, group: &str) -> Self {
        let Some(ticks) = &self.0.ticks else {
            return self;
        };
        let topic = ticks::topic_of(group);
        if self.tick_topic() == Some(&*topic.name) {
            return self;
        }
        let ticks = ticks.clone();
        let mut stage = DeclaredStage::clone(&self.in_no_application().0);
        stage.inputs.push(ticks.input(&topic));
        stage.sinks.push(Arc::clone(&topic));
        stage.tick_topic = Some(topic);
        Self(Arc::new(stage))
    }

    /// The stage as it was declared: without the tick topic that an application has given it.
    pub(crate) fn in_no_application(self) -> Self {
        let Some(topic) = &self.0.tick_topic else {
            return self;
        };
        let mut stage = DeclaredStage::clone(&self.0);
        stage.inputs.retain(|input| input.topic != *topic);
        stage.sinks.retain(|sink| sink != topic);
        stage.tick_topic = None;
        Self(Arc::new(stage))
    }

    pub(crate) fn declared_inputs(&self) -> &[Input] {
        &self.0.inputs
    }

    /// The codec of the states of keys, if there are any.
    pub(crate) fn states(&self) -> Option<&dyn Rewrite> {
        self.0.states.as_ref().map(|codecs| &*codecs.states)
    }

    /// The codec of the tick state, if there is one.
    pub(crate) fn tick_states(&self) -> Option<&dyn Rewrite> {
        self.0.ticks.as_ref().map(|ticks| &*ticks.states)
    }

    pub(crate) fn declared_sinks(&self) -> &[Arc<DeclaredTopic>] {
        &self.0.sinks
    }
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("name", &self.name())
            .field("stateful", &self.is_stateful())
            .field("inputs", &self.inputs().collect::<Vec<_>>())
            .field("sinks", &self.sinks().collect::<Vec<_>>())
            .field("initial", &self.initial())
            .field("send_order", &self.send_order())
            .field("tick_interval", &self.tick_interval())
            .finish()
    }
}

/// A stage being declared: [`Stage::stateless`] and [`Stage::stateful`] begin one, [`StageBuilder::build`] ends it.
#[must_use = "a stage exists once it is built"]
pub struct StageBuilder<F> {
    fold: F,
    name: Arc<str>,
    inputs: Vec<Input>,
    sinks: Vec<Arc<DeclaredTopic>>,
    initial: Initial,
    send_order: SendOrder,
    ticks: Option<DeclaredTicks>,
    declares_ticks_twice: bool,
}

/// Marks a stage without state.
#[derive(Debug)]
pub struct Stateless;

/// Marks a stage with a state of type `S` for each key of type `K`.
#[derive(Debug)]
pub struct Stateful<K, S> {
    key: Codec<K>,
    state: Codec<S>,
}

impl<F> StageBuilder<F> {
    fn new(name: Arc<str>, fold: F) -> Self {
        Self {
            fold,
            name,
            inputs: Vec::new(),
            sinks: Vec::new(),
            initial: Initial::default(),
            send_order: SendOrder::default(),
            ticks: None,
            declares_ticks_twice: false,
        }
    }

    /// Declares a topic that the logic may emit to.
    pub fn sink<K, V>(mut self, topic: &Topic<K, V>) -> Self {
        self.sinks.push(Arc::clone(topic.declared()));
        self
    }

    /// Sets where the stage begins to read on its first start. Default: [`Initial::Earliest`].
    pub fn start_at(mut self, initial: Initial) -> Self {
        self.initial = initial;
        self
    }

    /// Sets which sends of a step are ordered among each other. Default: [`SendOrder::PerKey`].
    pub fn send_order(mut self, order: SendOrder) -> Self {
        self.send_order = order;
        self
    }

    /// Declares ticks: one for each task and interval, as long as the task runs. What was missed, while it did not run or was late, is not
    /// made up for.
    ///
    /// A tick is a record on a topic of the stage's own, `<application>-<stage>-ticks`, which has to exist with exactly as many partitions
    /// as the stage's widest input. The task emits it to its own partition, and the logic runs when it comes back as a delivery: after
    /// everything that the task had been delivered when it emitted it, and before whatever it causes is delivered anywhere. The state is
    /// one for each task, apart from the state of keys, and starts as `T::default()`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use parsley_stage::{App, Stage, Topic, codec};
    ///
    /// let orders = Topic::new("orders", codec::string(), codec::u64());
    /// let reports = Topic::new("reports", codec::i32(), codec::u64());
    /// let report = Stage::stateless("report")
    ///     .on(&orders, |_order, _out| Ok(()))
    ///     .sink(&reports)
    ///     .ticks(Duration::from_secs(60), codec::u64(), move |minutes, tick, out| {
    ///         *minutes += 1;
    ///         out.send(&reports, &tick.partition, minutes)
    ///     })
    ///     .build()?;
    /// let app = App::named("shop").stage(report).build()?;
    /// assert!(app.topics().into_iter().eq(["orders", "reports", "shop-report-ticks"]));
    /// # Ok::<(), parsley_stage::BuildError>(())
    /// ```
    pub fn ticks<T, L>(mut self, every: Duration, state: Codec<T>, logic: L) -> Self
    where
        T: Default + 'static,
        L: Fn(&mut T, Tick, &mut Outbox) -> Outcome + Send + Sync + 'static,
    {
        self.declares_ticks_twice = self.ticks.is_some();
        self.ticks = Some(DeclaredTicks::new(every, state, logic));
        self
    }

    fn input(
        mut self,
        topic: &Arc<DeclaredTopic>,
        state: StateSlot,
        logic: impl Fn(&mut Delivery, Option<&Bytes>, &mut Outbox) -> Result<Option<Bytes>, Failure>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.inputs.push(Input {
            topic: Arc::clone(topic),
            logic: Arc::new(logic),
            state,
        });
        self
    }

    fn declare(self, states: Option<StateCodecs>) -> Result<Stage, BuildError> {
        let Self {
            fold: _,
            name,
            inputs,
            sinks,
            initial,
            send_order,
            ticks,
            declares_ticks_twice,
        } = self;
        check_name(Named::Stage, &name)?;
        let stage = || name.to_string();
        if inputs.is_empty() {
            return Err(BuildError::NoInput { stage: stage() });
        }
        if declares_ticks_twice {
            return Err(BuildError::DuplicateTicks { stage: stage() });
        }
        if ticks.as_ref().is_some_and(|ticks| ticks.every.is_zero()) {
            return Err(BuildError::NoTickInterval { stage: stage() });
        }
        let topics: Vec<&Arc<DeclaredTopic>> = inputs
            .iter()
            .map(|input| &input.topic)
            .chain(&sinks)
            .collect();
        for topic in &topics {
            check_name(Named::Topic, &topic.name)?;
        }
        check_codecs(topics.iter().copied())?;
        let (inputs_of, sinks_of) = topics.split_at(inputs.len());
        if let Some(topic) = repeated(inputs_of) {
            return Err(BuildError::DuplicateInput {
                stage: stage(),
                topic,
            });
        }
        if let Some(topic) = repeated(sinks_of) {
            return Err(BuildError::DuplicateSink {
                stage: stage(),
                topic,
            });
        }
        Ok(Stage(Arc::new(DeclaredStage {
            name,
            states,
            inputs,
            sinks,
            initial,
            send_order,
            ticks,
            tick_topic: None,
        })))
    }
}

impl StageBuilder<Stateless> {
    /// Declares an input and what is done with each of its messages.
    pub fn on<K, V, L>(self, topic: &Topic<K, V>, logic: L) -> Self
    where
        K: 'static,
        V: 'static,
        L: Fn(Message<K, V>, &mut Outbox) -> Outcome + Send + Sync + 'static,
    {
        let codecs = topic.clone();
        let logic = move |delivery: &mut Delivery, _: Option<&Bytes>, out: &mut Outbox| {
            let message = decode(&codecs, delivery)?;
            logic(message, out).map_err(|error| Failure::new(FailureKind::Logic, error))?;
            Ok(None)
        };
        self.input(topic.declared(), StateSlot::None, logic)
    }

    /// Ends the declaration.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first fault found.
    pub fn build(self) -> Result<Stage, BuildError> {
        self.declare(None)
    }
}

impl<K: 'static, S: Default + 'static> StageBuilder<Stateful<K, S>> {
    /// Declares an input and what is done with each of its messages. The state that the logic is given is a copy: when the logic fails,
    /// what it did to it is dropped with the step.
    pub fn on<V, L>(self, topic: &Topic<K, V>, logic: L) -> Self
    where
        V: 'static,
        L: Fn(&mut S, Message<K, V>, &mut Outbox) -> Outcome + Send + Sync + 'static,
    {
        let codecs = topic.clone();
        let states = self.fold.state.clone();
        let logic = move |delivery: &mut Delivery, before: Option<&Bytes>, out: &mut Outbox| {
            let message = decode(&codecs, delivery)?;
            let mut state = match before {
                None => S::default(),
                Some(_) => states
                    .decode(before)
                    .map_err(|error| unreadable(FailureKind::State, "stored state", error))?,
            };
            logic(&mut state, message, out)
                .map_err(|error| Failure::new(FailureKind::Logic, error))?;
            states.encode(&state).map_err(|error| Failure {
                kind: FailureKind::State,
                message: format!("the state does not encode: {error}"),
            })
        };
        self.input(topic.declared(), StateSlot::Key, logic)
    }

    /// Ends the declaration.
    ///
    /// # Errors
    ///
    /// [`BuildError`] with the first fault found.
    pub fn build(self) -> Result<Stage, BuildError> {
        let expected = self.fold.key.id().clone();
        let states = StateCodecs {
            key: expected.clone(),
            state: self.fold.state.id().clone(),
            states: Arc::new(self.fold.state.clone()),
        };
        let stage = self.declare(Some(states))?;
        match stage
            .declared_inputs()
            .iter()
            .find(|input| input.topic.key != expected)
        {
            None => Ok(stage),
            Some(input) => Err(BuildError::KeyCodec {
                stage: stage.name().to_owned(),
                topic: input.topic.name.to_string(),
                expected: expected.to_string(),
                found: input.topic.key.to_string(),
            }),
        }
    }
}

fn decode<K, V>(topic: &Topic<K, V>, delivery: &mut Delivery) -> Result<Message<K, V>, Failure> {
    let decode_failure = |part| move |error| unreadable(FailureKind::Decode, part, error);
    Ok(Message {
        key: topic
            .key()
            .decode(delivery.key.as_ref())
            .map_err(decode_failure("key"))?,
        value: topic
            .value()
            .decode(delivery.value.as_ref())
            .map_err(decode_failure("value"))?,
        timestamp_ms: delivery.timestamp_ms,
        headers: std::mem::take(&mut delivery.headers),
        topic: Arc::clone(&topic.declared().name),
        partition: delivery.channel.partition,
        offset: delivery.offset,
    })
}

pub(crate) fn unreadable(kind: FailureKind, what: &str, error: DecodeError) -> Failure {
    Failure {
        kind,
        message: format!("the {what} does not decode: {error}"),
    }
}

/// Refuses a topic that is declared with two key codecs or two value codecs.
pub(crate) fn check_codecs<'a>(
    topics: impl Iterator<Item = &'a Arc<DeclaredTopic>>,
) -> Result<(), BuildError> {
    let mut declared = std::collections::BTreeMap::new();
    for topic in topics {
        let first: &Arc<DeclaredTopic> = declared.entry(&topic.name).or_insert(topic);
        for (part, first, second) in [
            (Part::Key, &first.key, &topic.key),
            (Part::Value, &first.value, &topic.value),
        ] {
            if first != second {
                return Err(BuildError::TwoCodecs {
                    topic: topic.name.to_string(),
                    part,
                    first: first.to_string(),
                    second: second.to_string(),
                });
            }
        }
    }
    Ok(())
}

fn repeated(topics: &[&Arc<DeclaredTopic>]) -> Option<String> {
    let mut seen = std::collections::BTreeSet::new();
    topics
        .iter()
        .find(|topic| !seen.insert(&topic.name))
        .map(|topic| topic.name.to_string())
}
