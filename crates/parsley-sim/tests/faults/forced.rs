//! P1 written by force: the log that no sender with rounds can write, appended by hand, and what a receiver says of it.

use bytes::Bytes;
use parsley_core::{
    Channel, Clock, HoldCode, MemoryStore, Node, NodeConfig, NodeLimits, OpenFacts, Receipt,
    Record, SenderId, SequenceClaim, Staged, Wait, wire,
};
use parsley_sim::broker::{AppendMode, SimBroker};

/// A stamped send that claims at most one other send.
fn send(
    on: Channel,
    by: SenderId,
    claims: Option<(Channel, SenderId)>,
    value: &'static str,
) -> Record {
    let claims = claims.map(|(channel, sender)| SequenceClaim {
        channel,
        sender,
        sequence: 0,
    });
    let clock = Clock::from_claims([], claims);
    Record {
        channel: on,
        offset: 0,
        timestamp_ms: 0,
        key: None,
        value: Some(Bytes::from_static(value.as_bytes())),
        headers: wire::stamp_headers(wire::encode(&clock).into(), by, 0).to_vec(),
    }
}

/// A head as a report names it: its place, how many wait behind it, and the sends that it waits for.
type Named = (Channel, i64, u64, Vec<(Channel, SenderId, HoldCode)>);

#[test]
fn p1_written_by_force_is_reported_as_a_contradiction_by_name() {
    let mut broker = SimBroker::new(AppendMode::Atomic);
    let c = broker.create_topic("c", 1).partition(0);
    let d = broker.create_topic("d", 1).partition(0);
    let paul = SenderId::of_task("sim", "paul", 0);
    let quentin = SenderId::of_task("sim", "quentin", 0);
    // Paul stamps y for c, then b for d; Quentin stamps z for d, then w for c. Appended are c = [w, y] and d = [b, z].
    for record in [
        send(c, quentin, Some((d, quentin)), "w"),
        send(c, paul, None, "y"),
        send(d, paul, Some((c, paul)), "b"),
        send(d, quentin, None, "z"),
    ] {
        broker.append(record, None).expect("both topics exist");
    }
    let config = NodeConfig {
        sender: SenderId::of_task("sim", "both", 0),
        inputs: vec![c, d],
        sinks: Vec::new(),
        limits: NodeLimits::default(),
    };
    let facts = OpenFacts {
        start: [(c, 0), (d, 0)].into(),
        ..OpenFacts::default()
    };
    let mut store = Staged::over(MemoryStore::new());
    let (mut node, _) = Node::open(config, &facts, &mut store).expect("a first start");
    for channel in [c, d] {
        let fetched = broker.fetch(channel, 0, 10).expect("all is kept");
        assert_eq!(fetched.records.len(), 2);
        for record in fetched.records {
            let receipt = node.receive(record).expect("no refusal");
            assert_eq!(receipt, Receipt::Accepted);
        }
        node.advance(channel, fetched.next)
            .expect("the next position");
    }
    let first = node.next_delivery(&store).expect("no refusal");
    assert_eq!(first, None, "nobody can go first");
    assert_eq!(node.held(), 4);

    let name = |wait: &Wait| match wait {
        Wait::Sequence { claim, code, .. } => Some((claim.channel, claim.sender, *code)),
        Wait::Offset { .. } => None,
    };
    let mut named: Vec<Named> = node
        .holds()
        .iter()
        .map(|hold| {
            let waits = hold
                .waits
                .iter()
                .map(|wait| name(wait).expect("by sequence"));
            (hold.channel, hold.offset, hold.behind, waits.collect())
        })
        .collect();
    let mut expected = vec![
        // w, with y behind it, waits for z; and z stands behind b, which waits for y.
        (c, 0, 1, vec![(d, quentin, HoldCode::SenderUnseen)]),
        (d, 0, 1, vec![(c, paul, HoldCode::SenderUnseen)]),
    ];
    named.sort_by_key(|&(channel, ..)| channel);
    expected.sort_by_key(|&(channel, ..)| channel);
    assert_eq!(named, expected);

    // Nor does evidence help: what the heads wait for was fed and is held.
    let mark = node.mark();
    let high = |channel| broker.high_watermark(channel).expect("it exists");
    let watermarks = [(c, high(c)), (d, high(d))].into();
    node.watermarks(&mark, &watermarks)
        .expect("an answer to its own mark");
    let first = node.next_delivery(&store).expect("no refusal");
    assert_eq!(first, None, "evidence frees nobody");
    assert_eq!(node.held(), 4);
}
