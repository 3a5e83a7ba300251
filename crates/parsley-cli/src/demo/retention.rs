//! Has a log in memory forget what is over, so that a long input fits. A directory keeps everything.

use std::collections::BTreeMap;
use std::sync::Arc;

use parsley::core::Offset;
use parsley::embedded::Host;

use super::audit::Delivered;
use super::error::DemoError;
use super::topology::{AUDIT, COMMANDER, COMMANDS, EVENTS, PROJECTOR, RECONCILER, VIEWS};

/// After how many commands the log is made to forget.
const EVERY: u64 = 5000;

/// Which stages deliver each topic.
const READERS: [(&str, &[&str]); 3] = [
    (COMMANDS, &[COMMANDER, RECONCILER]),
    (EVENTS, &[PROJECTOR]),
    (VIEWS, &[RECONCILER]),
];

/// Knows what every stage has delivered.
pub struct Retention {
    host: Host,
    last: BTreeMap<(Arc<str>, Arc<str>, i32), Offset>,
    /// After how many commands it is due next.
    due: u64,
}

impl Retention {
    /// Makes the log of a host forget.
    pub fn new(host: Host) -> Self {
        Self {
            host,
            last: BTreeMap::new(),
            due: EVERY,
        }
    }

    /// Takes note of a delivery.
    pub fn delivered(&mut self, delivered: &Delivered) {
        self.last.insert(
            (
                Arc::clone(&delivered.stage),
                Arc::clone(&delivered.topic),
                delivered.channel.partition,
            ),
            delivered.offset,
        );
    }

    /// Whether so many commands are enough to forget something; not again, then, before there are more.
    pub fn falls_due(&mut self, commands: u64) -> bool {
        let is_due = commands >= self.due;
        if is_due {
            self.due = commands + EVERY;
        }
        is_due
    }

    /// Forgets what all stages have delivered, and the entries of deliveries as far as they were read.
    pub fn forget(&self, entries: &BTreeMap<i32, Offset>) -> Result<(), DemoError> {
        let log = self.host.log();
        let topics = log.topics();
        for (topic, readers) in READERS {
            let Some(&id) = topics.get(topic) else {
                continue;
            };
            for partition in 0..log.partition_count(id).unwrap_or(0) {
                let delivered = readers.iter().map(|&stage| {
                    self.last
                        .get(&(Arc::from(stage), Arc::from(topic), partition))
                        .copied()
                });
                if let Some(Some(all)) = delivered.min() {
                    log.delete_records(id.partition(partition), all)?;
                }
            }
        }
        if let Some(account) = topics.get(AUDIT) {
            for (&partition, &read) in entries {
                log.delete_records(account.partition(partition), read)?;
            }
        }
        Ok(())
    }
}
