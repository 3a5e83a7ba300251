//! Having commits made durable: who writes for all that wait, and how long it waits for others to come.
//!
//! One of those who wait for a commit leads: it writes down what everybody has committed by then, while those who come in the meantime wait for
//! the next one. Whoever has an outcome goes on at once. Most of them are soon back with their next commit, and a leader that began at once
//! would leave them behind: so it waits until as many are there as took part lately, but only for a part of what a write takes.

use std::path::Path;
use std::sync::{Condvar, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::disk::{StorageError, WriteError};
use super::storage::{Effect, Ticket};
use super::{Log, State, wait};

/// How long a leader waits for others at most: this part of what the last write took.
const GATHERING_PART: u32 = 4;
/// And no longer than this, however slow the disk is.
const GATHERING_MAX: Duration = Duration::from_millis(10);

/// What those wait for who commit.
#[derive(Debug, Default)]
pub(super) struct Signals {
    /// Something has an outcome, or needs a leader.
    settled: Condvar,
    /// Something was committed: what a leader waits for.
    committed: Condvar,
}

/// Who leads, and what is to be expected.
#[derive(Debug, Default)]
pub(super) struct Turns {
    is_led: bool,
    /// How many took part in the last write or waited behind it.
    company: usize,
    /// What the last write took.
    write_time: Duration,
}

/// Leads until it is dropped.
struct Lead<'a>(&'a Log);

impl Drop for Lead<'_> {
    fn drop(&mut self) {
        self.0.lock().settling.is_led = false;
        self.0.shared.settling.settled.notify_all();
    }
}

impl Log {
    /// Waits until a commit is durable, and has it take effect. Commits that wait at the same time are made durable together.
    pub(crate) fn settle(
        &self,
        mut state: MutexGuard<'_, State>,
        ticket: Ticket,
    ) -> Result<(), StorageError> {
        let number = match ticket {
            Ticket::Settled(effect) => {
                self.tell(&mut state, effect);
                return Ok(());
            }
            Ticket::Waits(number) => number,
        };
        let signals = &self.shared.settling;
        signals.committed.notify_one();
        while state.settling.is_led {
            state = wait(&signals.settled, state, None);
            if let Some(outcome) = state.storage.outcome_of(number) {
                return outcome;
            }
        }
        state.settling.is_led = true;
        drop(state);
        let _lead = Lead(self);
        let _writing = self.to_write();
        // Whoever wrote before this one may have written it as well.
        if let Some(outcome) = self.lock().storage.outcome_of(number) {
            return outcome;
        }
        self.gather();
        let written = self.write_down();
        let mut state = self.lock();
        if let Some(outcome) = state.storage.outcome_of(number) {
            return outcome;
        }
        // It is part of the write that is in doubt: once that is known nobody asks any more.
        state.storage.give_up(number);
        drop(state);
        let reason = match written {
            Err(error @ StorageError::InDoubt { .. }) => return Err(error),
            Err(error) => error.to_string(),
            Ok(()) => "the write before it was".to_owned(),
        };
        let dir = self.dir().unwrap_or(Path::new("")).to_owned();
        Err(StorageError::InDoubt { dir, reason })
    }

    /// Waits a little for those who took part lately.
    fn gather(&self) {
        let mut state = self.lock();
        let turns = &state.settling;
        let company = turns.company;
        let until = Instant::now() + (turns.write_time / GATHERING_PART).min(GATHERING_MAX);
        while state.storage.unsettled() < company {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let committed = &self.shared.settling.committed;
            state = committed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Makes everything durable that was changed until now.
    pub(super) fn save(&self) -> Result<(), StorageError> {
        let _writing = self.to_write();
        self.write_down()
    }

    /// Writes down what is not in the directory. Nobody else writes meanwhile; the lock is free while the system does.
    fn write_down(&self) -> Result<(), StorageError> {
        let Some(disk) = &self.shared.disk else {
            return Ok(());
        };
        if let Err(error) = self.end_doubt() {
            let mut state = self.lock();
            let effect = state.storage.fail_unsettled(&error);
            self.tell(&mut state, effect);
            return Err(error);
        }
        // The lock is free again before what comes of it is told.
        let begun = self.lock().storage.begin_save();
        let save = match begun {
            None => return Ok(()),
            Some(Ok(save)) => save,
            Some(Err((error, effect))) => {
                self.tell(&mut self.lock(), effect);
                return Err(error);
            }
        };
        let took_part = save.commits();
        let began = Instant::now();
        let written = disk.write(&save.batch);
        let write_time = began.elapsed();
        let error = match &written {
            Ok(()) => None,
            Err(WriteError::NotWritten(error) | WriteError::InDoubt(error)) => Some(error.clone()),
        };
        let mut state = self.lock();
        state.settling.write_time = write_time;
        // Those who wait are others: whoever took part waited for this.
        state.settling.company = took_part + state.storage.unsettled();
        let effect = state.storage.end_save(save, written);
        self.tell(&mut state, effect);
        error.map_or(Ok(()), Err)
    }

    /// Finds out what became of a write of which that is not known, with nobody else writing.
    pub(super) fn end_doubt(&self) -> Result<(), StorageError> {
        let Some(disk) = &self.shared.disk else {
            return Ok(());
        };
        if !self.lock().storage.is_in_doubt() {
            return Ok(());
        }
        let is_there = disk.resolve()?;
        let mut state = self.lock();
        let effect = state.storage.end_doubt(is_there);
        self.tell(&mut state, effect);
        Ok(())
    }

    /// Waits until it is known what became of every write: what a task reads after that, no earlier step of it changes any more.
    pub(crate) fn without_doubt(&self) -> Result<(), StorageError> {
        let _writing = self.to_write();
        self.end_doubt()
    }

    /// Wakes those whom an effect concerns.
    fn tell(&self, state: &mut State, effect: Effect) {
        self.shared.settling.settled.notify_all();
        state.upheavals += u64::from(effect.log_start_moved);
        if effect.is_readable || effect.log_start_moved {
            self.wake(state);
        }
    }

    /// Waits until nobody else writes.
    pub(super) fn to_write(&self) -> Option<MutexGuard<'_, ()>> {
        self.shared.disk.as_ref().map(|disk| disk.to_write())
    }
}
