//! A small world to judge.

use parsley_oracle::{Actor, Channel, Emission, Oracle, Rule, SendOrder};

/// A world of sequential clients and tasks.
pub(crate) struct World {
    pub(crate) oracle: Oracle,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            oracle: Oracle::new(),
        }
    }

    /// A client.
    pub(crate) fn actor(&mut self, name: &str) -> Actor {
        self.oracle.add_actor(name, SendOrder::Sequential)
    }

    pub(crate) fn channel(&mut self, name: &str) -> Channel {
        self.oracle.add_channel(name)
    }

    /// A task that consumes the channels from their beginnings.
    pub(crate) fn task(&mut self, name: &str, inputs: &[Channel]) -> Actor {
        let task = self
            .oracle
            .add_actor(name, SendOrder::PerKey { null_is_key: false });
        for input in inputs {
            self.oracle.consume(task, *input, 0);
        }
        task
    }

    /// Sends, appends and commits one record.
    pub(crate) fn send(&mut self, actor: Actor, to: Channel, offset: i64) -> Emission {
        let emission = self.oracle.emit(actor, to, None);
        self.oracle
            .appended(emission, offset)
            .expect("the place is free");
        self.oracle.commit(actor);
        emission
    }

    /// What a delivery is judged to be: the record, or the rule it breaks.
    pub(crate) fn deliver(
        &mut self,
        actor: Actor,
        channel: Channel,
        offset: i64,
    ) -> Result<Emission, Rule> {
        self.oracle
            .deliver(actor, channel, offset)
            .map_err(|violation| violation.rule)
    }

    /// What `actor` still misses at the end, as channel and offset.
    pub(crate) fn lost(&self, actor: Actor) -> Vec<(Channel, Option<i64>)> {
        let lost = self.oracle.complete_for(actor);
        assert!(
            lost.iter()
                .all(|violation| violation.rule == Rule::Lost && violation.actor == actor)
        );
        lost.iter()
            .map(|violation| (violation.channel, violation.offset))
            .collect()
    }
}
