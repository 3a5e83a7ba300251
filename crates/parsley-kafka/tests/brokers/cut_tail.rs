//! B22: a broker that comes back without the end of a changelog.

use std::fs;
use std::path::Path;

use rdkafka::admin::{NewTopic, TopicReplication};

use crate::three::*;
use crate::world::*;

/// The broker that has the changelogs.
const ALONE: u16 = 3;

/// Cuts a partition's log, in the files of a broker that does not run, in front of the first batch that begins at an offset or beyond.
fn cut(log: &Path, at: i64) {
    let bytes = fs::read(log).unwrap();
    let mut place = 0;
    // A batch is its first offset, and how long the rest of it is.
    while let Some((offset, behind)) = bytes[place..].split_first_chunk::<8>() {
        if i64::from_be_bytes(*offset) >= at {
            break;
        }
        let length = i32::from_be_bytes(*behind.first_chunk().unwrap());
        place += 12 + usize::try_from(length).unwrap();
    }
    assert!(place < bytes.len(), "nothing to cut");
    let file = fs::OpenOptions::new().write(true).open(log).unwrap();
    file.set_len(place as u64).unwrap();
}

/// The last step of each application is cut out of one of its two changelogs, the positions kept. Where the directory has what was cut, that is seen: for the
/// fold changelog it is the only sign that there is, and the host went on without it, from a count that was one too low. Without the directory the
/// ordering changelog is behind the positions.
#[test]
fn b22_a_changelog_whose_end_was_lost_is_missed() {
    let three = Three::take();
    let of_parts = ["state", "fold"].map(|part| {
        let name = format!("tail-{part}");
        let (app, words, counted) = wordcount(&name);
        for topic in [&words, &counted] {
            create_on_all(topic, 1);
        }
        let changelog = |part: &str| format!("{name}-count-{part}-changelog");
        for changelog in ["state", "fold"].map(changelog) {
            let placed = [&[i32::from(ALONE)][..]];
            let topic = NewTopic::new(&changelog, 1, TopicReplication::Variable(&placed));
            create(&changelog, &topic.set("cleanup.policy", "compact"));
        }
        let dir = tempfile::tempdir().unwrap();
        let mut end = 0;
        for count in [2, 1] {
            let running = start(config(&dir), &app);
            wait_for_tasks(&running, 1);
            for delivered in 1..=count {
                Foreign::plain().append(&words, To::Key, &[("word", "seen")]);
                wait_for_deliveries(&running, delivered);
            }
            stop(&running);
            if count == 2 {
                let changelog = changelog(part);
                wait_until("its markers", || {
                    stable_end(&changelog) == bounds(&changelog, 0).1
                });
                end = bounds(&changelog, 0).1;
            }
        }
        (app, counted, changelog(part), end, dir)
    });
    three.kill(ALONE);
    let data = three.data_folder(ALONE).unwrap();
    for (_, _, changelog, end, _) in &of_parts {
        let folder = data.join(format!("{changelog}-0"));
        cut(&folder.join("00000000000000000000.log"), *end);
    }
    three.start(ALONE);
    for (app, counted, changelog, end, dir) in &of_parts {
        wait_until("its leader", || leader_of(changelog, 0) == Some(ALONE));
        assert_eq!(bounds(changelog, 0).1, *end);
        // Each start sees it.
        for _ in 0..2 {
            let running = start(config(dir), app);
            assert_eq!(wait_for_refusal(&running).0, "vc-state-lost");
            let found = running.stop().refused()[0].2.to_string();
            assert!(found.contains(changelog), "{found}");
        }
        assert_eq!(counts(counted)["word"], [1, 2, 3]);
    }
    let (app, ..) = &of_parts[0];
    let running = start(config(tempfile::tempdir().unwrap()), app);
    assert_eq!(wait_for_refusal(&running).0, "vc-positions-ahead");
    running.stop();
}
