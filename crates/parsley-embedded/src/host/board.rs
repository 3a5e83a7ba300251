//! Where the tasks of a running application and those who watch it meet.

use std::sync::{Mutex, MutexGuard, PoisonError};

use parsley_stage::report::HoldReport;

use super::context::StopFlag;
use super::status::{TaskState, TaskStatus};

/// One cell for each task. Its lock is taken with the log's lock held or without, never the other way round.
#[derive(Debug)]
pub(crate) struct Board {
    cells: Mutex<Vec<Cell>>,
    stop: StopFlag,
}

#[derive(Debug)]
pub(crate) struct Cell {
    /// As the task last reported it.
    pub(crate) status: TaskStatus,
    pub(crate) rest: Rest,
    pub(crate) holds: Request,
    /// The answer to the last request for holds.
    pub(crate) held: Vec<HoldReport>,
    pub(crate) checks: Request,
}

/// Whether a task has something to do, as of a version of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rest {
    /// It has.
    Busy,
    /// It has read everything there was at that version.
    Idle { at: u64 },
    /// At that version it only waits for a delay to pass.
    Delayed { at: u64 },
    /// It waits until it may try again.
    BackingOff,
}

/// Something asked of a task, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    asked: u64,
    answered: u64,
}

impl Request {
    /// Asks, and returns the number to wait for.
    pub(crate) fn ask(&mut self) -> u64 {
        self.asked += 1;
        self.asked
    }

    pub(crate) fn is_open(self) -> bool {
        self.asked > self.answered
    }

    pub(crate) fn answer(&mut self) {
        self.answered = self.asked;
    }

    pub(crate) fn is_answered(self, number: u64) -> bool {
        self.answered >= number
    }
}

impl Cell {
    pub(crate) fn new(status: TaskStatus) -> Self {
        Self {
            status,
            rest: Rest::Busy,
            holds: Request::default(),
            held: Vec::new(),
            checks: Request::default(),
        }
    }

    fn is_over(&self) -> bool {
        self.status.state.is_over()
    }

    /// Whether, at this version of the log, the task does nothing unless the log changes or a delay passes.
    fn is_quiet(&self, version: u64) -> bool {
        let resting = match self.rest {
            Rest::Busy => false,
            Rest::Idle { at } | Rest::Delayed { at } => at == version,
            Rest::BackingOff => true,
        };
        resting || self.is_over()
    }
}

impl Board {
    pub(crate) fn new(cells: Vec<Cell>, stop: StopFlag) -> Self {
        Self {
            cells: Mutex::new(cells),
            stop,
        }
    }

    /// The cells. Each is written in one go, so they are whole even when a holder panicked.
    pub(crate) fn cells(&self) -> MutexGuard<'_, Vec<Cell>> {
        self.cells.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn with<T>(&self, index: usize, write: impl FnOnce(&mut Cell) -> T) -> T {
        write(&mut self.cells()[index])
    }

    pub(crate) fn stop(&self) {
        self.stop.raise();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.is_raised()
    }

    /// Whether something is asked of a task, the end included.
    pub(crate) fn wants(&self, index: usize) -> bool {
        self.is_stopping() || self.with(index, |cell| cell.holds.is_open() || cell.checks.is_open())
    }

    /// Whether every other task is quiet at this version of the log.
    pub(crate) fn others_are_quiet(&self, index: usize, version: u64) -> bool {
        self.cells()
            .iter()
            .enumerate()
            .all(|(other, cell)| other == index || cell.is_quiet(version))
    }

    /// Whether some other task waits for a delay to pass.
    pub(crate) fn others_are_delayed(&self, index: usize) -> bool {
        let delayed = |cell: &Cell| matches!(cell.rest, Rest::Delayed { .. });
        self.cells()
            .iter()
            .enumerate()
            .any(|(other, cell)| other != index && delayed(cell))
    }

    /// Whether every task that still runs has read everything there is at this version of the log.
    pub(crate) fn is_idle(&self, version: u64) -> bool {
        self.cells()
            .iter()
            .all(|cell| cell.is_over() || cell.rest == Rest::Idle { at: version })
    }

    /// Whether every task that still runs has read everything there is at this version of the log, or is about to try a failed step again.
    pub(crate) fn is_idle_or_failing(&self, version: u64) -> bool {
        self.cells().iter().all(|cell| {
            let is_failing = matches!(cell.status.state, TaskState::Retrying { .. });
            cell.is_over() || is_failing || cell.rest == Rest::Idle { at: version }
        })
    }

    /// Ends a task: nobody waits for it any more.
    pub(crate) fn end(&self, index: usize, state: TaskState) {
        self.with(index, |cell| {
            cell.status.state = state;
            cell.holds.answer();
            cell.checks.answer();
        });
    }
}
