//! `parsley demo --brokers --status`: the same page, on a cluster.

use crate::on_kafka_demo::Place;
use crate::status_page::{Shown, assert_missing_commands_are_named};

#[test]
fn the_page_names_the_commands_that_are_missing_on_a_cluster_too() {
    let place = Place::new();
    let further = ["--create-topics", "--status", "0", "--withhold", "3600"];
    let demo = Shown::start(&place.arguments(&further));
    assert_missing_commands_are_named(demo, "kafka");
}
