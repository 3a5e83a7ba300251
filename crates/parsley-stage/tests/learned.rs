//! What a host has learned of the log, and hands in between two steps.

mod support;

use std::collections::{BTreeMap, BTreeSet};

use parsley_core::{Channel, Header, RefusalCode, TopicId};
use parsley_stage::{Stage, Topic, codec};
use support::{Host, Log, by_sequence, claims};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

fn reading() -> Stage {
    Stage::stateless("reading")
        .on(&text("x"), |_, _| Ok(()))
        .on(&text("y"), |_, _| Ok(()))
        .build()
        .unwrap()
}

fn opened() -> (Host, Log) {
    let log = Log::new(&[("x", 1), ("y", 1)]);
    let mut host = Host::new(&reading());
    host.open(&log).unwrap();
    (host, log)
}

fn comes(host: &mut Host, log: &mut Log, topic: &str, headers: Vec<Header>) -> usize {
    log.produce(&text(topic), &"k".to_owned(), &"v".to_owned(), headers);
    let before = host.delivered.len();
    host.run(log, &["x", "y"]).unwrap();
    host.delivered.len() - before
}

#[test]
fn a_high_watermark_releases_what_waits_for_a_send_that_never_came() {
    let (mut host, mut log) = opened();
    let y = log.channel("y", 0);
    assert_eq!(comes(&mut host, &mut log, "y", Vec::new()), 1);
    // Of what is received later it knows nothing.
    let early = host.task().mark();
    assert_eq!(comes(&mut host, &mut log, "x", by_sequence(y, 3)), 0);
    host.task().watermarks(&early, &[(y, 1)].into()).unwrap();
    assert_eq!(host.step(&mut log, None).unwrap(), 0);
    let mark = host.task().mark();
    host.task().watermarks(&mark, &[(y, 1)].into()).unwrap();
    assert_eq!(host.step(&mut log, None).unwrap(), 1);
}

#[test]
fn what_waits_for_a_topic_that_is_gone_is_released() {
    let (mut host, mut log) = opened();
    let y = log.channel("y", 0);
    assert_eq!(comes(&mut host, &mut log, "x", claims(&[(y, 3)])), 0);
    host.task()
        .check(&BTreeMap::new(), &[y.topic].into())
        .unwrap();
    assert_eq!(host.step(&mut log, None).unwrap(), 1);
}

#[test]
fn records_that_were_deleted_before_they_were_delivered_stop_the_task() {
    let (mut host, mut log) = opened();
    let (x, y) = (log.channel("x", 0), log.channel("y", 0));
    assert_eq!(comes(&mut host, &mut log, "x", claims(&[(y, 3)])), 0);
    host.task()
        .check(&[(x, 0)].into(), &BTreeSet::new())
        .unwrap();
    let refused = host.task().check(&[(x, 1)].into(), &BTreeSet::new());
    let refused = refused.unwrap_err();
    let refusal = refused.refusal().expect("a guard refuses");
    assert_eq!(refusal.code, RefusalCode::PositionsLost);
    assert_eq!(refused.application(), None);
    assert_eq!(refused.without_words().to_string(), refused.to_string());
    assert!(
        host.task().process_next().is_err(),
        "it goes on with nothing"
    );
}

#[test]
fn what_is_deleted_is_claimed_no_more() {
    let (mut host, mut log) = opened();
    let [near, far, gone] = ["near", "far", "gone"].map(|name| TopicId::of_name(name).partition(0));
    let headers = claims(&[(near, 9), (far, 4), (gone, 7)]);
    assert_eq!(comes(&mut host, &mut log, "x", headers), 1);
    let claimed = |host: &mut Host| -> BTreeSet<Channel> {
        host.task().stamp_channels().into_iter().collect()
    };
    assert_eq!(claimed(&mut host), [near, far, gone].into());
    let below = [(near, 9), (far, 5)].into();
    host.task().truncate(&below, &[gone.topic].into()).unwrap();
    assert_eq!(claimed(&mut host), [near].into());
}
