//! A task's step: sends round by round, then a commit of everything at once.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use parsley_core::{Channel, Offset, Record};

use super::partition::TransactionId;
use super::{Log, SendError, State, StepChanges, StorageError};

/// A step that is being written, with the log's lock held: nobody sees any of it before the commit, and nobody writes in between. Dropped
/// without a commit it leaves an aborted run, as a failed step does on a broker, and nothing at all when nothing was appended.
pub(crate) struct StepWriter<'a> {
    log: &'a Log,
    /// `None` once the commit has begun.
    state: Option<MutexGuard<'a, State>>,
    transaction: TransactionId,
    touched: BTreeSet<Channel>,
}

impl<'a> StepWriter<'a> {
    pub(super) fn new(
        log: &'a Log,
        state: MutexGuard<'a, State>,
        transaction: TransactionId,
    ) -> Self {
        Self {
            log,
            state: Some(state),
            transaction,
            touched: BTreeSet::new(),
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
        let state = self
            .state
            .as_mut()
            .expect("the commit takes the writer, and the lock is held until then");
        let name = &state
            .storage
            .topic(topic)
            .ok_or(SendError::DeletedTopic { topic })?
            .name;
        self.log.check_size(name, &record)?;
        let offset = state
            .storage
            .append(record, self.transaction)
            .ok_or(SendError::DeletedTopic { topic })?;
        self.touched.insert(channel);
        Ok(offset)
    }

    /// Makes the step durable and visible: a marker on every partition it wrote to, the positions, and the changes of both stores. The lock
    /// is free while it waits for the disk.
    ///
    /// # Errors
    ///
    /// When the directory cannot be written. The step is aborted then, unless that is in doubt.
    pub(crate) fn commit(mut self, changes: StepChanges) -> Result<(), StorageError> {
        let touched = std::mem::take(&mut self.touched);
        let Some(mut state) = self.state.take() else {
            return Ok(());
        };
        let ticket = state
            .storage
            .commit(self.transaction, touched, Some(changes));
        self.log.settle(state, ticket)
    }
}

impl Drop for StepWriter<'_> {
    fn drop(&mut self) {
        if self.touched.is_empty() {
            return;
        }
        if let Some(state) = &mut self.state {
            if state.storage.abort(self.transaction, &self.touched) {
                state.upheavals += 1;
            }
            self.log.wake(state);
        }
    }
}
