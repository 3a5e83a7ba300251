//! What can be asked of a task between two steps.

mod support;

use parsley_core::decide::Settled;
use parsley_core::{Channel, Header, SenderId, TopicId, wire};
use parsley_stage::report::Holds;
use parsley_stage::{Message, Outbox, Stage, TaskConfig, Topic, codec};
use support::{Host, Log, by_sequence, claims};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// Keeps the last value of each key of x and y.
fn keeping() -> Stage {
    let logic = |last: &mut String, message: Message<String, String>, out: &mut Outbox| {
        last.clone_from(&message.value);
        out.send(&text("out"), &message.key, &message.value)
    };
    Stage::stateful("keeping", codec::string(), codec::string())
        .sink(&text("out"))
        .on(&text("x"), logic)
        .on(&text("y"), logic)
        .build()
        .unwrap()
}

fn opened() -> (Host, Log) {
    let log = Log::new(&[("x", 1), ("y", 1), ("out", 1)]);
    let mut host = Host::new(&keeping());
    host.open(&log).unwrap();
    (host, log)
}

fn produce(log: &mut Log, topic: &str, value: &str, headers: Vec<Header>) {
    log.produce(&text(topic), &"k".to_owned(), &value.to_owned(), headers);
}

/// Somewhere that the stage does not read.
fn far() -> Channel {
    TopicId::of_name("far").partition(0)
}

#[test]
fn a_task_tells_which_it_is() {
    let log = Log::new(&[("x", 4), ("y", 4), ("out", 1)]);
    for partition in 0..4 {
        let mut host = Host::of_partition(&keeping(), partition);
        host.open(&log).unwrap();
        assert_eq!(host.task().partition(), partition);
        assert_eq!(host.task().stage().name(), "keeping");
        let shown = format!("{:?}", host.task());
        assert!(shown.contains("\"keeping\""), "{shown}");
        assert!(
            shown.contains(&format!("partition: {partition}")),
            "{shown}"
        );
    }
}

#[test]
fn a_task_tells_what_it_holds_and_for_what() {
    let (mut host, mut log) = opened();
    let (x, y) = (log.channel("x", 0), log.channel("y", 0));
    assert_eq!(host.task().held(), 0);
    assert!(host.task().holds().is_empty());
    let waits = claims(&[(y, 0)]);
    for value in ["1", "2"] {
        produce(&mut log, "x", value, waits.clone());
    }
    host.run(&mut log, &["x", "y"]).unwrap();
    let task = host.task();
    assert_eq!(task.held(), 2);
    assert_eq!(task.heads().collect::<Vec<_>>(), [(x, 0, 2)]);
    let holds = task.holds();
    assert_eq!((holds.len(), holds[0].channel, holds[0].offset), (1, x, 0));
    assert_eq!(task.head_clock(x), waits[0].value);
    assert_eq!(task.head_clock(y), None);
    let explained = task.explain_holds(|channel, offset| match (channel == x, offset) {
        (true, 0) => 77,
        other => panic!("{other:?} is asked for"),
    });
    assert_eq!(explained.len(), 1);
    assert_eq!((&*explained[0].place.topic, explained[0].age_ms), ("x", 77));
    assert_eq!(explained[0].missing[0].to_string(), "y:0@0");
    assert_eq!(explained[0].to_hold(), holds[0]);
    let all = Holds { holds: explained };
    assert_eq!(
        all.of_task("keeping", 0).collect::<Vec<_>>(),
        [&all.holds[0]]
    );
    assert_eq!(all.of_task("keeping", 1).count(), 0);
    assert_eq!(all.of_task("another", 0).count(), 0);
    produce(&mut log, "y", "3", Vec::new());
    host.run(&mut log, &["y"]).unwrap();
    assert_eq!((host.task().held(), host.delivered.len()), (0, 3));
}

#[test]
fn a_task_tells_what_its_next_stamp_claims() {
    let (mut host, mut log) = opened();
    assert_eq!(host.task().stamp_entries(), (0, 0));
    assert_eq!(host.task().widest_clock_bytes(), 0);
    assert_eq!(host.task().sequence_claims(), 0);
    produce(&mut log, "x", "1", by_sequence(far(), 4));
    host.run(&mut log, &["x", "y"]).unwrap();
    let widest = wire::encoded_len(1, 1);
    let out = log.channel("out", 0);
    let task = host.task();
    assert_eq!(task.stamp_channels(), [far()]);
    assert_eq!(task.channels_claimed_by_sequence(), [far()].into());
    assert_eq!(task.sequence_claims(), 1);
    // The delivered record, its send, and what it claims.
    assert_eq!(task.stamp_entries(), (2, 1));
    assert_eq!(task.widest_clock_bytes(), widest);
    assert_eq!(task.channels_waited_for_by_sequence(), [].into());
    assert!(!task.clock_nears_budget());

    let y = log.channel("y", 0);
    produce(&mut log, "x", "2", by_sequence(y, 0));
    host.run(&mut log, &["x", "y"]).unwrap();
    let holds = host.task().holds();
    let explained = host.task().explain_holds(|_, _| 0);
    assert_eq!(explained[0].to_hold(), holds[0]);
    let told = explained[0].to_string();
    assert!(told.starts_with("x:0@1 waits for y:0, sends of "), "{told}");
    assert_eq!(host.task().channels_waited_for_by_sequence(), [y].into());
    assert_eq!(log.end(out), 1);
}

#[test]
fn a_clock_of_four_fifths_of_the_budget_is_told_of() {
    let log = || Log::new(&[("x", 1), ("y", 1), ("out", 1)]);
    let nears = |budget: fn(&mut TaskConfig)| {
        let mut log = log();
        let mut host = Host::new(&keeping()).configured(budget);
        host.open(&log).unwrap();
        // Stamped as two claims, of 65 bytes.
        produce(&mut log, "x", "1", claims(&[(far(), 4)]));
        host.run(&mut log, &["x", "y"]).unwrap();
        host.task().clock_nears_budget()
    };
    assert_eq!(wire::encoded_len(2, 0), 65);
    assert!(nears(|config| config.node.clock_budget_bytes = 81));
    assert!(!nears(|config| config.node.clock_budget_bytes = 100));
}

/// A search through executions takes two tasks for one that are the same here.
#[test]
fn what_a_task_has_in_memory_has_its_staged_state_in_it() {
    let (mut host, mut log) = opened();
    let before = format!("{:?}", host.task().in_memory());
    assert!(!before.contains("a-value-of-its-own"));
    produce(&mut log, "x", "a-value-of-its-own", Vec::new());
    host.feed(&log, &["x"]).unwrap();
    host.task()
        .process_next()
        .unwrap()
        .expect("it is delivered");
    let _sent = host.task().take_sends();
    let staged = format!("{:?}", host.task().in_memory());
    // The record is not there any more, and its send was taken: it is the state.
    assert!(staged.contains("a-value-of-its-own"), "{staged}");
    assert_ne!(before, staged);
}

#[test]
fn a_task_tells_how_far_it_is() {
    let (mut host, mut log) = opened();
    let (x, y) = (log.channel("x", 0), log.channel("y", 0));
    let sender = SenderId::of_task("shop", "keeping", 0);
    assert_eq!(host.task().sender(), sender);
    produce(&mut log, "x", "1", Vec::new());
    produce(&mut log, "x", "2", claims(&[(y, 4)]));
    host.feed(&log, &["x", "y"]).unwrap();
    let in_order = |mut pairs: Vec<(Channel, Settled)>| {
        pairs.sort_unstable_by_key(|(channel, _)| *channel);
        pairs
    };
    let expected = |on_x| in_order(vec![(x, Settled::At(on_x)), (y, Settled::Undefined)]);
    assert_eq!(host.task().settled(), expected(-1));
    host.task()
        .process_next()
        .unwrap()
        .expect("it is delivered");
    assert!(host.task().process_next().unwrap().is_none());
    let task = host.task();
    assert_eq!(task.settled(), expected(0));
    assert_eq!(task.resume_positions(), [(x, 2)]);
    assert_eq!((task.step_deliveries(), task.step_rounds()), (1, 1));
    assert!(!task.step_is_full() && !task.has_later_rounds());
    let sent: Vec<_> = task.drain_sends().map(|send| send.channel).collect();
    assert_eq!(sent, [log.channel("out", 0)]);
    assert!(task.take_sends().is_empty());
    host.commit(&[]).unwrap();
    let task = host.task();
    assert_eq!((task.step_deliveries(), task.step_rounds()), (0, 0));
}

/// A step ends by its deliveries or by its rounds, whichever is reached first.
#[test]
fn a_step_is_full_when_it_has_as_much_as_it_may_have() {
    for (limits, deliveries) in [
        (
            (|config| config.max_step_deliveries = 2) as fn(&mut TaskConfig),
            2,
        ),
        (|config| config.max_rounds = 1, 1),
    ] {
        let mut log = Log::new(&[("x", 1), ("y", 1), ("out", 1)]);
        let mut host = Host::new(&keeping()).configured(limits);
        host.open(&log).unwrap();
        for value in ["1", "2", "3"] {
            produce(&mut log, "x", value, Vec::new());
        }
        host.feed(&log, &["x", "y"]).unwrap();
        for before in 0..deliveries {
            assert!(!host.task().step_is_full(), "{before} of {deliveries}");
            host.task()
                .process_next()
                .unwrap()
                .expect("it is delivered");
        }
        assert!(host.task().step_is_full());
        assert!(host.task().process_next().unwrap().is_none());
    }
}
