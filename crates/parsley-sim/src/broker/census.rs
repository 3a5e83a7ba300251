//! What a simulated broker has come to contain: the faults and shapes that a run has to have met for its success to mean something.

use std::collections::BTreeMap;

use super::Outcome;

/// Counts over the whole life of a broker: deleted topics and truncated records are included, what no read-committed reader could have passed
/// yet is not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Committed records, those outside of any transaction included.
    pub committed_records: u64,
    /// Transaction markers.
    pub markers: u64,
    /// Markers with a committed record somewhere before and somewhere behind them on their partition.
    pub markers_between_records: u64,
    /// Partitions that end with a marker.
    pub trailing_markers: u64,
    /// Runs of aborted records with no committed record before them. Markers do not end a run.
    pub aborted_runs_at_head: u64,
    /// Runs of aborted records with a committed record before and another behind them.
    pub aborted_runs_in_middle: u64,
    /// Runs of aborted records with no committed record behind them. A run that is alone on its partition is at its head and at its tail.
    pub aborted_runs_at_tail: u64,
    /// Transactions that committed something.
    pub committed_transactions: u64,
    /// Transactions that wrote something and aborted.
    pub aborted_transactions: u64,
    /// Transactions that wrote something and are not decided.
    pub open_transactions: u64,
    /// Records that were appended to a partition on which a transaction other than their own had no replicated marker yet.
    pub appended_behind_open: u64,
    /// Markers of transactions whose records there were lost with an earlier incarnation of the topic.
    pub stray_markers: u64,
    /// Deletions of records that moved a log's start.
    pub truncations: u64,
    /// Topics that were created under the name of a deleted one.
    pub recreations: u64,
    /// How many topics were created with each number of partitions.
    pub topics_by_partitions: BTreeMap<usize, u64>,
}

impl Census {
    pub(super) fn count_transaction(&mut self, outcome: Option<Outcome>, channels: usize) {
        if channels == 0 {
            return;
        }
        *match outcome {
            Some(Outcome::Committed) => &mut self.committed_transactions,
            Some(Outcome::Aborted) => &mut self.aborted_transactions,
            None => &mut self.open_transactions,
        } += 1;
    }

    pub(super) fn count_topic(&mut self, partitions: usize, incarnation: u32) {
        *self.topics_by_partitions.entry(partitions).or_default() += 1;
        self.recreations += u64::from(incarnation > 0);
    }
}
