//! Leaders of partitions that are lost, and the coordinators of groups and transactions among them.

use std::time::Duration;

use kafka_cluster::proxy::{Action, ApiKey, Requests};

use crate::load::Load;
use crate::three::*;
use crate::world::*;

/// The only broker with a sink's partition is away until a step has been given up for it, and comes back. Found here: the client that asks for the ends
/// of sinks had once been told that the partition has no leader, and said so from then on, for minutes, without asking; no task could open.
#[test]
fn a_sink_without_a_leader_is_found_again_when_it_has_one() {
    let three = Three::take();
    let name = "leaderless";
    create_on_all("leaderless-in", 1);
    create_on("leaderless-out", 3);
    let dir = tempfile::tempdir().unwrap();
    let mut config = config(&dir).transaction_timeout(Duration::from_secs(4));
    config.backoff_longest = Duration::from_millis(500);
    let running = start(config, &copying(name));
    wait_for_tasks(&running, 1);
    three.kill(3);
    wait_until_not_led_by(3, "leaderless-out", 0);
    Foreign::plain().append("leaderless-in", To::Key, &[("k", "v")]);
    // Not only the step fails, but the opening that follows.
    wait_for(&running, "without the end of the sink", |status| {
        says(status, "offsets of leaderless-out/0")
    });
    three.start(3);
    wait_for_deliveries(&running, 1);
    stop(&running);
    assert_eq!(values("leaderless-out"), ["v"]);
    check_stamps("leaderless-out", name, "copy", 1);
}

/// The broker that coordinates a stage's group ends in order between two steps, and stays away: the group has another coordinator at once, and the cluster names two brokers. The worker's
/// producer stayed with the one that it had sent positions to before (librdkafka's issue 5511), and its next step never ended: no effect came, and a stop gave the worker up.
#[test]
fn a_step_ends_though_the_coordinator_of_its_group_has_left_the_cluster() {
    let three = Three::take();
    let (input, output) = ("left-in", "left-out");
    create_on_all(input, 1);
    create_on_all(output, 1);
    let dir = tempfile::tempdir().unwrap();
    let config = config(&dir)
        .property("client.id", "left")
        .property("topic.metadata.refresh.interval.ms", "500")
        // As it is by default: three times as long as that otherwise, and a coordinator that was not asked for longer is looked for again.
        .property("metadata.max.age.ms", "900000");
    let running = start(config, &copying("left"));
    let foreign = Foreign::plain();
    foreign.append(input, To::Key, &[("k", "1")]);
    wait_until("the first", || values(output) == ["1"]);
    let positions = coordinating("left-copy");
    let coordinator = leader_of(POSITIONS, positions).unwrap();
    three.end_broker(coordinator).unwrap();
    wait_until_not_led_by(coordinator, POSITIONS, positions);
    // Every client of the worker has been told who is left.
    let proxy = three.proxy().unwrap();
    let told = proxy.rule(
        Requests::of(ApiKey::METADATA).of_client("left"),
        Action::Watch,
    );
    told.wait_for_answers(20, BOUND).unwrap();
    foreign.append(input, To::Key, &[("k", "2")]);
    wait_until("the second", || values(output) == ["1", "2"]);
    foreign.append(input, To::Key, &[("k", "3")]);
    stop(&running);
    let again = start(self::config(&dir), &copying("left"));
    wait_until("the third", || values(output) == ["1", "2", "3"]);
    stop(&again);
    check_stamps(output, "left", "copy", 1);
}

/// Leaders are killed while steps run: that of a sink's partition, that of a changelog's, and the broker that coordinates the group. Each is away until
/// others have taken over and effects have gone on, and comes back. Found here: a worker whose client took the killed broker for the controller asked it
/// on and on which topics there are, and was stuck for as long as that was away.
#[test]
#[ignore = "takes a minute and more: cargo xtask nemesis"]
fn leaders_and_coordinators_are_killed_under_load() {
    let three = Three::take();
    let load = Load::begin("led", |mut config| {
        // Looked at all the time, so that the clients that look remember who led.
        config.check_interval = Duration::from_millis(200);
        config.transaction_timeout(Duration::from_secs(6))
    });
    for (topic, partition) in [
        ("led-counts", 0),
        ("led-count-state-changelog", 1),
        (POSITIONS, coordinating("led-count")),
    ] {
        let leader = leader_of(topic, partition).unwrap();
        three.kill(leader);
        wait_until_not_led_by(leader, topic, partition);
        load.wait_for_effects(200);
        three.start(leader);
    }
    println!("{} effects", load.end());
}
