//! Who can be looked at.

use super::{Holds, Report};

/// An application that says what it is doing: what the running applications of the hosts are, so that whoever shows one does not have to
/// know its host.
pub trait Observed: Send + Sync {
    /// What each task is doing, as it was last reported. Waits for no task.
    fn report(&self) -> Report;

    /// What is held, and for what. It may wait for tasks, each of which answers between two steps.
    fn holds(&self) -> Holds;
}
