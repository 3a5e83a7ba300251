//! `parsley topic`: what stands in topics, and whether what tasks were delivered keeps its order (`docs/topic.md`).

use std::io::Write;

use clap::Subcommand;

use crate::exit::Exit;
use crate::failure::Failure;

pub(crate) mod check;
pub(crate) mod dump;
mod error;

pub use error::TopicError;

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub enum Topic {
    /// Print the records of a topic on Kafka, one JSON object a line, with their clocks and senders
    #[command(after_help = Exit::table())]
    Dump(dump::Options),
    /// Judge dumped topics and traces of deliveries: order, causes, duplicates, gaps
    #[command(after_help = Exit::table())]
    Check(check::Options),
}

/// Runs a command.
pub fn run(command: &Topic, out: &mut impl Write) -> Result<Exit, Failure> {
    match command {
        Topic::Dump(options) => dump::run(options, out),
        Topic::Check(options) => check::run(options, out),
    }
}
