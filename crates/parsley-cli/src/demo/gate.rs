//! How many commands may be under way: whoever feeds waits for whoever watches.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts commands that were let in and have not come out. Commands come out in any order.
#[derive(Debug)]
pub struct Gate {
    most: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    inside: u64,
    closed: bool,
    /// Somebody waits for room.
    awaited: bool,
}

impl Gate {
    /// A gate that lets this many in at once, and has some inside already, be it more than that.
    pub fn new(most: u64, inside: u64) -> Self {
        let state = State {
            inside,
            closed: false,
            awaited: false,
        };
        Self {
            most,
            state: Mutex::new(state),
            changed: Condvar::new(),
        }
    }

    /// Waits until there is room for so many, or for all that can be inside at once. False when the gate is closed.
    pub fn await_room(&self, room: u64) -> bool {
        let enough = self.most.saturating_sub(room);
        let mut state = self.state();
        state.awaited = true;
        let mut state = self
            .changed
            .wait_while(state, |state| !state.closed && state.inside > enough)
            .unwrap_or_else(PoisonError::into_inner);
        state.awaited = false;
        !state.closed
    }

    /// Whether somebody waits for room: something has to come out.
    pub fn is_awaited(&self) -> bool {
        self.state().awaited
    }

    /// One goes in.
    pub fn enter(&self) {
        let mut state = self.state();
        state.inside = state.inside.saturating_add(1);
    }

    /// One came out.
    pub fn leave(&self) {
        let mut state = self.state();
        state.inside = state.inside.saturating_sub(1);
        if state.awaited {
            self.changed.notify_all();
        }
    }

    /// Nobody comes in any more.
    pub fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_when_enough_have_left() {
        let gate = Gate::new(3, 4);
        std::thread::scope(|scope| {
            let room = scope.spawn(|| gate.await_room(2));
            while !gate.is_awaited() {
                std::thread::yield_now();
            }
            for _ in 0..3 {
                assert!(gate.is_awaited());
                gate.leave();
            }
            assert!(room.join().unwrap());
        });
        assert!(!gate.is_awaited());
        gate.enter();
        gate.enter();
        assert_eq!(gate.state().inside, 3);
    }

    /// Input that comes line by line is let in one by one, and no wait is for more than can ever be inside.
    #[test]
    fn there_is_room_for_as_many_as_there_can_be() {
        let gate = Gate::new(2, 1);
        assert!(gate.await_room(1));
        gate.leave();
        assert!(gate.await_room(100));
    }

    #[test]
    fn a_gate_that_closes_ends_the_wait() {
        let gate = Gate::new(1, 1);
        std::thread::scope(|scope| {
            let room = scope.spawn(|| gate.await_room(1));
            gate.close();
            assert!(!room.join().unwrap());
        });
    }
}
