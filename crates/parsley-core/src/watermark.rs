//! Watermark evidence (`docs/protocol.md`, Watermark evidence): what a high watermark, asked for after a mark, says about the records
//! that claims can name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::channel::{Channel, Offset, SenderId};

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

#[cfg(test)]
mod tests;
