//! The traps of running on a broker, one by one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use parsley_core::wire;
use parsley_kafka::{KafkaHost, StageError, StartError, Status, TaskState, WorkerState};
use parsley_stage::{App, Initial, Stage, Topic, codec};
use rdkafka::TopicPartitionList;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::world::*;

/// Reads two inputs and sends nothing.
fn watching(name: &str) -> App {
    let (a, b) = (
        text_topic(&format!("{name}-a")),
        text_topic(&format!("{name}-b")),
    );
    let watch = Stage::stateless("watch")
        .on(&a, |_, _| Ok(()))
        .on(&b, |_, _| Ok(()))
        .build()
        .unwrap();
    App::named(name).stage(watch).build().unwrap()
}

/// Trap 1: what a record claims can be a marker, or an aborted record. No record comes there; the partition's end event says that it is passed, at
/// the start and again when more of it follows.
#[test]
fn trap_1_the_end_of_a_partition_settles_markers_and_aborted_records() {
    let name = "ends-settle";
    let (a, b) = (format!("{name}-a"), format!("{name}-b"));
    create_topic(&a, 1);
    create_topic(&b, 1);
    let foreign = Foreign::transactional("ends-settle-foreign");
    foreign.begin();
    foreign.append(&a, To::Key, &[("k", "0")]);
    foreign.commit(); // 1 is a marker.
    foreign.begin();
    foreign.append(&a, To::Key, &[("k", "2")]);
    foreign.abort(); // 3 is one.
    assert_eq!(bounds(&a, 0).1, 4);
    let plain = Foreign::plain();
    let channel = channel(&a, 0);
    let record = ("k", "caused");
    plain.append_with(&b, To::Key, record, &stamp(&[(channel, 3)], 0));

    let seen: Arc<Mutex<Vec<(String, i64)>>> = Arc::default();
    let dir = tempfile::tempdir().unwrap();
    let host = KafkaHost::new(config(&dir)).unwrap().on_delivery({
        let seen = Arc::clone(&seen);
        move |event| {
            let place = (event.topic.to_string(), event.offset);
            seen.lock().unwrap().push(place);
        }
    });
    let running = host.start(watching(name)).unwrap();
    wait_for_deliveries(&running, 2);
    // It waits for what is still to be written.
    plain.append_with(&b, To::Key, record, &stamp(&[(channel, 5)], 1));
    wait_for(
        &running,
        "held, with the claim that it waits for",
        |status| {
            status.tasks().all(|(_, _, task)| {
                task.held == 1 && task.holds.len() == 1 && !task.holds[0].waits.is_empty()
            })
        },
    );
    foreign.begin();
    foreign.append(&a, To::Key, &[("k", "4")]);
    foreign.abort();
    wait_for_deliveries(&running, 3);
    wait_for(&running, "nothing held, all read", |status| {
        status
            .tasks()
            .all(|(_, _, task)| task.held == 0 && task.holds.is_empty() && task.lag == 0)
    });
    stop(&running);
    let expected = [(&a, 0), (&b, 0), (&b, 1)];
    let expected = expected.map(|(topic, offset)| (topic.clone(), offset));
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(committed("ends-settle-watch", &a, 0), Some(6));
}

/// Trap 2: the last offset of a changelog is a marker; a restore that counted records up to it would not end.
#[test]
fn trap_2_a_restore_ends_behind_the_last_marker() {
    let (app, words, counted) = wordcount("markers");
    for topic in [&words, &counted] {
        create_topic(topic, 1);
    }
    let plain = Foreign::plain();
    for round in 1..=2_u64 {
        // Another state directory each time.
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &app);
        plain.append(&words, To::Key, &[("word", "seen")]);
        wait_for_deliveries(&running, 1);
        stop(&running);
        let changelog = "markers-count-fold-changelog";
        let last = read(changelog).last().unwrap().offset;
        assert!(last < bounds(changelog, 0).1 - 1, "a marker is last");
        let expected = (1..=round).collect::<Vec<u64>>();
        assert_eq!(counts(&counted), [("word".to_owned(), expected)].into());
    }
}

/// Trap 4: a task has the same partition of each input only where all have the same number of them.
#[test]
fn trap_4_inputs_with_different_partition_counts_are_refused() {
    let name = "widths";
    create_topic("widths-a", 2);
    create_topic("widths-b", 3);
    let dir = tempfile::tempdir().unwrap();
    let refused = KafkaHost::new(config(&dir)).unwrap().start(watching(name));
    let Err(StartError::Stage(StageError::CoPartition { stage, partitions })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(stage, "watch");
    let expected = [("widths-a".to_owned(), 2), ("widths-b".to_owned(), 3)];
    assert_eq!(partitions, BTreeMap::from(expected));
}

fn message_of(status: &Status) -> Option<(String, u32)> {
    status
        .workers
        .iter()
        .find_map(|worker| match &worker.state {
            WorkerState::Retrying { message, attempt } => Some((message.clone(), *attempt)),
            _ => None,
        })
}

/// Trap 7: a record that is larger than its topic takes is said to be, with both sizes and the setting; records that fit go through, however
/// many of them there are in a step; and once the setting is raised, the record goes too.
#[test]
fn trap_7_a_record_that_is_too_large_names_the_setting_to_raise() {
    let name = "sizes";
    create_topic("sizes-in", 1);
    create_topic_with("sizes-out", 1, &[("max.message.bytes", "4000")]);
    let plain = Foreign::plain();
    let small = "s".repeat(1000);
    plain.append("sizes-in", To::Key, &[("k", small.as_str()); 20]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 20);
    let large = "l".repeat(5000);
    plain.append("sizes-in", To::Key, &[("k", large.as_str())]);
    wait_for(&running, "said to be too large", |status| {
        message_of(status).is_some_and(|(message, _)| {
            let parts = ["sizes-out", "a record of 5", "4000", "max.message.bytes"];
            parts.iter().all(|part| message.contains(part))
        })
    });
    assert_eq!(read("sizes-out").len(), 20);
    set_topic("sizes-out", "max.message.bytes", "10000");
    wait_for(&running, "recovered", |status| {
        status.delivered() == 21 && message_of(status).is_none()
    });
    stop(&running);
    assert_eq!(read("sizes-out").len(), 21);
}

/// Trap 8: the partition of a key is the one that Java producers choose; a null key goes to partition 0.
#[test]
fn trap_8_keys_choose_partitions_as_java_producers_do() {
    let name = "keys";
    let (input, output) = (
        text_topic("keys-in"),
        Topic::new(
            "keys-out",
            codec::nullable(codec::string()),
            codec::string(),
        ),
    );
    let rekey = Stage::stateless("rekey")
        .sink(&output)
        .on(&input, move |message, out| {
            let key = Some(message.key).filter(|key| key != "null");
            out.send(&output, &key, &message.value)
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(rekey).build().unwrap();
    create_topic("keys-in", 1);
    create_topic("keys-out", 7);
    create_topic("keys-java", 7);
    let plain = Foreign::plain();
    for number in 0..60 {
        let key = format!("key{number}");
        plain.send("keys-in", To::Key, &key, "v", &[]);
        plain.send("keys-java", To::Key, &key, "v", &[]);
    }
    for _ in 0..5 {
        plain.send("keys-in", To::Key, "null", "v", &[]);
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app);
    wait_for_deliveries(&running, 65);
    stop(&running);
    let (null, keyed): (Vec<_>, Vec<_>) = read("keys-out")
        .into_iter()
        .partition(|record| record.key.is_none());
    let places = |records: &[parsley_kafka::Record]| {
        let place =
            |record: &parsley_kafka::Record| (text(&record.key), record.partition.partition);
        records.iter().map(place).collect::<BTreeMap<_, _>>()
    };
    assert_eq!(places(&keyed), places(&read("keys-java")));
    assert_eq!(keyed.len(), 60);
    assert_eq!(null.len(), 5);
    assert!(null.iter().all(|record| record.partition.partition == 0));
}

/// Trap 11: "no committed offset" is not the beginning: a stage that begins at the end begins there, on every partition, and commits what it was fed
/// of each, an empty one too.
#[test]
fn trap_11_no_committed_offset_is_not_the_beginning() {
    let name = "latest";
    let input = text_topic("latest-in");
    let output = text_topic("latest-out");
    let copy = Stage::stateless("copy")
        .start_at(Initial::Latest)
        .sink(&output)
        .on(&input, move |message, out| {
            out.send(&output, &message.key, &message.value)
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(copy).build().unwrap();
    create_topic("latest-in", 3);
    create_topic("latest-out", 1);
    let plain = Foreign::plain();
    plain.append("latest-in", To::Partition(0), &[("k", "old"); 4]);
    plain.append("latest-in", To::Partition(1), &[("k", "old"); 2]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app);
    wait_for_tasks(&running, 3);
    plain.append("latest-in", To::Partition(0), &[("k", "new")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values("latest-out"), ["new"]);
    let committed = |partition| committed("latest-copy", "latest-in", partition);
    assert_eq!([0, 1, 2].map(committed), [Some(5), Some(2), Some(0)]);
    // What came in between is not skipped, though nobody has committed a position beyond it.
    plain.append("latest-in", To::Partition(2), &[("k", "between")]);
    let running = start(config(&dir), &app);
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values("latest-out"), ["new", "between"]);
}

/// Trap 13: a send is handed over when what it claims is acknowledged: that it claims the very offset which the one before it got, on another
/// partition of the same step, is something that only the acknowledgement can have told.
#[test]
fn trap_13_a_send_goes_out_after_what_it_claims_is_acknowledged() {
    let name = "rounds";
    let topic = |part: &str| text_topic(&format!("{name}-{part}"));
    let (input, y, x) = (topic("in"), topic("y"), topic("x"));
    let send = Stage::stateless("send")
        .sink(&x)
        .sink(&y)
        .on(&input, move |message, out| {
            out.send(&y, &message.key, &format!("{} first", message.value))?;
            out.send(&x, &message.key, &format!("{} second", message.value))?;
            out.send(&y, &message.key, &format!("{} third", message.value))
        })
        .build()
        .unwrap();
    let app = App::named(name).stage(send).build().unwrap();
    for topic in ["rounds-in", "rounds-x", "rounds-y"] {
        create_topic(topic, 1);
    }
    let plain = Foreign::plain();
    // Different keys, so that deliveries share steps.
    for number in 0..40 {
        let text = number.to_string();
        plain.send("rounds-in", To::Key, &text, &text, &[]);
    }
    plain.flush();
    let dir = tempfile::tempdir().unwrap();
    // One transaction for all of it: what is claimed is not committed yet.
    let running = start(
        config(&dir).commit_interval(std::time::Duration::from_secs(2)),
        &app,
    );
    wait_for_deliveries(&running, 40);
    stop(&running);
    let (xs, ys) = (read("rounds-x"), read("rounds-y"));
    assert_eq!((xs.len(), ys.len()), (40, 80));
    let offset_of = |value: String| {
        let found = ys
            .iter()
            .chain(&xs)
            .find(|record| text(&record.value) == value);
        found.unwrap().offset
    };
    let (on_x, on_y) = (channel("rounds-x", 0), channel("rounds-y", 0));
    for number in 0..40 {
        let (first, second, third) = (
            offset_of(format!("{number} first")),
            offset_of(format!("{number} second")),
            offset_of(format!("{number} third")),
        );
        let at = |records: &[parsley_kafka::Record], offset| {
            let record = records.iter().find(|record| record.offset == offset);
            let (clock, _, _) = stamp_of(record.unwrap());
            assert!(clock.sequences().is_empty(), "{clock:?}");
            clock
        };
        let clock = at(&xs, second);
        let claimed = clock.offset(on_y).unwrap();
        // Others of its round may be acknowledged by then; none of a later round is.
        assert!((first..third).contains(&claimed), "{number}: {claimed}");
        let clock = at(&ys, third);
        let claimed = clock.offset(on_x).unwrap();
        assert!(claimed >= second, "{number}: {claimed}");
        // The first has nothing of this step before it.
        let clock = at(&ys, first);
        assert!(clock.offset(on_x).is_none_or(|claimed| claimed < second));
    }
    check_stamps("rounds-y", name, "send", 1);
}

/// Trap 14: a former owner with another transactional id is not fenced by the new one's start; what it has sent of positions, and may still commit, is
/// waited for, which the status says. Here somebody's transaction commits a position under the host that opens: had it not waited, it would have found
/// none and begun.
#[test]
fn trap_14_a_position_that_may_still_be_committed_is_waited_for() {
    let name = "stable";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "v"); 3]);
    let former = Foreign::transactional("stable-copy-former-0");
    former.begin();
    former.append(&output, To::Key, &[("k", "of the former owner")]);
    former.send_positions("stable-copy", &input, 0, 2);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    let waits = |state: &TaskState| matches!(state, TaskState::Restoring { left: 0, .. });
    wait_for(&running, "waiting for the position", |status| {
        assert!(status.tasks().all(|(_, _, task)| task.steps == 0));
        status.tasks().any(|(_, _, task)| waits(&task.state))
    });
    former.commit();
    // It has a position and no state, which is what the host is to find.
    assert_eq!(wait_for_refusal(&running), ("vc-state-lost".to_owned(), 0));
    let status = running.stop();
    assert!(status.tasks().all(|(_, _, task)| task.steps == 0));
    assert_eq!(values(&output), ["of the former owner"]);
    assert_eq!(committed("stable-copy", &input, 0), Some(2));
}

/// As before, and the worker has another task. It was asked for positions until the cluster's answer was overdue, and then all tasks of the worker opened
/// anew, after a wait that grew: nothing of the other was delivered until the former owner's transaction was over.
#[test]
fn trap_14_who_waits_for_a_position_holds_up_no_other_task() {
    let name = "stable-beside";
    let (input, output) = copying_topics(name, 2);
    let plain = Foreign::plain();
    let former = Foreign::transactional("stable-beside-copy-former-0");
    former.begin();
    former.send_positions("stable-beside-copy", &input, 1, 0);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    for count in 1..=3 {
        plain.append(&input, To::Partition(0), &[("k", "v")]);
        wait_for_deliveries(&running, count);
    }
    let steps = |partition| running.status().workers[0].tasks[&partition].steps;
    assert!(steps(0) > 0 && steps(1) == 0);
    assert!(message_of(&running.status()).is_none(), "nothing failed");
    former.abort();
    wait_for_tasks(&running, 2);
    stop(&running);
    assert_eq!(values(&output), ["v"; 3]);
}

/// As before, and the former owner gives up: then the positions before it count, and what it had sent is not there.
#[test]
fn trap_14_a_former_owner_that_aborts_leaves_nothing() {
    let name = "unstable";
    let (input, output) = copying_topics(name, 1);
    let plain = Foreign::plain();
    plain.append(&input, To::Key, &[("k", "1"), ("k", "2")]);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    wait_for_deliveries(&running, 2);
    stop(&running);
    let former = Foreign::transactional("unstable-copy-former-0");
    former.begin();
    former.append(&output, To::Key, &[("k", "of the former owner")]);
    former.append(
        "unstable-copy-state-changelog",
        To::Partition(0),
        &[("k", "nonsense")],
    );
    former.send_positions("unstable-copy", &input, 0, 100);
    plain.append(&input, To::Key, &[("k", "3")]);
    let running = start(config(&dir), &copying(name));
    // The changelog is read up to where the former owner may have written, so it is waited for there first.
    wait_for(&running, "restoring", |status| {
        let restores =
            |state: &TaskState| matches!(state, TaskState::Restoring { left, .. } if *left > 0);
        status.tasks().any(|(_, _, task)| restores(&task.state))
    });
    former.abort();
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values(&output), ["1", "2", "3"]);
    let (clock, ..) = stamp_of(read(&output).last().unwrap());
    assert_eq!(
        wire::decode(&wire::encode(&clock)).unwrap().into_clock(),
        clock
    );
}

/// How the child process of the next test goes about its lists. Alone it does nothing.
const LISTS: &str = "PARSLEY_TEST_LISTS";

#[test]
fn child_that_assigns_to_two_consumers() {
    let Ok(lists) = std::env::var(LISTS) else {
        return;
    };
    let list = || {
        let mut list = TopicPartitionList::new();
        list.add_partition("t", 0);
        list
    };
    // No broker is needed for it.
    let consumer = || -> BaseConsumer {
        let mut config = ClientConfig::new();
        config.set("group.id", "lists").create().unwrap()
    };
    let (one, other, first) = (consumer(), consumer(), list());
    one.assign(&first).unwrap();
    one.pause(&first).unwrap();
    match &*lists {
        "one" => other.assign(&first).unwrap(),
        _ => other.assign(&list()).unwrap(),
    }
    std::process::exit(0);
}

/// Trap 12: a list of partitions keeps what librdkafka has looked up for the client that it was used with; used with a second client, it aborts the
/// process. Fresh lists do not.
#[test]
fn trap_12_one_list_on_two_consumers_aborts_the_process() {
    let ended = |lists: &str| {
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "traps::child_that_assigns_to_two_consumers"])
            .env(LISTS, lists)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        child.unwrap()
    };
    let aborted = ended("one");
    assert!(aborted.signal().is_some(), "{aborted}");
    assert!(ended("two").success());
}

/// Trap 12: so the host makes each list where it is used, and keeps, takes and returns none: no field, argument or result is such a list. Beside this,
/// `two_instances.rs` has two consumers of one process go through many assignments.
#[test]
fn trap_12_no_list_of_partitions_outlives_its_use() {
    let mut folders = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut made = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            for line in source.lines().filter(|line| !line.starts_with("use ")) {
                let mentions = line.matches("TopicPartitionList").count();
                let fresh = line.matches("TopicPartitionList::new()").count();
                assert_eq!(mentions, fresh, "{}: {line}", path.display());
                made += fresh;
            }
        }
    }
    assert!(made > 0, "they are made somewhere");
}
