//! Ticks: what a stage does at intervals rather than for a message (`docs/protocol.md`, Ticks).
//!
//! A tick is a record like any other. The task emits it to its own partition of the stage's tick topic, stamped with all that it was
//! delivered, and it comes back through the decision; the tick logic runs when it is delivered. So what ticks cause is ordered behind
//! their causes at every consumer, and a tick is done again after an aborted step exactly as it was.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parsley_core::{Delivery, Offset};

use crate::Outcome;
use crate::codec::{self, Codec, CodecId, Rewrite};
use crate::failure::{Failure, FailureKind};
use crate::outbox::Outbox;
use crate::stage::{Input, Logic, Stage, StateSlot, unreadable};
use crate::topic::{DeclaredTopic, Topic};

/// What the name of a stage's tick topic ends in, after the stage's consumer group.
pub(crate) const TOPIC_SUFFIX: &str = "-ticks";

/// A tick, as its logic sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tick {
    /// The host's wall clock when the tick was emitted, in milliseconds since the Unix epoch. It may go back from one tick to the next.
    pub timestamp_ms: i64,
    /// The task's partition.
    pub partition: i32,
    /// The tick's offset on the task's partition of the tick topic.
    pub offset: Offset,
}

/// A stage's declaration of ticks.
#[derive(Clone)]
pub(crate) struct DeclaredTicks {
    pub(crate) every: Duration,
    pub(crate) state: CodecId,
    pub(crate) states: Arc<dyn Rewrite>,
    logic: Arc<Logic>,
}

impl DeclaredTicks {
    /// The state of ticks is one slot for each task, with a type and a codec of its own.
    pub(crate) fn new<T, L>(every: Duration, states: Codec<T>, logic: L) -> Self
    where
        T: Default + 'static,
        L: Fn(&mut T, Tick, &mut Outbox) -> Outcome + Send + Sync + 'static,
    {
        let state = states.id().clone();
        let rewritten: Arc<dyn Rewrite> = Arc::new(states.clone());
        let logic = move |delivery: &mut Delivery, before: Option<&Bytes>, out: &mut Outbox| {
            let tick = read(delivery)?;
            let mut state = match before {
                None => T::default(),
                Some(_) => states
                    .decode(before)
                    .map_err(|error| unreadable(FailureKind::State, "stored tick state", error))?,
            };
            logic(&mut state, tick, out)
                .map_err(|error| Failure::new(FailureKind::Logic, error))?;
            states.encode(&state).map_err(|error| Failure {
                kind: FailureKind::State,
                message: format!("the tick state does not encode: {error}"),
            })
        };
        Self {
            every,
            state,
            states: rewritten,
            logic: Arc::new(logic),
        }
    }

    /// The input of this name on which the ticks come back.
    pub(crate) fn input(&self, topic: &Arc<DeclaredTopic>) -> Input {
        Input {
            topic: Arc::clone(topic),
            logic: Arc::clone(&self.logic),
            state: StateSlot::Ticks,
        }
    }
}

/// The tick topic of a consumer group: keys are partitions, values are null.
pub(crate) fn topic_of(group: &str) -> Arc<DeclaredTopic> {
    let topic = Topic::new(
        format!("{group}{TOPIC_SUFFIX}"),
        codec::i32().named("tick partition"),
        codec::null().named("tick"),
    );
    Arc::clone(topic.declared())
}

/// The key of a task's ticks.
pub(crate) fn key_of(partition: i32) -> Bytes {
    Bytes::copy_from_slice(&partition.to_be_bytes())
}

/// What this task emitted, and nothing else: a tick of another partition, or another record, was written by somebody else.
fn read(delivery: &Delivery) -> Result<Tick, Failure> {
    let partition = delivery.channel.partition;
    let fault = |found: String| Failure {
        kind: FailureKind::Decode,
        message: format!("the record is no tick of this task: {found}"),
    };
    match delivery.key.as_deref() {
        Some(key) if key == key_of(partition) => {}
        Some(key) => {
            return Err(fault(match <[u8; 4]>::try_from(key) {
                Ok(bytes) => format!("its key is of partition {}", i32::from_be_bytes(bytes)),
                Err(_) => format!(
                    "its key has {} bytes, and 4 are those of a partition",
                    key.len()
                ),
            }));
        }
        None => return Err(fault("its key is null".to_owned())),
    }
    if let Some(value) = &delivery.value {
        return Err(fault(format!("it has a value of {} bytes", value.len())));
    }
    Ok(Tick {
        timestamp_ms: delivery.timestamp_ms,
        partition,
        offset: delivery.offset,
    })
}

/// A tick topic that does not have a partition for each task and no other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the tick topic {topic} has {found} partitions, and the widest input of the stage {stage} has {expected}: \
     create it with exactly {expected}"
)]
pub struct TickTopicWidth {
    /// The stage.
    pub stage: String,
    /// The tick topic.
    pub topic: String,
    /// How many partitions the widest of the stage's other inputs has.
    pub expected: i32,
    /// How many partitions the tick topic has.
    pub found: i32,
}

impl TickTopicWidth {
    /// Checks a stage's tick topic, if it has one. `partitions` says how many partitions a topic has; one that is not there is for the
    /// host to refuse.
    ///
    /// # Errors
    ///
    /// The tick topic is narrower or wider than the widest of the stage's other inputs. A narrower one would leave tasks without ticks, and
    /// in a wider one there would be ticks of no task.
    pub fn check(stage: &Stage, partitions: impl Fn(&str) -> Option<i32>) -> Result<(), Self> {
        let Some(topic) = stage.tick_topic() else {
            return Ok(());
        };
        let others = stage.inputs().filter(|input| *input != topic);
        let widest = others.filter_map(&partitions).max();
        match (partitions(topic), widest) {
            (Some(found), Some(expected)) if found != expected => Err(Self {
                stage: stage.name().to_owned(),
                topic: topic.to_owned(),
                expected,
                found,
            }),
            _ => Ok(()),
        }
    }
}

/// When a task's next tick is due. A host has one for each task of a ticking stage, beside the task: it outlives the task's failures.
///
/// Times are those of any clock that does not go back, as the time since a point of the host's choice.
///
/// ```
/// use std::time::Duration;
/// use parsley_stage::TickSchedule;
///
/// let at = Duration::from_secs;
/// let mut schedule = TickSchedule::starting_at(at(100), at(60));
/// assert!(!schedule.is_due(at(159)));
/// assert!(schedule.is_due(at(160)));
/// // The tick is committed late. What was missed meanwhile is not made up for.
/// schedule.ticked(at(290));
/// assert_eq!(schedule.next(), at(340));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickSchedule {
    every: Duration,
    next: Duration,
}

impl TickSchedule {
    /// The first tick is due one interval after the start. An interval of zero is taken as one nanosecond.
    pub fn starting_at(now: Duration, every: Duration) -> Self {
        let every = every.max(Duration::from_nanos(1));
        Self {
            every,
            next: now.saturating_add(every),
        }
    }

    /// Whether a tick is due.
    pub fn is_due(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// When the next tick is due.
    pub fn next(&self) -> Duration {
        self.next
    }

    /// Takes note that a tick was committed: the next is due at the first moment beyond `now` on the grid of intervals.
    pub fn ticked(&mut self, now: Duration) {
        if now < self.next {
            return;
        }
        let late = now.saturating_sub(self.next);
        let into = late.as_nanos() % self.every.as_nanos();
        let into = u64::try_from(into).map_or(Duration::MAX, Duration::from_nanos);
        self.next = now.saturating_sub(into).saturating_add(self.every);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_is_the_partition_with_its_highest_byte_first() {
        assert_eq!(key_of(258).as_ref(), [0, 0, 1, 2]);
    }

    #[test]
    fn what_was_missed_is_not_made_up_for() {
        let at = Duration::from_secs;
        let mut schedule = TickSchedule::starting_at(at(0), at(10));
        assert!(!schedule.is_due(at(9)) && schedule.is_due(at(10)));
        schedule.ticked(at(9));
        assert_eq!(schedule.next(), at(10));
        schedule.ticked(at(10));
        assert_eq!(schedule.next(), at(20));
        schedule.ticked(at(55));
        assert_eq!(schedule.next(), at(60));
    }

    proptest! {
        /// The next tick is due beyond the moment of the last, at most an interval later, and on the grid of the first.
        #[test]
        fn one_tick_an_interval(
            start in 0..u64::MAX / 4,
            every in 0..u64::MAX / 4,
            pauses in prop::collection::vec(0..u64::MAX / 64, 0..16),
        ) {
            let every = Duration::from_nanos(every);
            let mut now = Duration::from_nanos(start);
            let mut schedule = TickSchedule::starting_at(now, every);
            let first = schedule.next();
            let interval = first - now;
            for pause in pauses {
                now += Duration::from_nanos(pause);
                if schedule.is_due(now) {
                    schedule.ticked(now);
                    prop_assert!(schedule.next() > now);
                    prop_assert!(schedule.next() <= now + interval);
                    prop_assert_eq!((schedule.next() - first).as_nanos() % interval.as_nanos(), 0);
                } else {
                    let before = schedule;
                    schedule.ticked(now);
                    prop_assert_eq!(before, schedule);
                }
            }
        }
    }
}
