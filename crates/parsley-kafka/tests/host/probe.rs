//! What a host refuses because of its cluster, a probe finds before it, in the same words. One test for each refusal: the table of
//! docs/operations.md names them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use kafka_cluster::{Operation, Resource};
use parsley_core::layout::{StateKey, number_to_bytes};
use parsley_kafka::probe::Clause;
use parsley_kafka::{
    ClusterReport, Description, Finding, KafkaConfig, KafkaHost, KafkaRunning, Severity, TaskState,
    WorkerState, probe_cluster,
};
use parsley_stage::{App, Stage, codec};
use rdkafka::producer::BaseRecord;

use crate::joining::*;
use crate::world::*;

/// Every probe looks at the broker's own settings, and one test denies them to all.
static BROKER_SHOWN: RwLock<()> = RwLock::new(());

fn probe(app: &App, config: &KafkaConfig, account: Option<&str>) -> ClusterReport {
    let _shown = BROKER_SHOWN.read().unwrap_or_else(PoisonError::into_inner);
    probe_cluster(app, config, account).unwrap()
}

/// The one error that a probe finds. It is given what the command has, the application's description alone: its words are held against those of a host that
/// runs the application itself.
fn the_error(app: &App, config: &KafkaConfig, account: Option<&str>, clause: Clause) -> Finding {
    let described = Description::of(app).to_string();
    let same = Description::from_toml(&described).unwrap().app().unwrap();
    let report = probe(&same, config, account);
    let errors: Vec<&Finding> = report.errors().collect();
    assert_eq!(errors.len(), 1, "{report}");
    assert_eq!(errors[0].clause, clause, "{report}");
    assert!(!report.is_fit());
    // Once, whether the host's words end with it or not.
    let told = errors[0].to_string();
    assert_eq!(told.matches(clause.remedy()).count(), 1, "{told}");
    errors[0].clone()
}

/// A probe finds this, and a start is refused for it.
fn both_refuse(app: &App, config: &KafkaConfig, account: Option<&str>, clause: Clause) -> Finding {
    let finding = the_error(app, config, account, clause);
    let mut host = KafkaHost::new(config.clone()).unwrap();
    if let Some(account) = account {
        host = host.audit(account);
    }
    let refused = host.start(app).unwrap_err();
    assert_eq!(refused.to_string(), finding.found);
    finding
}

/// A probe finds this, and a guard refuses the one task when it opens.
fn both_refuse_a_task(app: &App, config: &KafkaConfig, clause: Clause, code: &str) -> Finding {
    let finding = the_error(app, config, None, clause);
    let running = start(config.clone(), app);
    assert_eq!(wait_for_refusal(&running), (code.to_owned(), 0));
    let status = running.stop();
    assert_eq!(status.refused()[0].2.to_string(), finding.found);
    assert_eq!(finding.task, Some(0), "{finding}");
    finding
}

/// A probe finds this, and a host tries in vain for it.
fn both_wait(app: &App, config: &KafkaConfig, clause: Clause) -> Finding {
    let finding = the_error(app, config, None, clause);
    let running = start(config.clone(), app);
    wait_for(&running, "waiting for it", |status| {
        status.workers.iter().any(|worker| {
            matches!(&worker.state, WorkerState::Retrying { message, .. } if *message == finding.found)
        })
    });
    running.stop();
    finding
}

/// Whether the broker has kept a transactional id that begins so.
fn has_kept_an_id(prefix: &str) -> bool {
    let folder = std::fs::read_dir(broker().data_folder(1).unwrap()).unwrap();
    let partitions = folder.map(|entry| entry.unwrap().path()).filter(|path| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("__transaction_state-")
    });
    let segments = partitions.flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let mut logs = segments.map(|entry| entry.unwrap().path());
    logs.any(|path| {
        path.extension().is_some_and(|kind| kind == "log")
            && std::fs::read(path)
                .unwrap()
                .windows(prefix.len())
                .any(|part| part == prefix.as_bytes())
    })
}

#[test]
fn an_application_that_fits_is_found_to_fit_and_nothing_is_made() {
    let name = "probe-fit";
    joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let report = probe(&app, &config(&dir), None);
    assert!(report.is_fit(), "{report}");
    let changelogs = ["state", "fold"].map(|kind| format!("{name}-join-{kind}-changelog"));
    let made: Vec<&String> = report
        .findings
        .iter()
        .flat_map(|note| &note.topics)
        .collect();
    assert_eq!(made, changelogs.iter().collect::<Vec<_>>(), "{report}");
    for note in &report.findings {
        assert_eq!(
            (note.severity, note.clause),
            (Severity::Note, Clause::ChangelogMade)
        );
    }
    assert!(changelogs.iter().all(|topic| id_of(topic).is_none()));
    assert!(!has_kept_an_id("probe-fit-join-"));
    let running = start(config(&dir), &app);
    Foreign::plain().append(&format!("{name}-a"), To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert!(has_kept_an_id("probe-fit-join-"), "of the host");
    assert_eq!(probe(&app, &config(&dir), None), ClusterReport::default());
}

#[test]
fn probe_finds_a_configuration_that_no_host_takes() {
    let (app, dir) = (joining("probe-configuration"), tempfile::tempdir().unwrap());
    for config in [
        config(&dir).workers(0),
        config(&dir).property("group.id", "mine"),
        config(&dir).property("no.such", "property"),
        config(&dir).property("max.poll.interval.ms", "5000"),
    ] {
        let finding = the_error(&app, &config, None, Clause::Configuration);
        let refused = KafkaHost::new(config).unwrap_err();
        assert_eq!(refused.to_string(), finding.found);
    }
}

/// G6, and its like for inputs.
#[test]
fn probe_finds_topics_that_are_missing() {
    let name = "probe-missing";
    create_topic("probe-missing-a", 1);
    let dir = tempfile::tempdir().unwrap();
    let finding = both_refuse(&joining(name), &config(&dir), None, Clause::TopicThere);
    assert_eq!(finding.topics, ["probe-missing-b", "probe-missing-out"]);
    assert_eq!(finding.stage.as_deref(), Some("join"));
    assert!(
        finding.to_string().contains("G6 vc-missing-sink"),
        "{finding}"
    );
}

#[test]
fn probe_finds_inputs_of_different_widths() {
    let name = "probe-widths";
    for (part, partitions) in [("a", 1), ("b", 2), ("out", 1)] {
        create_topic(&format!("{name}-{part}"), partitions);
    }
    let dir = tempfile::tempdir().unwrap();
    let finding = both_refuse(&joining(name), &config(&dir), None, Clause::CoPartition);
    assert_eq!(finding.topics, ["probe-widths-a", "probe-widths-b"]);
}

/// In either direction; and one that is missing is a topic that is missing.
#[test]
fn probe_finds_a_tick_topic_of_another_width() {
    for (name, partitions) in [("probe-ticks-narrow", 1), ("probe-ticks-wide", 3)] {
        let input = text_topic(&format!("{name}-in"));
        let watch = Stage::stateless("watch")
            .on(&input, |_, _| Ok(()))
            .ticks(Duration::from_secs(60), codec::u64(), |_, _, _| Ok(()))
            .build()
            .unwrap();
        let app = App::named(name).stage(watch).build().unwrap();
        create_topic(input.name(), 2);
        let (ticks, dir) = (format!("{name}-watch-ticks"), tempfile::tempdir().unwrap());
        let finding = both_refuse(&app, &config(&dir), None, Clause::TopicThere);
        assert_eq!(finding.topics, [ticks.as_str()]);
        create_topic(&ticks, partitions);
        let finding = both_refuse(&app, &config(&dir), None, Clause::TickTopic);
        assert_eq!(finding.topics, [ticks]);
    }
}

#[test]
fn probe_finds_an_input_that_is_compacted() {
    let name = "probe-compacted";
    let [a, ..] = joining_topics(name);
    set_topic(&a, "cleanup.policy", "compact");
    let dir = tempfile::tempdir().unwrap();
    let finding = both_refuse(&joining(name), &config(&dir), None, Clause::NotCompacted);
    assert_eq!(finding.topics, [a]);
}

#[test]
fn probe_finds_an_account_that_does_not_fit() {
    let name = "probe-account";
    for part in ["a", "b", "out"] {
        create_topic(&format!("{name}-{part}"), 2);
    }
    create_topic("probe-account-narrow", 1);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    for account in ["probe-account-out", "probe-account-narrow"] {
        let finding = both_refuse(&app, &config(&dir), Some(account), Clause::Account);
        assert_eq!(finding.topics, [account]);
    }
    let finding = both_refuse(
        &app,
        &config(&dir),
        Some("probe-account-no"),
        Clause::TopicThere,
    );
    assert_eq!(finding.topics, ["probe-account-no"]);
}

#[test]
fn probe_finds_a_changelog_that_would_lose_state() {
    let name = "probe-policy";
    joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    for kind in ["state", "fold"] {
        let changelog = format!("{name}-join-{kind}-changelog");
        create_topic_with(&changelog, 1, &[("cleanup.policy", "delete")]);
        let finding = both_refuse(&app, &config(&dir), None, Clause::ChangelogPolicy);
        assert_eq!(finding.topics, [changelog.as_str()]);
        set_topic(&changelog, "cleanup.policy", "compact");
    }
}

/// G15: the inputs have been widened.
#[test]
fn probe_finds_a_changelog_of_another_width() {
    let name = "probe-width";
    let [a, b, _] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let running = start(config(&dir), &app);
    wait_for_tasks(&running, 1);
    stop(&running);
    add_partitions(&a, 2);
    add_partitions(&b, 2);
    let report = probe(&app, &config(&dir), None);
    let errors: Vec<&Finding> = report.errors().collect();
    assert_eq!(errors.len(), 2, "one of each changelog: {report}");
    assert!(
        errors.iter().all(|error| error.clause == Clause::TaskWidth),
        "{report}"
    );
    let host = KafkaHost::new(config(&dir)).unwrap();
    let refused = host.start(&app).unwrap_err();
    assert_eq!(refused.to_string(), errors[0].found);
    assert!(errors[0].found.contains("vc-task-width"));
    // What else does not fit of the same changelog is found along with it.
    set_topic(
        "probe-width-join-fold-changelog",
        "cleanup.policy",
        "delete",
    );
    let report = probe(&app, &config(&dir), None);
    let clauses: Vec<Clause> = report.errors().map(|error| error.clause).collect();
    let expected = [
        Clause::TaskWidth,
        Clause::TaskWidth,
        Clause::ChangelogPolicy,
    ];
    assert_eq!(clauses, expected, "{report}");
}

#[test]
fn probe_finds_a_changelog_that_cannot_be_made() {
    let name = "probe-unmade";
    joining_topics(name);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir);
    config.changelog.replication = Some(3);
    let report = probe(&joining(name), &config, None);
    let errors: Vec<&Finding> = report.errors().collect();
    assert_eq!(errors.len(), 2, "one of each changelog: {report}");
    assert!(
        errors
            .iter()
            .all(|error| error.clause == Clause::ChangelogMade)
    );
    let running = start(config, &joining(name));
    wait_for(
        &running,
        "waiting for it",
        |status| matches!(&status.workers[0].state, WorkerState::Retrying { message, .. } if *message == errors[0].found),
    );
    running.stop();
}

/// B13: what is denied is not missing, and the host asks again until it is shown.
#[test]
fn probe_finds_a_topic_that_is_denied() {
    let name = "probe-denied";
    let [a, ..] = joining_topics(name);
    let dir = tempfile::tempdir().unwrap();
    broker().deny(Resource::Topic(&a)).unwrap();
    let finding = both_wait(&joining(name), &config(&dir), Clause::TopicShown);
    assert_eq!(finding.topics, [a.as_str()]);
    broker().allow(Resource::Topic(&a)).unwrap();
    assert!(probe(&joining(name), &config(&dir), None).is_fit());
}

/// They are all there and shown, and the host finds out with the first record.
#[test]
fn probe_finds_topics_that_may_not_be_read_or_written() {
    let name = "probe-access";
    let [a, _, out] = joining_topics(name);
    let (account, changelog) = ("probe-access-account", "probe-access-join-state-changelog");
    create_topic(account, 1);
    let app = joining(name);
    let start = |dir: &tempfile::TempDir| {
        let host = KafkaHost::new(config(dir)).unwrap().audit(account);
        host.start(&app).unwrap()
    };
    let deliver_one = |running: &KafkaRunning| {
        Foreign::plain().append(&a, To::Key, &[("k", "v")]);
        wait_for_deliveries(running, 1);
        stop(running);
    };
    deliver_one(&start(&tempfile::tempdir().unwrap()));
    for (topic, operation, denied) in [
        (&*a, Operation::Read, "read"),
        (&*out, Operation::Write, "write"),
        (changelog, Operation::Read, "read"),
        (changelog, Operation::Write, "write"),
        (account, Operation::Write, "write"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        broker()
            .deny_one(Resource::Topic(topic), operation)
            .unwrap();
        let running = start(&dir);
        Foreign::plain().append(&a, To::Key, &[("k", "v")]);
        // In vain: it fails again and again, or reads nothing of what it is to read.
        wait_for(&running, "denied", |status| {
            let tried = matches!(&status.workers[0].state, WorkerState::Retrying { attempt, .. } if *attempt >= 2);
            let reads = status.tasks().any(
                |(_, _, task)| matches!(task.state, TaskState::Restoring { left, .. } if left > 0),
            );
            tried || reads
        });
        let finding = the_error(&app, &config(&dir), Some(account), Clause::Access);
        assert_eq!(finding.topics, [topic]);
        assert!(
            finding.found.contains(&format!("not {denied} the topic")),
            "{finding}"
        );
        assert_eq!(running.status().delivered(), 0);
        broker()
            .allow_one(Resource::Topic(topic), operation)
            .unwrap();
        deliver_one(&running);
        let report = probe(&app, &config(&dir), Some(account));
        assert_eq!(report, ClusterReport::default());
    }
    // What is not done with a topic need not be permitted.
    let dir = tempfile::tempdir().unwrap();
    Foreign::plain().append(&a, To::Key, &[("k", "v")]);
    for (topic, operation) in [(&*a, Operation::Write), (&*out, Operation::Read)] {
        broker()
            .deny_one(Resource::Topic(topic), operation)
            .unwrap();
    }
    let report = probe(&app, &config(&dir), Some(account));
    assert_eq!(report, ClusterReport::default());
    let running = start(&dir);
    wait_for_deliveries(&running, 1);
    stop(&running);
}

#[test]
fn probe_finds_a_group_that_is_denied() {
    let name = "probe-group";
    joining_topics(name);
    let (group, dir) = (format!("{name}-join"), tempfile::tempdir().unwrap());
    broker().deny(Resource::Group(&group)).unwrap();
    let app = joining(name);
    let finding = the_error(&app, &config(&dir), None, Clause::PositionsShown);
    assert!(finding.found.contains(&group), "{finding}");
    // The host asks its coordinator again and again, and has no tasks meanwhile.
    let running = start(config(&dir), &app);
    assert!(!running.status().workers[0].has_joined);
    broker().allow(Resource::Group(&group)).unwrap();
    wait_for_tasks(&running, 1);
    stop(&running);
    assert!(probe(&app, &config(&dir), None).is_fit());
}

/// Runs the application until it was delivered three records of `a`, and stops it.
fn deliver_three(app: &App, dir: &tempfile::TempDir, a: &str) {
    let running = start(config(dir), app);
    Foreign::plain().append(a, To::Key, &[("k", "v"); 3]);
    wait_for_deliveries(&running, 3);
    stop(&running);
}

/// G10.
#[test]
fn probe_finds_records_that_retention_took() {
    let name = "probe-lost";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    deliver_three(&app, &dir, &a);
    Foreign::plain().append(&a, To::Key, &[("k", "v"); 3]);
    delete_records(&a, 0, 5);
    let clause = Clause::PositionsKept;
    let finding = both_refuse_a_task(&app, &config(&dir), clause, "vc-positions-lost");
    assert_eq!(finding.topics, [a]);
}

/// Appends an entry to the ordering changelog of [`joining`].
fn write_state(name: &str, key: &[u8], value: Option<&[u8]>) {
    let changelog = format!("{name}-join-state-changelog");
    let mut record = BaseRecord::to(&changelog).key(key).partition(0);
    record.payload = value;
    let plain = Foreign::plain();
    plain.0.send(record).map_err(|(error, _)| error).unwrap();
    plain.flush();
}

/// G16, G8, G10, G7, one after the other on the state of one task: each is put right before the next.
#[test]
fn probe_finds_positions_and_state_that_do_not_fit() {
    let name = "probe-unfit";
    let [a, b, _] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let (config, group) = (config(&dir), format!("{name}-join"));
    let at_a = channel(&a, 0);
    let running = start(config.clone(), &app);
    let plain = Foreign::plain();
    plain.append(&a, To::Key, &[("k", "v"); 3]);
    wait_for_deliveries(&running, 3);
    plain.append_with(&b, To::Key, ("k", "effect"), &stamp(&[(at_a, 50)], 0));
    wait_until_held(&running, 1);
    stop(&running);
    assert_eq!(probe(&app, &config, None), ClusterReport::default());

    move_position(&group, &a, 0, 4);
    let clause = Clause::PositionsCovered;
    let finding = both_refuse_a_task(&app, &config, clause, "vc-positions-ahead");
    assert_eq!(finding.topics, [a.as_str()]);
    move_position(&group, &a, 0, 3);

    let (from, to) = (text_topic(&a), text_topic(&format!("{name}-out")));
    let narrower = Stage::stateless("join").sink(&to).on(&from, |_, _| Ok(()));
    let narrower = App::named(name).stage(narrower.build().unwrap());
    let narrower = narrower.build().unwrap();
    let clause = Clause::HeldInputs;
    both_refuse_a_task(&narrower, &config, clause, "vc-removed-input-held");

    // As if brokers had lost the end of the log.
    let frontier = StateKey::Frontier(at_a).to_bytes();
    write_state(name, &frontier, Some(&number_to_bytes(9)));
    move_position(&group, &a, 0, 10);
    let finding = the_error(&app, &config, None, Clause::PositionsKept);
    assert_eq!(finding.topics, [a.as_str()]);
    assert!(
        finding.found.contains(&format!("{a} ends at 3")),
        "{finding}"
    );
    let running = start(config.clone(), &app);
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-lost");
    let status = running.stop();
    let refused = status.refused()[0].2.to_string();
    let (said, _) = refused.split_once("any more: ").unwrap();
    assert!(finding.found.starts_with(said), "{refused}");
    write_state(name, &frontier, Some(&number_to_bytes(2)));
    move_position(&group, &a, 0, 3);
    assert_eq!(probe(&app, &config, None), ClusterReport::default());

    let changelog = format!("{name}-join-state-changelog");
    for (key, value) in [(&b"nonsense"[..], &b"v"[..]), (&frontier[..], b"no number")] {
        write_state(name, key, Some(value));
        let clause = Clause::StateTrusted;
        let finding = both_refuse_a_task(&app, &config, clause, "vc-corrupt-state");
        assert_eq!(finding.topics, [changelog.as_str()]);
        write_state(name, b"nonsense", None);
    }
}

/// A host that runs commits while a probe reads its changelogs. A probe that ended within a transaction, of which the rest was committed meanwhile, took
/// half a step for state that contradicts itself (G7), about one time in three.
#[test]
fn probe_finds_nothing_wrong_with_a_host_that_is_busy() {
    let name = "probe-busy";
    let [a, b, _] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let config = config(&dir).commit_interval(Duration::from_millis(5));
    let running = start(config.clone(), &app);
    let (at_a, is_over) = (channel(&a, 0), AtomicBool::new(false));
    let mut probes = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            let plain = Foreign::plain();
            for round in 0_i64.. {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                for effect in 0..8 {
                    let claims = [(at_a, round * 8 + effect)];
                    let stamp = stamp(&claims, round * 8 + effect);
                    plain.append_with(&b, To::Key, ("k", "effect"), &stamp);
                }
                plain.append(&a, To::Key, &[("k", "cause"); 8]);
            }
        });
        for _ in 0..12 {
            probes.push(probe(&app, &config, None));
        }
        is_over.store(true, Ordering::SeqCst);
    });
    for found in probes {
        assert_eq!(found.errors().count(), 0, "{found:?}");
    }
    assert!(running.status().delivered() > 0);
    stop(&running);
}

/// What is left of the state is not the state. A directory that has all of it is as good.
#[test]
fn probe_finds_a_changelog_whose_head_was_deleted() {
    let name = "probe-cut";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    deliver_three(&app, &dir, &a);
    let changelog = format!("{name}-join-state-changelog");
    set_topic(&changelog, "cleanup.policy", "delete");
    delete_records(&changelog, 0, 1);
    set_topic(&changelog, "cleanup.policy", "compact");
    let elsewhere = config(tempfile::tempdir().unwrap());
    both_refuse_a_task(&app, &elsewhere, Clause::StateKept, "vc-state-lost");
    let report = probe(&app, &config(&dir), None);
    assert!(report.is_fit(), "{report}");
    assert_eq!(report.findings[0].clause, Clause::StateKept, "{report}");
    assert_eq!(report.findings.len(), 1, "{report}");
    deliver_three(&app, &dir, &a);
}

/// What somebody has begun in a changelog keeps its readers waiting, and the probe does not wait for longer than transactions may last.
#[test]
fn probe_notes_a_changelog_that_cannot_be_read_to_its_end() {
    let name = "probe-open";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    deliver_three(&app, &dir, &a);
    let changelog = format!("{name}-join-state-changelog");
    let foreign = Foreign::transactional("probe-open-foreign");
    foreign.begin();
    foreign.append(&changelog, To::Partition(0), &[("k", "never")]);
    let config = config(&dir).transaction_timeout(Duration::from_secs(1));
    let report = probe(&app, &config, None);
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|note| (note.severity, note.clause, note.task))
        .collect();
    let expected = [(Severity::Note, Clause::StateTrusted, Some(0))];
    assert_eq!(found, expected, "{report}");
    // Nothing is wrong with the state.
    let told = report.to_string();
    assert!(!told.contains("restore the ordering state"), "{told}");
    assert!(told.contains("wait until it ends"), "{told}");
    foreign.abort();
    assert_eq!(probe(&app, &config, None), ClusterReport::default());
}

/// State is read back by a consumer that bears the name of a group, without which librdkafka gives it no queue, and never joins it. Where that name was denied,
/// a host could not read its state and asked for a grant that nothing needs; or it could, if the records were there before the answer about the group: the
/// probe found something in one run and nothing in another.
#[test]
fn state_is_read_back_whatever_the_group_is_that_its_reader_names() {
    let name = "probe-back";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    deliver_three(&app, &dir, &a);
    let group = format!("{name}-join-restore");
    broker().deny(Resource::Group(&group)).unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let report = probe(&app, &config(&elsewhere), None);
    assert_eq!(report, ClusterReport::default());
    let running = start(config(&elsewhere), &app);
    Foreign::plain().append(&a, To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
}

/// B13, of a topic that is declared no more.
#[test]
fn probe_finds_a_former_topic_that_is_denied() {
    let name = "probe-former";
    let (input, output) = copying_topics(name, 1);
    create_topic("probe-former-b", 1);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &copying(name));
    Foreign::plain().append(&input, To::Key, &[("k", "v")]);
    wait_for_deliveries(&running, 1);
    stop(&running);
    let (from, to) = (text_topic(&input), text_topic("probe-former-b"));
    let other = Stage::stateless("copy").sink(&to).on(&from, |_, _| Ok(()));
    let other = App::named(name).stage(other.build().unwrap());
    let other = other.build().unwrap();
    broker().deny(Resource::Topic(&output)).unwrap();
    let finding = both_wait(&other, &config(&dir), Clause::FormerTopicShown);
    assert!(finding.found.contains(&output), "{finding}");
    broker().allow(Resource::Topic(&output)).unwrap();
    assert_eq!(probe(&other, &config(&dir), None), ClusterReport::default());
}

/// Of each of the two permissions. What is asked leaves nothing behind that would fence who runs: it goes on.
#[test]
fn probe_finds_transactional_ids_that_are_denied() {
    let name = "probe-ids";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let ids = Resource::TransactionalIds("probe-ids-join-");
    broker().deny(ids).unwrap();
    both_wait(&app, &config(&dir), Clause::TransactionalIds);
    broker().allow(ids).unwrap();
    broker().deny_one(ids, Operation::Write).unwrap();
    both_wait(&app, &config(&dir), Clause::TransactionalIds);
    broker().allow_one(ids, Operation::Write).unwrap();
    let running = start(config(&dir), &app);
    let plain = Foreign::plain();
    for delivered in 1..=2 {
        plain.append(&a, To::Key, &[("k", "v")]);
        wait_for_deliveries(&running, delivered);
        assert_eq!(probe(&app, &config(&dir), None), ClusterReport::default());
    }
    assert_eq!(running.status().workers[0].state, WorkerState::Running);
    stop(&running);
}

/// G11.
#[test]
fn probe_finds_positions_without_state() {
    let name = "probe-state";
    let [a, ..] = joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    deliver_three(&app, &dir, &a);
    // The other changelog alone: it is not there yet, and then it is another.
    delete_topic(&format!("{name}-join-fold-changelog"));
    let finding = the_error(&app, &config(&dir), None, Clause::StateKept);
    assert!(finding.found.contains("which is gone"), "{finding}");
    let running = start(config(&dir), &app);
    assert_eq!(wait_for_refusal(&running).0, "vc-state-lost");
    running.stop();
    both_refuse_a_task(&app, &config(&dir), Clause::StateKept, "vc-state-lost");
    let changelog = format!("{name}-join-state-changelog");
    delete_topic(&changelog);
    // Neither where it is missing nor where it was made again.
    for _ in 0..2 {
        let dir = tempfile::tempdir().unwrap();
        let (config, clause) = (config(&dir), Clause::StateKept);
        let finding = both_refuse_a_task(&app, &config, clause, "vc-state-lost");
        assert_eq!(finding.topics, [changelog.as_str()]);
    }
}

/// Appends a record whose timestamp is so old.
fn append_aged(topic: &str, minutes: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = now - Duration::from_secs(60 * minutes);
    let record = BaseRecord::to(topic).key("k").payload("v").partition(0);
    let record = record.timestamp(i64::try_from(at.as_millis()).unwrap());
    let plain = Foreign::plain();
    plain.0.send(record).map_err(|(error, _)| error).unwrap();
    plain.flush();
}

/// Nothing is refused yet, and soon it may be. Records are kept for two hours.
#[test]
fn probe_notes_what_retention_is_about_to_take() {
    for (name, ages, is_old) in [
        ("probe-young", &[50][..], false),
        ("probe-old", &[70, 50], true),
        ("probe-oldest", &[70], true),
    ] {
        let [a, ..] = joining_topics(name);
        set_topic(&a, "retention.ms", "7200000");
        let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
        let running = start(config(&dir), &app);
        append_aged(&a, 100);
        wait_for_deliveries(&running, 1);
        stop(&running);
        assert_eq!(probe(&app, &config(&dir), None), ClusterReport::default());
        for age in ages {
            append_aged(&a, *age);
        }
        let report = probe(&app, &config(&dir), None);
        assert!(report.is_fit(), "{report}");
        let notes: Vec<_> = report
            .findings
            .iter()
            .map(|note| (note.severity, note.clause, note.topics.clone()))
            .collect();
        let note = (Severity::Note, Clause::RetentionBeyondLag, vec![a]);
        let expected = if is_old { vec![note] } else { vec![] };
        assert_eq!(notes, expected, "{name}: {report}");
        assert!(
            !is_old || report.to_string().contains("offset 1"),
            "{report}"
        );
        // For good is no time that could be over.
        set_topic(&format!("{name}-a"), "retention.ms", "-1");
        assert_eq!(probe(&app, &config(&dir), None), ClusterReport::default());
    }
}

/// Up to the broker's two minutes.
#[test]
fn probe_finds_a_transaction_timeout_that_brokers_refuse() {
    let name = "probe-timeout";
    joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let longest = Duration::from_millis(120_000);
    let report = probe(&app, &config(&dir).transaction_timeout(longest), None);
    assert!(report.is_fit(), "{report}");
    let longer = config(&dir).transaction_timeout(longest + Duration::from_millis(1));
    let finding = the_error(&app, &longer, None, Clause::TransactionTimeout);
    assert!(finding.found.contains("is 120001, and"), "{finding}");
    assert!(
        finding.found.ends_with("of broker 1 is 120000"),
        "{finding}"
    );
    let running = start(longer, &app);
    wait_for(
        &running,
        "refused by the broker",
        |status| matches!(&status.workers[0].state, WorkerState::Retrying { message, .. } if message.contains("max.transaction.timeout.ms")),
    );
    running.stop();
    let running = start(config(&dir).transaction_timeout(longest), &app);
    wait_for_tasks(&running, 1);
    stop(&running);
}

/// What a broker does not show is not taken for short, nor for long.
#[test]
fn probe_notes_brokers_that_do_not_show_how_long_transactions_last() {
    let name = "probe-untold";
    joining_topics(name);
    let (app, dir) = (joining(name), tempfile::tempdir().unwrap());
    let longer = config(&dir).transaction_timeout(Duration::from_secs(121));
    let report = {
        let _denied = BROKER_SHOWN.write().unwrap_or_else(PoisonError::into_inner);
        let (resource, operation) = (Resource::Cluster, Operation::DescribeConfigs);
        broker().deny_one(resource, operation).unwrap();
        let report = probe_cluster(&app, &longer, None);
        broker().allow_one(resource, operation).unwrap();
        report.unwrap()
    };
    assert!(report.is_fit(), "{report}");
    let about = |note: &&Finding| note.clause == Clause::TransactionTimeout;
    let notes: Vec<&Finding> = report.findings.iter().filter(about).collect();
    assert_eq!(notes.len(), 1, "{report}");
    assert_eq!(notes[0].severity, Severity::Note);
    assert!(
        notes[0].found.contains("broker 1 does not show it"),
        "{report}"
    );
    // A broker that may take any time is not asked whether ids may be used either.
    let ids = |note: &&Finding| note.clause == Clause::TransactionalIds;
    let notes: Vec<&Finding> = report.findings.iter().filter(ids).collect();
    assert_eq!(notes.len(), 1, "{report}");
    assert_eq!(notes[0].severity, Severity::Note);
    the_error(&app, &longer, None, Clause::TransactionTimeout);
}

#[test]
fn every_clause_has_a_code_of_its_own_and_says_what_to_do() {
    let codes: std::collections::BTreeSet<&str> = Clause::ALL.iter().map(|of| of.code()).collect();
    assert_eq!(codes.len(), Clause::ALL.len());
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
    let page = std::fs::read_to_string(page).unwrap();
    for clause in Clause::ALL {
        assert!(clause.code().starts_with("probe-"));
        assert!(!clause.written().is_empty() && !clause.remedy().is_empty());
        assert!(page.contains(&format!("`{}`", clause.code())), "{clause:?}");
    }
    // Its tests are here.
    let is_test =
        |word: &&str| word.starts_with("probe_finds_") || word.starts_with("probe_notes_");
    let tests: Vec<&str> = page.split('`').filter(is_test).collect();
    assert!(tests.len() > Clause::ALL.len());
    for test in tests {
        assert!(
            include_str!("probe.rs").contains(&format!("fn {test}()")),
            "{test}"
        );
    }
}

/// The file that a service prints is that which the command reads.
#[test]
fn an_application_and_its_description_are_the_same() {
    let (orders, seen) = (text_topic("orders"), text_topic("seen"));
    let sink = seen.clone();
    let watch = Stage::stateless("watch")
        .sink(&seen)
        .on(&orders, move |message, out| {
            out.send(&sink, &message.key, &message.value)
        })
        .ticks(Duration::from_secs(60), codec::u64(), |_, _, _| Ok(()))
        .build()
        .unwrap();
    let count = Stage::stateful("count", codec::string(), codec::u64())
        .on(&seen, |count, _, _| {
            *count += 1;
            Ok(())
        })
        .build()
        .unwrap();
    let app = App::named("shop")
        .stage(watch)
        .stage(count)
        .build()
        .unwrap();
    let description = Description::of(&app);
    let text = description.to_string();
    let read = Description::from_toml(&text).unwrap();
    assert_eq!(read, description, "{text}");
    let same = read.app().unwrap();
    assert_eq!(Description::of(&same), description);
    assert_eq!(same.topics(), app.topics());
    assert!(app.topics().contains("shop-watch-ticks"));
    assert!(!text.contains("-ticks"), "{text}");
}
