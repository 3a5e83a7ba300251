//! Ticks of a stage that is declared otherwise than before, while ticks of before are not delivered.

use std::sync::Arc;
use std::time::Duration;

use parsley_kafka::{KafkaHost, KafkaRunning, Record};
use parsley_stage::{App, Stage};

use crate::ticks::*;
use crate::world::*;

/// What is kept back so long is not let in by a test.
const NEVER: Duration = Duration::from_secs(3600);

fn start_without(app: &App, dir: &tempfile::TempDir, topic: &str) -> KafkaRunning {
    let host = KafkaHost::new(config(dir)).unwrap();
    host.delay("watch", topic, NEVER).start(app).unwrap()
}

/// Sends `<name>-orders` on to `<name>-<sink>`, with ticks or without.
fn copying_to(name: &str, sink: &str, ticks: bool) -> App {
    let (orders, sink) = (
        text_topic(&format!("{name}-orders")),
        text_topic(&format!("{name}-{sink}")),
    );
    let stage = Stage::stateless("watch").sink(&sink);
    let stage = stage.on(&orders, move |order, out| {
        out.send(&sink, &order.key, &order.value)
    });
    let every = Duration::from_millis(100);
    let stage = match ticks {
        true => reporting(stage, name, "watch", every, &Arc::default()),
        false => stage,
    };
    app(name, stage.build().unwrap())
}

/// The last offset of a topic that nobody sends to any more, marker or record: an opening claims to there on what the stage has sent to.
fn end(topic: &str) -> Option<i64> {
    Some(bounds(topic, 0).1 - 1)
}

fn last(topic: &str) -> Record {
    read(topic).pop().unwrap()
}

/// A stage stops ticking while ticks of it are not read. They have no effect any more, then or when it ticks again: it has claimed them in all that it has sent
/// since, and what is claimed so is never delivered later. The tick state is what it was.
#[test]
fn a_stage_without_its_ticks_claims_those_that_it_was_not_delivered() {
    let (name, dir) = ("dropped-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 1);
    create_topic("dropped-ticks-copies", 1);
    let ticks = ticks_of(name, "watch");
    let ticking = copying_to(name, "copies", true);
    let running = start(config(&dir), &ticking);
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 3);
    stop(&running);
    let delivered = reported(name, "watch")[&0].clone();
    let running = start_without(&ticking, &dir, &ticks);
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    stop(&running);
    assert_eq!(reported(name, "watch")[&0], delivered);
    let left = last(&ticks).offset;
    assert!(left > delivered.last().unwrap().1);

    let running = start(config(&dir), &copying_to(name, "copies", false));
    Foreign::plain().append("dropped-ticks-orders", To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
    let (clock, ..) = stamp_of(&last("dropped-ticks-copies"));
    assert_eq!(clock.offset(channel(&ticks, 0)), end(&ticks));
    assert_eq!(last(&ticks).offset, left);

    let running = start(config(&dir), &ticking);
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 3);
    stop(&running);
    let reported = reported(name, "watch")[&0].clone();
    let counts: Vec<u64> = reported.iter().map(|(count, ..)| *count).collect();
    assert_eq!(counts, (1..=reported.len() as u64).collect::<Vec<u64>>());
    let (before, after) = reported.split_at(delivered.len());
    assert_eq!(before, delivered);
    assert!(!after.is_empty() && after.iter().all(|report| report.1 > left));
    check_stamps(&ticks, name, "watch", 1);
}

/// A stage reads what it sends: its ticks wait until it has been delivered that.
fn looping(name: &str, ticks: bool) -> App {
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (orders, again) = (topic("orders"), topic("again"));
    let stage = Stage::stateless("watch").sink(&again);
    let stage = stage.on(&again, |_, _| Ok(()));
    let stage = stage.on(&orders, move |order, out| {
        out.send(&again, &order.key, &order.value)
    });
    let every = Duration::from_millis(100);
    let stage = match ticks {
        true => reporting(stage, name, "watch", every, &Arc::default()),
        false => stage,
    };
    app(name, stage.build().unwrap())
}

/// G8: the ticks of a stage that stops ticking are held, as what they claim was not delivered to it.
#[test]
fn g8_a_stage_whose_ticks_are_held_goes_on_ticking() {
    let (name, dir) = ("held-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 1);
    create_topic("held-ticks-again", 1);
    let running = start_without(&looping(name, true), &dir, "held-ticks-again");
    Foreign::plain().append("held-ticks-orders", To::Key, &[("k", "v")]);
    let ticks = channel(&ticks_of(name, "watch"), 0);
    wait_for(&running, "a tick is held", |status| {
        let mut holds = status.tasks().flat_map(|(.., task)| &task.holds);
        holds.any(|hold| hold.place.channel() == ticks)
    });
    stop(&running);
    let running = start(config(&dir), &looping(name, false));
    assert_eq!(wait_for_refusal(&running).0, "vc-removed-input-held");
    running.stop();
    let running = start(config(&dir), &looping(name, true));
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    wait_for(&running, "nothing is held", |status| {
        status.tasks().all(|(.., task)| task.held == 0)
    });
    check_ticks(&running, name, "watch", 1);
    let running = start(config(&dir), &looping(name, false));
    wait_for_tasks(&running, 1);
    stop(&running);
}

/// Another sink is dropped while ticks that claim on it are not read: they are delivered, and what they cause claims on it still.
#[test]
fn ticks_that_claim_on_a_dropped_sink_are_delivered() {
    let (name, dir) = ("sinking-ticks", tempfile::tempdir().unwrap());
    topics(name, "watch", 1);
    create_topic("sinking-ticks-copies", 1);
    create_topic("sinking-ticks-others", 1);
    let ticks = ticks_of(name, "watch");
    let running = start_without(&copying_to(name, "copies", true), &dir, &ticks);
    Foreign::plain().append("sinking-ticks-orders", To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    stop(&running);
    let dropped = channel("sinking-ticks-copies", 0);
    let tick = last(&ticks);
    assert_eq!(stamp_of(&tick).0.offset(dropped), Some(0));

    let running = start(config(&dir), &copying_to(name, "others", true));
    wait_for_tasks(&running, 1);
    wait_for_ticks(&running, "watch", 2);
    check_ticks(&running, name, "watch", 1);
    let reports = read("sinking-ticks-watch-reports");
    let reported = reported(name, "watch");
    let of_tick = reported[&0]
        .iter()
        .position(|report| report.1 == tick.offset);
    for report in &reports[of_tick.expect("it is delivered")..] {
        let claimed = stamp_of(report).0.offset(dropped);
        assert_eq!(claimed, end("sinking-ticks-copies"));
    }
}
