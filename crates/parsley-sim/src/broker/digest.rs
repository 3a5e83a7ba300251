//! What of a broker can still bear on what it does, for whoever compares worlds.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use super::log::Log;
use super::{SimBroker, Txn};

/// Names for the transactions that something may still happen to, in the order in which they are met. Their numbers tell who began first,
/// which has no bearing on anything.
#[derive(Debug, Default)]
pub(crate) struct TxnNames {
    names: BTreeMap<Txn, usize>,
    met: Vec<Txn>,
}

impl TxnNames {
    /// The transaction's name; `None` for one that is decided and has all its markers.
    pub fn name(&mut self, broker: &SimBroker, txn: Txn) -> Option<usize> {
        if broker.is_complete(txn) {
            return None;
        }
        let next = self.met.len();
        let name = *self.names.entry(txn).or_insert(next);
        if name == next {
            self.met.push(txn);
        }
        Some(name)
    }
}

impl SimBroker {
    /// Tells `state` everything that reads, appends and markers to come depend on.
    pub(crate) fn digest(&self, names: &mut TxnNames, state: &mut impl Hasher) {
        for (channel, log) in self.live_logs() {
            channel.hash(state);
            log.digest(state);
            self.digest_unstable(log, names, state);
        }
        for (name, txn) in names.met.iter().enumerate() {
            let pending = self.pending.iter().filter(|(of, _)| of == txn);
            let pending: Vec<_> = pending.map(|(_, channel)| *channel).collect();
            let known = self.transaction(*txn);
            let channels = known.map(|known| &known.channels);
            (name, self.outcome(*txn), channels, pending).hash(state);
        }
    }

    fn digest_unstable(&self, log: &Log, names: &mut TxnNames, state: &mut impl Hasher) {
        for (txn, offsets, marker_written) in log.unstable() {
            (names.name(self, txn), offsets, marker_written).hash(state);
        }
    }
}
