//! Directed tests: one per guard, one per fault of `docs/faults.md` that a bare node can show, what a node tells of what it holds, and what it stamps.

mod faults;
mod guards;
mod held;
mod schedules;
mod stamps;
mod support;
