//! `parsley probe`: whether an application could start on a cluster.

use std::io::Write;

use crate::brokers::Brokers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::input::Input;
use crate::property::Given;

mod error;
#[cfg(feature = "kafka")]
mod look;

pub use error::ProbeError;

/// What to look at.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "without Kafka nothing is looked at")
)]
pub struct Options {
    /// Where to find the cluster: host:port, several separated by commas
    #[arg(long, value_name = "HOST:PORT[,...]")]
    brokers: Brokers,
    /// The application as a TOML file describes it: names of stages and topics, settings of the host (docs/operations.md); `-` reads
    /// standard input
    #[arg(long, value_name = "FILE")]
    config: Input,
    /// A property of librdkafka, for security and the like, as the host is to have it; may be given several times
    #[arg(
        long = "property",
        value_name = "KEY=VALUE",
        allow_hyphen_values = true
    )]
    properties: Vec<Given>,
}

/// Looks, and prints what was found, one finding a line.
#[cfg(feature = "kafka")]
pub fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    look::run(options, out)
}

/// Says that this build cannot.
#[cfg(not(feature = "kafka"))]
pub fn run(_: &Options, _: &mut impl Write) -> Result<Exit, Failure> {
    Err(ProbeError::NoKafka.into())
}
