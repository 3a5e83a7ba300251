//! Records that a changelog does not take, beside work that goes on (`docs/protocol.md` has no guard for them: they are tried again, decision K29). What a
//! sink does not take is in tests/host/traps.rs.

use std::time::Duration;

use parsley_kafka::{KafkaRunning, Status, WorkerState};
use parsley_stage::{App, Stage, codec};

use crate::world::*;

/// What keeps failing, and how often it did.
fn failing(status: &Status) -> Option<(&str, u32)> {
    match &status.workers[0].state {
        WorkerState::Retrying { message, attempt } => Some((message, *attempt)),
        _ => None,
    }
}

/// Waits until it has failed so often in a row, each time saying all of that.
fn wait_for_failure(running: &KafkaRunning, attempts: u32, says: &[&str]) {
    wait_for(running, "said to be too large", |status| {
        failing(status).is_some_and(|(message, attempt)| {
            assert!(says.iter().all(|part| message.contains(part)), "{message}");
            attempt >= attempts
        })
    });
}

/// Waits until so many records were delivered by the task of a partition since it was assigned.
fn wait_for_deliveries_of(running: &KafkaRunning, partition: i32, count: u64) {
    wait_for(running, "delivered", |status| {
        let task = status.workers[0].tasks.get(&partition);
        task.is_some_and(|task| task.delivered >= count)
    });
}

/// Passes on what comes of two topics, as `<value>` to the same partition of `<name>-out`.
fn passing(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (a, b, out) = (topic("a"), topic("b"), topic("out"));
    let pass = || {
        let out = out.clone();
        move |message: parsley_stage::Message<String, String>,
              outbox: &mut parsley_stage::Outbox| {
            outbox.send(&out, &message.key, &message.value)
        }
    };
    let pass = Stage::stateless("pass")
        .sink(&out)
        .on(&a, pass())
        .on(&b, pass())
        .build()
        .unwrap();
    App::named(name).stage(pass).build().unwrap()
}

/// A record that has to wait is larger than what the changelog takes. The status says so, with both sizes and what to raise; the worker's other task goes
/// on, whose steps it had failed with its own, ever later, until the wait between them was half a minute; and when the setting is raised the record is held,
/// and goes when its cause has come, with nothing lost before or behind it.
#[test]
fn a_held_record_that_the_changelog_does_not_take_stops_its_own_task_alone() {
    let name = "large-held";
    let parts = ["a", "b", "out"].map(|part| format!("{name}-{part}"));
    for topic in &parts {
        create_topic(topic, 2);
    }
    let [a, b, out] = &parts;
    let changelog = format!("{name}-pass-state-changelog");
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    // Long enough for the other task to have the worker to itself.
    config.backoff_first = Duration::from_secs(1);
    config.backoff_longest = Duration::from_secs(2);
    let running = start(config, &passing(name));
    wait_for_tasks(&running, 2);
    set_topic(&changelog, "max.message.bytes", "4000");
    let plain = Foreign::plain();
    let keys = [key_of(0, 2), key_of(1, 2)];
    let large = "l".repeat(5000);
    plain.append(b, To::Partition(0), &[(keys[0].as_str(), "before")]);
    wait_for_deliveries_of(&running, 0, 1);
    let waits = stamp(&[(channel(a, 0), 1)], 0);
    plain.append_with(b, To::Partition(0), (&keys[0], &large), &waits);
    plain.append(b, To::Partition(0), &[(keys[0].as_str(), "behind")]);
    let says = [
        changelog.as_str(),
        "a record of 5",
        "(4000 bytes",
        "raise its max.message.bytes",
    ];
    wait_for_failure(&running, 2, &says);
    // While it fails.
    let beside: Vec<String> = (0..20).map(|number| format!("beside {number}")).collect();
    for (number, value) in (1..).zip(&beside) {
        plain.append(b, To::Partition(1), &[(keys[1].as_str(), value)]);
        wait_for_deliveries_of(&running, 1, number);
    }
    assert_eq!(committed(&format!("{name}-pass"), b, 0), Some(1));
    wait_for_failure(&running, 3, &says);
    set_topic(&changelog, "max.message.bytes", "20000");
    wait_for(&running, "held", |status| {
        let task = &status.workers[0].tasks[&0];
        task.held == 2 && failing(status).is_none()
    });
    plain.append(
        a,
        To::Partition(0),
        &[(keys[0].as_str(), "no cause"), (keys[0].as_str(), "cause")],
    );
    wait_for_deliveries_of(&running, 0, 5);
    stop(&running);
    let expected = ["before", "no cause", "cause", &large, "behind"].map(str::to_owned);
    assert_eq!(values(out), [&expected[..], &beside].concat());
    check_stamps(out, name, "pass", 2);
}

/// A key whose partition this is.
fn key_of(partition: i32, partitions: i32) -> String {
    let is_it = |key: &String| {
        parsley_stage::partition::partition_of(Some(key.as_bytes()), partitions) == partition
    };
    (0..)
        .map(|number| format!("key{number}"))
        .find(is_it)
        .unwrap()
}

/// A state grows until the changelog does not take it. Nothing of the step is seen, neither the state nor what was sent with it, until the setting is
/// raised; then all that had come meanwhile is counted once.
#[test]
fn a_state_that_the_changelog_does_not_take_waits_until_it_does() {
    let name = "large-state";
    let (input, output) = (text_topic("large-state-in"), text_topic("large-state-out"));
    for topic in ["large-state-in", "large-state-out"] {
        create_topic(topic, 1);
    }
    let gather = Stage::stateful("gather", codec::string(), codec::string())
        .sink(&output)
        .on(&input, move |all, message, out| {
            *all += &message.value;
            out.send(&output, &message.key, &all.len().to_string())
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(gather).build().unwrap();
    let changelog = "large-state-gather-fold-changelog";
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app);
    wait_for_tasks(&running, 1);
    set_topic(changelog, "max.message.bytes", "4000");
    let plain = Foreign::plain();
    let part = "p".repeat(1500);
    for count in 1..=2 {
        plain.append("large-state-in", To::Key, &[("k", &part)]);
        wait_for_deliveries(&running, count);
    }
    plain.append(
        "large-state-in",
        To::Key,
        &[("k", &part), ("k", &part), ("other", "small")],
    );
    let says = [
        changelog,
        "a record of ",
        "(4000 bytes",
        "raise its max.message.bytes",
    ];
    wait_for_failure(&running, 2, &says);
    assert_eq!(values("large-state-out"), ["1500", "3000"]);
    set_topic(changelog, "max.message.bytes", "20000");
    wait_for(&running, "recovered", |status| {
        status.delivered() == 5 && failing(status).is_none()
    });
    stop(&running);
    assert_eq!(
        values("large-state-out"),
        ["1500", "3000", "4500", "6000", "5"]
    );
    check_stamps("large-state-out", name, "gather", 1);
}

/// A sink refuses a record while its step goes on: librdkafka takes nothing more in that transaction, and calls that an erroneous state. That was what the status
/// said, of a send that had nothing to do with it, and the worker's other tasks waited as for a failure of their own.
#[test]
fn what_is_sent_behind_a_record_that_was_too_large_does_not_hide_it() {
    let name = "large-first";
    let (input, output) = copying_topics(name, 1);
    let out = text_topic(&output);
    let copy = Stage::stateless("copy")
        .sink(&out)
        .on(&text_topic(&input), move |message, outbox| {
            if message.value == "late" {
                // The broker's answer to what was sent before is there by then.
                std::thread::sleep(Duration::from_millis(500));
            }
            outbox.send(&out, &message.key, &message.value)
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(copy).build().unwrap();
    set_topic(&output, "max.message.bytes", "4000");
    let dir = tempfile::tempdir().unwrap();
    // All of it is one step.
    let config = config(&dir).commit_interval(Duration::from_secs(2));
    let running = start(config, &app);
    wait_for_tasks(&running, 1);
    let large = "l".repeat(5000);
    let records = [("k", "before"), ("k", &large), ("k", "late")];
    Foreign::plain().append(&input, To::Key, &records);
    let says = [
        output.as_str(),
        "a record of 5",
        "raise its max.message.bytes",
    ];
    wait_for_failure(&running, 3, &says);
    set_topic(&output, "max.message.bytes", "20000");
    wait_for_deliveries(&running, 3);
    stop(&running);
    assert_eq!(values(&output), ["before", &large, "late"]);
}
