//! The command line.

use clap::{Parser, Subcommand};

use crate::demo;
use crate::exit::Exit;
use crate::input::Input;
use crate::probe;
use crate::sim::Sim;
use crate::topic::Topic;

/// Causal delivery order for stream processors.
#[derive(Debug, Parser)]
#[command(name = "parsley", version, about, after_help = Exit::table(), arg_required_else_help = true)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show causal order at work: a topology that would see effects before their causes, and does not
    #[command(after_help = Exit::table())]
    Demo(demo::Options),
    /// Drive one bare node from a script (docs/node-script.md)
    #[command(after_help = Exit::table())]
    Node {
        /// The script, one JSON object a line; `-` reads standard input
        #[arg(value_name = "FILE")]
        script: Input,
    },
    /// Read and write dependency clocks
    #[command(subcommand, after_help = Exit::table())]
    Clock(Clock),
    /// Run simulated worlds, replay, shrink and draw them (docs/sim.md)
    #[command(subcommand, after_help = Exit::table())]
    Sim(Sim),
    /// Look into topics, and judge what tasks were delivered (docs/topic.md)
    #[command(subcommand, after_help = Exit::table())]
    Topic(Topic),
    /// Look whether an application could start on a Kafka cluster, and what would stop it; nothing is changed there
    #[command(after_help = Exit::table())]
    Probe(probe::Options),
}

/// Reading and writing clocks.
#[derive(Debug, Subcommand)]
pub enum Clock {
    /// Print clocks given as hexadecimal bytes of the `vc` header, one JSON object a line
    #[command(after_help = Exit::table())]
    Decode {
        /// Clocks in hexadecimal; a single `-` reads them from standard input, one a line
        #[arg(value_name = "HEX", required = true)]
        clocks: Vec<String>,
        /// Accepted, and changes nothing: the output is JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the bytes, in hexadecimal, of clocks given as JSON
    #[command(after_help = Exit::table())]
    Encode {
        /// A file with one JSON object a line, in the form that `decode` prints; `-` reads standard input
        #[arg(value_name = "FILE", default_value = "-")]
        clocks: Input,
    },
}
