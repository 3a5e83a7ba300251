//! `parsley topic dump`: the records of a topic as lines of JSON.

use std::io::Write;
use std::str::FromStr;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;

use crate::brokers::Brokers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::property::Given;

#[cfg(feature = "kafka")]
pub(crate) mod line;
#[cfg(feature = "kafka")]
mod read;

/// What to print.
#[derive(Debug, clap::Args)]
#[cfg_attr(
    not(feature = "kafka"),
    allow(dead_code, reason = "without Kafka nothing is read with them")
)]
pub struct Options {
    /// Where to find the cluster: host:port, several separated by commas
    #[arg(long, value_name = "HOST:PORT[,...]")]
    brokers: Brokers,
    /// The topic
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    topic: String,
    /// Only this partition; may be given several times
    #[arg(long = "partition", value_name = "N", value_parser = clap::value_parser!(i32).range(0..))]
    partitions: Vec<i32>,
    /// Where to begin in each partition: an offset, `start`, `end`, or @ and a timestamp in milliseconds: the first record that is not
    /// older
    #[arg(long, value_name = "OFFSET|start|end|@MS", default_value = "start")]
    from: From,
    /// End where the partitions end now; without it, new records are waited for until the program is interrupted
    #[arg(long)]
    until_end: bool,
    /// Print what is committed, or everything, aborted records and those of open transactions among them
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = Isolation::ReadCommitted)]
    isolation: Isolation,
    /// A property of librdkafka, for security and the like; may be given several times
    #[arg(
        long = "property",
        value_name = "KEY=VALUE",
        allow_hyphen_values = true
    )]
    properties: Vec<Given>,
}

/// What is printed of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Isolation {
    /// What is committed, up to the first transaction that is open
    #[value(name = "read_committed")]
    ReadCommitted,
    /// Everything
    #[value(name = "read_uncommitted")]
    ReadUncommitted,
}

/// Where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    Start,
    End,
    Offset(i64),
    Timestamp(i64),
}

impl FromStr for From {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let number = |digits: &str| -> Result<i64, NoPlace> {
            let digits = Some(digits).filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
            digits.and_then(|digits| digits.parse().ok()).ok_or(NoPlace)
        };
        match (text, text.strip_prefix('@')) {
            ("start", _) => Ok(Self::Start),
            ("end", _) => Ok(Self::End),
            (_, Some(timestamp)) => number(timestamp).map(Self::Timestamp),
            (_, None) => number(text).map(Self::Offset),
        }
    }
}

/// Text names no place in a topic.
#[derive(Debug, thiserror::Error)]
#[error("expected an offset, `start`, `end`, or `@` and a timestamp in milliseconds")]
pub(crate) struct NoPlace;

/// Prints the records.
#[cfg(feature = "kafka")]
pub fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    read::run(options, out)
}

/// Says that this build cannot.
#[cfg(not(feature = "kafka"))]
pub fn run(_: &Options, _: &mut impl Write) -> Result<Exit, Failure> {
    Err(super::TopicError::NoKafka.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_an_offset_an_end_or_a_time() {
        let read = |text: &str| From::from_str(text).ok();
        assert_eq!(read("start"), Some(From::Start));
        assert_eq!(read("end"), Some(From::End));
        assert_eq!(read("0"), Some(From::Offset(0)));
        assert_eq!(read("17"), Some(From::Offset(17)));
        assert_eq!(read("@1700000000000"), Some(From::Timestamp(1700000000000)));
        for wrong in [
            "",
            "-1",
            "+1",
            "@",
            "@-1",
            "1.5",
            "Start",
            "9223372036854775808",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
