//! The oracle: who there is, what was sent, what became fact.

use crate::actor::ActorState;
use crate::record::{Fate, Record, Sent};
use crate::set::EmissionSet;
use crate::{Actor, Channel, Emission, Misuse, SendOrder};

/// The true history of a run.
///
/// An actor always has one open step: what was delivered to it and what it emitted since its last [`commit`](Self::commit) or
/// [`abort`](Self::abort). What an open step has done counts for that actor, and is not there for anybody else.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    pub(crate) actors: Vec<ActorState>,
    pub(crate) channels: Vec<ChannelState>,
    pub(crate) records: Vec<Record>,
}

/// What an oracle knows about one channel.
#[derive(Clone, Debug)]
pub(crate) struct ChannelState {
    pub(crate) name: String,
    /// It was deleted: nothing on it is owed any more.
    pub(crate) forgotten: bool,
    /// What was appended, by offset.
    pub(crate) log: Vec<(i64, Emission)>,
}

impl ChannelState {
    /// The place of `offset` in the log: where it is, or where it would go.
    pub(crate) fn find(&self, offset: i64) -> Result<usize, usize> {
        self.log.binary_search_by_key(&offset, |(at, _)| *at)
    }
}

impl Oracle {
    /// An oracle of a world in which nothing has happened.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an actor known. `order` says which of its sends within one step are causes of one another.
    pub fn add_actor(&mut self, name: &str, order: SendOrder) -> Actor {
        self.actors.push(ActorState::new(name, order));
        Actor::new(self.actors.len() - 1)
    }

    /// Makes a channel known.
    pub fn add_channel(&mut self, name: &str) -> Channel {
        self.channels.push(ChannelState {
            name: name.to_owned(),
            forgotten: false,
            log: Vec::new(),
        });
        Channel::new(self.channels.len() - 1)
    }

    /// The actor consumes the channel from position `baseline` on, its first included. While it does, saying so again changes nothing, so a restart
    /// may name all channels. A channel that was given up and joined again has the new baseline; what was delivered from it before still
    /// counts as delivered.
    ///
    /// This takes effect at once and is not part of the open step: it is to be said of what an execution really began with.
    pub fn consume(&mut self, actor: Actor, channel: Channel, baseline: i64) {
        let state = &mut self.actors[actor.index()];
        let entry = state.consumption_mut(channel);
        if entry.baseline.is_none() {
            entry.baseline = Some(baseline);
            state.reckon_owed(&self.channels);
        }
    }

    /// The actor gives the channel up: nothing on it is owed to it any more. Like [`consume`](Self::consume), this takes effect at once.
    pub fn stop_consuming(&mut self, actor: Actor, channel: Channel) {
        let state = &mut self.actors[actor.index()];
        state.consumption_mut(channel).baseline = None;
        state.reckon_owed(&self.channels);
    }

    /// What is delivered to the actor from this channel are its ticks, from now on. Within one step its sends for them come one after the other, and
    /// the ticks belong to no key.
    pub fn ticks_on(&mut self, actor: Actor, channel: Channel) {
        let state = &mut self.actors[actor.index()];
        state.consumption_mut(channel).ticks = true;
    }

    /// The channel was deleted: nothing on it is owed to anybody any more. Its records remain facts of the past.
    pub fn forget_channel(&mut self, channel: Channel) {
        self.channels[channel.index()].forgotten = true;
        for state in &mut self.actors {
            state.reckon_owed(&self.channels);
        }
    }

    /// The actor sends a record with the key `key` to a channel, for the latest record that it was handed in the open step; if there is none, for no
    /// record at all, as in [`emit_for`](Self::emit_for).
    pub fn emit(&mut self, actor: Actor, to: Channel, key: Option<u64>) -> Emission {
        let state = &self.actors[actor.index()];
        let sent = state.latest_cause(&self.records);
        self.record_emission(actor, to, key, sent, state.inputs.len())
    }

    /// The actor sends a record while it handles `cause`, a record that it was handed in the open step; with `None`, while it handles none of
    /// them, as a timer does.
    ///
    /// The send's past is what the actor was handed up to and including `cause` (with `None`: up to now) with all that happened before
    /// that; all sends of its committed steps; and those sends of the open step that the actor's [`SendOrder`] makes causes of this one. A send for
    /// no record shares no delivery and no key with any other.
    ///
    /// # Errors
    /// [`Misuse::NotACause`] if the actor was not handed `cause` in the open step.
    pub fn emit_for(
        &mut self,
        actor: Actor,
        cause: Option<Emission>,
        to: Channel,
        key: Option<u64>,
    ) -> Result<Emission, Misuse> {
        let state = &self.actors[actor.index()];
        let (sent, inputs_before) = match cause {
            None => (Sent::Unprompted, state.inputs.len()),
            Some(cause) => {
                let at = state
                    .step_inputs()
                    .iter()
                    .rposition(|input| *input == cause);
                let at = at.ok_or(Misuse::NotACause { actor, cause })? + state.inputs_committed;
                let record = &self.records[cause.index()];
                (state.sent_for(at, record), at + 1)
            }
        };
        Ok(self.record_emission(actor, to, key, sent, inputs_before))
    }

    fn record_emission(
        &mut self,
        creator: Actor,
        channel: Channel,
        key: Option<u64>,
        sent: Sent,
        inputs_before: usize,
    ) -> Emission {
        // The channel must be known now: later its number would be found wrong far from the mistake.
        assert!(
            channel.index() < self.channels.len(),
            "the channel is of another oracle"
        );
        let state = &self.actors[creator.index()];
        let mut record = Record {
            creator,
            channel,
            key,
            offset: None,
            fate: Fate::Open,
            step: state.step,
            sent,
            inputs_before,
            sends_before: state.sends.len(),
            past: self.known_after(state, inputs_before),
        };
        record.past.unite(&state.sent);
        for earlier in state.step_sends() {
            let earlier_record = &self.records[earlier.index()];
            if state.order.relates(earlier_record, &record) {
                record.past.insert(*earlier);
                record.past.unite(&earlier_record.past);
            }
        }
        let emission = Emission::new(self.records.len());
        self.records.push(record);
        self.actors[creator.index()].sends.push(emission);
        emission
    }

    /// What an actor knows by its first inputs, at least those of its committed steps.
    fn known_after(&self, state: &ActorState, inputs: usize) -> EmissionSet {
        if inputs == state.inputs.len() {
            let mut known = state.current.reached.clone();
            known.unite(&state.current.observed);
            return known;
        }
        let mut known = state.committed.reached.clone();
        known.unite(&state.committed.observed);
        for input in &state.inputs[state.inputs_committed..inputs] {
            known.insert(*input);
            known.unite(&self.records[input.index()].past);
        }
        known
    }

    /// The record was appended to its channel at `offset`. It can be delivered from there once its step has committed.
    ///
    /// # Errors
    /// A [`Misuse`] if the offset is negative, the record already has another one, or another record is there.
    pub fn appended(&mut self, emission: Emission, offset: i64) -> Result<(), Misuse> {
        let record = &mut self.records[emission.index()];
        let channel = &mut self.channels[record.channel.index()];
        if offset < 0 {
            return Err(Misuse::NegativeOffset { emission, offset });
        }
        if let Some(before) = record.offset {
            return Err(Misuse::AppendedTwice {
                emission,
                before,
                offset,
            });
        }
        match channel.find(offset) {
            Ok(at) => {
                return Err(Misuse::PlaceTaken {
                    emission,
                    offset,
                    holder: channel.log[at].1,
                });
            }
            Err(at) => channel.log.insert(at, (offset, emission)),
        }
        record.offset = Some(offset);
        if !channel.forgotten {
            for state in &mut self.actors {
                if state
                    .consumption(record.channel)
                    .baseline
                    .is_some_and(|baseline| baseline <= offset)
                {
                    state.owed.insert(emission);
                }
            }
        }
        Ok(())
    }

    /// The actor's open step becomes fact, and the next begins.
    pub fn commit(&mut self, actor: Actor) {
        self.end_step(actor, Fate::Committed);
        self.actors[actor.index()].commit();
    }

    /// The actor's open step never was: what was delivered in it was not, and what was emitted never becomes a business record, though it may
    /// occupy an offset. The next step begins.
    pub fn abort(&mut self, actor: Actor) {
        self.end_step(actor, Fate::Aborted);
        self.actors[actor.index()].abort();
    }

    fn end_step(&mut self, actor: Actor, fate: Fate) {
        for send in self.actors[actor.index()].step_sends() {
            self.records[send.index()].fate = fate;
        }
    }

    /// The name the actor was given.
    pub fn actor_name(&self, actor: Actor) -> &str {
        &self.actors[actor.index()].name
    }

    /// The name the channel was given.
    pub fn channel_name(&self, channel: Channel) -> &str {
        &self.channels[channel.index()].name
    }

    /// The actors, in the order in which they were added.
    pub fn actors(&self) -> impl Iterator<Item = Actor> + use<> {
        (0..self.actors.len()).map(Actor::new)
    }

    /// The channels, in the order in which they were added.
    pub fn channels(&self) -> impl Iterator<Item = Channel> + use<> {
        (0..self.channels.len()).map(Channel::new)
    }

    /// Everything that was ever emitted, in that order, whatever became of it.
    pub fn emissions(&self) -> impl Iterator<Item = Emission> + use<> {
        (0..self.records.len()).map(Emission::new)
    }

    /// Who emitted the record.
    pub fn creator(&self, emission: Emission) -> Actor {
        self.records[emission.index()].creator
    }

    /// The key it was emitted with.
    pub fn key(&self, emission: Emission) -> Option<u64> {
        self.records[emission.index()].key
    }

    /// The channel it was emitted to.
    pub fn channel(&self, emission: Emission) -> Channel {
        self.records[emission.index()].channel
    }

    /// Where it stands, if it was appended; also when its step was aborted.
    pub fn coordinate(&self, emission: Emission) -> Option<(Channel, i64)> {
        let record = &self.records[emission.index()];
        Some((record.channel, record.offset?))
    }

    /// Whether it is a business record, that is, its step has committed.
    pub fn is_committed(&self, emission: Emission) -> bool {
        self.records[emission.index()].fate == Fate::Committed
    }

    /// What stands at a place: what was said to be appended there, whatever became of it.
    pub fn record_at(&self, channel: Channel, offset: i64) -> Option<Emission> {
        let channel = &self.channels[channel.index()];
        channel.find(offset).ok().map(|at| channel.log[at].1)
    }

    /// The position from which on the actor consumes the channel, if it does.
    pub fn baseline(&self, actor: Actor, channel: Channel) -> Option<i64> {
        self.actors[actor.index()].consumption(channel).baseline
    }

    /// What the actor was handed, in order: delivered or observed, the open step included.
    pub fn inputs(&self, actor: Actor) -> &[Emission] {
        &self.actors[actor.index()].inputs
    }

    /// Whether the record was delivered to the actor, the open step included.
    pub fn is_delivered(&self, actor: Actor, emission: Emission) -> bool {
        self.actors[actor.index()]
            .current
            .delivered
            .contains(emission)
    }

    /// Everything that happened before the record, by number. Without the record itself.
    pub fn past_of(&self, emission: Emission) -> impl Iterator<Item = Emission> + '_ {
        self.records[emission.index()].past.iter()
    }

    /// Whether `earlier` is in the past of `later`.
    pub fn happened_before(&self, earlier: Emission, later: Emission) -> bool {
        self.records[later.index()].past.contains(earlier)
    }

    /// Whether neither of two different records happened before the other.
    pub fn concurrent(&self, a: Emission, b: Emission) -> bool {
        a != b && !self.happened_before(a, b) && !self.happened_before(b, a)
    }
}

impl ActorState {
    /// Works out anew which records are owed.
    fn reckon_owed(&mut self, channels: &[ChannelState]) {
        let mut owed = std::mem::take(&mut self.owed);
        owed.clear();
        for (channel, baseline) in self.consumed() {
            let ChannelState {
                forgotten: false,
                log,
                ..
            } = &channels[channel.index()]
            else {
                continue;
            };
            for (_, emission) in log.iter().filter(|(offset, _)| *offset >= baseline) {
                owed.insert(*emission);
            }
        }
        self.owed = owed;
    }
}
