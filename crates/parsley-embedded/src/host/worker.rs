//! A task's thread: executions one after the other, and the waiting in between.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, MutexGuard};
use std::time::Instant;

use super::board::{Board, Cell, Rest};
use super::context::Context;
use super::end::TaskEnd;
use super::execution::Execution;
use super::journal::Counts;
use super::reads::Reads;
use super::status::TaskState;
use super::ticking::Ticking;
use crate::log::State;

/// A worker reads whatever there is.
const EVERYTHING: Reads = Reads::everything();

/// What an opening came to.
pub(crate) type Opened = Result<Execution, TaskEnd>;

pub(crate) struct Worker {
    pub(crate) context: Context,
    pub(crate) board: Arc<Board>,
    /// The task's cell on the board.
    pub(crate) index: usize,
    /// How often in a row an execution has failed.
    pub(crate) failures: u32,
    /// When it ticks, if its stage does.
    pub(crate) ticking: Option<Ticking>,
}

impl Worker {
    /// Runs the task until the application stops or a guard refuses. `opened` is what the first opening came to.
    pub(crate) fn run(mut self, opened: Opened) {
        let ended = catch_unwind(AssertUnwindSafe(|| self.run_executions(opened)));
        let state = ended.unwrap_or_else(|panic| TaskState::Failed {
            message: panic_message(&*panic),
        });
        self.end(state);
    }

    fn run_executions(&mut self, mut opened: Opened) -> TaskState {
        loop {
            let ended = match opened {
                Ok(mut execution) => {
                    let ended = self.execute(&mut execution);
                    let held = execution.holds(&self.context);
                    self.board.with(self.index, |cell| cell.held = held);
                    ended
                }
                Err(end) => Err(end),
            };
            if let Err(end) = &ended {
                self.context.telling.ended(end);
            }
            match ended {
                Ok(()) => return TaskState::Stopped,
                Err(TaskEnd::Refused(refusal)) => return TaskState::Refused(refusal),
                Err(end) => {
                    self.failures = self.failures.saturating_add(1);
                    if !self.back_off(&end) {
                        return TaskState::Stopped;
                    }
                }
            }
            opened = Execution::open(&self.context).map(|(execution, _)| execution);
        }
    }

    /// Runs an execution to its end: `Ok` when the application stops.
    fn execute(&mut self, execution: &mut Execution) -> Result<(), TaskEnd> {
        self.report(|cell| {
            // The opening is a step of its own.
            cell.status.steps += 1;
            cell.status.held = execution.held();
            cell.status.inputs = execution.inputs(&self.context);
        });
        loop {
            self.answer(execution)?;
            if self.board.is_stopping() {
                return Ok(());
            }
            execution.between_steps(&self.context)?;
            let mut counts = Counts::default();
            let tick = self
                .tick_is_due()
                .then(|| self.context.settings.time.now_ms());
            if execution.step(&self.context, &EVERYTHING, tick, &mut counts)? {
                if let (Some(_), Some(ticking)) = (tick, &mut self.ticking) {
                    ticking.ticked();
                    counts.ticks += 1;
                }
                self.record(execution, &counts);
            } else if execution.is_delayed() {
                self.await_round(execution);
            } else if !execution.give_evidence(&self.context)? {
                self.recover();
                self.show_inputs(execution);
                self.await_news(execution);
            }
        }
    }

    /// Whatever failed before has been got over, without a step.
    fn recover(&mut self) {
        if std::mem::take(&mut self.failures) > 0 {
            self.report(|cell| {
                cell.status.state = TaskState::Running;
                cell.status.storage = None;
            });
        }
    }

    /// What is known of inputs moves without a step as well: one that is deleted is settled to its end.
    fn show_inputs(&self, execution: &Execution) {
        let inputs = execution.inputs(&self.context);
        let is_known = |cell: &mut Cell| cell.status.inputs == inputs;
        if !self.board.with(self.index, is_known) {
            self.report(|cell| cell.status.inputs = inputs);
        }
    }

    fn record(&mut self, execution: &Execution, counts: &Counts) {
        self.failures = 0;
        self.report(|cell| {
            let status = &mut cell.status;
            status.state = TaskState::Running;
            status.storage = None;
            status.steps += 1;
            status.received += counts.received;
            status.dropped += counts.dropped;
            status.delivered += counts.delivered;
            status.ticks += counts.ticks;
            status.held = execution.held();
            status.widest_clock_bytes = execution.widest_clock_bytes();
            status.inputs = execution.inputs(&self.context);
        });
    }

    /// Does what was asked of the task.
    fn answer(&self, execution: &mut Execution) -> Result<(), TaskEnd> {
        let (holds, checks) = self.board.with(self.index, |cell| {
            (cell.holds.is_open(), cell.checks.is_open())
        });
        if checks {
            execution.check(&self.context)?;
            self.report(|cell| cell.checks.answer());
        }
        if holds {
            let held = execution.holds(&self.context);
            self.report(|cell| {
                cell.held = held;
                cell.holds.answer();
            });
        }
        Ok(())
    }

    fn tick_is_due(&self) -> bool {
        self.ticking.as_ref().is_some_and(Ticking::is_due)
    }

    fn next_tick(&self) -> Option<Instant> {
        self.ticking.as_ref().and_then(Ticking::next)
    }

    /// Waits until there is something to read, a tick is due, or something is asked.
    fn await_news(&self, execution: &Execution) {
        let Self { board, index, .. } = self;
        let log = &self.context.log;
        let mut state = log.lock();
        while !board.wants(*index) && !execution.has_news(&state) && !self.tick_is_due() {
            let at = state.version;
            self.rest(&mut state, Rest::Idle { at });
            let until = [self.look_at_holds(execution), self.next_tick()];
            state = log.wait_for_change(state, until.into_iter().flatten().min());
        }
        self.rest(&mut state, Rest::Busy);
    }

    /// Ends a round in which nothing happened although a delay keeps something back: waits until the log changes, or until no other task
    /// has anything to do that might change it and nothing is withheld.
    fn await_round(&self, execution: &Execution) {
        let Self { board, index, .. } = self;
        let log = &self.context.log;
        let mut state = log.lock();
        while !board.wants(*index) && !execution.is_behind(&state) && !self.tick_is_due() {
            let at = state.version;
            self.rest(&mut state, Rest::Delayed { at });
            let withheld = execution.withheld_until();
            if withheld.is_none() && board.others_are_quiet(*index, state.version) {
                break;
            }
            let until = [self.look_at_holds(execution), self.next_tick(), withheld];
            state = log.wait_for_change(state, until.into_iter().flatten().min());
        }
        self.rest(&mut state, Rest::Busy);
    }

    /// What is held grows older without a step. Returns until when to wait before it is looked at again.
    fn look_at_holds(&self, execution: &Execution) -> Option<Instant> {
        let again = execution.look_at_holds(&self.context)?;
        Instant::now().checked_add(again)
    }

    /// Notes whether the task has something to do, and tells those whom it may concern.
    fn rest(&self, state: &mut MutexGuard<'_, State>, rest: Rest) {
        let Self { board, index, .. } = self;
        let log = &self.context.log;
        let before = board.with(*index, |cell| std::mem::replace(&mut cell.rest, rest));
        if before != rest && rest != Rest::Busy {
            log.report_progress(state);
            if board.others_are_delayed(*index) {
                log.nudge(state);
            }
        }
    }

    /// Waits after a failure, as long as it is due. False when the application stops meanwhile.
    fn back_off(&self, end: &TaskEnd) -> bool {
        let Self { board, index, .. } = self;
        let Context {
            log,
            settings,
            group,
            partition,
            ..
        } = &self.context;
        let (message, attempt) = (end.to_string(), self.failures);
        let failure = end.without_words();
        tracing::warn!(%group, partition, attempt, %failure, "a step failed and will be tried again");
        board.with(*index, |cell| {
            cell.status.failed_steps += 1;
            cell.status.state = TaskState::Retrying { message, attempt };
            cell.status.storage = end.storage().cloned();
        });
        let until = Instant::now().checked_add(settings.backoff.after(attempt));
        let mut state = log.lock();
        self.rest(&mut state, Rest::BackingOff);
        log.report_progress(&mut state);
        loop {
            if board.is_stopping() {
                return false;
            }
            // The state that failed is reported as it was; every execution begins with the checks.
            let asked = board.with(*index, |cell| {
                let asked = cell.holds.is_open() || cell.checks.is_open();
                cell.holds.answer();
                cell.checks.answer();
                asked
            });
            if asked {
                log.report_progress(&mut state);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                self.rest(&mut state, Rest::Busy);
                return true;
            }
            state = log.wait_for_change(state, until);
        }
    }

    fn end(&self, ended: TaskState) {
        let Self { board, index, .. } = self;
        let Context {
            log,
            group,
            partition,
            ..
        } = &self.context;
        match &ended {
            TaskState::Refused(refusal) => {
                tracing::error!(%group, partition, %refusal, "a guard stopped the task")
            }
            // Its words may be an observer's; the panic hook and the status have them.
            TaskState::Failed { .. } => tracing::error!(%group, partition, "the task panicked"),
            _ => tracing::info!(%group, partition, "a task has stopped"),
        }
        let about = match &ended {
            TaskState::Refused(refusal) => refusal.channel,
            _ => None,
        };
        let topic = about.map(|channel| self.context.topic_name(channel.topic));
        let mut state = log.lock();
        board.with(*index, |cell| cell.status.refused_topic = topic);
        board.end(*index, ended);
        log.report_progress(&mut state);
        // A task that waits for a delay may have waited for this one.
        log.nudge(&state);
    }

    /// Writes the task's cell, and tells those who watch.
    fn report(&self, write: impl FnOnce(&mut Cell)) {
        let Self { board, index, .. } = self;
        let log = &self.context.log;
        let mut state = log.lock();
        board.with(*index, write);
        log.report_progress(&mut state);
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}
