//! What becomes of a step that failed, and of its tasks.

use std::time::Instant;

use parsley_core::Refusal;

use super::{Session, Slot, Trouble, new_producer};
use crate::cluster;
use crate::producer::ProduceError;

impl Session<'_> {
    /// Gives up the step at hand, and has its tasks open anew; the clients' trouble is the caller's.
    pub(super) fn recover(&mut self, trouble: Trouble) -> Result<(), Trouble> {
        let until = Instant::now() + self.worker.declared.config.transaction_timeout;
        self.step_since = None;
        self.is_draining = false;
        if trouble.is_fatal() {
            self.give_up_transaction();
            return Err(trouble);
        }
        let aborted = self.abort(until);
        let is_of_producer = matches!(trouble, Trouble::Produce(_));
        let trouble = self.explained(trouble);
        let trouble = trouble.with_grant(&self.worker.declared, Some(&self.cluster));
        if let Err(error) = aborted {
            // A transaction that nothing could be added to is none that a broker ends: why not is what there is to say.
            let is_denied = matches!(trouble, Trouble::Denied { .. });
            return Err(if is_denied { trouble } else { error.into() });
        }
        if is_of_producer || self.producer.is_spent() {
            // Of a record that was too large the broker has not counted the sequence: it refuses what comes behind it, whatever that is. A new
            // producer makes no batch that is larger than a topic takes by now.
            self.replace_producer()?;
        }
        if let Trouble::Task { partition, error } = &trouble
            && let Some(refusal) = error.refusal()
        {
            self.refuse(*partition, refusal.clone());
        } else {
            let until = Instant::now() + self.worker.note_failure(&trouble);
            let failed = trouble.failed().task();
            match failed.and_then(|partition| self.slots.get_mut(&partition)) {
                // The others have no part in it (decision K29).
                Some(slot) => *slot = Slot::Waiting(until),
                None => self.resume_at = Some(until),
            }
        }
        for (partition, slot) in &mut self.slots {
            *slot = match (self.worker.refused.get(partition), &slot) {
                (Some(_), _) => Slot::Refused,
                (None, Slot::Waiting(until)) => Slot::Waiting(*until),
                (None, _) => Slot::Assigned,
            };
        }
        let partitions: Vec<i32> = self.slots.keys().copied().collect();
        self.worker.board.reopening(self.worker.number, &partitions);
        self.assign_running()
    }

    /// What had failed does not fail any more.
    pub(super) fn recovered(&mut self) {
        self.worker.failing.overcome();
        self.worker.board.recovered(self.worker.number);
    }

    /// Makes a new producer, under another transactional id, between transactions.
    pub(super) fn replace_producer(&mut self) -> Result<(), ProduceError> {
        let declared = &self.worker.declared;
        self.producer = new_producer(declared, self.worker.number, &self.resolved)?;
        Ok(())
    }

    /// Says of a record that was too large what its topic takes.
    fn explained(&self, trouble: Trouble) -> Trouble {
        let Trouble::Produce(ProduceError::TooLarge {
            task, topic, bytes, ..
        }) = trouble
        else {
            return trouble;
        };
        let limits = cluster::batch_limits(&self.worker.declared.config, &[&topic]);
        let limit = limits.ok().and_then(|limits| limits.get(&topic).copied());
        ProduceError::TooLarge {
            task,
            topic,
            bytes,
            limit,
        }
        .into()
    }

    pub(super) fn refuse(&mut self, partition: i32, refusal: Refusal) {
        let group = &self.worker.declared.group;
        tracing::error!(%group, partition, %refusal, "a guard stopped the task");
        self.worker
            .board
            .refused(self.worker.number, partition, &refusal);
        if let Some(watch) = self.worker.watches.get(&partition) {
            watch.refused(refusal.code);
        }
        self.worker.refused.insert(partition, refusal);
    }
}
