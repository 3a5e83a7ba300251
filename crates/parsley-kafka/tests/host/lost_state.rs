//! B22: state without what it came from. What can be told is refused; what cannot stands in `docs/operations.md`.

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
    for _ in 0..3 {
        let running = start(config(&dir), &app);
        Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
        wait_for_deliveries(&running, 1);
        stop(&running);
    }
    (app, words, counted, dir)
}

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
