//! A shop of two stages that tells at any moment whether it did its work once and in order: `add` totals what is ordered under a key, and
//! `ship` writes down all that it is handed, orders, payments and totals.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parsley_core::{Offset, Record};
use parsley_embedded::{Host, Log, NewRecord, TopicConfig, TopicError};
use parsley_stage::{App, Stage, codec, fold};

use super::text;

pub const PARTITIONS: i32 = 2;
/// What comes from outside.
pub const FROM_OUTSIDE: [&str; 2] = ["orders", "payments"];
/// Every topic, with how many of the newest offsets it keeps.
pub const TOPICS: [(&str, Option<u64>); 5] = [
    ("orders", None),
    ("payments", None),
    ("totals", None),
    ("out", None),
    ("recent", Some(40)),
];
/// The stages with what each reads.
pub const STAGES: [(&str, &[&str]); 2] = [
    ("add", &["orders"]),
    ("ship", &["orders", "payments", "totals"]),
];
const KEYS: u64 = 5;

pub fn tasks() -> impl Iterator<Item = (&'static str, i32)> {
    STAGES
        .into_iter()
        .flat_map(|(stage, _)| (0..PARTITIONS).map(move |partition| (stage, partition)))
}

pub fn group(stage: &str) -> String {
    format!("shop-{stage}")
}

/// Creates a topic of the shop.
pub fn create(host: &Host, (name, offsets_max): (&str, Option<u64>)) -> Result<(), TopicError> {
    let mut config = TopicConfig::partitions(PARTITIONS);
    config.offsets_max = offsets_max;
    host.create_topic_with(name, config).map(drop)
}

/// A record for the shop. No two have one number.
pub fn numbered(topic: &str, number: u64, payload_bytes: usize) -> NewRecord {
    NewRecord::to(topic)
        .key(key_of(number))
        .value(format!("{number}|{}", "x".repeat(payload_bytes)))
}

fn key_of(number: u64) -> String {
    format!("key-{}", number % KEYS)
}

/// The application. Its logic fails, once it has sent something, while `fails` is set.
pub fn app(fails: &Arc<AtomicBool>) -> App {
    let (orders, payments, totals) = (text("orders"), text("payments"), text("totals"));
    let (out, recent) = (text("out"), text("recent"));
    let fail = || {
        let fails = Arc::clone(fails);
        move || match fails.load(Ordering::SeqCst) {
            true => Err("it was to fail here".into()),
            false => Ok(()),
        }
    };
    let add = Stage::stateful("add", codec::string(), codec::u64())
        .sink(&totals)
        .on(&orders, {
            let (totals, fail) = (totals.clone(), fail());
            move |total, order, out| {
                let number = number_of(&order.value);
                *total += number;
                out.send(&totals, &order.key, &format!("{number}|{total}"))?;
                fail()
            }
        })
        .build()
        .unwrap();
    let mut ship = Stage::stateless("ship").sink(&out).sink(&recent);
    for topic in [&orders, &payments, &totals] {
        let (out, recent, fail) = (out.clone(), recent.clone(), fail());
        ship = ship.on(topic, move |message, sends| {
            let handed = format!("{} {}", message.topic, message.value);
            sends.send(&out, &message.key, &handed)?;
            sends.send(&recent, &message.key, &handed)?;
            fail()
        });
    }
    App::named("shop")
        .stage(add)
        .stage(ship.build().unwrap())
        .build()
        .unwrap()
}

pub fn number_of(value: &str) -> u64 {
    let number = value
        .split('|')
        .next()
        .and_then(|number| number.parse().ok());
    number.expect("a value begins with its number")
}

fn text_of(bytes: &Option<Bytes>) -> &str {
    std::str::from_utf8(bytes.as_deref().expect("not null")).unwrap()
}

/// What a shop's log has.
pub struct Books {
    /// The committed records of each topic.
    records: BTreeMap<&'static str, Vec<Record>>,
}

impl Books {
    /// Looks at a log in which nobody writes and no transaction is open. Fails unless it is as it has to be between any two steps: each
    /// record of a stage's inputs has had its effect once if it was consumed and is not held, and no effect otherwise.
    pub fn check(log: &Log) -> Self {
        let read = |name| log.consumer(name).unwrap().read_to_end().unwrap();
        let books = Self {
            records: TOPICS.iter().map(|(name, _)| (*name, read(name))).collect(),
        };
        let mut numbers = BTreeSet::new();
        for number in FROM_OUTSIDE
            .into_iter()
            .flat_map(|topic| books.numbers(topic))
        {
            assert!(numbers.insert(number), "{number} is there twice");
        }
        books.check_add(log);
        books.check_ship(log);
        books
    }

    /// The numbers of a topic's records, partition by partition, in their order.
    pub fn numbers(&self, topic: &str) -> impl Iterator<Item = u64> {
        let values = self.records[topic]
            .iter()
            .map(|record| text_of(&record.value));
        values.map(number_of)
    }

    /// The records of a partition.
    fn on(&self, topic: &str, partition: i32) -> impl Iterator<Item = &Record> {
        let of_partition = move |record: &&Record| record.channel.partition == partition;
        self.records[topic].iter().filter(of_partition)
    }

    /// Those of them that a stage has consumed.
    fn consumed(&self, log: &Log, stage: &str, topic: &str, partition: i32) -> Vec<&Record> {
        let channel = log.topic_id(topic).unwrap().partition(partition);
        let positions = log.committed_positions(&group(stage));
        let position: Offset = positions.get(&channel).copied().unwrap_or(0);
        let all = self.on(topic, partition);
        all.filter(|record| record.offset < position).collect()
    }

    fn check_add(&self, log: &Log) {
        for partition in 0..PARTITIONS {
            let consumed = self.consumed(log, "add", "orders", partition);
            let held = held_by(log, "add", partition);
            let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
            let mut expected = Vec::new();
            for order in &consumed[..consumed.len() - held] {
                let (key, number) = (text_of(&order.key), number_of(text_of(&order.value)));
                let total = totals.entry(key).or_default();
                *total += number;
                expected.push(format!("{number}|{total}"));
            }
            let found = self.on("totals", partition);
            let found: Vec<&str> = found.map(|record| text_of(&record.value)).collect();
            assert_eq!(found, expected, "totals of partition {partition}");
            let state = log.fold_state(&group("add"), partition).unwrap();
            let state = state.unwrap_or_default();
            let found = state
                .iter()
                .map(|(key, total)| (key.clone(), total.to_vec()));
            let expected = totals.into_iter().map(|(key, total)| {
                let key = fold::state_key(Some(key.as_bytes()));
                (key, total.to_be_bytes().to_vec())
            });
            let (found, expected): (BTreeMap<_, _>, BTreeMap<_, _>) =
                (found.collect(), expected.collect());
            assert_eq!(found, expected, "state of add {partition}");
        }
    }

    fn check_ship(&self, log: &Log) {
        for partition in 0..PARTITIONS {
            let mut handed: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            let mut seen = BTreeSet::new();
            for record in self.on("out", partition) {
                let (topic, value) = text_of(&record.value).split_once(' ').unwrap();
                let number = number_of(value);
                assert!(
                    seen.insert((topic, number)),
                    "{topic} {number} was handed over twice"
                );
                if topic == "totals" {
                    let after = seen.contains(&("orders", number));
                    assert!(after, "total {number} came before its order");
                }
                handed.entry(topic).or_default().push(value);
            }
            let mut waiting = 0;
            for topic in STAGES[1].1 {
                let consumed = self.consumed(log, "ship", topic, partition);
                let handed = handed.remove(topic).unwrap_or_default();
                let found = consumed.iter().map(|record| text_of(&record.value));
                assert!(
                    found.take(handed.len()).eq(handed.iter().copied()),
                    "ship {partition} was handed what it consumed of {topic}, in order"
                );
                waiting += consumed.len() - handed.len();
            }
            assert!(handed.is_empty());
            let held = held_by(log, "ship", partition);
            assert_eq!(held, waiting, "held by ship {partition}");
        }
    }

    /// Fails unless all that came in was consumed and nothing is held.
    pub fn check_done(&self) {
        let all: usize = STAGES[1]
            .1
            .iter()
            .map(|topic| self.records[topic].len())
            .sum();
        assert_eq!(self.records["out"].len(), all, "everything was handed over");
        assert_eq!(self.records["totals"].len(), self.records["orders"].len());
    }
}

/// How many records a task has in its state.
fn held_by(log: &Log, stage: &str, partition: i32) -> usize {
    let state = log.ordering_state(&group(stage), partition).unwrap();
    let is_entry = |key: &[u8]| key.starts_with(b"q/") && key.windows(3).any(|at| at == b"/e/");
    let keys = state.iter().flat_map(|state| state.iter());
    keys.filter(|(key, _)| is_entry(key)).count()
}
