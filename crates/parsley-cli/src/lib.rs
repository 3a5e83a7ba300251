//! The `parsley` program: a demonstration, node scripts, clocks, topics, simulated worlds. It is a program, and no library to build upon.

mod args;
mod brokers;
mod clock;
mod demo;
mod exit;
mod failure;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod input;
mod lines;
mod object;
mod plain;
mod probe;
mod property;
mod script;
mod sim;
mod style;
mod topic;
mod unread;

use std::io::{self, BufWriter};
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Clock, Command};
use exit::Exit;
use failure::Failure;

/// Runs the program on the arguments of the process.
pub fn main() -> ExitCode {
    let args = Args::parse();
    match run(args.command) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            if !failure.is_closed_pipe() {
                report(&failure);
            }
            end_as_asked(&failure);
            failure.exit().into()
        }
    }
}

fn run(command: Command) -> Result<Exit, Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match command {
        Command::Demo(options) => demo::run(&options, &mut out),
        Command::Node { script } => script::run(&script, &mut out),
        Command::Clock(Clock::Decode { clocks, json: _ }) => {
            clock::decode(&clocks, &mut out).map(|()| Exit::Done)
        }
        Command::Clock(Clock::Encode { clocks }) => {
            clock::encode(&clocks, &mut out).map(|()| Exit::Done)
        }
        Command::Sim(command) => sim::run(&command, &mut out),
        Command::Topic(command) => topic::run(&command, &mut out),
        Command::Probe(options) => probe::run(&options, &mut out),
    }
}

/// Whoever asked the process to end by a signal sees it end by that.
fn end_as_asked(failure: &Failure) {
    #[cfg(feature = "kafka")]
    if let Some(signal) = failure.signal() {
        // If it cannot, the exit code has to do.
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
    #[cfg(not(feature = "kafka"))]
    let _ = failure.signal();
}

/// Says on standard error what went wrong. When that cannot be written either, the exit code has to do.
fn report(failure: &Failure) {
    use std::io::Write;
    let _ = writeln!(
        io::stderr(),
        "parsley: {}",
        plain::plain(&failure.to_string())
    );
}
