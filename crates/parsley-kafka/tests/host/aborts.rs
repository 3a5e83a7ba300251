//! B03: a step that is given up leaves nothing, wherever it was given up. A stage whose steps are, again and again, comes to the same as one that nobody
//! disturbs: the same records, with the same stamps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kafka_cluster::Resource;
use parsley_core::{Clock, wire};
use parsley_kafka::{KafkaRunning, WorkerState};
use parsley_stage::{App, Message, Outbox, Stage, Topic, codec};

use crate::world::*;

/// Counts words of `aborts-words` and `aborts-waiting` into `<name>-counts`; what waits does so for `aborts-causes`. At the word "fails" its logic sends, and
/// fails while it is to.
fn counting(name: &str, fails: &Arc<AtomicBool>) -> App {
    let topic = |part: &str| text_topic(&format!("aborts-{part}"));
    let output = Topic::new(format!("{name}-counts"), codec::string(), codec::u64());
    let count = || {
        let (output, fails) = (output.clone(), Arc::clone(fails));
        move |seen: &mut u64, word: Message<String, String>, out: &mut Outbox| {
            *seen += 1;
            out.send(&output, &word.key, seen)?;
            match word.value == "fails" && fails.load(Ordering::SeqCst) {
                true => Err("it is to fail".into()),
                false => Ok(()),
            }
        }
    };
    let stage = Stage::stateful("count", codec::string(), codec::u64())
        .sink(&output)
        .on(&topic("words"), count())
        .on(&topic("waiting"), count())
        .on(&topic("causes"), |_, _, _| Ok(()))
        .build()
        .unwrap();
    App::named(name).stage(stage).build().unwrap()
}

fn is_retrying(running: &KafkaRunning) -> bool {
    let retries = |state: &WorkerState| matches!(state, WorkerState::Retrying { .. });
    running
        .status()
        .workers
        .iter()
        .any(|worker| retries(&worker.state))
}

/// What a stage has sent: the key, the value, the sequence, and the clock, byte for byte. What it claims of its own sink is left out: that is another one for
/// each stage, in which steps that were given up take offsets.
fn sent(topic: &str) -> Vec<(String, Vec<u8>, i64, Vec<u8>)> {
    let own = channel(topic, 0);
    let record = |record: &parsley_kafka::Record| {
        let (clock, _, sequence) = stamp_of(record);
        assert!(
            clock
                .offset(own)
                .is_none_or(|claimed| claimed < record.offset)
        );
        let mut others = Clock::default();
        for claim in clock.offsets().iter().filter(|claim| claim.channel != own) {
            others.claim_offset(claim.channel, claim.offset);
        }
        assert!(clock.sequences().is_empty(), "{clock:?}");
        let value = record.value.as_ref().unwrap().to_vec();
        (text(&record.key), value, sequence, wire::encode(&others))
    };
    read(topic).iter().map(record).collect()
}

/// The places at which steps are given up: the logic fails when it has sent; a sink takes nothing, so that the report of a send fails the commit; a changelog
/// takes nothing; the group takes no positions. In each of these steps a word is counted, one that waits is held, and one that was held is let go.
#[test]
fn b03_after_steps_that_are_given_up_stamps_are_those_of_a_run_without() {
    let (clean, disturbed) = ("aborts-clean", "aborts-disturbed");
    for part in [
        "words",
        "waiting",
        "causes",
        "clean-counts",
        "disturbed-counts",
    ] {
        create_topic(&format!("aborts-{part}"), 1);
    }
    let fails = Arc::new(AtomicBool::new(false));
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let never = Arc::new(AtomicBool::new(false));
    let undisturbed = start(config(&dirs[0]), &counting(clean, &never));
    let running = start(config(&dirs[1]), &counting(disturbed, &fails));
    wait_for_tasks(&running, 1);
    let plain = Foreign::plain();
    let cause = channel("aborts-causes", 0);
    // One is held from the beginning.
    let hold = |cause_at: i64| {
        let claim = stamp(&[(cause, cause_at)], cause_at);
        plain.append_with("aborts-waiting", To::Key, ("waited", "held"), &claim);
    };
    hold(0);
    let held = |running: &KafkaRunning, count: u64| {
        wait_for(running, "held", |status| {
            status.tasks().any(|(.., task)| task.held == count)
        });
    };
    held(&running, 1);

    let (sink, fold, ordering) = (
        "aborts-disturbed-counts",
        "aborts-disturbed-count-fold-changelog",
        "aborts-disturbed-count-state-changelog",
    );
    let denied = [
        None,
        Some(Resource::Topic(sink)),
        Some(Resource::Topic(fold)),
        Some(Resource::Topic(ordering)),
        Some(Resource::Group("aborts-disturbed-count")),
    ];
    for (round, denied) in (0..).zip(denied) {
        match denied {
            Some(resource) => broker().deny(resource).unwrap(),
            None => fails.store(true, Ordering::SeqCst),
        }
        hold(round + 1);
        plain.append("aborts-causes", To::Key, &[("k", "cause")]);
        // The order of effects is told by causes: what waited goes first.
        for (number, word) in (2 * round..).zip([("word", "fails"), ("word", "")]) {
            let claim = stamp(&[(channel("aborts-waiting", 0), round)], number);
            plain.append_with("aborts-words", To::Key, word, &claim);
        }
        wait_for(&running, "given up", |_| is_retrying(&running));
        assert!(read(sink).len() as i64 <= 3 * round + 1, "{denied:?}");
        match denied {
            Some(resource) => broker().allow(resource).unwrap(),
            None => fails.store(false, Ordering::SeqCst),
        }
        let all = 3 * (round as usize + 1);
        wait_until("all of the round", || read(sink).len() == all);
        wait_until("all without a disturbance", || {
            read("aborts-clean-counts").len() == all
        });
        held(&running, 1);
    }
    stop(&undisturbed);
    stop(&running);
    assert_eq!(sent(sink), sent("aborts-clean-counts"));
    assert_eq!(check_stamps(sink, disturbed, "count", 1), [(0, 15)].into());
    for (topic, end) in [
        ("aborts-words", 10),
        ("aborts-waiting", 6),
        ("aborts-causes", 5),
    ] {
        assert_eq!(
            committed("aborts-disturbed-count", topic, 0),
            Some(end),
            "{topic}"
        );
    }
}
