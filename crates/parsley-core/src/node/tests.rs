//! How much a release costs, counted in heads looked at (`docs/faults.md`, B19). Time itself is for benchmarks.

use super::*;
use crate::store::MemoryStore;

const HELD: usize = 10_000;

fn channel(index: usize) -> Channel {
    TopicId::of_name("held").partition(index as i32)
}

fn cause() -> Channel {
    TopicId::of_name("cause").partition(0)
}

fn record(channel: Channel, offset: Offset, causes: &[(Channel, Offset)]) -> Record {
    let mut clock = Clock::new();
    for &(channel, offset) in causes {
        clock.claim_offset(channel, offset);
    }
    let headers = vec![Header::new(wire::CLOCK_HEADER, wire::encode(&clock))];
    Record {
        channel,
        offset,
        timestamp_ms: 0,
        key: None,
        value: None,
        headers,
    }
}

fn node(inputs: Vec<Channel>) -> (Node, MemoryStore) {
    let mut store = MemoryStore::new();
    let sender = SenderId::of_name("n");
    let config = NodeConfig {
        sender,
        inputs,
        sinks: Vec::new(),
        limits: NodeLimits::default(),
    };
    let (node, _) = Node::open(config, &crate::OpenFacts::default(), &mut store).expect("opens");
    (node, store)
}

fn drain(node: &mut Node, store: &MemoryStore) -> usize {
    std::iter::from_fn(|| node.next_delivery(store).expect("drains")).count()
}

#[test]
fn b19_ten_thousand_channels_that_wait_for_one_record_are_looked_at_twice_each() {
    let inputs = (0..HELD).map(channel).chain([cause()]).collect();
    let (mut node, store) = node(inputs);
    for index in 0..HELD {
        node.receive(record(channel(index), 0, &[(cause(), 0)]))
            .expect("is accepted");
        assert_eq!(drain(&mut node, &store), 0);
    }
    assert_eq!(
        node.drain.looks, HELD,
        "each head is looked at when it comes, and left alone then"
    );
    node.receive(record(cause(), 0, &[])).expect("is accepted");
    assert_eq!(drain(&mut node, &store), HELD + 1);
    assert_eq!(node.drain.looks, 2 * HELD + 1);
}

#[test]
fn b19_ten_thousand_records_on_one_channel_cost_one_look_until_they_are_released() {
    let (mut node, store) = node(vec![channel(0), cause()]);
    for offset in 0..HELD as Offset {
        node.receive(record(channel(0), offset, &[(cause(), 0)]))
            .expect("is accepted");
        assert_eq!(drain(&mut node, &store), 0);
    }
    assert_eq!(node.drain.looks, 1);
    node.receive(record(cause(), 0, &[])).expect("is accepted");
    assert_eq!(drain(&mut node, &store), HELD + 1);
    assert_eq!(node.drain.looks, HELD + 2);
}

#[test]
fn b19_a_head_with_many_causes_is_looked_at_once_for_each_and_goes_on_where_it_stopped() {
    let causes: Vec<(Channel, Offset)> = (1..=200).map(|index| (channel(index), 0)).collect();
    let (mut node, store) = node((0..=200).map(channel).collect());
    node.receive(record(channel(0), 0, &causes))
        .expect("is accepted");
    assert_eq!(drain(&mut node, &store), 0);
    for (met, &(cause, _)) in causes.iter().enumerate() {
        assert_eq!(node.inputs[0].head_met.offsets, met);
        node.receive(record(cause, 0, &[])).expect("is accepted");
        drain(&mut node, &store);
    }
    assert_eq!(node.held(), 0);
    assert_eq!(node.drain.looks, 1 + 2 * causes.len());
}
