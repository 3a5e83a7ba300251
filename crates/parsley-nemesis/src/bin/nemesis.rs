//! Runs the Kafka host under faults, and judges it. `cargo xtask nemesis` runs this.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use parsley_nemesis::Trouble;
use parsley_nemesis::instance;
use parsley_nemesis::judge::Court;
use parsley_nemesis::run::{Disturbance, Plan, forget, run};

/// Run the Kafka host under faults
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Make a run, and judge it
    Run(Options),
    /// Judge the evidence of a run again
    Judge {
        /// The program `parsley`
        #[arg(long)]
        parsley: PathBuf,
        /// The folder that the run has named
        #[arg(long)]
        evidence: PathBuf,
    },
    /// Be an instance of a run
    #[command(hide = true)]
    Instance(instance::Arguments),
}

#[derive(clap::Args)]
struct Options {
    /// For how many minutes to disturb it
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// What everything is drawn from
    #[arg(long)]
    seed: u64,
    /// How many commands are written in each minute
    #[arg(long, default_value_t = 1250)]
    commands: u64,
    /// Heap of each broker, in MiB
    #[arg(long, default_value_t = 400)]
    heap: u32,
    /// The program `parsley`
    #[arg(long)]
    parsley: PathBuf,
    /// Where the evidence goes; it is removed if nothing is wrong
    #[arg(long)]
    evidence: PathBuf,
    /// Keep the evidence whatever comes of it
    #[arg(long)]
    keep: bool,
    /// Where to write the figures, as JSON
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Task::Instance(arguments) => instance::run(&arguments),
        Task::Judge { parsley, evidence } => match judge(parsley, &evidence) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(trouble) => {
                eprintln!("error: {trouble}");
                ExitCode::from(2)
            }
        },
        Task::Run(options) => match make(&options) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(trouble) => {
                eprintln!(
                    "error: {trouble}; the evidence is in {}",
                    options.evidence.display()
                );
                ExitCode::from(2)
            }
        },
    }
}

/// Whether the judges find nothing wrong, and see what is tampered with.
fn judge(parsley: PathBuf, evidence: &Path) -> Result<bool, Trouble> {
    let verdict = Court {
        folder: evidence.join("evidence"),
        parsley,
    }
    .judge_again()?;
    println!("{verdict:#?}");
    for unseen in verdict.unseen() {
        println!("WRONG: {unseen}");
    }
    Ok(verdict.is_right())
}

/// Whether nothing is wrong.
fn make(options: &Options) -> Result<bool, Trouble> {
    let program = std::env::current_exe().map_err(|source| Trouble::Io {
        what: "finding this program",
        source,
    })?;
    let time = Duration::from_secs(options.minutes * 60);
    println!("seed {}, {} minutes", options.seed, options.minutes);
    let outcome = run(&Plan {
        seed: options.seed,
        commands: options.commands * options.minutes,
        feed_over: time,
        disturbance: Disturbance::Drawn(time),
        heap_mb: options.heap,
        program,
        parsley: options.parsley.clone(),
        folder: options.evidence.clone(),
        is_quiet: false,
    })?;
    println!("{:#}", outcome.figures);
    for wrong in outcome.what_is_wrong() {
        println!("WRONG: {wrong}");
    }
    if let Some(out) = &options.out {
        std::fs::write(out, format!("{:#}\n", outcome.figures)).map_err(|source| Trouble::Io {
            what: "writing the figures",
            source,
        })?;
    }
    match outcome.is_right() {
        true if !options.keep => forget(&options.evidence)?,
        _ => println!("the evidence is in {}", options.evidence.display()),
    }
    Ok(outcome.is_right())
}
