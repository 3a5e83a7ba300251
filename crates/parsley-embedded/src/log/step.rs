//! A task's step: sends round by round, then a commit of everything at once.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use parsley_core::{Changes, Channel, Offset, Record};

use super::partition::{Outcome, TransactionId};
use super::{Log, SendError, State};

/// A step that is being written, with the log's lock held: nobody sees any of it before the commit, and nobody writes in between. Dropped
/// without a commit it leaves an aborted run, as a failed step does on a broker, and nothing at all when nothing was appended.
pub(crate) struct StepWriter<'a> {
    log: &'a Log,
    state: MutexGuard<'a, State>,
    transaction: TransactionId,
    touched: BTreeSet<Channel>,
    ended: bool,
}

impl<'a> StepWriter<'a> {
    pub(super) fn new(
        log: &'a Log,
        state: MutexGuard<'a, State>,
        transaction: TransactionId,
    ) -> Self {
        Self {
            log,
            state,
            transaction,
            touched: BTreeSet::new(),
            ended: false,
        }
    }

    /// Appends a send, and returns where it stands.
    ///
    /// # Errors
    ///
    /// When its sink has been deleted or it is too large. What came before it stays appended, for the step to abort.
    pub(crate) fn append(&mut self, record: Record) -> Result<Offset, SendError> {
        let channel = record.channel;
        let topic = channel.topic;
        let name = &self
            .state
            .storage
            .topic(topic)
            .ok_or(SendError::DeletedTopic { topic })?
            .name;
        self.log.check_size(name, &record)?;
        let partition = self
            .state
            .storage
            .partition_mut(channel)
            .ok_or(SendError::DeletedTopic { topic })?;
        let offset = partition.append(record, Some(self.transaction));
        self.touched.insert(channel);
        Ok(offset)
    }

    /// Makes the step durable and visible: a marker on every partition it wrote to, the positions, and the changes of both stores.
    pub(crate) fn commit(
        mut self,
        group: &str,
        partition: i32,
        positions: Vec<(Channel, Offset)>,
        ordering: Changes,
        fold: Changes,
    ) {
        self.state
            .storage
            .commit_task(group, partition, positions, ordering, fold);
        self.end(Outcome::Committed);
    }

    fn end(&mut self, outcome: Outcome) {
        if std::mem::replace(&mut self.ended, true) || self.touched.is_empty() {
            return;
        }
        if self
            .state
            .storage
            .end_transaction(self.transaction, &self.touched, outcome)
        {
            self.state.upheavals += 1;
        }
        self.log.wake(&mut self.state);
    }
}

impl Drop for StepWriter<'_> {
    fn drop(&mut self) {
        self.end(Outcome::Aborted);
    }
}
