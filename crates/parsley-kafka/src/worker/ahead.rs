//! Events that are taken from the consumer while a step waits for acknowledgements (decision K18).
//!
//! They are handed out later, in their order, and nothing is known of them until then: what is here counts as unread. Whatever has the
//! partitions assigned anew has their records read again, and they are forgotten here; so they are when a revoke is read behind them, as
//! librdkafka forgets what lies in its own queue.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::Polled;
use crate::native::EventConsumer;

/// How many events, and how many bytes of keys, values and headers, are read ahead at most.
const EVENTS_MAX: usize = 10_000;
const BYTES_MAX: usize = 8 << 20;

/// How many events are read before somebody else gets a turn.
const AT_ONCE: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Ahead {
    events: VecDeque<Polled>,
    bytes: usize,
}

impl Ahead {
    /// Reads a little ahead. Returns whether it did. Nothing is read behind an event that is not about records: what follows may depend on
    /// how it is answered.
    pub(super) fn read(&mut self, consumer: &mut EventConsumer) -> bool {
        for read in 0..AT_ONCE {
            let Some(polled) = self
                .has_room()
                .then(|| consumer.poll(Duration::ZERO))
                .flatten()
            else {
                return read > 0;
            };
            self.push(polled);
        }
        true
    }

    fn has_room(&self) -> bool {
        let is_of_records = |polled: &Polled| is_of_records(polled);
        self.events.len() < EVENTS_MAX
            && self.bytes < BYTES_MAX
            && self.events.back().is_none_or(is_of_records)
    }

    /// Takes an event. A revoke does not wait until all that was read before it is processed, for which the whole group would wait with it.
    fn push(&mut self, polled: Polled) {
        if let Polled::Revoked { .. } = polled {
            self.clear();
        }
        self.bytes += bytes_of(&polled);
        self.events.push_back(polled);
    }

    /// The next event: one that was read ahead, or one that the consumer has within a time.
    pub(super) fn next(
        &mut self,
        consumer: &mut EventConsumer,
        timeout: Duration,
    ) -> Option<Polled> {
        match self.pop() {
            Some(polled) => Some(polled),
            None => consumer.poll(timeout),
        }
    }

    fn pop(&mut self) -> Option<Polled> {
        let polled = self.events.pop_front()?;
        self.bytes -= bytes_of(&polled);
        Some(polled)
    }

    /// Forgets what is about partitions: they are read anew. What is to be answered remains.
    pub(super) fn clear(&mut self) {
        self.events.retain(|polled| match polled {
            Polled::Record(_) | Polled::Eof { .. } => false,
            Polled::Error(error) => error.partition.is_none(),
            Polled::Assigned(_) | Polled::Revoked { .. } => true,
        });
        self.bytes = 0;
    }
}

fn is_of_records(polled: &Polled) -> bool {
    matches!(polled, Polled::Record(_) | Polled::Eof { .. })
}

fn bytes_of(polled: &Polled) -> usize {
    match polled {
        Polled::Record(record) => record.bytes(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::Timestamp;
    use rdkafka::types::RDKafkaErrorCode;

    use super::*;
    use crate::event::{ConsumerError, Partition, Record};

    fn partition() -> Partition {
        Partition {
            topic: "t".into(),
            partition: 0,
        }
    }

    fn record(offset: i64, value_bytes: usize) -> Polled {
        Polled::Record(Record {
            partition: partition(),
            offset,
            key: None,
            value: Some(vec![0; value_bytes].into()),
            headers: Vec::new(),
            timestamp: Timestamp::NotAvailable,
        })
    }

    fn end(offset: i64) -> Polled {
        let partition = partition();
        Polled::Eof { partition, offset }
    }

    fn revoked() -> Polled {
        Polled::Revoked {
            partitions: vec![partition()],
            lost: false,
        }
    }

    fn ahead(events: impl IntoIterator<Item = Polled>) -> Ahead {
        let mut ahead = Ahead::default();
        events.into_iter().for_each(|polled| ahead.push(polled));
        ahead
    }

    #[test]
    fn records_and_ends_keep_their_order() {
        let events = [record(0, 1), record(1, 1), end(3), record(3, 1)];
        let mut ahead = ahead(events.clone());
        assert!(ahead.has_room());
        let handed_out: Vec<Polled> = std::iter::from_fn(|| ahead.pop()).collect();
        assert_eq!(handed_out, events);
        assert_eq!(ahead.bytes, 0);
    }

    #[test]
    fn nothing_is_read_behind_what_has_to_be_answered() {
        assert!(!ahead([record(0, 1), revoked()]).has_room());
        assert!(!ahead([Polled::Assigned(Vec::new())]).has_room());
    }

    /// The members of a group wait for each other, and logic may take its time. With 5 ms for a record and steps of 2 s, a group of two waited 15 s
    /// longer for what the first had read ahead; beyond `max.poll.interval.ms` the group goes on without the member.
    #[test]
    fn a_revoke_waits_for_nothing_that_was_read_before_it() {
        let mut ahead = ahead([record(0, 1), end(1), revoked()]);
        assert_eq!(ahead.pop(), Some(revoked()));
        assert_eq!(ahead.bytes, 0);
    }

    #[test]
    fn no_more_is_read_than_there_is_room_for() {
        assert!(!ahead([record(0, BYTES_MAX)]).has_room());
        assert!(!ahead((0..EVENTS_MAX as i64).map(end)).has_room());
        let mut full = ahead([record(0, BYTES_MAX)]);
        let _ = full.pop();
        assert!(full.has_room());
    }

    /// Partitions that are assigned anew are read from where their tasks are: what was read ahead comes again.
    #[test]
    fn partitions_that_are_read_anew_are_forgotten_and_rebalances_are_not() {
        let error = |partition| {
            Polled::Error(ConsumerError {
                code: RDKafkaErrorCode::OffsetOutOfRange,
                fatal: false,
                partition,
                reason: String::new(),
            })
        };
        let assigned = Polled::Assigned(vec![partition()]);
        let mut ahead = ahead([
            record(0, BYTES_MAX),
            end(1),
            error(Some(partition())),
            error(None),
            assigned.clone(),
        ]);
        ahead.clear();
        assert_eq!(ahead.events, [error(None), assigned]);
        assert_eq!(ahead.bytes, 0);
    }
}
