//! What of a host can still bear on what it does, for whoever compares worlds.

use std::fmt::{self, Write};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

use parsley_core::StateStore;

use super::run::Run;
use super::{Slot, TaskHost, is_held_record};
use crate::broker::TxnNames;
use crate::engine::SharedStore;
use crate::host::{EdgeTransaction, TaskNo};

/// Text, told to a hasher.
pub(crate) struct Told<'a, H>(pub &'a mut H);

impl<H: Hasher> Write for Told<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// Tells a hasher how something looks when it is debugged.
pub(crate) fn tell(what: &impl fmt::Debug, state: &mut impl Hasher) {
    let told = write!(Told(state), "{what:?}");
    told.expect("a hasher takes everything");
    state.write_u8(0xff);
}

impl TaskHost {
    /// Whether a task has a question about watermarks on its way.
    pub(crate) fn is_asking(&self, task: TaskNo) -> bool {
        self.run_of(task).is_some_and(|run| run.question.is_open())
    }

    /// Whether what is durable of a task has held records.
    pub(crate) fn keeps_held(&self, task: TaskNo) -> bool {
        let held = |slot: &Slot| {
            let mut found = false;
            let scanned = slot.ordering.scan(b"q/", b"", &mut |key, _| {
                found |= is_held_record(key);
                ControlFlow::Continue(())
            });
            scanned.is_ok() && found
        };
        self.slot(task).is_some_and(held)
    }

    /// Tells `state` the log, what is durable of each task, and everything that running tasks have in memory. `edges`: the transactions that edge
    /// clients have open.
    pub(crate) fn digest(&self, edges: &[EdgeTransaction], state: &mut impl Hasher) {
        let mut names = TxnNames::default();
        for slot in self.tasks.iter().flatten() {
            self.digest_slot(slot, &mut names, state);
        }
        for edge in edges {
            let txn = self.edge_transactions.get(&edge.0);
            let name = txn.and_then(|&txn| names.name(&self.broker, txn));
            name.hash(state);
        }
        self.broker.digest(&mut names, state);
    }

    fn digest_slot(&self, slot: &Slot, names: &mut TxnNames, state: &mut impl Hasher) {
        digest_store(&slot.ordering, state);
        digest_store(&slot.fold, state);
        if self.uses_model() {
            tell(&slot.model.content(), state);
        }
        slot.positions.hash(state);
        slot.late.hash(state);
        let last = slot.last.and_then(|txn| names.name(&self.broker, txn));
        last.hash(state);
        // It is looked at only while that transaction is under way.
        let before = slot.before_last.as_ref().filter(|_| last.is_some());
        if let Some(before) = before {
            digest_store(&before.ordering, state);
            digest_store(&before.fold, state);
            before.positions.hash(state);
        }
        slot.run.is_some().hash(state);
        if let Some(run) = &slot.run {
            self.digest_run(run, names, state);
        }
    }

    fn digest_run(&self, run: &Run, names: &mut TxnNames, state: &mut impl Hasher) {
        let written = run.engine.write_memory(&mut Told(state));
        written.expect("a hasher takes everything");
        for source in &run.sources {
            (source.channel, source.position).hash(state);
            tell(&source.prefetched, state);
        }
        tell(&run.question, state);
        tell(&run.sweep, state);
        run.step.is_some().hash(state);
        if let Some(step) = &run.step {
            let txn = step.txn.and_then(|txn| names.name(&self.broker, txn));
            (txn, step.fenced, &step.unacknowledged).hash(state);
            tell(&step.pending, state);
        }
    }
}

fn digest_store(store: &SharedStore, state: &mut impl Hasher) {
    let scanned = store.scan(b"", b"", &mut |key, value| {
        (key, value).hash(state);
        ControlFlow::Continue(())
    });
    scanned.expect("a store in memory can be read");
    state.write_u8(0xff);
}
