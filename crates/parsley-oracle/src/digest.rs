//! What of a history can still bear on a verdict, for whoever compares histories.

use std::hash::{Hash, Hasher};

use crate::record::{Fate, Of, Record, Sent};
use crate::set::EmissionSet;
use crate::{Actor, Channel, Emission, Oracle};

/// What a record is called in whatever order things happened: by its place, or while it has none by its creator and its number among what that
/// one's open step has sent.
type Name = (u8, usize, i64);

impl Oracle {
    /// Tells `state` all of this history that a verdict to come can depend on, and nothing else: two histories that tell the same judge the
    /// same from now on. Records go by their places, so that it does not matter in which order things happened that have nothing to do with
    /// one another.
    pub fn digest(&self, state: &mut impl Hasher) {
        for (number, channel) in self.channels.iter().enumerate() {
            (number, channel.forgotten, channel.log.len()).hash(state);
            for (offset, emission) in &channel.log {
                offset.hash(state);
                self.digest_record(&self.records[emission.index()], state);
            }
        }
        for actor in self.actors() {
            self.digest_actor(actor, state);
        }
    }

    fn digest_record(&self, record: &Record, state: &mut impl Hasher) {
        // A record of an aborted step is no business record, whatever came before it.
        let is_aborted = record.fate == Fate::Aborted;
        (is_aborted, record.fate == Fate::Open).hash(state);
        if !is_aborted {
            (record.creator.index(), record.key).hash(state);
            self.digest_set(&record.past, state);
        }
    }

    fn digest_actor(&self, actor: Actor, state: &mut impl Hasher) {
        let known = &self.actors[actor.index()];
        for channel in self.channels() {
            let consumption = known.consumption(channel);
            (consumption.baseline, consumption.last, consumption.ticks).hash(state);
        }
        for knowledge in [&known.committed, &known.current] {
            self.digest_set(&knowledge.delivered, state);
            self.digest_set(&knowledge.reached, state);
            self.digest_set(&knowledge.observed, state);
        }
        self.digest_set(&known.sent, state);
        // What is owed follows from the baselines and the logs.
        known.step_inputs().len().hash(state);
        for input in known.step_inputs() {
            self.name(*input).hash(state);
        }
        known
            .moved()
            .map(|(on, last)| (on.index(), last))
            .collect::<Vec<_>>()
            .hash(state);
        known.step_sends().len().hash(state);
        for send in known.step_sends() {
            let record = &self.records[send.index()];
            (self.name(*send), record.channel.index()).hash(state);
            match record.sent {
                Sent::Unprompted => None,
                Sent::For { input, of } => {
                    let of = match of {
                        Of::Key(key) => Some(key),
                        Of::Ticks => None,
                    };
                    Some((input - known.inputs_committed, of))
                }
            }
            .hash(state);
            self.digest_record(record, state);
        }
    }

    fn digest_set(&self, set: &EmissionSet, state: &mut impl Hasher) {
        let mut names: Vec<Name> = set.iter().filter_map(|member| self.name(member)).collect();
        names.sort_unstable();
        names.hash(state);
    }

    /// `None` for what was aborted without a place: nobody will ever ask for it.
    fn name(&self, emission: Emission) -> Option<Name> {
        let record = &self.records[emission.index()];
        if let Some(offset) = record.offset {
            return Some((0, Channel::index(record.channel), offset));
        }
        let sends = match record.fate {
            Fate::Aborted => return None,
            Fate::Open => self.actors[record.creator.index()].step_sends(),
            Fate::Committed => &self.actors[record.creator.index()].sends,
        };
        let nth = sends.iter().position(|send| *send == emission)?;
        let kind = if record.fate == Fate::Open { 1 } else { 2 };
        Some((kind, record.creator.index(), nth as i64))
    }
}
