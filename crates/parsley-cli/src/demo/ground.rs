//! What the demo stands on: a host in memory or on a directory, with its topics.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use parsley::embedded::{Host, Ids, LogConfig, TopicConfig};

use super::Seen;
use super::error::DemoError;
use super::topology::{AUDIT, COMMANDS, EVENTS, FINDINGS, INPUT, RECONCILER, VIEWS};

const PARTITIONS: i32 = 2;
/// For how many of its fetch rounds the adversary keeps a command from the reconciler. A round lasts until the log changes at least: this is
/// more than all the portions of commands that are under way, so that the stages before the reconciler have come on in the meantime.
const DELAY_ROUNDS: u64 = 24;
/// The seed of topic identities: with it they are the same in each run.
const IDS: u64 = 2;
/// How many offsets are kept of the notes on how much of the input was taken. The last record holds, and a marker follows each.
const INPUT_OFFSETS: u64 = 8;

/// A host that has the demo's topics.
pub struct Ground {
    /// The host.
    pub host: Host,
    /// Whether what it has outlives the process.
    pub is_durable: bool,
}

impl Ground {
    /// A host in memory, or on a directory, which is made if there is none. The bell rings when a delivery is committed.
    pub fn open(data: Option<&Path>, bell: &Bell) -> Result<Self, DemoError> {
        let bell = bell.clone();
        let mut builder = Host::builder()
            .log_config(LogConfig::default().ids(Ids::Seeded(IDS)))
            .delay(RECONCILER, COMMANDS, DELAY_ROUNDS)
            .audit(AUDIT)
            .on_delivery(move |_| bell.ring());
        if let Some(dir) = data {
            builder = builder.data_dir(dir);
        }
        let host = builder.build()?;
        make_topics(&host, data.unwrap_or(Path::new("")))?;
        Ok(Self {
            host,
            is_durable: data.is_some(),
        })
    }
}

/// Makes the topics that are not there: all of them at first, some after a run that was killed early. There may be no others.
fn make_topics(host: &Host, data: &Path) -> Result<(), DemoError> {
    let of_the_demo = TopicConfig::partitions(PARTITIONS);
    let input = TopicConfig::partitions(1).offsets_max(INPUT_OFFSETS);
    let mut missing = BTreeMap::from([
        (COMMANDS, of_the_demo),
        (EVENTS, of_the_demo),
        (VIEWS, of_the_demo),
        (FINDINGS, of_the_demo),
        (AUDIT, of_the_demo),
        (INPUT, input),
    ]);
    for (topic, id) in host.log().topics() {
        let expected = missing.remove(&*topic).map(|config| config.partitions);
        let found = host.log().partition_count(id);
        if found != expected {
            let found = match expected {
                None => format!("it has topic {topic}"),
                Some(expected) => format!(
                    "topic {topic} has {} partitions, and {expected} in the demo",
                    found.unwrap_or(0)
                ),
            };
            return Err(DemoError::OtherApplication {
                data: data.to_owned(),
                found,
            });
        }
    }
    for (topic, config) in missing {
        host.create_topic_with(topic, config)?;
    }
    Ok(())
}

/// Tells the one who watches that the account of deliveries has grown: once, until it is heard.
#[derive(Clone)]
pub struct Bell {
    rung: Arc<AtomicBool>,
    seen: SyncSender<Seen>,
}

impl Bell {
    /// A bell that is heard at the other end of a queue.
    pub fn new(seen: SyncSender<Seen>) -> Self {
        Self {
            rung: Arc::default(),
            seen,
        }
    }

    /// Rings, unless it has been rung and was not heard yet.
    pub fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // Nobody listens any more when the demo ends early.
            drop(self.seen.send(Seen::News));
        }
    }

    /// It was heard. What has grown is to be looked at after this.
    pub fn heard(&self) {
        self.rung.store(false, Ordering::SeqCst);
    }
}
