//! The catalogues of `docs/faults.md` in the simulated world: a function for each entry, named after it.
//!
//! Entries that a scenario stands for are held against it twice: the scenario holds on every seed and reaches what it is about, and with
//! the matching rule or duty broken it fails on enough of them.

mod census;
mod determinism;
mod field;
mod forced;
mod kit;
mod schedules;
mod sight;
