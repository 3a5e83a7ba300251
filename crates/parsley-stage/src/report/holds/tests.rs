use std::collections::BTreeSet;

use parsley_core::{
    Clock, Header, MemoryStore, Node, NodeConfig, NodeLimits, OffsetClaim, OpenFacts, Record, wire,
};
use proptest::prelude::*;
use serde_json::json;

use super::*;

const NAMES: [&str; 4] = ["accounts", "orders", "payments", "views"];

fn channel(number: usize) -> Channel {
    TopicId::of_name(NAMES[number]).partition(0)
}

fn sender(number: usize) -> SenderId {
    SenderId::of_name(["ann", "bob"][number])
}

fn names() -> BTreeMap<TopicId, &'static str> {
    NAMES.map(|name| (TopicId::of_name(name), name)).into()
}

fn node(store: &mut MemoryStore) -> Node {
    let mut inputs: Vec<Channel> = (0..NAMES.len()).map(channel).collect();
    inputs.sort_unstable();
    let config = NodeConfig {
        sender: SenderId::of_name("consumer"),
        inputs,
        sinks: vec![],
        limits: NodeLimits::default(),
    };
    let (node, _) = Node::open(config, &OpenFacts::default(), store).expect("nothing is committed");
    node
}

fn explained(node: &Node) -> Vec<HoldReport> {
    let held = Held {
        stage: "settle",
        holds: &node.holds(),
        names: &names(),
    };
    held.explain(|claim| node.is_held(claim), |_, _| 0)
}

fn record(
    channel: Channel,
    offset: Offset,
    clock: &Clock,
    sent: Option<(SenderId, i64)>,
) -> Record {
    let encoded = wire::encode(clock);
    let headers = match sent {
        Some((sender, sequence)) => wire::stamp_headers(encoded.into(), sender, sequence).to_vec(),
        None => vec![Header::new(wire::CLOCK_HEADER, encoded)],
    };
    Record {
        channel,
        offset,
        timestamp_ms: 0,
        key: None,
        value: None,
        headers,
    }
}

/// Takes in what is given and delivers what can be.
fn run(records: Vec<Record>) -> Node {
    let mut store = MemoryStore::new();
    let mut node = node(&mut store);
    for record in records {
        node.receive(record).expect("a record that can be read");
    }
    while node.next_delivery(&store).expect("memory").is_some() {}
    node
}

/// One record each of views, payments and orders: the view waits for the payment, that for the order, and that for the account, which is not
/// there.
fn chain() -> Vec<Record> {
    let mut records = Vec::new();
    for cause in (0..3).rev() {
        let mut clock = Clock::new();
        clock.claim_offset(channel(cause), 0);
        records.push(record(channel(cause + 1), 0, &clock, None));
    }
    records
}

#[test]
fn a_chain_leads_to_the_record_that_is_missing() {
    let reports = explained(&run(chain()));
    let view = reports.iter().find(|hold| hold.place.topic == "views");
    let view = view.expect("it is held");
    assert_eq!(view.waits[0].code, HoldCode::HeldUpstream);
    let [missing] = &view.missing[..] else {
        panic!("one is missing: {:?}", view.missing);
    };
    assert_eq!(missing.to_string(), "accounts:0@0");
    let path: Vec<String> = missing
        .path
        .iter()
        .map(|hop| format!("{}@{}", hop.place, hop.offset))
        .collect();
    assert_eq!(path, ["payments:0@0", "orders:0@0"]);
    let order = reports.iter().find(|hold| hold.place.topic == "orders");
    assert_eq!(order.expect("it is held").missing[0].path, []);
}

/// The view waits for a payment and an order, both wait for the account, and that for a send that is not here.
#[test]
fn of_two_ways_to_a_record_the_first_is_told() {
    let claiming = |offsets: &[usize], sequences: &[(usize, i64)]| {
        let mut clock = Clock::new();
        for number in offsets {
            clock.claim_offset(channel(*number), 0);
        }
        for (number, sequence) in sequences {
            clock.claim_sequence(channel(*number), sender(0), *sequence);
        }
        clock
    };
    let reports = explained(&run(vec![
        record(channel(0), 0, &claiming(&[], &[(1, 3)]), None),
        record(channel(1), 0, &claiming(&[0], &[]), None),
        record(channel(2), 0, &claiming(&[0], &[]), None),
        record(channel(3), 0, &claiming(&[1, 2], &[]), None),
    ]));
    let view = reports.iter().find(|hold| hold.place.topic == "views");
    let view = view.expect("it is held");
    let [missing] = &view.missing[..] else {
        panic!("one is missing: {:?}", view.missing);
    };
    assert_eq!(missing.place.topic, "orders");
    let path: Vec<&Place> = missing.path.iter().map(|hop| &hop.place).collect();
    assert_eq!(path[0], &view.waits[0].place);
    assert_eq!((path.len(), &*path[1].topic), (2, "accounts"));
}

/// A send may be held as well: the code of a wait for it does not tell.
#[test]
fn a_send_that_is_held_is_followed_and_one_that_is_not_is_missing() {
    let (mut on_account, mut on_send) = (Clock::new(), Clock::new());
    on_account.claim_offset(channel(0), 0);
    on_send.claim_sequence(channel(1), sender(0), 1);
    let sent = |offset| {
        let sent = Some((sender(0), offset));
        record(channel(1), offset, &on_account, sent)
    };
    let waits = record(channel(2), 0, &on_send, None);
    let of = |records| {
        let reports = explained(&run(records));
        let found = reports
            .into_iter()
            .find(|hold| hold.place.topic == "payments");
        let hold = found.expect("it is held");
        assert_eq!(hold.waits[0].code, HoldCode::SenderUnseen);
        hold.missing
    };
    let [missing] = &of(vec![sent(0), sent(1), waits.clone()])[..] else {
        panic!("one is missing");
    };
    assert_eq!(missing.to_string(), "accounts:0@0");
    assert_eq!(missing.path[0].place.topic, "orders");
    let [missing] = &of(vec![sent(0), waits])[..] else {
        panic!("one is missing");
    };
    let (sender, sequence) = (sender(0), 1);
    assert_eq!(missing.record, MissingRecord::Sequence { sender, sequence });
    assert_eq!(missing.path, []);
}

/// Clocks that no node has made: two records that claim each other.
#[test]
fn a_cycle_leads_nowhere_and_ends() {
    let mut records = Vec::new();
    for (number, other) in [(0, 1), (1, 0)] {
        let mut clock = Clock::new();
        clock.claim_offset(channel(other), 0);
        records.push(record(channel(number), 0, &clock, None));
    }
    let reports = explained(&run(records));
    assert_eq!(reports.len(), 2);
    for hold in reports {
        assert_eq!(hold.waits.len(), 1);
        assert_eq!(hold.missing, []);
    }
}

/// What stands here is read by other programs.
#[test]
fn a_hold_has_these_names_in_json() {
    let mut clock = Clock::new();
    clock.claim_offset(channel(0), 4);
    clock.claim_sequence(channel(1), sender(1), 3);
    let holds = Holds {
        holds: explained(&run(vec![record(channel(2), 7, &clock, None)])),
    };
    let [accounts, orders, payments] =
        [0, 1, 2].map(|number| TopicId::of_name(NAMES[number]).to_string());
    let bob = sender(1).to_string();
    let expected = json!({"holds": [{
        "stage": "settle", "topic": "payments", "topic_id": payments, "partition": 0, "offset": 7, "behind": 0, "age_ms": 0,
        "waits": [
            {"code": "vc-hold-not-fetched", "topic": "accounts", "topic_id": accounts, "partition": 0, "offset": 4, "settled": null},
            {"code": "vc-hold-sender-unseen", "topic": "orders", "topic_id": orders, "partition": 0, "sender": bob, "sequence": 3,
             "delivered": null},
        ],
        "missing": [
            {"topic": "accounts", "topic_id": accounts, "partition": 0, "offset": 4, "path": []},
            {"topic": "orders", "topic_id": orders, "partition": 0, "sender": bob, "sequence": 3, "path": []},
        ],
    }]});
    assert_eq!(serde_json::to_value(&holds).expect("plain data"), expected);
    assert_eq!(holds.of_task("settle", 0).count(), 1);
    assert_eq!(holds.of_task("settle", 1).count(), 0);
}

#[test]
fn a_hold_reads_as_a_sentence() {
    let mut clock = Clock::new();
    clock.claim_offset(channel(1), 9);
    clock.claim_sequence(channel(0), sender(0), 1);
    let held = [7, 8, 9, 10].map(|offset| record(channel(2), offset, &clock, None));
    let bare = |offset| record(channel(1), offset, &Clock::new(), None);
    let mut records = vec![bare(3), bare(4)];
    records.extend(held);
    let node = run(records);
    let reports = explained(&node);
    let holds: Vec<Hold> = reports.iter().map(HoldReport::to_hold).collect();
    assert_eq!(holds, node.holds());
    let ann = sender(0);
    assert_eq!(
        reports[0].to_string(),
        format!(
            "payments:0@7 (3 more behind it) waits for orders:0 up to 9, settled up to 4 (vc-hold-not-fetched) and for \
             accounts:0, sends of {ann} up to 1, none of which was delivered (vc-hold-sender-unseen)"
        )
    );
    let missing: Vec<String> = reports[0].missing.iter().map(Missing::to_string).collect();
    assert_eq!(
        missing,
        [
            "orders:0@9".to_owned(),
            format!("accounts:0, send 1 of {ann}")
        ]
    );
}

/// One record of a history: its channel, whether a sender numbers it, and which of those before it it came of, by offset or by sequence.
type Drawn = (usize, Option<usize>, Vec<(prop::sample::Index, bool)>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let causes = prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..4);
    (0..NAMES.len(), prop::option::of(0..2_usize), causes)
}

/// The records of a history in its order: what has happened before says where each stands and what it can claim.
fn history(drawn: &[Drawn]) -> Vec<Record> {
    let (mut next, mut sequences) = ([0; NAMES.len()], BTreeMap::new());
    let mut past: Vec<(OffsetClaim, Option<SequenceClaim>)> = Vec::new();
    let mut records = Vec::new();
    for (number, from, causes) in drawn {
        let mut clock = Clock::new();
        for (cause, by_sequence) in causes.iter().filter(|_| !past.is_empty()) {
            match past[cause.index(past.len())] {
                (_, Some(claim)) if *by_sequence => {
                    clock.claim_sequence(claim.channel, claim.sender, claim.sequence)
                }
                (claim, _) => clock.claim_offset(claim.channel, claim.offset),
            };
        }
        let (channel, offset) = (channel(*number), next[*number]);
        next[*number] += 1;
        let sent = from.map(|from| {
            let sequence = sequences.entry((channel, from)).or_insert(-1);
            *sequence += 1;
            SequenceClaim {
                channel,
                sender: sender(from),
                sequence: *sequence,
            }
        });
        let numbered = sent.map(|sent| (sent.sender, sent.sequence));
        records.push(record(channel, offset, &clock, numbered));
        past.push((OffsetClaim { channel, offset }, sent));
    }
    records
}

proptest! {
    /// Of any history, taken in as far as it likes: every head that waits leads to a record that is missing, and none of those was taken in.
    #[test]
    fn every_chain_ends_at_a_record_that_is_not_here(
        drawn in prop::collection::vec(drawn(), 1..40),
        ends in prop::array::uniform4(0..12_i64),
    ) {
        let records = history(&drawn);
        let taken: Vec<Record> = records
            .into_iter()
            .filter(|record| {
                let number = (0..NAMES.len()).find(|number| channel(*number) == record.channel);
                record.offset < ends[number.expect("one of them")]
            })
            .collect();
        let mut here = BTreeSet::new();
        for record in &taken {
            here.insert((record.channel, MissingRecord::Offset { offset: record.offset }));
            let headers = wire::ProtocolHeaders::read(&record.headers).expect("they were written");
            if let Some((sender, sequence)) = headers.sender {
                here.insert((record.channel, MissingRecord::Sequence { sender, sequence }));
            }
        }
        let node = run(taken);
        let reports = explained(&node);
        prop_assert_eq!(reports.len(), node.heads().count());
        for hold in reports {
            prop_assert!(!hold.waits.is_empty(), "a drain leaves what waits: {}", hold);
            prop_assert!(!hold.missing.is_empty(), "{}", hold);
            for missing in &hold.missing {
                prop_assert!(!here.contains(&(missing.place.channel(), missing.record)), "{} for {}", missing, hold);
                let mut hops = BTreeSet::from([hold.place.channel()]);
                for hop in &missing.path {
                    prop_assert!(hops.insert(hop.place.channel()), "twice on the way");
                    prop_assert!(node.heads().any(|(channel, offset, _)| (channel, offset) == (hop.place.channel(), hop.offset)));
                }
            }
        }
    }
}
