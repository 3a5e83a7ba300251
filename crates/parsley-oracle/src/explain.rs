//! Violations, told with names.

use std::fmt::Write;

use crate::record::Fate;
use crate::{Emission, Oracle, Rule, Violation};

impl Oracle {
    /// The record's name for people: its place as `orders:0@5`, or for one that was never appended its channel and number, as
    /// `orders:0 (emission 7, nowhere)`.
    pub fn label(&self, emission: Emission) -> String {
        let name = self.channel_name(self.channel(emission));
        match self.coordinate(emission) {
            Some((_, offset)) => format!("{name}@{offset}"),
            None => format!("{name} (emission {}, nowhere)", emission.index()),
        }
    }

    /// What is wrong, in one line; where causes are concerned, a second line with the causal path.
    pub fn explain(&self, violation: &Violation) -> String {
        let actor = self.actor_name(violation.actor);
        let place = match (violation.offset, violation.record) {
            (Some(offset), _) => format!("{}@{offset}", self.channel_name(violation.channel)),
            (None, Some(record)) => self.label(record),
            (None, None) => self.channel_name(violation.channel).to_owned(),
        };
        let other = violation
            .other
            .map_or_else(|| "another record".to_owned(), |other| self.label(other));
        let mut text = format!("{}: ", violation.rule);
        text += &match violation.rule {
            Rule::Phantom => format!(
                "{actor} was handed {place}, {}",
                self.why_phantom(violation.record)
            ),
            Rule::BelowBaseline => match self.baseline(violation.actor, violation.channel) {
                Some(baseline) => format!(
                    "{actor} was handed {place}, and consumes the channel from {baseline} on"
                ),
                None => {
                    format!("{actor} was handed {place} from below where it consumed the channel")
                }
            },
            Rule::Duplicate => format!("{actor} was handed {place} again"),
            Rule::Fifo => format!("{actor} was handed {place} after {other}"),
            Rule::ReEntry => {
                format!("{actor} was handed {place} after {other}, of whose past it is")
            }
            Rule::CausalOrder => format!("{actor} was handed {place} before its cause {other}"),
            Rule::Lost => format!("{actor} was never handed {place}"),
            Rule::Unsent => {
                format!("{actor} committed the send of {place}, and it was never appended")
            }
        };
        if let Some((first, rest)) = violation.path.split_first() {
            // Writing to a String does not fail.
            let _ = write!(text, "\n  path: {}", self.label(*first));
            let mut before = *first;
            for next in rest {
                let _ = write!(
                    text,
                    " -> {} ({})",
                    self.label(*next),
                    self.hop(before, *next)
                );
                before = *next;
            }
        }
        text
    }

    fn why_phantom(&self, record: Option<Emission>) -> &'static str {
        match record.map(|record| self.records[record.index()].fate) {
            None => "where no business record stands",
            Some(Fate::Open) => "whose step has not committed",
            Some(Fate::Aborted) => "whose step was aborted",
            Some(Fate::Committed) => "of a channel it does not consume",
        }
    }

    /// How a record of a path is a consequence of the one before.
    fn hop(&self, before: Emission, after: Emission) -> String {
        let record = &self.records[after.index()];
        let creator = &self.actors[record.creator.index()];
        if creator.inputs[..record.inputs_before].contains(&before) {
            format!("sent by {}, which had been handed it", creator.name)
        } else {
            format!("sent by {}, which had sent it", creator.name)
        }
    }
}
