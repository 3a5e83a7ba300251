//! A stage that brings two inputs together, so that what comes on one can wait for what comes on the other.

use std::time::Duration;

use parsley_kafka::{KafkaConfig, KafkaRunning, Status};
use parsley_stage::{App, Message, Outbox, Stage, Topic};

use crate::world::*;

/// Looks often for what was deleted.
pub fn watchful(dir: &tempfile::TempDir) -> KafkaConfig {
    let mut config = config(dir);
    config.check_interval = Duration::from_millis(100);
    config
}

/// Sends the records of `<name>-a` and `<name>-b` on to `<name>-out`.
pub fn joining(name: &str) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (a, b, out) = (topic("a"), topic("b"), topic("out"));
    let copy = |sink: &Topic<String, String>| {
        let sink = sink.clone();
        move |message: Message<String, String>, out: &mut Outbox| {
            out.send(&sink, &message.key, &message.value)
        }
    };
    let join = Stage::stateless("join")
        .sink(&out)
        .on(&a, copy(&out))
        .on(&b, copy(&out))
        .build()
        .unwrap();
    App::named(name).stage(join).build().unwrap()
}

/// Makes the topics of [`joining`].
pub fn joining_topics(name: &str) -> [String; 3] {
    let names = ["a", "b", "out"].map(|part| format!("{name}-{part}"));
    for topic in &names {
        create_topic(topic, 1);
    }
    names
}

/// Deletes a topic of one partition, and makes another of its name.
pub fn make_again(topic: &str) {
    delete_topic(topic);
    create_topic(topic, 1);
}

pub fn wait_until_held(running: &KafkaRunning, count: u64) {
    wait_for(running, "held", |status| {
        status.tasks().map(|(_, _, task)| task.held).sum::<u64>() == count
    });
}

/// Waits until the first worker has looked so many times more. The look that is under way counts, so that what was deleted before is seen by the second.
pub fn wait_for_checks(running: &KafkaRunning, more: u64) {
    let checks = |status: &Status| status.workers[0].checks;
    let before = checks(&running.status());
    wait_for(running, "checked", |status| checks(status) >= before + more);
}
