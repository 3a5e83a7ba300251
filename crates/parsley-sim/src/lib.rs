//! A deterministic simulator of causal delivery, and the kit that other hosts are verified with.
//!
//! A [`Scenario`](scenario::Scenario) draws a world from a seed: topics, stages, edge clients, and a script ([`plan`]). The [`World`] lets one
//! thing happen after the other, chosen by a seeded scheduler among everything that is possible at that moment: reads, position advances,
//! appends, replication, markers, watermarks and their late answers, crashes, retention. A host does what is chosen ([`host`]): the
//! [`TaskHost`] drives the real `Task` over a simulated broker ([`broker`]). Whatever it reports goes to an oracle that knows what really
//! happened before what and has never seen a clock (`parsley-oracle`). In the end the world comes to rest, and then nothing may be held and nothing may
//! be missing.
//!
//! ```
//! use parsley_sim::{Sabotage, run::Request, scenarios};
//!
//! let scenario = scenarios::named("shared-input-race").unwrap();
//! let run = |sabotage| Request { scenario, seed: 0, trace: false }.run(sabotage);
//! assert_eq!(run(Sabotage::None).violation, None);
//!
//! // A judge that cannot find anyone guilty is none: the same world with a rule of the protocol broken.
//! let broken = Sabotage::Protocol(parsley_model::Broken::Eager);
//! let seeds = 0..50;
//! let caught = seeds.filter(|&seed| Request { scenario, seed, trace: false }.run(broken).violation.is_some());
//! assert!(caught.count() > 10);
//! ```
//!
//! A host of your own implements [`ConformanceHost`](host::ConformanceHost); [`Suite::run_on`](suite::Suite::run_on) puts it through all
//! scenarios. `parsley sim` runs, replays, shrinks and draws on the command line.
//!
//! | To find | Look in |
//! |---|---|
//! | the words that scenarios are written in | `plan.rs` |
//! | the scenarios | `scenarios/` |
//! | what can happen next, and how likely | `world/draw.rs` |
//! | doing it | `world/act.rs`, `world/edge.rs` |
//! | judging it | `world/observe.rs`, `world/drain.rs` |
//! | a host's step, one choice at a time | `task_host/run.rs` |
//! | duties that a host shirks on purpose | `fault.rs`; broken rules are `parsley-model`'s |
//! | what a run looks like | `trace.rs`, `report.rs`, `diagram.rs`, `shiviz.rs` |
//! | the least part of a run that still goes wrong | `shrink.rs`, `shrink/` |

#![forbid(unsafe_code)]

pub mod broker;
mod chance;
mod count;
pub mod diagram;
mod engine;
pub mod explore;
mod fault;
pub mod host;
mod logic;
mod payload;
pub mod plan;
pub mod report;
pub mod run;
pub mod scenario;
pub mod scenarios;
pub mod shiviz;
pub mod shrink;
pub mod suite;
mod task_host;
pub mod trace;
mod world;

pub use chance::Chance;
pub use count::Counts;
pub use fault::HostFault;
pub use task_host::{Sabotage, TaskHost};
pub use world::{Action, Rule, Violation, World};
