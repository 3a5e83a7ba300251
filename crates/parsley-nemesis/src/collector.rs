//! Reads all topics as they grow, before retention takes what was read.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use parsley_kafka::{
    ReadFrom, ReaderConfig, ReaderError, ReaderPosition, TopicReader, TopicSelection,
};

use crate::Trouble;
use crate::evidence::Evidence;
use crate::history::History;
use crate::topology::{ACCOUNT, SPARE_ACCOUNT, TOPICS};

/// Where reading is, and what is known by it.
#[derive(Default)]
pub struct Collector {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    history: History,
    longest_stall: Duration,
    spare_entries: u64,
    reopened: u64,
}

impl Collector {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at what is known.
    pub fn with<T>(&self, look: impl FnOnce(&History) -> T) -> T {
        look(&self.state().history)
    }

    /// The longest time in which nothing was delivered though something was due.
    pub fn longest_stall(&self) -> Duration {
        self.state().longest_stall
    }

    /// How often reading had to begin again where it was.
    pub fn reopened(&self) -> u64 {
        self.state().reopened
    }

    /// How many entries the spare application's account has.
    pub fn spare_entries(&self) -> u64 {
        self.state().spare_entries
    }

    /// Takes all that was learned.
    pub fn into_history(self) -> History {
        let state = self.state.into_inner();
        state.unwrap_or_else(PoisonError::into_inner).history
    }

    /// Reads until it is asked to stop.
    ///
    /// # Errors
    ///
    /// When the evidence cannot be written, or a topic cannot be read any more, whatever the brokers do.
    pub fn collect(&self, brokers: &str, folder: &Path, stop: &AtomicBool) -> Result<(), Trouble> {
        let mut evidence = Evidence::begin(folder)?;
        let mut selections: Vec<TopicSelection> = TOPICS
            .iter()
            .chain(&[ACCOUNT, SPARE_ACCOUNT])
            .map(|topic| TopicSelection::whole(*topic))
            .collect();
        let config = ReaderConfig::new(brokers);
        let mut progress = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            let mut positions: Vec<ReaderPosition> = Vec::new();
            let ended = TopicReader::open(&config, &selections).and_then(|mut reader| {
                while !stop.load(Ordering::Relaxed) {
                    // What a poll had gathered when it failed is read again.
                    let read = reader.poll(Duration::from_millis(100))?;
                    positions = reader.positions().cloned().collect();
                    for record in &read {
                        let written = evidence.add(record);
                        self.take(record, &mut progress);
                        if let Err(trouble) = written {
                            return Ok(Err(trouble));
                        }
                    }
                    self.look(&mut progress);
                }
                Ok(Ok(()))
            });
            if !positions.is_empty() {
                selections = positions.iter().map(resumed).collect();
            }
            match ended {
                Ok(outcome) => outcome?,
                // A position that is out of range would come again and again.
                Err(ReaderError::OutOfRange { partition, .. }) => {
                    let reason = format!("{partition} was cut before it was read");
                    return Err(Trouble::Evidence {
                        path: folder.to_owned(),
                        reason,
                    });
                }
                Err(_) => {
                    self.state().reopened += 1;
                    std::thread::sleep(Duration::from_millis(500));
                }
            }
        }
        evidence.flush()
    }

    fn take(&self, record: &parsley_kafka::ReadRecord, progress: &mut Instant) {
        let mut state = self.state();
        if &*record.topic == SPARE_ACCOUNT {
            state.spare_entries += 1;
            return;
        }
        let before = state.history.delivered();
        state.history.take(record);
        if state.history.delivered() > before {
            state.longest_stall = state.longest_stall.max(progress.elapsed());
            *progress = Instant::now();
        }
    }

    /// Nothing stalls while nothing is due.
    fn look(&self, progress: &mut Instant) {
        let state = self.state();
        if state.history.delivered() == state.history.due() {
            *progress = Instant::now();
        }
    }
}

fn resumed(position: &ReaderPosition) -> TopicSelection {
    TopicSelection {
        topic: position.topic.to_string(),
        partitions: vec![position.channel.partition],
        from: ReadFrom::Offset(position.position),
    }
}
