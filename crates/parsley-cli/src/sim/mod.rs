//! `parsley sim`: simulated worlds, run over many seeds, replayed, shrunk and drawn.

mod args;
mod error;
mod explore;
mod list;
mod names;
mod progress;
mod replay;
mod run;
pub(crate) mod seeds;
mod shrink;
mod table;

use std::io::Write;

pub use args::Sim;
pub use error::SimError;

use crate::exit::Exit;
use crate::failure::Failure;

/// Does what was asked.
pub fn run(command: &Sim, out: &mut impl Write) -> Result<Exit, Failure> {
    match command {
        Sim::List { json } => list::run(*json, out),
        Sim::Run {
            scenarios,
            jobs,
            wrong,
            json,
        } => run::run(scenarios, *jobs, wrong, *json, out),
        Sim::Replay { which, format } => replay::run(which, *format, out),
        Sim::Shrink {
            scenarios,
            seed,
            wrong,
        } => shrink::run(scenarios, seed.as_deref(), wrong, out),
        Sim::Explore { world, wrong } => explore::run(world, wrong, out),
        Sim::Diagram {
            which,
            out: path,
            format,
        } => replay::draw(which, path, *format, out),
    }
}
