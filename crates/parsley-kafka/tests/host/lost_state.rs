//! B22, and B01, B02 and B12 at changelogs: state without what it came from. What can be told is refused; what cannot stands in `docs/operations.md`.

use parsley_kafka::{Record, TaskState};

use crate::joining::*;
use crate::world::*;

const STATE: &str = "state-changelog";
const FOLD: &str = "fold-changelog";

/// Counts words up to three, and stops.
fn counted_to_three(name: &str) -> (parsley_stage::App, String, String, tempfile::TempDir) {
    let (app, words, counted) = wordcount(name);
    for topic in [&words, &counted] {
        create_topic(topic, 1);
    }
    let dir = tempfile::tempdir().unwrap();
    let (running, plain) = (start(config(&dir), &app), Foreign::plain());
    // Each in a step of its own.
    for count in 1..=3 {
        plain.append(&words, To::Key, &[("word", "seen")]);
        wait_for_deliveries(&running, count);
    }
    stop(&running);
    (app, words, counted, dir)
}

/// Expects that the state is missed. Returns what was found.
fn is_refused(app: &parsley_stage::App, dir: &tempfile::TempDir) -> String {
    let running = start(config(dir), app);
    let (code, _) = wait_for_refusal(&running);
    let status = running.stop();
    let found = status.refused()[0].2.to_string();
    assert_eq!(code, "vc-state-lost", "{found}");
    found
}

/// Each of the two changelogs deleted alone, its positions kept, with the directory and without.
#[test]
fn b22_a_changelog_that_was_deleted_is_missed() {
    for (name, part) in [("lost-state", STATE), ("lost-fold", FOLD)] {
        let (app, words, counted, dir) = counted_to_three(name);
        let changelog = format!("{name}-count-{part}");
        delete_topic(&changelog);
        Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
        for dir in [dir, tempfile::tempdir().unwrap()] {
            is_refused(&app, &dir);
        }
        assert_eq!(counts(&counted)["word"], [1, 2, 3]);
    }
}

/// The positions and the ordering changelog are gone, the counts are not: a first start would go on from counts that it knows nothing of.
#[test]
fn b22_fold_state_without_ordering_state_is_missed() {
    let name = "lost-both";
    let (app, _, counted, _) = counted_to_three(name);
    delete_topic(&format!("{name}-count-{STATE}"));
    delete_group(&format!("{name}-count"));
    let found = is_refused(&app, &tempfile::tempdir().unwrap());
    assert!(found.contains("lost-both-count-fold-changelog"), "{found}");
    assert_eq!(counts(&counted)["word"], [1, 2, 3]);
    // Starting over is to delete all of it.
    delete_topic(&format!("{name}-count-{FOLD}"));
    let running = start(config(tempfile::tempdir().unwrap().path()), &app);
    wait_for_deliveries(&running, 3);
    stop(&running);
    assert_eq!(counts(&counted)["word"], [1, 2, 3, 1, 2, 3]);
}

/// The head of a changelog cut off by an admin tool: with the directory at hand nothing of it is needed; without, it cannot be read back.
#[test]
fn b22_a_changelog_whose_head_was_cut_off_is_missed_where_it_is_needed() {
    for (name, part) in [("cut-state", STATE), ("cut-fold", FOLD)] {
        let (app, words, counted, dir) = counted_to_three(name);
        let changelog = format!("{name}-count-{part}");
        // Records of a compacted topic cannot be deleted.
        set_topic(&changelog, "cleanup.policy", "delete");
        let (_, end) = bounds(&changelog, 0);
        delete_records(&changelog, 0, end / 2);
        set_topic(&changelog, "cleanup.policy", "compact");
        assert_eq!(bounds(&changelog, 0), (end / 2, end));
        Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
        let found = is_refused(&app, &tempfile::tempdir().unwrap());
        assert!(found.contains(&changelog), "{found}");
        let running = start(config(&dir), &app);
        wait_for_deliveries(&running, 1);
        stop(&running);
        assert_eq!(counts(&counted)["word"], [1, 2, 3, 4]);
    }
}

/// B01: changelogs that an admin has emptied, positions deleted: a restore has nothing to read, ends, and the application starts over.
#[test]
fn b01_emptied_changelogs_without_positions_are_a_first_start() {
    let name = "emptied";
    let (app, _, counted, _) = counted_to_three(name);
    for part in [STATE, FOLD] {
        let changelog = format!("{name}-count-{part}");
        set_topic(&changelog, "cleanup.policy", "delete");
        let (_, end) = bounds(&changelog, 0);
        delete_records(&changelog, 0, end);
        set_topic(&changelog, "cleanup.policy", "compact");
        assert_eq!(bounds(&changelog, 0), (end, end));
    }
    // With the positions there it is refused.
    is_refused(&app, &tempfile::tempdir().unwrap());
    delete_group(&format!("{name}-count"));
    let running = start(config(tempfile::tempdir().unwrap().path()), &app);
    wait_for_deliveries(&running, 3);
    stop(&running);
    assert_eq!(counts(&counted)["word"], [1, 2, 3, 1, 2, 3]);
}

/// B01: changelogs in which there is nothing but a run that somebody has aborted, and its marker: a restore ends behind it, with no state.
#[test]
fn b01_changelogs_of_nothing_but_an_aborted_run_hold_no_state() {
    let name = "only-aborted";
    let (app, words, counted) = wordcount(name);
    for topic in [&words, &counted] {
        create_topic(topic, 1);
    }
    let changelogs = [STATE, FOLD].map(|part| format!("{name}-count-{part}"));
    let foreign = Foreign::transactional("only-aborted-foreign");
    for changelog in &changelogs {
        create_topic_with(changelog, 1, &[("cleanup.policy", "compact")]);
        foreign.begin();
        foreign.append(changelog, To::Key, &[("k", "never"); 2]);
        foreign.abort();
        // The abort is answered before its marker stands in the partition.
        wait_until(changelog, || bounds(changelog, 0) == (0, 3));
    }
    let plain = Foreign::plain();
    // The second finds it in front of its state.
    for count in 1..=2 {
        let dir = tempfile::tempdir().unwrap();
        let running = start(config(&dir), &app);
        plain.append(&words, To::Key, &[("word", "seen")]);
        wait_for_deliveries(&running, 1);
        stop(&running);
        let expected: Vec<u64> = (1..=count).collect();
        assert_eq!(counts(&counted)["word"], expected);
    }
}

/// B02: in the changelog a dead writer's transaction is open, behind the hold of one record and in front of what its successor has committed since. What a
/// read-committed client sees ends before it: a start from there would go on from where the hold was written. It waits, until the dead writer's transaction
/// is over, and has both then.
#[test]
fn b02_what_is_committed_behind_an_open_transaction_belongs_to_the_state() {
    let name = "behind-open";
    let [x, b, out] = joining_topics(name);
    let (plain, cause) = (Foreign::plain(), channel(&x, 0));
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &joining(name));
    plain.append_with(&b, To::Key, ("k", "effect"), &stamp(&[(cause, 5)], 0));
    wait_until_held(&running, 1);
    let changelog = format!("{name}-join-{STATE}");
    let dead = Foreign::transactional("behind-open-join-dead-0");
    dead.begin();
    dead.append(&changelog, To::Partition(0), &[("k", "nonsense")]);
    let (_, opened) = bounds(&changelog, 0);
    plain.append(&x, To::Key, &[("k", "x0"), ("k", "x1"), ("k", "x2")]);
    wait_for_deliveries(&running, 3);
    stop(&running);
    assert_eq!(committed("behind-open-join", &x, 0), Some(3));

    // The dead writer's record, and all that its successor has written.
    let hidden = (bounds(&changelog, 0).1 - (opened - 1)) as u64;
    assert!(hidden > 1);
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &joining(name));
    let mut seen = 0;
    wait_for(&running, "waiting for the dead writer", |status| {
        for (.., task) in status.tasks() {
            let is_open = matches!(task.state, TaskState::Running | TaskState::Refused(_));
            assert!(task.steps == 0 && !is_open, "{task:#?}");
            // Everything before it is read, and no more comes.
            if let TaskState::Restoring { left, .. } = task.state {
                seen = if left == hidden { seen + 1 } else { 0 };
            }
        }
        seen >= 10
    });
    dead.abort();
    wait_for_tasks(&running, 1);
    plain.append(&x, To::Key, &[("k", "x3"), ("k", "x4"), ("k", "x5")]);
    wait_for_deliveries(&running, 4);
    stop(&running);
    let delivered = values(&out);
    assert_eq!(delivered[..5], ["x0", "x1", "x2", "x3", "x4"]);
    assert_eq!(delivered[5..], ["x5", "effect"]);
    assert_eq!(check_stamps(&out, name, "join", 1), [(0, 7)].into());
}

/// Deletes a changelog, and makes another of its name out of copies of records.
fn restore_into(changelog: &str, copies: &[Record]) {
    delete_topic(changelog);
    create_topic_with(changelog, 1, &[("cleanup.policy", "compact")]);
    Foreign::plain().append_copies(changelog, copies);
}

/// B12: the ordering changelog is made again while nothing runs, out of copies of what it had. What stands in the directory is of another topic, wherever that
/// ended: a copy of all goes on, one of less is behind the positions, though its log be as long as what was copied of the old one, or longer.
#[test]
fn b12_a_changelog_made_again_while_stopped_is_read_for_what_it_has() {
    for (name, times) in [("again-as-long", 1), ("again-longer-log", 2)] {
        let (app, words, counted, dir) = counted_to_three(name);
        let changelog = format!("{name}-count-{STATE}");
        let older = read(&changelog);
        let go_on = || {
            let running = start(config(&dir), &app);
            Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
            wait_for_deliveries(&running, 1);
            stop(&running);
        };
        go_on();
        let newer = read(&changelog);
        let length = times * (newer.last().unwrap().offset + 1);
        let copies = older.iter().cycle().take(length as usize);
        restore_into(&changelog, &copies.cloned().collect::<Vec<_>>());
        assert_eq!(bounds(&changelog, 0).1, length);
        let running = start(config(&dir), &app);
        assert_eq!(wait_for_refusal(&running).0, "vc-positions-ahead");
        running.stop();
        restore_into(&changelog, &newer);
        go_on();
        assert_eq!(counts(&counted)["word"], [1, 2, 3, 4, 5]);
        check_stamps(&counted, name, "count", 1);
    }
}

/// The fold changelog names no topics and no positions, so a copy of it cannot be told from any other: it is missed, its log shorter or longer.
#[test]
fn b12_a_fold_changelog_made_again_while_stopped_is_missed() {
    let name = "again-fold";
    let (app, _, counted, dir) = counted_to_three(name);
    let changelog = format!("{name}-count-{FOLD}");
    let records = read(&changelog);
    let longer = [&records[..]; 4].concat();
    for (copies, dir) in [
        (&records[..1], dir),
        (&longer, tempfile::tempdir().unwrap()),
    ] {
        restore_into(&changelog, copies);
        is_refused(&app, &dir);
    }
    assert_eq!(counts(&counted)["word"], [1, 2, 3]);
}

/// Each of the two changelogs is made again under a stage that runs: it is refused before it has a part of its state in one and a part in the other, or at
/// the latest by the next start.
#[test]
fn b12_a_changelog_made_again_while_it_runs_is_refused() {
    for (name, part, count) in [("again-run-state", STATE, 0), ("again-run-fold", FOLD, 40)] {
        let (app, words, counted, dir) = counted_to_three(name);
        let running = start(watchful(&dir), &app);
        wait_for_tasks(&running, 1);
        let changelog = format!("{name}-count-{part}");
        restore_into(&changelog, &[]);
        let junk = vec![("k", "of another"); count];
        Foreign::plain().append(&changelog, To::Partition(0), &junk);
        Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
        assert_eq!(wait_for_refusal(&running).0, "vc-identity-changed");
        running.stop();
        let before = counts(&counted);
        is_refused(&app, &dir);
        // It was counted on from the state that there was, or not at all.
        assert!([3, 4].contains(&before["word"].len()), "{before:?}");
        let expected: Vec<u64> = (1..=before["word"].len() as u64).collect();
        assert_eq!(before["word"], expected);
        assert_eq!(counts(&counted), before);
    }
}
