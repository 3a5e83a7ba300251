//! Deliveries held against the past.

use crate::record::Fate;
use crate::{Actor, Channel, Emission, Oracle, Rule, Violation};

impl Oracle {
    /// The actor is handed the record at `offset` of `channel`. The delivery counts whether or not it breaks a rule, unless there is no
    /// business record to deliver.
    ///
    /// # Errors
    /// The first [`Rule`] that the delivery breaks, in their order.
    pub fn deliver(
        &mut self,
        actor: Actor,
        channel: Channel,
        offset: i64,
    ) -> Result<Emission, Violation> {
        let record = self.business_record(actor, channel, offset)?;
        let verdict = self.judge(actor, channel, offset, record);
        self.actors[actor.index()].take(record, &self.records[record.index()], offset);
        verdict.map(|()| record)
    }

    /// The actor reads the record at `offset` of `channel` as a plain consumer, which nothing gates: the record is of the past of what it sends
    /// from now on, and no rule is asked but that it exists. It does not count as delivered.
    ///
    /// # Errors
    /// [`Rule::Phantom`] if no committed business record stands there.
    pub fn observe(
        &mut self,
        actor: Actor,
        channel: Channel,
        offset: i64,
    ) -> Result<Emission, Violation> {
        let record = self.business_record(actor, channel, offset)?;
        self.actors[actor.index()].observe(record, &self.records[record.index()]);
        Ok(record)
    }

    /// What the committed history still lacks: for each actor as [`complete_for`](Self::complete_for), and [`Rule::Unsent`] for each send of a
    /// committed step, to a channel that still exists, which was never appended.
    pub fn complete(&self) -> Vec<Violation> {
        let mut found: Vec<Violation> = self
            .actors()
            .flat_map(|actor| self.complete_for(actor))
            .collect();
        for (index, record) in self.records.iter().enumerate() {
            let gone = self.channels[record.channel.index()].forgotten;
            if record.fate == Fate::Committed && record.offset.is_none() && !gone {
                found.push(Violation {
                    rule: Rule::Unsent,
                    actor: record.creator,
                    channel: record.channel,
                    offset: None,
                    record: Some(Emission::new(index)),
                    other: None,
                    path: Vec::new(),
                });
            }
        }
        found
    }

    /// [`Rule::Lost`] for each business record that the actor is owed and no committed step of it has delivered, by channel and offset.
    pub fn complete_for(&self, actor: Actor) -> Vec<Violation> {
        let state = &self.actors[actor.index()];
        let mut found = Vec::new();
        for (channel, baseline) in state.consumed() {
            let channel_state = &self.channels[channel.index()];
            if channel_state.forgotten {
                continue;
            }
            let from = channel_state.find(baseline).unwrap_or_else(|at| at);
            for (offset, record) in &channel_state.log[from..] {
                if self.is_committed(*record) && !state.committed.delivered.contains(*record) {
                    found.push(about(Rule::Lost, actor, channel, *offset, Some(*record)));
                }
            }
        }
        found
    }

    fn business_record(
        &self,
        actor: Actor,
        channel: Channel,
        offset: i64,
    ) -> Result<Emission, Violation> {
        let record = self.record_at(channel, offset);
        record
            .filter(|record| self.is_committed(*record))
            .ok_or_else(|| about(Rule::Phantom, actor, channel, offset, record))
    }

    fn judge(
        &self,
        actor: Actor,
        channel: Channel,
        offset: i64,
        record: Emission,
    ) -> Result<(), Violation> {
        let state = &self.actors[actor.index()];
        let broken = |rule| about(rule, actor, channel, offset, Some(record));
        let consumption = state.consumption(channel);
        let Some(baseline) = consumption.baseline else {
            return Err(broken(Rule::Phantom));
        };
        if offset < baseline {
            return Err(broken(Rule::BelowBaseline));
        }
        let known = &state.current;
        if known.delivered.contains(record) {
            return Err(broken(Rule::Duplicate));
        }
        if let Some(last) = consumption.last
            && offset <= last
        {
            return Err(Violation {
                other: self.record_at(channel, last),
                ..broken(Rule::Fifo)
            });
        }
        if known.reached.contains(record) {
            let path = self.path_from(record, known.delivered.iter());
            return Err(Violation {
                other: path.last().copied(),
                path,
                ..broken(Rule::ReEntry)
            });
        }
        let past = &self.records[record.index()].past;
        if past.missing(&state.owed, &known.delivered).next().is_some() {
            let path = self.path_to(record, |cause| {
                state.owed.contains(cause) && !known.delivered.contains(cause)
            });
            return Err(Violation {
                other: path.first().copied(),
                path,
                ..broken(Rule::CausalOrder)
            });
        }
        Ok(())
    }
}

fn about(
    rule: Rule,
    actor: Actor,
    channel: Channel,
    offset: i64,
    record: Option<Emission>,
) -> Violation {
    Violation {
        rule,
        actor,
        channel,
        offset: Some(offset),
        record,
        other: None,
        path: Vec::new(),
    }
}
