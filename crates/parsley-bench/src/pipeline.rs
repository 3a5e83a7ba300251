//! Two stages, one behind the other, in the embedded host.

use std::time::{Duration, Instant};

use parsley_embedded::{Host, NewRecord};
use parsley_stage::{App, BuildError, Stage, Topic, codec};

/// What every run ends well with, or says why not.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const TOPICS: [&str; 3] = ["first", "second", "third"];

/// `first → copy → second → copy again → third`, one partition each, values of 100 bytes.
fn app() -> Result<App, BuildError> {
    let topics = TOPICS.map(|name| Topic::new(name, codec::string(), codec::bytes()));
    let [first, second, third] = topics;
    let copying = |name: &str, from: &Topic<_, _>, to: &Topic<_, _>| {
        let out_topic = to.clone();
        Stage::stateless(name)
            .on(from, move |record, out| {
                out.send(&out_topic, &record.key, &record.value)
            })
            .sink(to)
            .build()
    };
    App::named("bench")
        .stage(copying("copy", &first, &second)?)
        .stage(copying("copy-again", &second, &third)?)
        .build()
}

/// Writes `records` records to the first topic of a new host, starts the two stages, and returns how long it took from the start until
/// both had delivered all of them.
///
/// # Errors
///
/// When the host does.
///
/// # Panics
///
/// When a delivery is missing in the end.
pub fn run(host: &Host, records: u64) -> Outcome<Duration> {
    for topic in TOPICS {
        host.create_topic(topic, 1)?;
    }
    let numbers: Vec<u64> = (0..records).collect();
    for batch in numbers.chunks(1000) {
        let mut transaction = host.producer().begin();
        for number in batch {
            let record = NewRecord::to(TOPICS[0]).key(number.to_string());
            transaction.send(record.value(vec![b'v'; 100]))?;
        }
        transaction.commit()?;
    }
    let app = app()?;
    let started = Instant::now();
    let running = host.start(&app)?;
    running.wait_until_idle().reached()?;
    let took = started.elapsed();
    let status = running.stop()?;
    assert_eq!(status.delivered(), 2 * records, "both deliver everything");
    let end = host.consumer(TOPICS[2])?.read_to_end()?;
    assert_eq!(end.len() as u64, records, "everything came through");
    Ok(took)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_comes_through_both_stages() {
        let took = run(&Host::in_memory(), 2500).unwrap();
        assert!(took > Duration::ZERO);
    }
}
