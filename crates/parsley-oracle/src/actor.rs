//! What an oracle knows about one actor.

use crate::record::{Of, Record, Sent};
use crate::set::EmissionSet;
use crate::{Channel, Emission, SendOrder};

/// One actor: what it was handed, what it sent, what it is owed.
#[derive(Clone, Debug)]
pub(crate) struct ActorState {
    pub(crate) name: String,
    pub(crate) order: SendOrder,
    /// By channel number; as long as the highest channel it has had to do with.
    consumption: Vec<Consumption>,
    /// The records appended to the channels it consumes, from its baselines on.
    pub(crate) owed: EmissionSet,
    /// What it was handed, in order, the open step included.
    pub(crate) inputs: Vec<Emission>,
    /// What it sent, in order, the open step included.
    pub(crate) sends: Vec<Emission>,
    /// What it knows by its inputs, as of its last commit and as of now.
    pub(crate) committed: Knowledge,
    pub(crate) current: Knowledge,
    /// The sends of its committed steps. Their pasts are here too, and in what it knew at its last commit.
    pub(crate) sent: EmissionSet,
    /// How many steps have committed.
    pub(crate) step: usize,
    /// How many of the inputs are of committed steps.
    pub(crate) inputs_committed: usize,
    /// How many of the sends are of committed steps.
    pub(crate) sends_committed: usize,
    /// The open step's deliveries as the channels and what was delivered last from them before, latest last.
    moved: Vec<(Channel, Option<i64>)>,
}

/// An actor's part in one channel.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Consumption {
    /// The position from which on it consumes the channel, if it does.
    pub(crate) baseline: Option<i64>,
    /// The offset that was delivered last.
    pub(crate) last: Option<i64>,
    /// What is delivered from it are ticks.
    pub(crate) ticks: bool,
}

/// What an actor knows by what it was handed.
#[derive(Debug, Default)]
pub(crate) struct Knowledge {
    /// The records delivered to it.
    pub(crate) delivered: EmissionSet,
    /// Those, and their pasts.
    pub(crate) reached: EmissionSet,
    /// The records it read without being a gated consumer, and their pasts.
    pub(crate) observed: EmissionSet,
}

impl Clone for Knowledge {
    fn clone(&self) -> Self {
        let Self {
            delivered,
            reached,
            observed,
        } = self;
        Self {
            delivered: delivered.clone(),
            reached: reached.clone(),
            observed: observed.clone(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        let Self {
            delivered,
            reached,
            observed,
        } = self;
        delivered.clone_from(&source.delivered);
        reached.clone_from(&source.reached);
        observed.clone_from(&source.observed);
    }
}

impl ActorState {
    pub(crate) fn new(name: &str, order: SendOrder) -> Self {
        Self {
            name: name.to_owned(),
            order,
            consumption: Vec::new(),
            owed: EmissionSet::default(),
            inputs: Vec::new(),
            sends: Vec::new(),
            committed: Knowledge::default(),
            current: Knowledge::default(),
            sent: EmissionSet::default(),
            step: 0,
            inputs_committed: 0,
            sends_committed: 0,
            moved: Vec::new(),
        }
    }

    pub(crate) fn consumption(&self, channel: Channel) -> Consumption {
        self.consumption
            .get(channel.index())
            .copied()
            .unwrap_or_default()
    }

    pub(crate) fn consumption_mut(&mut self, channel: Channel) -> &mut Consumption {
        if self.consumption.len() <= channel.index() {
            self.consumption
                .resize(channel.index() + 1, Consumption::default());
        }
        &mut self.consumption[channel.index()]
    }

    /// The channels it consumes, with their baselines.
    pub(crate) fn consumed(&self) -> impl Iterator<Item = (Channel, i64)> + '_ {
        let entries = self.consumption.iter().enumerate();
        entries.filter_map(|(index, entry)| Some((Channel::new(index), entry.baseline?)))
    }

    /// The record at `offset` of `channel` is delivered.
    pub(crate) fn take(&mut self, emission: Emission, record: &Record, offset: i64) {
        let entry = self.consumption_mut(record.channel);
        let before = entry.last;
        entry.last = before.max(Some(offset));
        self.moved.push((record.channel, before));
        self.inputs.push(emission);
        self.current.delivered.insert(emission);
        self.current.reached.insert(emission);
        self.current.reached.unite(&record.past);
    }

    /// The record is read by a consumer that nothing holds back.
    pub(crate) fn observe(&mut self, emission: Emission, record: &Record) {
        self.inputs.push(emission);
        self.current.observed.insert(emission);
        self.current.observed.unite(&record.past);
    }

    /// The open step's inputs.
    pub(crate) fn step_inputs(&self) -> &[Emission] {
        &self.inputs[self.inputs_committed..]
    }

    /// The open step's sends.
    pub(crate) fn step_sends(&self) -> &[Emission] {
        &self.sends[self.sends_committed..]
    }

    /// The open step's deliveries as the channels and what was delivered last from them before.
    pub(crate) fn moved(&self) -> impl Iterator<Item = (Channel, Option<i64>)> + '_ {
        self.moved.iter().copied()
    }

    /// What sends that follow the latest input of the open step are put down to.
    pub(crate) fn latest_cause(&self, records: &[Record]) -> Sent {
        match self.step_inputs().last() {
            Some(input) => self.sent_for(self.inputs.len() - 1, &records[input.index()]),
            None => Sent::Unprompted,
        }
    }

    /// What sends are put down to that follow the delivery of this record, its input of that number.
    pub(crate) fn sent_for(&self, input: usize, record: &Record) -> Sent {
        let of = match self.consumption(record.channel).ticks {
            true => Of::Ticks,
            false => Of::Key(record.key),
        };
        Sent::For { input, of }
    }

    /// The open step becomes fact; its sends are of the past of all that follow.
    pub(crate) fn commit(&mut self) {
        if self.order.goes_over_steps() {
            for send in &self.sends[self.sends_committed..] {
                self.sent.insert(*send);
            }
        }
        self.committed.clone_from(&self.current);
        self.inputs_committed = self.inputs.len();
        self.sends_committed = self.sends.len();
        self.moved.clear();
        self.step += 1;
    }

    /// The open step never was.
    pub(crate) fn abort(&mut self) {
        while let Some((channel, last)) = self.moved.pop() {
            self.consumption[channel.index()].last = last;
        }
        self.current.clone_from(&self.committed);
        self.inputs.truncate(self.inputs_committed);
        self.sends.truncate(self.sends_committed);
    }
}
