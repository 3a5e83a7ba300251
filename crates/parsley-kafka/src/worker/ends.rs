//! Whether acknowledged sends stand above all that was known of their logs. One that does not has been sent to another log, or to one that has lost its
//! end (decision K43).

use std::collections::BTreeMap;

use parsley_core::{Channel, Offset};

use super::{Session, Trouble};
use crate::producer::{Acknowledged, ProduceError};

/// The last offset that is known of each log that is sent to: of an own send, or of an end that was read.
#[derive(Debug, Default)]
pub(super) struct Ends(BTreeMap<Channel, Offset>);

/// What acknowledgements tell of logs.
#[derive(Debug, PartialEq, Eq)]
enum Told {
    /// Each goes on where it was known to end, or behind.
    Rising,
    /// Of one of them nothing was known, which any log would go on from.
    First,
    /// One is at an offset now that it was beyond.
    Fallen {
        channel: Channel,
        last: Offset,
        found: Offset,
    },
}

impl Ends {
    /// Takes note of where a log ended when that was read: its next record comes there, or behind.
    pub(super) fn read(&mut self, channel: Channel, end: Offset) {
        if end > 0 {
            self.raise(channel, end - 1);
        }
    }

    fn raise(&mut self, channel: Channel, last: Offset) {
        let known = self.0.entry(channel).or_insert(last);
        *known = last.max(*known);
    }

    /// Takes note of the first and the last send on each channel of those that were acknowledged since the last time.
    fn follow(&mut self, spans: &BTreeMap<Channel, (Offset, Offset)>) -> Told {
        let mut told = Told::Rising;
        for (&channel, &(found, last)) in spans {
            match self.0.get(&channel).copied() {
                Some(known) if found <= known => {
                    // If it is the same log after all, it goes on from here.
                    self.0.insert(channel, last);
                    told = Told::Fallen {
                        channel,
                        last: known,
                        found,
                    };
                    continue;
                }
                None if told == Told::Rising => told = Told::First,
                _ => {}
            }
            self.raise(channel, last);
        }
        told
    }
}

impl Session<'_> {
    /// Looks who the topics are where acknowledgements may be those of others, before anything of them is committed. A topic that is another one by
    /// now refuses; a log that has gone back has the step given up all the same, and goes on with the next attempt if it still is the same by then.
    pub(super) fn follow(&mut self, acknowledged: &Acknowledged) -> Result<(), Trouble> {
        let told = self.ends.follow(&acknowledged.spans());
        if told == Told::Rising {
            return Ok(());
        }
        self.gone()?;
        let Told::Fallen {
            channel,
            last,
            found,
        } = told
        else {
            return Ok(());
        };
        let topic = self.producer.topic_of(channel);
        let partition = channel.partition;
        let fallen = ProduceError::WentBack {
            topic,
            partition,
            last,
            found,
        };
        Err(fallen.into())
    }
}

#[cfg(test)]
mod tests {
    use parsley_core::TopicId;

    use super::*;

    fn channel(partition: i32) -> Channel {
        TopicId::of_name("t").partition(partition)
    }

    fn follow(ends: &mut Ends, spans: &[(i32, Offset, Offset)]) -> Told {
        let spans = spans
            .iter()
            .map(|&(at, first, last)| (channel(at), (first, last)));
        ends.follow(&spans.collect())
    }

    fn fallen(at: i32, last: Offset, found: Offset) -> Told {
        let channel = channel(at);
        Told::Fallen {
            channel,
            last,
            found,
        }
    }

    #[test]
    fn a_log_goes_on_behind_what_is_known_of_it() {
        let mut ends = Ends::default();
        ends.read(channel(0), 5);
        assert_eq!(follow(&mut ends, &[(0, 5, 9)]), Told::Rising);
        assert_eq!(follow(&mut ends, &[(0, 10, 10)]), Told::Rising);
        // At the last one itself, and once more from there.
        assert_eq!(follow(&mut ends, &[(0, 10, 12)]), fallen(0, 10, 10));
        assert_eq!(follow(&mut ends, &[(0, 13, 13)]), Told::Rising);
        assert_eq!(follow(&mut ends, &[(0, 0, 2)]), fallen(0, 13, 0));
        assert_eq!(follow(&mut ends, &[(0, 3, 3)]), Told::Rising);
        // An end that was read earlier, and is told late.
        ends.read(channel(0), 2);
        assert_eq!(follow(&mut ends, &[(0, 4, 4)]), Told::Rising);
    }

    #[test]
    fn the_first_of_a_log_that_was_empty_or_not_read_can_be_anybodys() {
        let mut ends = Ends::default();
        ends.read(channel(0), 0);
        ends.read(channel(2), 1);
        assert_eq!(
            follow(&mut ends, &[(0, 0, 0), (1, 7, 7), (2, 1, 1)]),
            Told::First
        );
        assert_eq!(
            follow(&mut ends, &[(0, 1, 1), (1, 8, 8), (2, 2, 2)]),
            Told::Rising
        );
        // One that has fallen says more, wherever it stands.
        assert_eq!(follow(&mut ends, &[(0, 1, 1), (3, 0, 0)]), fallen(0, 1, 1));
        assert_eq!(follow(&mut ends, &[(1, 8, 8), (4, 0, 0)]), fallen(1, 8, 8));
    }
}
