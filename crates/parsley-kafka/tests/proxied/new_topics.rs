//! Topics that one broker knows and another does not know yet.

use parsley_stage::{App, Stage};

use crate::world::*;

/// A start makes the changelogs of its stages and asks for their settings. Found on two brokers: the one that was asked did not know the topic yet, and
/// `rdkafka` left that out and told of a topic without settings, so that now and then a start was refused for a changelog with
/// `cleanup.policy=` nothing. Of six runs of this test before that was mended, three met it.
#[test]
fn a_changelog_that_not_every_broker_knows_yet_is_waited_for() {
    let name = "new-changelogs";
    let input = text_topic("new-changelogs-in");
    create_topic(input.name(), 1);
    let mut app = App::named(name);
    for number in 0..16 {
        let stage = Stage::stateless(format!("stage{number}"))
            .on(&input, |_, _| Ok(()))
            .build();
        app = app.stage(stage.unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let running = start(config(&dir), &app.build().unwrap());
    wait_for_tasks(&running, 16);
    stop(&running);
}
