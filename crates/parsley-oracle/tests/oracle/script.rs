//! Random histories, written down as what happened.

use std::collections::{BTreeMap, BTreeSet};

use parsley_oracle::{Actor, Channel, Emission, Oracle, SendOrder, Violation};
use proptest::prelude::*;

/// The actors' orders; every script has these.
pub(crate) const ORDERS: [SendOrder; 5] = [
    SendOrder::Sequential,
    SendOrder::PerKey { null_is_key: false },
    SendOrder::PerKey { null_is_key: true },
    SendOrder::PerDelivery,
    SendOrder::WithinDelivery,
];

/// How many channels every script has.
pub(crate) const CHANNELS: usize = 4;

/// What a send is put down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Latest,
    Nothing,
    Of(usize),
}

/// One thing that happened. Records go by labels, numbered in the order of the script they were written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Consume {
        actor: usize,
        channel: usize,
        baseline: i64,
    },
    Stop {
        actor: usize,
        channel: usize,
    },
    Forget {
        channel: usize,
    },
    Emit {
        label: usize,
        actor: usize,
        cause: Cause,
        to: usize,
        key: Option<u64>,
    },
    Append {
        label: usize,
        offset: i64,
    },
    Deliver {
        actor: usize,
        channel: usize,
        offset: i64,
    },
    Observe {
        actor: usize,
        channel: usize,
        offset: i64,
    },
    Commit {
        actor: usize,
    },
    Abort {
        actor: usize,
    },
}

/// Random numbers of which [`script`] makes one event.
pub(crate) type Choice = (u8, u8, u8, u8);

pub(crate) fn choices() -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec(any::<Choice>(), 0..160)
}

/// For histories of nearly two hundred records.
pub(crate) fn long_choices() -> impl Strategy<Value = Vec<Choice>> {
    proptest::collection::vec(any::<Choice>(), 480..600)
}

/// What the making of a script must know of the history so far.
#[derive(Default)]
struct Maker {
    events: Vec<Event>,
    labels: usize,
    /// By channel: what was appended, by offset.
    logs: [BTreeMap<i64, usize>; CHANNELS],
    /// What was emitted to where, by whom, and waits to be appended.
    pending: Vec<(usize, usize, usize)>,
    committed: BTreeSet<usize>,
    /// By actor: the labels emitted in the open step, and what it was handed in it.
    open_sends: [Vec<usize>; ORDERS.len()],
    open_inputs: [Vec<usize>; ORDERS.len()],
    handed: [BTreeSet<usize>; ORDERS.len()],
}

/// The history that the choices make. Deliveries are those of a host that is right more often than not; anything else is possible.
pub(crate) fn script(choices: &[Choice]) -> Vec<Event> {
    let mut maker = Maker::default();
    for actor in 0..ORDERS.len() {
        for channel in 0..CHANNELS {
            if (actor + channel) % 4 != 0 {
                maker.events.push(Event::Consume {
                    actor,
                    channel,
                    baseline: 0,
                });
            }
        }
    }
    for choice in choices {
        maker.add(*choice);
    }
    maker.events
}

impl Maker {
    fn add(&mut self, (kind, a, b, c): Choice) {
        let (actor, channel) = (usize::from(a) % ORDERS.len(), usize::from(b) % CHANNELS);
        match kind {
            0..=79 => self.emit(actor, channel, c),
            80..=94 => self.append(usize::from(b), c),
            95..=179 => self.hand(actor, channel, c),
            180..=229 => self.commit(actor),
            230..=241 => self.abort(actor),
            242..=247 => {
                let baseline = i64::from(c % 6);
                self.events.push(Event::Consume {
                    actor,
                    channel,
                    baseline,
                });
            }
            248..=253 => self.events.push(Event::Stop { actor, channel }),
            // Rare: most of a history should be about channels that exist.
            254..=255 if c < 64 => self.events.push(Event::Forget { channel }),
            254..=255 => {}
        }
    }

    fn emit(&mut self, actor: usize, to: usize, choice: u8) {
        let label = self.labels;
        self.labels += 1;
        let inputs = &self.open_inputs[actor];
        let cause = match choice % 4 {
            0 if !inputs.is_empty() => Cause::Of(inputs[usize::from(choice / 4) % inputs.len()]),
            1 => Cause::Nothing,
            _ => Cause::Latest,
        };
        let key = [None, Some(1), Some(2)][usize::from(choice / 16) % 3];
        self.events.push(Event::Emit {
            label,
            actor,
            cause,
            to,
            key,
        });
        self.open_sends[actor].push(label);
        self.pending.push((label, to, actor));
        // Mostly appended at once, as by a host that appends record by record.
        if choice % 8 < 5 {
            self.append(self.pending.len() - 1, choice);
        }
    }

    fn append(&mut self, pick: usize, choice: u8) {
        if self.pending.is_empty() {
            return;
        }
        let (label, to, _) = self.pending.remove(pick % self.pending.len());
        let end = self.logs[to]
            .last_key_value()
            .map_or(0, |(offset, _)| offset + 1);
        let offset = end + i64::from(choice.is_multiple_of(5));
        self.logs[to].insert(offset, label);
        self.events.push(Event::Append { label, offset });
    }

    fn hand(&mut self, actor: usize, channel: usize, choice: u8) {
        let unseen = self.logs[channel].iter().find(|(_, label)| {
            self.committed.contains(label) && !self.handed[actor].contains(label)
        });
        let offset = match (choice % 8, unseen) {
            (0, _) | (_, None) => i64::from(choice / 8 % 8),
            (_, Some((offset, _))) => *offset,
        };
        if choice % 16 == 1 {
            self.events.push(Event::Observe {
                actor,
                channel,
                offset,
            });
        } else {
            self.events.push(Event::Deliver {
                actor,
                channel,
                offset,
            });
        }
        if let Some(label) = self.logs[channel].get(&offset)
            && self.committed.contains(label)
        {
            self.open_inputs[actor].push(*label);
            self.handed[actor].insert(*label);
        }
    }

    fn commit(&mut self, actor: usize) {
        self.events.push(Event::Commit { actor });
        self.committed.extend(self.open_sends[actor].drain(..));
        self.open_inputs[actor].clear();
    }

    fn abort(&mut self, actor: usize) {
        self.events.push(Event::Abort { actor });
        for label in self.open_inputs[actor].drain(..) {
            self.handed[actor].remove(&label);
        }
        self.open_sends[actor].clear();
        self.pending.retain(|(_, _, creator)| *creator != actor);
    }
}

/// An oracle that was told a script.
pub(crate) struct Told {
    pub(crate) oracle: Oracle,
    pub(crate) actors: Vec<Actor>,
    pub(crate) channels: Vec<Channel>,
    /// By label, for those that were emitted.
    pub(crate) emissions: BTreeMap<usize, Emission>,
    /// The labels, by the numbers of their emissions.
    labels: Vec<usize>,
}

impl Told {
    pub(crate) fn new() -> Self {
        let mut oracle = Oracle::new();
        let actors = ORDERS
            .iter()
            .enumerate()
            .map(|(at, order)| oracle.add_actor(&format!("actor-{at}"), *order))
            .collect();
        let channels = (0..CHANNELS)
            .map(|at| oracle.add_channel(&format!("topic-{at}:0")))
            .collect();
        Self {
            oracle,
            actors,
            channels,
            emissions: BTreeMap::new(),
            labels: Vec::new(),
        }
    }

    /// Tells one event; of a delivery or an observation, what the oracle says to it.
    pub(crate) fn tell(&mut self, event: Event) -> Option<Result<Emission, Violation>> {
        let oracle = &mut self.oracle;
        match event {
            Event::Consume {
                actor,
                channel,
                baseline,
            } => {
                oracle.consume(self.actors[actor], self.channels[channel], baseline);
            }
            Event::Stop { actor, channel } => {
                oracle.stop_consuming(self.actors[actor], self.channels[channel])
            }
            Event::Forget { channel } => oracle.forget_channel(self.channels[channel]),
            Event::Emit {
                label,
                actor,
                cause,
                to,
                key,
            } => {
                let (actor, to) = (self.actors[actor], self.channels[to]);
                let emission = match cause {
                    Cause::Latest => oracle.emit(actor, to, key),
                    Cause::Nothing => oracle
                        .emit_for(actor, None, to, key)
                        .expect("no cause is named"),
                    Cause::Of(cause) => oracle
                        .emit_for(actor, Some(self.emissions[&cause]), to, key)
                        .expect("the script names what was handed in"),
                };
                assert_eq!(
                    emission.index(),
                    self.labels.len(),
                    "emissions are numbered densely"
                );
                self.emissions.insert(label, emission);
                self.labels.push(label);
            }
            Event::Append { label, offset } => {
                oracle
                    .appended(self.emissions[&label], offset)
                    .expect("the script gives each place once");
            }
            Event::Deliver {
                actor,
                channel,
                offset,
            } => {
                return Some(oracle.deliver(self.actors[actor], self.channels[channel], offset));
            }
            Event::Observe {
                actor,
                channel,
                offset,
            } => {
                return Some(oracle.observe(self.actors[actor], self.channels[channel], offset));
            }
            Event::Commit { actor } => oracle.commit(self.actors[actor]),
            Event::Abort { actor } => oracle.abort(self.actors[actor]),
        }
        None
    }

    /// The label of a record.
    pub(crate) fn label(&self, emission: Emission) -> usize {
        self.labels[emission.index()]
    }
}
