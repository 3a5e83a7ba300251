//! The client that writes commands: in transactions, of which some are aborted.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::Trouble;
use crate::chance::Chance;
use crate::topology::{COMMANDS, Command};

/// How many keys there are.
const KEYS: u64 = 48;

/// How many commands a transaction has at most.
const BURST: u64 = 40;

/// How many of 100 transactions are aborted.
const ABORTED_PERCENT: u64 = 10;

/// How long an answer may take. A broker that is down takes a while to be replaced.
const ANSWER: Duration = Duration::from_secs(20);

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// How many commands, those of aborted transactions not counted.
    pub commands: u64,
    /// In which time, evenly.
    pub over: Duration,
}

/// Writes the load, or as much of it as there is time for, and counts in `written` the commands that it takes for committed. What became of a transaction whose outcome
/// is not known is not asked: what stands in the topic counts.
pub fn feed(
    brokers: &str,
    load: Load,
    chance: &mut Chance,
    written: &AtomicU64,
    stop: &AtomicBool,
) -> Result<(), Trouble> {
    let began = Instant::now();
    let (mut number, mut producer) = (0, None);
    while written.load(Ordering::Relaxed) < load.commands && !stop.load(Ordering::Relaxed) {
        let share = began.elapsed().as_secs_f64() / load.over.as_secs_f64().max(0.001);
        let due = ((load.commands as f64 * share) as u64).min(load.commands);
        let count = due
            .saturating_sub(written.load(Ordering::Relaxed))
            .min(chance.between(1, BURST));
        if count == 0 {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        }
        let aborts = chance.below(100) < ABORTED_PERCENT;
        let keys: Vec<u64> = (0..count).map(|_| chance.below(KEYS)).collect();
        let numbers = number..number + count;
        number += count;
        if producer.is_none() {
            producer = begin(brokers).ok();
        }
        let Some(open) = &producer else { continue };
        let outcome = transact(open, numbers.zip(keys), aborts);
        match outcome {
            Ok(true) => drop(written.fetch_add(count, Ordering::Relaxed)),
            Ok(false) => {}
            // A new producer of the name settles what the old one had open.
            Err(_) => producer = None,
        }
    }
    Ok(())
}

fn begin(brokers: &str) -> Result<BaseProducer, KafkaError> {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("transactional.id", "nemesis-feeder")
        .set("transaction.timeout.ms", "10000")
        .set("partitioner", "murmur2_random")
        .create()?;
    producer.init_transactions(ANSWER)?;
    Ok(producer)
}

/// Whether the transaction is committed.
fn transact(
    producer: &BaseProducer,
    commands: impl Iterator<Item = (u64, u64)>,
    aborts: bool,
) -> Result<bool, KafkaError> {
    producer.begin_transaction()?;
    for (command, key) in commands {
        let (key, value) = (format!("k{key}"), Command { command });
        let value = serde_json::to_string(&value).expect("a number is JSON");
        let record = BaseRecord::to(COMMANDS).key(&key).payload(&value);
        producer.send(record).map_err(|(error, _)| error)?;
    }
    if aborts {
        // They are to stand in the log, where nobody sees them.
        producer.flush(ANSWER)?;
        producer.abort_transaction(ANSWER)?;
        return Ok(false);
    }
    producer.commit_transaction(ANSWER)?;
    Ok(true)
}
