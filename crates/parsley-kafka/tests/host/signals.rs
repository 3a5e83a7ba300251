//! A process that is asked to end.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::world::*;

const DIR: &str = "PARSLEY_TEST_STATE_DIR";
const NAME: &str = "signals";

/// Longer than the whole test may take.
const SESSION_MS: &str = "60000";

fn host_config(dir: &str) -> parsley_kafka::KafkaConfig {
    config(dir)
        // What ends the step in flight is the signal.
        .commit_interval(Duration::from_secs(3))
        .property("session.timeout.ms", SESSION_MS)
}

/// The child process of the test below. Alone it does nothing.
#[test]
fn child_that_runs_until_it_is_signalled() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let running = start(host_config(&dir), &copying(NAME));
    let status = running.run_until_signalled().unwrap();
    let is_well = status.is_over() && status.refused().is_empty();
    std::process::exit(if is_well { 0 } else { 3 });
}

/// Ended, and waited for, whatever becomes of the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// SIGTERM: the step in flight is committed, the group is left, and the process ends with 0. The next start waits for no session to time out.
#[test]
fn a_process_that_is_asked_to_end_commits_and_leaves() {
    let (input, output) = copying_topics(NAME, 1);
    let dir = tempfile::tempdir().unwrap();
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "signals::child_that_runs_until_it_is_signalled"])
        .env(BROKERS, bootstrap())
        .env(DIR, dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut child = Ended(child);
    // It has opened when its position is there, and reads on when it has sent.
    let until = Instant::now() + BOUND;
    while committed("signals-copy", &input, 0).is_none() {
        assert!(child.0.try_wait().unwrap().is_none(), "it has ended");
        assert!(Instant::now() < until, "it has not opened");
    }
    Foreign::plain().append(&input, To::Key, &[("k", "1")]);
    while read_as("read_uncommitted", &output).is_empty() {
        assert!(Instant::now() < until, "it has not sent");
    }
    let signalled = Command::new("kill")
        .args(["-TERM", &child.0.id().to_string()])
        .status();
    assert!(signalled.unwrap().success());
    let status = loop {
        if let Some(status) = child.0.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it has not ended");
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(0), "{status}");
    assert_eq!(values(&output), ["1"]);
    assert_eq!(committed("signals-copy", &input, 0), Some(1));

    let ended = Instant::now();
    let running = start(host_config(dir.path().to_str().unwrap()), &copying(NAME));
    wait_for_tasks(&running, 1);
    assert!(
        ended.elapsed() < Duration::from_secs(30),
        "{:?}",
        ended.elapsed()
    );
    running.stop();
    assert_eq!(values(&output), ["1"]);
}
