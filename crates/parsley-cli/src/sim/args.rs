//! The command line of `parsley sim`.
//!
//! Names, seeds and lists of actions are taken as text and read by the commands: so one place says what was found, and what was expected.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use crate::exit::Exit;

/// What to do with simulated worlds.
#[derive(Debug, Subcommand)]
pub enum Sim {
    /// Name the scenarios, the rules that can be broken, and the duties that a host can shirk
    #[command(after_help = Exit::table())]
    List {
        /// Print one JSON object with the names
        #[arg(long)]
        json: bool,
    },
    /// Run scenarios over many seeds, and judge every delivery
    #[command(after_help = Exit::table())]
    Run {
        #[command(flatten)]
        scenarios: Scenarios,
        /// On how many threads, 1 to 256; as many as the machine has, unless said
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        jobs: Option<u16>,
        #[command(flatten)]
        wrong: Wrong,
        /// Print one JSON object a line for each scenario, the summary last
        #[arg(long)]
        json: bool,
    },
    /// Run one seed again, and show everything that happens
    #[command(after_help = Exit::table())]
    Replay {
        #[command(flatten)]
        which: Which,
        /// What to print
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
        format: Format,
    },
    /// Find the least part of a run that still goes wrong in the same way
    #[command(after_help = Exit::table())]
    Shrink {
        #[command(flatten)]
        scenarios: Scenarios,
        /// Shrink this seed, below 2^53; without it, the seeds are searched for one that shrinks to a dozen records
        #[arg(long, value_name = "N", conflicts_with = "seeds")]
        seed: Option<String>,
        #[command(flatten)]
        wrong: Wrong,
    },
    /// Go all ways through small worlds: every order in which anything can happen in them
    #[command(after_help = Exit::table())]
    Explore {
        /// The small world, or all
        #[arg(long, value_name = "NAME", default_value = "all")]
        world: String,
        #[command(flatten)]
        wrong: Wrong,
    },
    /// Draw one run: who sent, held and delivered what, and why
    #[command(after_help = Exit::table())]
    Diagram {
        #[command(flatten)]
        which: Which,
        /// Where to write it
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// A page that is complete in itself, or a log for the ShiViz tool
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Picture::Html)]
        format: Picture,
    },
}

/// Scenarios and seeds.
#[derive(Debug, Args)]
pub struct Scenarios {
    /// The scenario, or all
    #[arg(long, value_name = "NAME", default_value = "all")]
    pub scenario: String,
    /// The seeds of each: a range without its end, or one seed; below 2^53, and at most 2^32 of them
    #[arg(long, value_name = "A..B", default_value = "0..100")]
    pub seeds: String,
}

/// What is wrong on purpose.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub struct Wrong {
    /// Break this rule of the protocol
    #[arg(long, value_name = "NAME")]
    pub sabotage: Option<String>,
    /// Let the host shirk this duty
    #[arg(long, value_name = "NAME")]
    pub fault: Option<String>,
    /// Break nothing, and let the naive model order the records in the place of the node
    #[arg(long)]
    pub model: bool,
}

/// One run, or a part of one.
#[derive(Debug, Args)]
pub struct Which {
    /// The scenario
    #[arg(long, value_name = "NAME")]
    pub scenario: String,
    /// The seed, below 2^53
    #[arg(long, value_name = "N")]
    pub seed: String,
    #[command(flatten)]
    pub wrong: Wrong,
    /// Only these actions of the run, and no more records than said in those with a limit: `3,7:2,12-15`, or `none`
    #[arg(long, value_name = "ACTIONS")]
    pub keep: Option<String>,
    /// These stages do not start by themselves
    #[arg(long, value_name = "STAGE", value_delimiter = ',')]
    pub idle: Vec<String>,
}

/// What a replay prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A line for each event, and the violation
    Text,
    /// A log for the ShiViz tool
    Shiviz,
    /// A page with a space-time diagram
    Html,
}

/// What a diagram is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Picture {
    /// A page with a space-time diagram
    Html,
    /// A log for the ShiViz tool
    Shiviz,
}
