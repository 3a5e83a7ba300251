//! A deterministic simulator of causal delivery, and the kit that other hosts are verified with.

#![forbid(unsafe_code)]

pub mod broker;
mod chance;
mod count;
pub mod diagram;
mod engine;
mod fault;
pub mod host;
mod logic;
mod payload;
pub mod plan;
pub mod run;
pub mod scenario;
pub mod scenarios;
pub mod shiviz;
pub mod suite;
mod task_host;
pub mod trace;
mod world;

pub use chance::Chance;
pub use count::Counts;
pub use fault::HostFault;
pub use task_host::{Sabotage, TaskHost};
pub use world::{Action, Rule, Violation, World};
