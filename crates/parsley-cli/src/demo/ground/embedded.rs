//! A host in this process, in memory or on a directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parsley::App;
use parsley::core::{Offset, Record};
use parsley::embedded::{
    Consumer, Host, Ids, LogConfig, NewRecord, Producer, Running, Status, TaskState, TopicConfig,
    Transaction, Waited,
};

use super::{Application, Bell, Entry, Ground, LogReader, LogWriter, TOPICS};
use crate::demo::error::DemoError;
use crate::demo::feed::Pace;
use crate::demo::retention::Retention;
use crate::demo::topology::{AUDIT, COMMANDS, INPUT, RECONCILER};
use crate::input::Input;

/// For how many of its fetch rounds the adversary keeps a command from the reconciler. A round lasts until the log changes at least: this is
/// more than all the portions of commands that are under way, so that the stages before the reconciler have come on in the meantime.
const DELAY_ROUNDS: u64 = 24;
/// The seed of topic identities: with it they are the same in each run.
const IDS: u64 = 2;
/// How many offsets are kept of the notes on how much of the input was taken. The last record holds, and a marker follows each.
const INPUT_OFFSETS: u64 = 8;

/// A host that has the demo's topics.
pub struct Embedded {
    /// The host.
    pub host: Host,
    is_durable: bool,
}

impl Embedded {
    /// A host in memory, or on a directory, which is made if there is none. Commands are withheld from the reconciler for so long. The bell rings when a delivery
    /// is committed.
    pub fn open(data: Option<&Path>, withheld: Duration, bell: &Bell) -> Result<Self, DemoError> {
        let bell = bell.clone();
        let mut builder = Host::builder()
            .log_config(LogConfig::default().ids(Ids::Seeded(IDS)))
            .delay(RECONCILER, COMMANDS, DELAY_ROUNDS)
            .withhold(RECONCILER, COMMANDS, withheld)
            .audit(AUDIT)
            .on_delivery(move |_| {
                // Nobody listens any more when the demo ends early.
                bell.ring();
            });
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
    let mut missing = BTreeMap::from(TOPICS);
    for (topic, id) in host.log().topics() {
        let expected = missing.remove(&*topic);
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
    for (topic, partitions) in missing {
        let config = TopicConfig::partitions(partitions);
        let config = match topic {
            INPUT => config.offsets_max(INPUT_OFFSETS),
            _ => config,
        };
        host.create_topic_with(topic, config)?;
    }
    Ok(())
}

impl Ground for Embedded {
    fn is_durable(&self) -> bool {
        self.is_durable
    }

    fn place(&self) -> &'static str {
        "what this directory was"
    }

    fn pace(&self, input: Option<&Input>) -> Pace {
        match input {
            // So few that the screen shows what happens to each.
            None => Pace {
                under_way: 48,
                portion: 4,
            },
            // So many that a long input is soon done.
            Some(_) => Pace {
                under_way: 1000,
                portion: 100,
            },
        }
    }

    fn reader(&self, topic: &'static str) -> Result<Box<dyn LogReader>, DemoError> {
        Ok(Box::new(self.host.consumer(topic)?))
    }

    fn writer(&self) -> Result<Box<dyn LogWriter>, DemoError> {
        Ok(Box::new(Portions {
            producer: self.host.producer(),
            open: None,
        }))
    }

    fn retention(&self) -> Option<Retention> {
        (!self.is_durable).then(|| Retention::new(self.host.clone()))
    }

    fn start(&self, app: App) -> Result<Arc<dyn Application>, DemoError> {
        Ok(Arc::new(self.host.start(app)?))
    }
}

impl LogReader for Consumer {
    fn topic(&self) -> &str {
        Self::topic(self)
    }

    fn poll_now(&mut self) -> Result<Vec<Record>, DemoError> {
        Ok(Self::poll_now(self)?)
    }

    fn read_on(&mut self) -> Result<Vec<Record>, DemoError> {
        Ok(Self::poll_now(self)?)
    }

    fn positions(&self) -> BTreeMap<i32, Offset> {
        Self::positions(self).clone()
    }
}

/// Writes portions as transactions.
struct Portions {
    producer: Producer,
    open: Option<Transaction>,
}

impl LogWriter for Portions {
    fn send(&mut self, entry: Entry) -> Result<(), DemoError> {
        let Entry {
            topic,
            key,
            value,
            number,
        } = entry;
        let mut record = NewRecord::to(topic).value(value);
        if let Some(key) = key {
            record = record.key(key);
        }
        if let Some(number) = number {
            // No clock: each run has the same timestamps.
            record = record.timestamp_ms(i64::try_from(number).unwrap_or(i64::MAX));
        }
        let producer = &self.producer;
        let portion = self.open.get_or_insert_with(|| producer.begin());
        portion.send(record)?;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DemoError> {
        match self.open.take() {
            Some(portion) => Ok(portion.commit()?),
            None => Ok(()),
        }
    }
}

impl Application for Running {
    fn await_failure(&self) -> Option<DemoError> {
        let mut found = None;
        // Kept as it was found: the task may be past it when it is told.
        let waited = self.wait(|status| {
            found = broken(status);
            found.is_some()
        });
        found.filter(|_| waited == Waited::Reached)
    }

    fn await_rest(&self) -> Result<(), DemoError> {
        // What rests has committed all that it did: the account has it.
        match self.wait_until_idle() {
            Waited::Reached => Ok(()),
            _ => Err(broken(&self.status()).unwrap_or(DemoError::Silent)),
        }
    }

    fn rests_for_good(&self) -> bool {
        true
    }

    fn is_struggling(&self) -> bool {
        false
    }

    fn stop(&self) -> Result<(), DemoError> {
        Self::stop(self)?;
        Ok(())
    }
}

fn broken(status: &Status) -> Option<DemoError> {
    status.tasks.iter().find_map(|task| {
        if let Some(error) = &task.storage {
            return Some(error.clone().into());
        }
        let (stage, partition) = (task.stage.to_string(), task.partition);
        match &task.state {
            TaskState::Refused(refusal) => Some(DemoError::Refused {
                stage,
                partition,
                refusal: refusal.clone(),
            }),
            // The demo's logic never fails, so trying again does not help.
            TaskState::Failed { message } | TaskState::Retrying { message, .. } => {
                Some(DemoError::Failed {
                    stage,
                    partition,
                    message: message.clone(),
                })
            }
            _ => None,
        }
    })
}
