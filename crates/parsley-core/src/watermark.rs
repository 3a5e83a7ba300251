//! Watermark evidence (`docs/protocol.md`, Watermark evidence): what a high watermark, asked for after a mark, says about the records
//! that claims can name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::channel::{Channel, Offset, SenderId};
use crate::clock::SequenceClaim;
use crate::hold::Wait;
use crate::node::{Node, NodeError};

/// Identifies one execution of a node, so that an answer from before a restart is not taken for one of now.
#[derive(Clone, Debug, Default)]
pub(crate) struct Execution(Arc<()>);

impl PartialEq for Execution {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// What a node had been fed, and knew, when a host took the mark; from [`Node::mark`](crate::Node::mark). High watermarks asked for after
/// that speak for exactly this.
#[derive(Clone, Debug)]
pub struct Mark {
    pub(crate) execution: Execution,
    /// Counts the marks of an execution.
    pub(crate) ordinal: u64,
    /// Per received channel, `fed_up_to`: a record at or below it had been received.
    pub(crate) fed: Arc<[Option<Offset>]>,
    /// The highest sequence claims in custody or on held records (decision D9).
    pub(crate) known: BTreeMap<(Channel, SenderId), i64>,
    /// Per own sink channel, the last send sequence acknowledged.
    pub(crate) acknowledged: BTreeMap<Channel, i64>,
}

/// A high watermark of one channel and the mark that it speaks for.
#[derive(Clone, Debug)]
struct Watermark {
    mark: u64,
    fed: Arc<[Option<Offset>]>,
    position: Offset,
}

/// The high watermarks of one received channel, kept for the records that are still held. In memory only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence(Vec<Watermark>);

impl Evidence {
    /// How many watermarks of a channel are kept that say something of their own. While they wait for what lies below them to be fed, a
    /// later one adds nothing that asking again afterwards would not; the earlier ones stay, so that every one is reached in the end.
    pub const KEPT_MAX: usize = 16;

    /// Takes up a watermark; those that say less (an earlier mark and no lower position) go.
    pub fn add(&mut self, mark: &Mark, position: Offset) {
        let says_less = |kept: &Watermark| kept.mark <= mark.ordinal && kept.position >= position;
        self.0.retain(|kept| !says_less(kept));
        if self.0.len() >= Self::KEPT_MAX {
            return;
        }
        self.0.push(Watermark {
            mark: mark.ordinal,
            fed: Arc::clone(&mark.fed),
            position,
        });
    }

    /// The lowest watermark that was asked for after the record at `offset` of the received channel `on` had been received.
    pub fn lowest_after_receipt(&self, on: usize, offset: Offset) -> Option<Offset> {
        self.0
            .iter()
            .filter(|kept| kept.fed[on].is_some_and(|fed| offset <= fed))
            .map(|kept| kept.position)
            .min()
    }

    /// Forgets watermarks that a later one makes useless now that everything below that one is fed.
    pub fn prune(&mut self, fed_up_to: Option<Offset>) {
        let Some(fed) = fed_up_to else { return };
        let latest_reached = self
            .0
            .iter()
            .filter(|kept| fed >= kept.position - 1)
            .map(|kept| kept.mark)
            .max();
        if let Some(mark) = latest_reached {
            self.0.retain(|kept| kept.mark >= mark);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Node {
    /// Takes the mark that the next high watermarks speak for. Take it at a step boundary, ask the broker after it, and hand the answer in
    /// whenever it comes.
    pub fn mark(&mut self) -> Mark {
        let mut known: BTreeMap<(Channel, SenderId), i64> = BTreeMap::new();
        let mut note = |channel, sender, sequence| {
            let highest = known.entry((channel, sender)).or_insert(sequence);
            *highest = sequence.max(*highest);
        };
        for claim in self.stamp.past_sequences() {
            note(claim.channel, claim.sender, claim.sequence);
        }
        for input in &self.inputs {
            input.queue.visit_claims(&mut note);
        }
        self.marks += 1;
        Mark {
            execution: self.execution.clone(),
            ordinal: self.marks,
            fed: self.inputs.iter().map(|input| input.fed_up_to).collect(),
            known,
            acknowledged: self.own.acknowledged(),
        }
    }

    /// Takes up high watermarks that were asked for after `mark`, at a step boundary. A mark of another execution says nothing. Ask for
    /// deliveries after it.
    ///
    /// # Errors
    ///
    /// When a watermark is negative.
    pub fn watermarks(
        &mut self,
        mark: &Mark,
        watermarks: &BTreeMap<Channel, Offset>,
    ) -> Result<(), NodeError> {
        self.running()?;
        if let Some((&channel, &found)) = watermarks.iter().find(|&(_, &watermark)| watermark < 0) {
            return Err(NodeError::Negative {
                what: "high watermark",
                channel,
                found,
            });
        }
        if mark.execution != self.execution {
            return Ok(());
        }
        self.drain.restart();
        // One of 0 says that nothing was ever appended, and vouches for nothing (decision D16).
        for (&channel, &watermark) in watermarks.iter().filter(|&(_, &watermark)| watermark > 0) {
            let acknowledged = mark.acknowledged.get(&channel).copied();
            self.own.watermark(channel, watermark, acknowledged);
            self.stamp.own_changed(&self.own, [channel]);
            if let Some(index) = self.received.index_of(channel) {
                let input = &mut self.inputs[index];
                input.evidence.add(mark, watermark);
                input.evidence.prune(input.fed_up_to);
                self.drain.evidence_changed(index);
            }
        }
        let resolve = |claim: &SequenceClaim| {
            let watermark = watermarks
                .get(&claim.channel)
                .filter(|&&watermark| watermark > 0)?;
            let known = mark.known.get(&(claim.channel, claim.sender))?;
            (claim.sequence <= *known).then_some(watermark - 1)
        };
        // Each clock is judged by itself: one may hold a claim known at the mark below a later one of another.
        let claimed = self
            .stamp
            .past_sequences()
            .iter()
            .any(|claim| watermarks.contains_key(&claim.channel));
        if claimed {
            self.rewrite_past(|clock| clock.resolve_sequences(resolve));
        }
        Ok(())
    }

    /// How many sequence claims the next stamp may hold: a host asks for high watermarks when they are many.
    pub fn sequence_claims(&self) -> usize {
        self.stamp.past_sequences().len() + self.own.claimed_by_sequence().count()
    }

    /// How many claims the next stamp may hold: by offset, and by sequence.
    pub fn stamp_entries(&self) -> (usize, usize) {
        (self.stamp.offset_claims(), self.sequence_claims())
    }

    /// The channels that the next stamp may claim by sequence: those whose high watermarks turn such claims into offsets.
    pub fn channels_claimed_by_sequence(&self) -> BTreeSet<Channel> {
        let past = self
            .stamp
            .past_sequences()
            .iter()
            .map(|claim| claim.channel);
        past.chain(self.own.claimed_by_sequence()).collect()
    }

    /// The channels whose high watermarks may release a head: those that a head, blocked by sequence claims alone, waits for.
    pub fn channels_waited_for_by_sequence(&self) -> BTreeSet<Channel> {
        let mut channels = BTreeSet::new();
        for hold in self.holds() {
            if hold
                .waits
                .iter()
                .all(|wait| matches!(wait, Wait::Sequence { .. }))
            {
                channels.extend(hold.waits.iter().map(Wait::channel));
            }
        }
        channels
    }
}

#[cfg(test)]
mod tests;
