//! The Kafka host under faults: real brokers, real processes, a proxy between them, and judges that were not there.
//!
//! A [run](run::run) starts three brokers and three instances of an [application](topology), writes commands to it, and disturbs all of it with
//! [acts](act::Act): instances are killed, ended and stopped past their session, brokers killed and ended, connections cut, refused and
//! silenced, answers dropped and delayed, records deleted up to what was delivered, topics of a spare application deleted and made again. A reader beside
//! the application [collects](collector::Collector) what stands in the topics and what each task accounts for, ahead of retention. When everything has drained, the
//! [judges](judge::Court) hold it against what must be so, and every refusal against the fault that justifies it ([`journal`]).
//!
//! `cargo xtask nemesis` runs it; `docs/verification.md` has the figures.

#![forbid(unsafe_code)]

pub mod act;
pub mod chance;
mod clients;
pub mod collector;
mod evidence;
mod feeder;
pub mod history;
pub mod instance;
mod instances;
pub mod journal;
pub mod judge;
mod log_tail;
pub mod run;
pub mod schedule;
pub mod topology;
mod trouble;

pub use trouble::Trouble;
