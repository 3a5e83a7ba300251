#![doc = include_str!("testing.md")]

mod builder;
mod checks;
mod deployment;
mod driver;
mod error;
mod piping;
mod probe;
mod states;
mod ticking;
mod withhold;

pub use builder::TestDriverBuilder;
pub use driver::{Delivered, TestDriver};
pub use error::DriverError;
pub use piping::{Input, Output};
pub use probe::{Clause, Finding, Note, ProbeReport, Samples, probe};
pub use states::States;
