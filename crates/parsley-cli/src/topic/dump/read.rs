//! Reads the topic and prints it.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parsley::kafka::{self, ReadFrom, ReaderConfig, TopicReader, TopicSelection};

use super::line;
use super::{From, Isolation, Options};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::plain::plain;
use crate::property::checked;
use crate::topic::TopicError;
use crate::unread::unread;

/// How long one look for records waits, and so how soon a reader that went away is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// Prints the records: up to the ends, or until it is interrupted or nobody reads the output.
pub fn run(options: &Options, out: &mut impl Write) -> Result<Exit, Failure> {
    let isolation = match options.isolation {
        Isolation::ReadCommitted => kafka::Isolation::ReadCommitted,
        Isolation::ReadUncommitted => kafka::Isolation::ReadUncommitted,
    };
    let mut config = ReaderConfig::new(options.brokers.as_str())
        .isolation(isolation)
        .until_end(options.until_end);
    let properties = checked(&options.properties).map_err(TopicError::from)?;
    for (key, value) in properties {
        config = config.property(key, value);
    }
    let selection = TopicSelection {
        topic: options.topic.clone(),
        partitions: options.partitions.clone(),
        from: match options.from {
            From::Start => ReadFrom::Start,
            From::End => ReadFrom::End,
            From::Offset(offset) => ReadFrom::Offset(offset),
            From::Timestamp(at) => ReadFrom::Timestamp(at),
        },
    };
    let mut reader = TopicReader::open(&config, &[selection]).map_err(TopicError::from)?;
    if options.until_end {
        say_what_is_undecided(&reader);
    }
    let gone = look_out_for_reader();
    // A record that may be an aborted one says so.
    let said = (options.isolation == Isolation::ReadUncommitted).then_some("read_uncommitted");
    while !(options.until_end && reader.is_at_end()) {
        for record in reader.poll(LOOK).map_err(TopicError::from)? {
            line::write(&record, said, out).map_err(Failure::Write)?;
        }
        out.flush().map_err(Failure::Write)?;
        if gone.load(Ordering::Relaxed) {
            return Ok(Exit::Done);
        }
    }
    Ok(Exit::Done)
}

/// Names on standard error the partitions that go on behind their ends: a transaction there was not decided when the dump began.
fn say_what_is_undecided(reader: &TopicReader) {
    for position in reader.positions().filter(|at| at.end < at.high_watermark) {
        let text = format!(
            "{}/{}: a transaction is open from offset {} on; nothing of it and of what follows, up to {}, is printed",
            position.topic,
            position.channel.partition,
            position.end,
            position.high_watermark - 1
        );
        // What cannot be said does not end the dump.
        let _ = writeln!(io::stderr(), "parsley: {}", plain(&text));
    }
}

/// Tells when nobody reads standard output any more, also while no record comes.
fn look_out_for_reader() -> Arc<AtomicBool> {
    let gone = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&gone);
    // Without the thread, the next write tells.
    let _ = std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || {
            if unread().is_some() {
                told.store(true, Ordering::Relaxed);
            }
        });
    gone
}
