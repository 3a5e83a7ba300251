//! A stage under load, of which each effect is to come once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parsley_kafka::{KafkaConfig, KafkaRunning};
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::three::create_on_all;
use crate::world::*;

/// How many keys there are.
const KEYS: u64 = 16;

/// How many partitions the topics have.
pub const PARTITIONS: i32 = 2;

/// Counts words while more and more of them come.
pub struct Load {
    name: &'static str,
    pub counted: String,
    pub running: KafkaRunning,
    is_over: Arc<AtomicBool>,
    writer: JoinHandle<u64>,
    _dir: tempfile::TempDir,
}

impl Load {
    /// Begins, on topics that every broker has.
    pub fn begin(name: &'static str, configured: impl FnOnce(KafkaConfig) -> KafkaConfig) -> Self {
        let (app, words, counted) = wordcount(name);
        for topic in [&words, &counted] {
            create_on_all(topic, PARTITIONS);
        }
        let dir = tempfile::tempdir().unwrap();
        let running = start(configured(config(&dir)), &app);
        wait_for_tasks(&running, PARTITIONS as usize);
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let is_over = Arc::clone(&is_over);
            move || write(&words, &is_over)
        });
        let load = Self {
            name,
            counted,
            running,
            is_over,
            writer,
            _dir: dir,
        };
        load.wait_for_effects(200);
        load
    }

    /// Waits until so many more effects are committed.
    pub fn wait_for_effects(&self, more: i64) {
        let begun = self.ends();
        let until = Instant::now() + BOUND;
        while self.ends() - begun < more {
            let status = self.running.status();
            assert!(Instant::now() < until, "no more effects: {status:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Where what is committed ends, in sum.
    fn ends(&self) -> i64 {
        let asker: BaseConsumer = client()
            .set("isolation.level", "read_committed")
            .create()
            .unwrap();
        let end = |partition| {
            let bounds = asker.fetch_watermarks(&self.counted, partition, BOUND);
            bounds.map_or(0, |(_, end)| end)
        };
        (0..PARTITIONS).map(end).sum()
    }

    /// Ends, and judges: each word is counted, once, in order.
    pub fn end(self) -> u64 {
        self.is_over.store(true, Ordering::SeqCst);
        let written = self.writer.join().expect("it writes");
        let mut expected: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for number in 0..written {
            let counts = expected.entry(key(number)).or_default();
            counts.push(counts.len() as u64 + 1);
        }
        let sum =
            |counts: &BTreeMap<String, Vec<u64>>| counts.values().map(Vec::len).sum::<usize>();
        wait_until("all effects", || {
            sum(&counts(&self.counted)) >= written as usize
        });
        stop(&self.running);
        let found = counts(&self.counted);
        assert_eq!(sum(&found), written as usize, "effects");
        assert_eq!(found, expected);
        let sent = check_stamps(&self.counted, self.name, "count", PARTITIONS);
        assert_eq!(sent.values().sum::<usize>(), written as usize);
        written
    }
}

fn key(number: u64) -> String {
    format!("word{}", number % KEYS)
}

/// Writes words, each once, until it is told to end. Returns how many.
fn write(topic: &str, is_over: &AtomicBool) -> u64 {
    let producer = client()
        .set("partitioner", "murmur2_random")
        .set("enable.idempotence", "true")
        .set("message.timeout.ms", "300000")
        .create()
        .unwrap();
    let writer = Foreign(producer);
    let mut written = 0;
    while !is_over.load(Ordering::SeqCst) {
        for _ in 0..5 {
            writer.send(topic, To::Key, &key(written), "seen", &[]);
            written += 1;
        }
        writer.0.poll(Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(5));
    }
    writer.flush();
    written
}
