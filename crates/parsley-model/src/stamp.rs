//! The stamp, fences and watermark evidence.

use std::collections::BTreeMap;

use crate::broken::Broken;
use crate::clock::Clock;
use crate::execution::Execution;
use crate::facts::Mark;
use crate::id::{Channel, Sender, channel, topic_of};
use crate::record::Stamp;
use crate::refused::Refused;

impl Execution {
    fn of_declared_sink(&self, on: Channel) -> bool {
        self.sinks.contains_key(&topic_of(on))
    }

    /// Every partition of every declared sink.
    pub fn sink_channels(&self) -> Vec<Channel> {
        let mut all = Vec::new();
        for (&topic, &partitions) in &self.sinks {
            all.extend((0..partitions).map(|partition| channel(topic, partition)));
        }
        all
    }

    /// Delivered, advertised and carried: what this node has delivered, and nothing that it merely holds or sent.
    pub fn delivered_past(&self) -> Clock {
        let mut past = self.custody();
        past.merge(&self.delivered_term());
        past
    }

    /// Advertised and carried: what is stored of the past as clocks.
    pub fn custody(&self) -> Clock {
        let mut custody = self.advertised_term();
        custody.merge(&self.state.carried);
        custody
    }

    fn delivered_term(&self) -> Clock {
        Clock {
            offsets: self.delivered.clone(),
            ..Clock::default()
        }
    }

    fn advertised_term(&self) -> Clock {
        let mut term = Clock::default();
        for clock in self.state.advertised.values() {
            term.merge(clock);
        }
        term
    }

    /// The terms of the stamp but the own one, as they are.
    fn stamped_past(&self) -> Clock {
        match self.broken {
            Some(Broken::DropDeliveredTerm) => self.custody(),
            Some(Broken::DropAdvertisedTerm) => {
                let mut past = self.delivered_term();
                past.merge(&self.state.carried);
                past
            }
            Some(Broken::DropCarriedTerm) => {
                let mut past = self.delivered_term();
                past.merge(&self.advertised_term());
                past
            }
            _ => self.delivered_past(),
        }
    }

    fn stamp(&self) -> Clock {
        let mut stamp = self.stamped_past();
        for ((on, sender), sequence) in std::mem::take(&mut stamp.sequences) {
            if sender == self.me {
                let vouched = self
                    .own_vouched
                    .get(&on)
                    .is_some_and(|&vouched| sequence <= vouched);
                let gone = self.is_gone(on) || self.swept.contains(&topic_of(on));
                if !self.of_declared_sink(on) || gone || vouched {
                    continue;
                }
            } else if let Some(&(delivered, offset)) = self.state.marks.get(&(on, sender))
                && sequence <= delivered
            {
                stamp.claim_offset(on, offset);
                continue;
            }
            stamp.claim_sequence(on, sender, sequence);
        }
        if self.breaks(Broken::DropOwnTerm) {
            return stamp;
        }
        for (&on, &offset) in &self.own_offsets {
            stamp.claim_offset(on, offset);
        }
        for (&on, &sequence) in &self.own_claims {
            stamp.claim_sequence(on, self.me, sequence);
        }
        stamp
    }

    pub(crate) fn send(&mut self, to: Channel, budget: usize) -> Result<Stamp, Refused> {
        if !self.of_declared_sink(to) {
            return Err(Refused::on("vc-undeclared-sink", to));
        }
        let clock = self.stamp();
        let bytes = clock.encode();
        if bytes.len() > budget {
            return Err(Refused::on("vc-clock-too-wide", to));
        }
        let first_of_step = self.sent_in_step.insert(to);
        let sequence = match self.state.sent.get(&to) {
            Some(&last) if !first_of_step && self.breaks(Broken::ReuseASequence) => last,
            last => last.map_or(0, |&last| last + 1),
        };
        self.state.sent.insert(to, sequence);
        self.unfenced.insert(to);
        if self.breaks(Broken::ClaimTheUnacknowledged) {
            self.own_claims.insert(to, sequence);
        }
        Ok(Stamp {
            to,
            sequence,
            clock,
            bytes,
        })
    }

    /// Decision D10.
    pub(crate) fn fence(&mut self, acks: &BTreeMap<Channel, i64>) {
        let unfenced = std::mem::take(&mut self.unfenced);
        if self.breaks(Broken::ForgetAcknowledgements) {
            return;
        }
        for on in &unfenced {
            self.own_claims.insert(*on, self.state.sent[on]);
        }
        for (&on, &offset) in acks {
            // Decision D10: a new send cannot stand at or below what was known before it.
            let known = self.own_offsets.get(&on);
            if self.own_claims.contains_key(&on) && known.is_some_and(|&known| offset <= known) {
                continue;
            }
            self.raise_own(on, offset, self.state.sent.get(&on).copied());
        }
    }

    /// The own offset of a channel, and the last own sequence that it covers.
    pub(crate) fn raise_own(&mut self, on: Channel, offset: i64, covers: Option<i64>) {
        let own = self.own_offsets.entry(on).or_insert(offset);
        *own = (*own).max(offset);
        if let Some(covers) = covers {
            let vouched = self.own_vouched.entry(on).or_insert(covers);
            *vouched = (*vouched).max(covers);
            if self
                .own_claims
                .get(&on)
                .is_some_and(|&claimed| claimed <= covers)
            {
                self.own_claims.remove(&on);
            }
        }
    }

    /// Decision D9.
    pub(crate) fn mark(&self) -> Mark {
        let mut known: BTreeMap<(Channel, Sender), i64> = BTreeMap::new();
        let held = self
            .state
            .held
            .values()
            .flatten()
            .map(|held| &held.record.clock);
        for clock in self
            .state
            .advertised
            .values()
            .chain([&self.state.carried])
            .chain(held)
        {
            for (&claimed, &sequence) in &clock.sequences {
                let highest = known.entry(claimed).or_insert(sequence);
                *highest = (*highest).max(sequence);
            }
        }
        Mark {
            arrivals: self.arrivals,
            known,
            own: self.state.sent.clone(),
        }
    }

    /// A watermark of 0 says nothing (decision D16).
    pub(crate) fn watermarks(&mut self, mark: &Mark, watermarks: &BTreeMap<Channel, i64>) {
        let mark = match self.broken {
            Some(Broken::EvidenceWithoutMark) => &self.mark(),
            _ => mark,
        };
        for (&on, &watermark) in watermarks.iter().filter(|(_, watermark)| **watermark > 0) {
            self.evidence
                .entry(on)
                .or_default()
                .push((mark.arrivals, watermark));
            if self.sink_channels().contains(&on) {
                self.raise_own(on, watermark - 1, mark.own.get(&on).copied());
            }
            let state = &mut self.state;
            for clock in state.advertised.values_mut().chain([&mut state.carried]) {
                for ((claimed_on, sender), sequence) in std::mem::take(&mut clock.sequences) {
                    let known = mark
                        .known
                        .get(&(claimed_on, sender))
                        .is_some_and(|&known| sequence <= known);
                    if claimed_on == on && known {
                        clock.claim_offset(on, watermark - 1);
                    } else {
                        clock.claim_sequence(claimed_on, sender, sequence);
                    }
                }
            }
        }
        self.cursor = None;
    }
}
