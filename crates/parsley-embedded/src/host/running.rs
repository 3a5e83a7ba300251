//! A running application.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use parsley_stage::report::{Holds, Observed, Report};

use super::board::{Board, Cell, Request};
use super::claim::GroupClaim;
use super::error::StopError;
use super::status::{Status, TaskState, TaskStatus, Waited};
use crate::log::{Log, State};
use crate::time::TimeSource;

/// An application whose tasks run, each on a thread of its own. Dropping it stops it.
///
/// Observers and logic run on those threads: [`HostBuilder`](crate::HostBuilder#observers-and-logic) says what they must not call.
#[must_use = "dropping it stops the application"]
pub struct Running {
    pub(crate) log: Log,
    pub(crate) board: Arc<Board>,
    pub(crate) application: String,
    pub(crate) time: TimeSource,
    /// Released when the last task is over.
    pub(crate) groups: Mutex<GroupClaim>,
    pub(crate) threads: Mutex<Vec<JoinHandle<()>>>,
}

/// How often in a row a step fails before a wait for idleness gives up (decision E9): four waits in between, which are 1.5 s of the default
/// backoff. A task that fails already when the wait begins has that many attempts from then on.
const FAILING_ATTEMPTS: u32 = 5;

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl Running {
    /// What each task is doing.
    pub fn status(&self) -> Status {
        self.status_at(&self.log.lock())
    }

    fn status_at(&self, state: &State) -> Status {
        let mut tasks: Vec<_> = self
            .board
            .cells()
            .iter()
            .map(|cell| cell.status.clone())
            .collect();
        for input in tasks.iter_mut().flat_map(|task| &mut task.inputs) {
            input.measure(state);
        }
        Status {
            application: self.application.clone(),
            tasks,
        }
    }

    /// What each task holds, for how long, what it waits for, and which record is missing in the end. Every task answers between two steps;
    /// one that is over answers with what it held in the end.
    pub fn explain_holds(&self) -> Holds {
        self.ask_all(|cell| &mut cell.holds);
        let cells = self.board.cells();
        Holds {
            holds: cells.iter().flat_map(|cell| cell.held.clone()).collect(),
        }
    }

    /// What each task is doing, as plain data. It waits for no task, and may be asked for from anywhere. Ages are by the host's
    /// [clock](crate::HostBuilder::time).
    pub fn report(&self) -> Report {
        self.status().report(self.time.now_ms())
    }

    /// Has every task look at log starts and topic identities now, and waits until each has. What they find shows in the status. A task
    /// that waits to try a failed step again looks when it opens.
    pub fn check_now(&self) {
        self.ask_all(|cell| &mut cell.checks);
    }

    /// Asks something of every task and waits until all that still run have answered.
    fn ask_all(&self, request: impl Fn(&mut Cell) -> &mut Request) {
        let mut state = self.log.lock();
        let numbers: Vec<u64> = self
            .board
            .cells()
            .iter_mut()
            .map(|cell| request(cell).ask())
            .collect();
        self.log.nudge(&state);
        loop {
            let answered = self
                .board
                .cells()
                .iter_mut()
                .zip(&numbers)
                .all(|(cell, number)| {
                    cell.status.state.is_over() || request(cell).is_answered(*number)
                });
            if answered {
                return;
            }
            state = self.log.wait_for_progress(state);
        }
    }

    /// Waits until every task has read and delivered all it can, with the log as it is then. What is held after that waits for records
    /// that nobody has written.
    ///
    /// Returns early when a guard stops a task, when one has failed for good, and when a task fails five times in a row, counted from the
    /// wait's begin, while no other has anything to do: `wait_until_idle().reached()?` turns all of these into errors.
    pub fn wait_until_idle(&self) -> Waited {
        let mut state = self.log.lock();
        // What had failed before is not held against a task: it may have been mended.
        let mut failed_before: Option<Vec<u32>> = None;
        loop {
            let status = self.status_at(&state);
            let refused = status.refused();
            if !refused.is_empty() {
                return Waited::Refused(refused);
            }
            if status.tasks.iter().any(|task| task.state.is_over()) {
                return Waited::Over;
            }
            if self.board.is_idle(state.version) {
                return Waited::Reached;
            }
            let attempts: Vec<u32> = status.tasks.iter().map(TaskStatus::attempt).collect();
            let before = failed_before.get_or_insert_with(|| attempts.clone());
            for (before, attempt) in before.iter_mut().zip(&attempts) {
                *before = (*before).min(*attempt);
            }
            let fails = |(before, task): (&u32, &TaskStatus)| {
                task.failing()
                    .filter(|task| task.attempt >= before.saturating_add(FAILING_ATTEMPTS))
            };
            let failing: Vec<_> = before.iter().zip(&status.tasks).filter_map(fails).collect();
            if !failing.is_empty() && self.board.is_idle_or_failing(state.version) {
                return Waited::Failing(failing);
            }
            state = self.log.wait_for_progress(state);
        }
    }

    /// Waits until the status is as wished. It is looked at after every step and every change of the log; a state that passes in
    /// between is not seen. Returns otherwise when no task runs any more.
    pub fn wait(&self, mut is_reached: impl FnMut(&Status) -> bool) -> Waited {
        loop {
            let (status, seen) = {
                let state = self.log.lock();
                (self.status_at(&state), state.progress)
            };
            if is_reached(&status) {
                return Waited::Reached;
            }
            if status.tasks.iter().all(|task| task.state.is_over()) {
                let refused = status.refused();
                return if refused.is_empty() {
                    Waited::Over
                } else {
                    Waited::Refused(refused)
                };
            }
            let mut state = self.log.lock();
            while state.progress == seen {
                state = self.log.wait_for_progress(state);
            }
        }
    }

    /// Stops the application: each task ends the step in flight behind the delivery it is at, commits it, and is over. Returns when all
    /// are, with the last status. What is not delivered yet is delivered after the next start.
    ///
    /// # Errors
    ///
    /// When a task's thread had panicked.
    pub fn stop(&self) -> Result<Status, StopError> {
        {
            let state = self.log.lock();
            self.board.stop();
            self.log.nudge(&state);
        }
        // Whoever else stops it at the same time waits here until all is over.
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for thread in threads.drain(..) {
            // A panic inside is caught, and shows in the task's state.
            let _ = thread.join();
        }
        let status = {
            let mut state = self.log.lock();
            self.groups
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .release(&mut state);
            self.status_at(&state)
        };
        drop(threads);
        let failed = status.tasks.iter().find_map(|task| match &task.state {
            TaskState::Failed { message } => Some(StopError::Failed {
                stage: task.stage.to_string(),
                partition: task.partition,
                message: message.clone(),
            }),
            _ => None,
        });
        failed.map_or(Ok(status), Err)
    }
}

impl Observed for Running {
    fn report(&self) -> Report {
        Self::report(self)
    }

    fn holds(&self) -> Holds {
        self.explain_holds()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Who wants to know how it ended calls `stop`.
        let _ = self.stop();
    }
}
