//! An adversary: inputs that are let in late ([`KafkaHost::delay`](crate::KafkaHost::delay)).
//!
//! What is kept back was taken from the consumer and not handed to a task, so no position knows of it: whatever has the partitions assigned
//! anew reads it again, and it is forgotten here.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use crate::event::Polled;
use crate::stage::Delay;

/// How many events of a topic are kept back at most: beyond that the oldest is let in early.
const KEPT_MAX: usize = 10_000;

/// Keeps back what a consumer has of delayed topics.
#[derive(Debug, Default)]
pub(super) struct Late(BTreeMap<String, Line>);

/// The events of one topic in their order, each with when it is let in.
#[derive(Debug)]
struct Line {
    delay: Delay,
    kept: VecDeque<(Instant, Polled)>,
}

impl Line {
    fn has_due(&self, now: Instant) -> bool {
        let oldest = self.kept.front();
        oldest.is_some_and(|(at, _)| *at <= now) || self.kept.len() > KEPT_MAX
    }
}

impl Late {
    pub(super) fn new(delays: &BTreeMap<String, Delay>) -> Self {
        let line = |(topic, delay): (&String, &Delay)| {
            let (delay, kept) = (*delay, VecDeque::new());
            (topic.clone(), Line { delay, kept })
        };
        Self(delays.iter().map(line).collect())
    }

    /// Whether there is anything that it could delay.
    pub(super) fn is_idle(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes an event; gives it back when nothing delays it. A partition's end is as late as its records, or it would run ahead of them.
    pub(super) fn keep(&mut self, polled: Polled, now: Instant) -> Option<Polled> {
        let topic = match &polled {
            Polled::Record(record) => &record.partition.topic,
            Polled::Eof { partition, .. } => &partition.topic,
            _ => return Some(polled),
        };
        match self.0.get_mut(&**topic) {
            Some(line) => {
                let late = now + line.delay.by;
                let at = line.delay.not_before.map_or(late, |first| first.max(late));
                line.kept.push_back((at, polled));
                None
            }
            None => Some(polled),
        }
    }

    /// An event that is to be let in by now.
    pub(super) fn due(&mut self, now: Instant) -> Option<Polled> {
        let mut lines = self.0.values_mut();
        let line = lines.find(|line| line.has_due(now))?;
        line.kept.pop_front().map(|(_, polled)| polled)
    }

    /// How long until one is due.
    pub(super) fn until_due(&self, now: Instant) -> Option<Duration> {
        let oldest = self.0.values().filter_map(|line| line.kept.front());
        let at = oldest.map(|(at, _)| *at).min()?;
        Some(at.saturating_duration_since(now))
    }

    /// Forgets what is kept back: the partitions are read anew.
    pub(super) fn clear(&mut self) {
        self.0.values_mut().for_each(|line| line.kept.clear());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Partition;

    const DELAY: Duration = Duration::from_secs(10);

    fn end(topic: &str, offset: i64) -> Polled {
        let partition = Partition {
            topic: topic.into(),
            partition: 0,
        };
        Polled::Eof { partition, offset }
    }

    fn late() -> (Late, Instant) {
        late_from(None)
    }

    fn late_from(wait: Option<Duration>) -> (Late, Instant) {
        let start = Instant::now();
        let delay = Delay {
            by: DELAY,
            not_before: wait.map(|wait| start + wait),
        };
        let delays = BTreeMap::from([("late".to_owned(), delay)]);
        (Late::new(&delays), start)
    }

    #[test]
    fn what_is_withheld_comes_when_its_time_has_come_and_is_late_from_then_on() {
        let (mut late, start) = late_from(Some(DELAY * 2));
        assert_eq!(late.keep(end("late", 1), start), None);
        assert_eq!(late.keep(end("late", 2), start + DELAY / 2), None);
        assert_eq!(late.keep(end("late", 3), start + DELAY * 2), None);
        assert_eq!(late.due(start + DELAY), None);
        assert_eq!(late.due(start + DELAY * 2), Some(end("late", 1)));
        assert_eq!(late.due(start + DELAY * 2), Some(end("late", 2)));
        assert_eq!(late.due(start + DELAY * 2), None);
        assert_eq!(late.due(start + DELAY * 3), Some(end("late", 3)));
    }

    #[test]
    fn what_is_delayed_comes_in_its_order_when_its_time_has_come() {
        let (mut late, start) = late();
        assert_eq!(late.keep(end("other", 1), start), Some(end("other", 1)));
        assert_eq!(late.until_due(start), None);
        assert_eq!(late.keep(end("late", 1), start), None);
        assert_eq!(late.keep(end("late", 2), start + DELAY / 2), None);
        assert_eq!(late.due(start), None);
        assert_eq!(late.until_due(start + DELAY / 4), Some(DELAY / 4 * 3));
        assert_eq!(late.due(start + DELAY), Some(end("late", 1)));
        assert_eq!(late.due(start + DELAY), None);
        assert_eq!(late.due(start + DELAY * 2), Some(end("late", 2)));
        assert_eq!(late.until_due(start), None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_read_anew_is_forgotten() {
        let (mut late, start) = late();
        let count = KEPT_MAX as i64 + 2;
        for offset in 0..count {
            assert_eq!(late.keep(end("late", offset), start), None);
        }
        assert_eq!(late.due(start), Some(end("late", 0)));
        assert_eq!(late.due(start), Some(end("late", 1)));
        assert_eq!(late.due(start), None);
        late.clear();
        assert_eq!(late.due(start + DELAY), None);
    }

    #[test]
    fn a_rebalance_is_never_late() {
        let (mut late, start) = late();
        assert!(late.keep(end("late", 1), start).is_none());
        let rebalance = Polled::Assigned(Vec::new());
        assert_eq!(late.keep(rebalance.clone(), start), Some(rebalance));
    }
}
