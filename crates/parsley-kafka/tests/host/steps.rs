//! Where steps end.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use parsley_kafka::{KafkaHost, WorkerState};
use parsley_stage::{App, Stage};

use crate::world::*;

/// How long the logic takes for a record.
const WORK: Duration = Duration::from_millis(5);

const HELD: usize = 200;

/// Copies both `<name>-a` and `<name>-b` to `<name>-out`, slowly.
fn slow(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (a, b, out) = (topic("a"), topic("b"), topic("out"));
    let copy = || {
        let sink = out.clone();
        move |message: parsley_stage::Message<String, String>, out: &mut parsley_stage::Outbox| {
            std::thread::sleep(WORK);
            out.send(&sink, &message.key, &message.value)
        }
    };
    let stage = Stage::stateless("copy")
        .sink(&out)
        .on(&a, copy())
        .on(&b, copy())
        .build()
        .unwrap();
    App::named(name).stage(stage).build().unwrap()
}

/// One record lets many go, and nothing else comes. The first step ended after its interval, and the next had none, as nothing was fed to it: it
/// went on to the bound of deliveries. With that at 20,000 and logic that takes a moment, the transaction's time was over first; the same began
/// again from the same state, and never ended. Each step has at most as many deliveries here as its interval of 20 ms has time for.
#[test]
fn a_long_drain_ends_its_steps_after_the_interval() {
    let name = "drain";
    for part in ["a", "b", "out"] {
        create_topic(&format!("{name}-{part}"), 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &slow(name));
    wait_for_tasks(&running, 1);
    let (plain, cause) = (Foreign::plain(), channel("drain-a", 0));
    for sequence in 0..HELD {
        let headers = stamp(&[(cause, 0)], sequence as i64);
        plain.send("drain-b", To::Key, "k", "held", &headers);
    }
    plain.flush();
    wait_for(&running, "held", |status| {
        let held = status.tasks().map(|(_, _, task)| task.held);
        held.sum::<u64>() == HELD as u64
    });
    let steps = || -> u64 {
        running
            .status()
            .tasks()
            .map(|(_, _, task)| task.steps)
            .sum()
    };
    let before = steps();
    plain.append("drain-a", To::Key, &[("k", "cause")]);
    wait_for_deliveries(&running, HELD as u64 + 1);
    let taken = steps() - before;
    stop(&running);
    // Not more than four fit, and one is begun when the time is over.
    assert!(taken * 5 >= HELD as u64, "{taken} steps");
    assert_eq!(values("drain-out").len(), HELD + 1);
}

/// The only input is deleted while a step is open. The positions of the step were asked for beyond the time that a step has, so that the abort came
/// late and the producer was fenced; and once the task had opened anew, its opening was given up, as there was no position to commit, and the task was
/// used on as if it had been committed: it failed, and opened anew, and so on. Now the worker rests.
#[test]
fn a_task_without_any_input_left_ends() {
    let name = "only-input";
    let (input, output) = copying_topics(name, 1);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir).commit_interval(Duration::from_secs(4));
    config.check_interval = Duration::from_millis(100);
    let running = start(config, &copying(name));
    wait_for_tasks(&running, 1);
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    wait_until("a send", || read_as("read_uncommitted", &output).len() == 1);
    delete_topic(&input);
    wait_for(&running, "at rest", |status| {
        let state = &status.workers[0].state;
        if let WorkerState::Retrying { message, .. } = state {
            assert!(message.contains("sending positions"), "{message}");
        }
        status.tasks().count() == 0 && *state == WorkerState::Running
    });
    stop(&running);
    assert_eq!(values(&output), [""; 0]);
}

/// Two tasks of a worker have much to deliver, and their logic is slow. The first took every step to its end, and left one delivery in each to the
/// second: whoever has a long drain held up all tasks behind it. Now each goes first in its turn. That alone left it as it was on some machines: a
/// step counted from behind its first delivery, so a moment of it remained when the first had had its time; the second had one delivery in it, which was
/// its turn, and the first was next.
#[test]
fn a_long_drain_leaves_other_tasks_their_turn() {
    let name = "turns";
    for part in ["a", "b", "out"] {
        create_topic(&format!("{name}-{part}"), 2);
    }
    let dir = tempfile::tempdir().unwrap();
    let turns = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&turns);
    let host = KafkaHost::new(config(&dir)).unwrap();
    let host = host.on_delivery(move |event| seen.lock().unwrap().push(event.partition));
    let running = host.start(slow(name)).unwrap();
    wait_for_tasks(&running, 2);
    let plain = Foreign::plain();
    let held = [HELD, HELD / 2];
    for (partition, count) in (0..).zip(held) {
        let cause = channel("turns-a", partition);
        for sequence in 0..count {
            let headers = stamp(&[(cause, 0)], sequence as i64);
            plain.send("turns-b", To::Partition(partition), "k", "held", &headers);
        }
    }
    plain.flush();
    let held_of =
        |status: &parsley_kafka::Status, partition| status.workers[0].tasks[&partition].held;
    wait_for(&running, "held", |status| {
        [0, 1].map(|partition| held_of(status, partition)) == held.map(|count| count as u64)
    });
    let causes = Foreign::transactional("turns-foreign");
    causes.begin();
    for partition in [0, 1] {
        causes.append("turns-a", To::Partition(partition), &[("k", "cause")]);
    }
    causes.commit();
    let all = held.iter().map(|count| count + 1).sum::<usize>();
    wait_for_deliveries(&running, all as u64);
    stop(&running);
    let turns = turns.lock().unwrap();
    let last_of = |partition| turns.iter().rposition(|turn| *turn == partition).unwrap();
    assert!(
        last_of(1) < last_of(0),
        "the first, which has twice as much, was done before: {turns:?}"
    );
}
