//! A stop that does not wait for ever.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use parsley_kafka::{KafkaHost, WorkerState};

use crate::world::*;

/// A worker does not end: an observer keeps it. The stop gives it up after its time, and says which it is. Whoever dropped the application behind that
/// waited for as long once more, as a process does that ends after `run_until_signalled`; now it is given up once.
#[test]
fn a_worker_that_does_not_end_is_given_up_once() {
    let (input, output) = copying_topics("stops", 1);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    config.stop_timeout = Duration::from_secs(5);
    let (observed, is_observed) = channel();
    let (release, is_released) = channel::<()>();
    let is_released = Arc::new(Mutex::new(is_released));
    let host = KafkaHost::new(config).unwrap().on_delivery(move |_| {
        observed.send(()).unwrap();
        // Until there is nobody to release it.
        let _ = is_released.lock().unwrap().recv();
    });
    let running = host.start(copying("stops")).unwrap();
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    is_observed.recv_timeout(BOUND).unwrap();

    let asked = Instant::now();
    let status = running.stop();
    let given_up_after = asked.elapsed();
    let left: Vec<_> = status.left().collect();
    assert_eq!(left.len(), 1, "{status:#?}");
    assert_eq!((&*left[0].stage, left[0].number), ("copy", 0));
    let asked = Instant::now();
    assert!(!running.stop().is_over());
    assert!(asked.elapsed() < given_up_after);

    drop(release);
    wait_for(&running, "it ends", |status| status.is_over());
    assert_eq!(running.status().workers[0].state, WorkerState::Stopped);
    assert_eq!(values(&output), ["v"]);
}
