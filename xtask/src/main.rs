//! Development tasks, run as `cargo xtask`.

mod bench;
mod broker;
mod command;
mod coverage;
mod fuzz;
mod gate;
mod machine;
mod mutants;
mod nemesis;
mod page;
mod publish;
mod soak;
mod stages;
mod tools;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Development tasks")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that must be green before a change goes in
    #[command(after_help = gate::stages_help())]
    Test {
        /// Leave out what takes long: the stages marked so below. Not together with --only
        #[arg(long)]
        quick: bool,
        /// Run this stage alone; can be given more than once
        #[arg(long, value_name = "STAGE", value_parser = gate::stage_names(), conflicts_with = "quick")]
        only: Vec<String>,
        /// Write what became of each stage to this file, as JSON
        #[arg(long, value_name = "FILE")]
        report: Option<PathBuf>,
    },
    /// Start Apache Kafka, print its address, and run it until standard input closes or Ctrl-C
    Kafka {
        /// Version to fetch and start
        #[arg(long, default_value = kafka_cluster::NEWEST)]
        version: String,
        /// Number of brokers
        #[arg(long, default_value_t = 1)]
        brokers: u16,
    },
    /// Run all simulated scenarios over many seeds, and print the figures as docs/verification.md has them
    Soak {
        /// How many seeds of each scenario
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
        seeds: u64,
        /// On how many threads; as many as the machine has, unless said
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
        jobs: Option<u16>,
    },
    /// Fuzz every decoder that meets bytes from outside, and print the figures as docs/verification.md has them
    Fuzz(fuzz::Options),
    /// Run the Kafka host under faults on three brokers, judge what it delivered, and print the figures as docs/verification.md has them
    Nemesis {
        /// For how many minutes to disturb it
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
        minutes: u64,
        /// What the faults are drawn from; fresh, unless given
        #[arg(long, value_name = "N")]
        seed: Option<u64>,
        /// Write the figures into docs/verification.md
        #[arg(long)]
        save: bool,
        /// Run this part alone
        #[arg(long, value_name = "PART")]
        only: Option<nemesis::Part>,
    },
    /// Change the code of core and stage in one place at a time, and list the changes that no test notices
    ///
    /// Goes on where an earlier run was stopped, and tries again what earlier runs did not catch. What came of each mutant is written to
    /// mutants/mutants.json in Cargo's target folder.
    Mutants {
        /// Of N shares of the mutants try the K-th alone, from 0
        #[arg(long, value_name = "K/N")]
        shard: Option<String>,
        /// How many mutants are tried at the same time
        #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
        jobs: u16,
        /// Forget what earlier runs caught, as tests that were changed may not catch it any more; what is changed of the mutated files is tried again anyway
        #[arg(long)]
        fresh: bool,
        /// Write the figures into docs/verification.md
        #[arg(long)]
        save: bool,
    },
    /// Pack every crate that is published and build it from its package, as publishing would, without uploading anything
    Publish,
    /// Measure, and print the figures as docs/performance.md has them
    Bench {
        /// What to measure
        suite: Suite,
        /// Write the figures into docs/performance.md
        #[arg(long)]
        save: bool,
    },
}

/// What `cargo xtask bench` can measure.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Suite {
    /// Clocks, nodes, and the embedded host: no broker is needed
    Core,
    /// The Kafka host beside a bare loop, on a broker that is started for it
    Kafka,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test {
            quick,
            only,
            report,
        } => gate::run(quick, &only, report.as_deref()).map_err(Into::into),
        Task::Kafka { version, brokers } => broker::run(version, brokers),
        Task::Soak { seeds, jobs } => soak::run(seeds, jobs).map_err(Into::into),
        Task::Fuzz(options) => fuzz::run(&options)
            .map(|found| found.is_empty())
            .map_err(Into::into),
        Task::Nemesis {
            minutes,
            seed,
            save,
            only,
        } => nemesis::run(minutes, seed, save, only).map_err(Into::into),
        Task::Mutants {
            shard,
            jobs,
            fresh,
            save,
        } => mutants::run(&mutants::Request {
            shard,
            jobs,
            fresh,
            save,
        })
        .map_err(Into::into),
        Task::Publish => publish::run(&mut command::Counts::default(), true)
            .map(|()| true)
            .map_err(Into::into),
        Task::Bench {
            suite: Suite::Core,
            save,
        } => bench::run(save).map(|()| true).map_err(Into::into),
        Task::Bench {
            suite: Suite::Kafka,
            save,
        } => bench::kafka::run(save).map(|()| true).map_err(Into::into),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The root of the work tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("xtask is a folder of the work tree")
}
