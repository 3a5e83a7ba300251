//! The definitions, read as plainly as possible: a list of what each actor did, and ancestry by walking it. Nothing is kept that could
//! be worked out again.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use parsley_oracle::{Rule, SendOrder};

use crate::script::{Cause, Event, ORDERS};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Delivered(usize),
    Observed(usize),
    Sent(usize),
}

/// A step: what was done in it, in order.
#[derive(Clone, Debug, Default)]
struct Step {
    deeds: Vec<Deed>,
}

#[derive(Clone, Debug)]
struct Sent {
    actor: usize,
    to: usize,
    key: Option<u64>,
    /// The deed of its step that it was sent for.
    cause: Option<usize>,
    /// Its step, among those its actor has committed or has open.
    step: usize,
    /// Its place in the step.
    place: usize,
    offset: Option<i64>,
}

/// A history of steps.
pub(crate) struct Naive {
    /// By actor: the committed steps, and the open one last.
    steps: Vec<Vec<Step>>,
    /// By label. Sends of aborted steps are gone.
    sent: BTreeMap<usize, Sent>,
    baselines: BTreeMap<(usize, usize), i64>,
    forgotten: BTreeSet<usize>,
}

/// What is to be said of a delivery: the rule it breaks, if it does.
pub(crate) type Judgement = Result<usize, Rule>;

impl Naive {
    pub(crate) fn new() -> Self {
        Self {
            steps: vec![vec![Step::default()]; ORDERS.len()],
            sent: BTreeMap::new(),
            baselines: BTreeMap::new(),
            forgotten: BTreeSet::new(),
        }
    }

    pub(crate) fn tell(&mut self, event: Event) -> Option<Judgement> {
        match event {
            Event::Consume {
                actor,
                channel,
                baseline,
            } => {
                self.baselines.entry((actor, channel)).or_insert(baseline);
            }
            Event::Stop { actor, channel } => {
                self.baselines.remove(&(actor, channel));
            }
            Event::Forget { channel } => {
                self.forgotten.insert(channel);
            }
            Event::Emit {
                label,
                actor,
                cause,
                to,
                key,
            } => self.emit(label, actor, cause, to, key),
            Event::Append { label, offset } => {
                if let Some(sent) = self.sent.get_mut(&label) {
                    sent.offset = Some(offset);
                }
            }
            Event::Deliver {
                actor,
                channel,
                offset,
            } => {
                let judgement = self.judge(actor, channel, offset);
                if let Some(label) = self.business_record(channel, offset) {
                    self.open(actor).deeds.push(Deed::Delivered(label));
                }
                return Some(judgement);
            }
            Event::Observe {
                actor,
                channel,
                offset,
            } => {
                let label = self.business_record(channel, offset);
                if let Some(label) = label {
                    self.open(actor).deeds.push(Deed::Observed(label));
                }
                return Some(label.ok_or(Rule::Phantom));
            }
            Event::Commit { actor } => self.steps[actor].push(Step::default()),
            Event::Abort { actor } => {
                let step = std::mem::take(self.open(actor));
                for deed in step.deeds {
                    if let Deed::Sent(label) = deed {
                        self.sent.remove(&label);
                    }
                }
            }
        }
        None
    }

    fn open(&mut self, actor: usize) -> &mut Step {
        self.steps[actor]
            .last_mut()
            .expect("an actor always has an open step")
    }

    fn emit(&mut self, label: usize, actor: usize, cause: Cause, to: usize, key: Option<u64>) {
        let step = self.steps[actor].len() - 1;
        let deeds = &self.steps[actor][step].deeds;
        let cause = match cause {
            Cause::Nothing => None,
            Cause::Latest => deeds
                .iter()
                .rposition(|deed| !matches!(deed, Deed::Sent(_))),
            Cause::Of(label) => {
                let handed =
                    |deed: &Deed| [Deed::Delivered(label), Deed::Observed(label)].contains(deed);
                deeds.iter().rposition(handed)
            }
        };
        let place = deeds.len();
        self.sent.insert(
            label,
            Sent {
                actor,
                to,
                key,
                cause,
                step,
                place,
                offset: None,
            },
        );
        self.open(actor).deeds.push(Deed::Sent(label));
    }

    pub(crate) fn is_committed(&self, label: usize) -> bool {
        self.sent
            .get(&label)
            .is_some_and(|sent| sent.step + 1 < self.steps[sent.actor].len())
    }

    /// The labels of what was sent and not taken back.
    pub(crate) fn facts(&self) -> impl Iterator<Item = usize> + '_ {
        self.sent.keys().copied()
    }

    fn business_record(&self, channel: usize, offset: i64) -> Option<usize> {
        let there = |sent: &Sent| sent.to == channel && sent.offset == Some(offset);
        let found = self
            .sent
            .iter()
            .find(|(label, sent)| there(sent) && self.is_committed(**label));
        found.map(|(label, _)| *label)
    }

    /// What is a cause of the record without anything in between.
    pub(crate) fn direct_causes(&self, label: usize) -> BTreeSet<usize> {
        let record = &self.sent[&label];
        let mut causes = BTreeSet::new();
        for (number, step) in self.steps[record.actor]
            .iter()
            .enumerate()
            .take(record.step + 1)
        {
            for (place, deed) in step.deeds.iter().enumerate() {
                let earlier_step = number < record.step;
                let is_cause = match deed {
                    Deed::Delivered(_) | Deed::Observed(_) => {
                        earlier_step || place <= record.cause.unwrap_or(record.place)
                    }
                    Deed::Sent(_) if earlier_step => {
                        ORDERS[record.actor] != SendOrder::WithinDelivery
                    }
                    Deed::Sent(earlier) => {
                        place < record.place && self.related(&self.sent[earlier], record)
                    }
                };
                if is_cause {
                    let (Deed::Delivered(cause) | Deed::Observed(cause) | Deed::Sent(cause)) = deed;
                    causes.insert(*cause);
                }
            }
        }
        causes
    }

    /// Whether two sends of one step, the first emitted earlier, are ordered.
    fn related(&self, earlier: &Sent, later: &Sent) -> bool {
        if earlier.to == later.to {
            return true;
        }
        let order = ORDERS[later.actor];
        if order == SendOrder::Sequential {
            return true;
        }
        let (Some(first), Some(second)) = (earlier.cause, later.cause) else {
            return false;
        };
        let key = |place: usize| match self.steps[later.actor][later.step].deeds[place] {
            Deed::Delivered(label) | Deed::Observed(label) => self.sent[&label].key,
            Deed::Sent(_) => unreachable!("a send is no cause"),
        };
        match order {
            SendOrder::PerDelivery | SendOrder::WithinDelivery | SendOrder::Sequential => {
                first == second
            }
            SendOrder::PerKey { null_is_key: true } => key(first) == key(second),
            SendOrder::PerKey { null_is_key: false } => {
                first == second || (key(first).is_some() && key(first) == key(second))
            }
        }
    }

    /// All that happened before the record, each with the least number of hops it takes from there.
    pub(crate) fn ancestors(&self, label: usize) -> BTreeMap<usize, usize> {
        let mut found = BTreeMap::new();
        let mut queue = VecDeque::from([(label, 0)]);
        while let Some((at, hops)) = queue.pop_front() {
            for cause in self.direct_causes(at) {
                if let Entry::Vacant(entry) = found.entry(cause) {
                    entry.insert(hops + 1);
                    queue.push_back((cause, hops + 1));
                }
            }
        }
        found
    }

    fn deeds(&self, actor: usize) -> impl Iterator<Item = Deed> + '_ {
        self.steps[actor]
            .iter()
            .flat_map(|step| step.deeds.iter().copied())
    }

    pub(crate) fn delivered(&self, actor: usize) -> BTreeSet<usize> {
        let delivered = |deed| {
            if let Deed::Delivered(label) = deed {
                Some(label)
            } else {
                None
            }
        };
        self.deeds(actor).filter_map(delivered).collect()
    }

    /// What the actor must have been delivered before the record, and was not.
    pub(crate) fn missing(&self, actor: usize, label: usize) -> BTreeMap<usize, usize> {
        let delivered = self.delivered(actor);
        let mut missing = self.ancestors(label);
        missing.retain(|label, _| self.is_owed(actor, *label) && !delivered.contains(label));
        missing
    }

    fn is_owed(&self, actor: usize, label: usize) -> bool {
        let sent = &self.sent[&label];
        let baseline = self.baselines.get(&(actor, sent.to));
        let from_baseline = matches!((baseline, sent.offset), (Some(baseline), Some(offset)) if offset >= *baseline);
        from_baseline && !self.forgotten.contains(&sent.to)
    }

    fn judge(&self, actor: usize, channel: usize, offset: i64) -> Judgement {
        let label = self.business_record(channel, offset).ok_or(Rule::Phantom)?;
        let baseline = *self.baselines.get(&(actor, channel)).ok_or(Rule::Phantom)?;
        if offset < baseline {
            return Err(Rule::BelowBaseline);
        }
        let delivered = self.delivered(actor);
        if delivered.contains(&label) {
            return Err(Rule::Duplicate);
        }
        let of_channel = delivered
            .iter()
            .map(|label| &self.sent[label])
            .filter(|sent| sent.to == channel);
        if of_channel.map(|sent| sent.offset).max() >= Some(Some(offset)) {
            return Err(Rule::Fifo);
        }
        if delivered
            .iter()
            .any(|before| self.ancestors(*before).contains_key(&label))
        {
            return Err(Rule::ReEntry);
        }
        if !self.missing(actor, label).is_empty() {
            return Err(Rule::CausalOrder);
        }
        Ok(label)
    }

    /// What committed steps have not delivered, by actor, channel and offset; and what was committed and never appended.
    pub(crate) fn incomplete(&self) -> (BTreeSet<(usize, usize, i64)>, BTreeSet<usize>) {
        let mut lost = BTreeSet::new();
        let mut unsent = BTreeSet::new();
        for (label, sent) in self
            .sent
            .iter()
            .filter(|(label, _)| self.is_committed(**label))
        {
            for actor in 0..ORDERS.len() {
                let (_open, committed) = self.steps[actor]
                    .split_last()
                    .expect("an actor always has an open step");
                let delivered = committed
                    .iter()
                    .any(|step| step.deeds.contains(&Deed::Delivered(*label)));
                if let Some(offset) = sent.offset
                    && self.is_owed(actor, *label)
                    && !delivered
                {
                    lost.insert((actor, sent.to, offset));
                }
            }
            if sent.offset.is_none() && !self.forgotten.contains(&sent.to) {
                unsent.insert(*label);
            }
        }
        (lost, unsent)
    }
}
