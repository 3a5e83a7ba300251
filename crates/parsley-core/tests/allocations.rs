//! Counts allocations: the receive path reads clocks where they lie.

use allocation_counter::{AllocationInfo, measure};
use parsley_core::decide::{Causes, Settled, SettledView, Verdict, decide};
use parsley_core::wire::{self, Decoded};
use parsley_core::{
    Channel, Clock, MemoryStore, Node, NodeConfig, NodeLimits, Offset, OpenFacts, ReceivedChannels,
    Record, SenderId, Sink, Stamp, TopicId,
};

const WIDTH: i32 = 64;

fn channels() -> impl Iterator<Item = Channel> {
    (0..WIDTH).map(|i| TopicId::of_name(&format!("topic {}", i % 8)).partition(i / 8))
}

/// A clock of 48 offset claims and 16 sequence claims.
fn wide_clock() -> Clock {
    let mut clock = Clock::new();
    for (i, channel) in channels().enumerate() {
        if i % 4 == 0 {
            clock.claim_sequence(channel, SenderId::of_name("alice"), i as i64);
        } else {
            clock.claim_offset(channel, i as i64);
        }
    }
    assert_eq!(clock.width(), WIDTH as usize);
    clock
}

/// Everything was delivered up to position 100, and every sender's sequence up to 100.
struct Delivered;

impl SettledView for Delivered {
    fn settled(&self, _: usize) -> Settled {
        Settled::At(100)
    }
    fn delivered_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        Some(100)
    }
    fn fed_up_to(&self, _: usize) -> Option<Offset> {
        Some(100)
    }
    fn watermark(&self, _: usize) -> Option<Offset> {
        None
    }
    fn lowest_held_sequence(&self, _: usize, _: SenderId) -> Option<i64> {
        None
    }
}

fn none(info: AllocationInfo) -> bool {
    info.count_total == 0 && info.bytes_total == 0
}

#[test]
fn decode_decide_and_fold_at_width_64_allocate_nothing() {
    let bytes = wire::encode(&wide_clock());
    let received = ReceivedChannels::new(channels());
    let mut folded = wide_clock();
    let mut verdict = None;
    let counted = measure(|| {
        let Ok(Decoded::InOrder(clock)) = wire::decode(&bytes) else {
            return;
        };
        verdict = Some(decide(
            Causes::of(&clock, TopicId::of_name("own").partition(0)),
            &received,
            &Delivered,
        ));
        folded.merge(&clock);
    });
    assert_eq!(verdict, Some(Verdict::Deliverable), "all of it ran");
    assert!(none(counted), "{counted:?}");
    assert!(!none(measure(|| drop(wide_clock()))), "the counter counts");
}

#[test]
fn a_count_that_the_bytes_do_not_have_reserves_nothing() {
    let mut bytes = vec![wire::CLOCK_VERSION];
    bytes.extend_from_slice(&i32::MAX.to_be_bytes());
    let mut refused = false;
    let counted = measure(|| refused = wire::decode(&bytes).is_err());
    assert!(refused && none(counted), "{counted:?}");
}

/// Within a step, once its first records have made room: what a delivery allocates is what its stamp is sent in.
#[test]
fn a_record_with_four_claims_is_received_delivered_and_stamped_in_the_bytes_of_its_stamp() {
    let inputs: Vec<Channel> = channels().take(5).collect();
    let sink = TopicId::of_name("sink");
    let config = NodeConfig {
        sender: SenderId::of_task("app", "stage", 0),
        inputs: inputs.clone(),
        sinks: vec![Sink {
            topic: sink,
            partitions: 1,
        }],
        limits: NodeLimits::default(),
    };
    let mut store = MemoryStore::new();
    let (mut node, _) = Node::open(config, &OpenFacts::default(), &mut store).unwrap();
    for &channel in &inputs[1..] {
        node.advance(channel, 1000).unwrap();
    }
    let record = |offset: Offset| {
        let mut clock = Clock::new();
        for &channel in &inputs[1..] {
            clock.claim_offset(channel, offset);
        }
        let sender = SenderId::of_name("alice");
        Record {
            channel: inputs[0],
            offset,
            timestamp_ms: 0,
            key: Some("key".into()),
            value: Some("value".into()),
            headers: wire::stamp_headers(wire::encode(&clock).into(), sender, offset).into(),
        }
    };
    let mut sends: Vec<Stamp> = Vec::with_capacity(100);
    let mut handle = |node: &mut Node, record: Record, store: &MemoryStore| {
        node.receive(record).unwrap();
        let delivery = node.next_delivery(store).unwrap();
        assert!(delivery.is_some(), "its claims are met");
        sends.push(node.prepare_send(sink.partition(0)).unwrap());
        assert!(node.next_delivery(store).unwrap().is_none());
    };
    for offset in 0..10 {
        handle(&mut node, record(offset), &store);
    }
    node.commit(&[(sink.partition(0), 9)], &mut store).unwrap();
    for offset in 10..12 {
        handle(&mut node, record(offset), &store);
    }
    let records: Vec<Record> = (12..32).map(record).collect();
    let counted = measure(|| {
        for record in records {
            handle(&mut node, record, &store);
        }
    });
    assert_eq!(counted.count_total, 20, "{counted:?}");
    let last = sends.last().expect("there are sends");
    let claims = wire::decode(&last.clock).unwrap().into_clock();
    assert_eq!((claims.width(), claims.offset(inputs[4])), (6, Some(31)));
}
