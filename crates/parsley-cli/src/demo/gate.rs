//! How many commands may be under way: whoever feeds waits for whoever watches.

use std::sync::{Condvar, Mutex, PoisonError};

/// Counts commands that were let in and have not come out. Commands come out in any order, and more can be let in than asked for.
#[derive(Debug)]
pub struct Gate {
    most: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    inside: u64,
    closed: bool,
}

impl Gate {
    /// A gate that lets this many in at once.
    pub fn new(most: u64) -> Self {
        Self {
            most,
            state: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Waits until one more may come in, and lets it in. False when the gate is closed.
    pub fn enter(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self
            .changed
            .wait_while(state, |state| !state.closed && state.inside >= self.most)
            .unwrap_or_else(PoisonError::into_inner);
        state.inside += 1;
        !state.closed
    }

    /// Whether [`Gate::enter`] would wait.
    pub fn is_full(&self) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        !state.closed && state.inside >= self.most
    }

    /// One came out.
    pub fn leave(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.inside = state.inside.saturating_sub(1);
        self.changed.notify_all();
    }

    /// Nobody comes in any more.
    pub fn close(&self) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .closed = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_lets_in_as_many_as_it_was_told_until_some_leave() {
        let gate = Gate::new(2);
        assert!(gate.enter());
        assert!(!gate.is_full());
        assert!(gate.enter());
        assert!(gate.is_full());
        std::thread::scope(|scope| {
            let third = scope.spawn(|| gate.enter());
            gate.leave();
            assert!(third.join().unwrap());
            assert!(gate.is_full());
            let fourth = scope.spawn(|| gate.enter());
            gate.close();
            assert!(!fourth.join().unwrap());
        });
    }
}
