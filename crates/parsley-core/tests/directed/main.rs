//! Directed tests: one per guard, one per fault of `docs/faults.md` that a bare node can show.

mod faults;
mod guards;
mod schedules;
mod support;
