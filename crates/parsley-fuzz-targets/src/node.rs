//! A node that meets headers of records and stored state which nobody vouches for.

use std::collections::BTreeSet;

use bytes::Bytes;
use parsley_core::layout::StateKey;
use parsley_core::wire::{self, CorruptHeaders, ProtocolHeaders};
use parsley_core::{
    Channel, Clock, Header, MemoryStore, Node, NodeConfig, NodeError, NodeLimits, OpenFacts,
    Receipt, Record, RefusalCode, Scope, SenderId, Sink, StateStore, TopicId,
};
use parsley_stage::CausalClock;

use crate::parts::Parts;

const A: Channel = channel(1);
const B: Channel = channel(2);

const fn channel(lsb: i64) -> Channel {
    let topic = TopicId(parsley_core::Id { msb: 0, lsb });
    Channel {
        topic,
        partition: 0,
    }
}

fn config(inputs: Vec<Channel>, sinks: Vec<Sink>) -> NodeConfig {
    NodeConfig {
        sender: SenderId::of_task("shop", "settle", 0),
        inputs,
        sinks,
        limits: NodeLimits::default(),
    }
}

fn headers_of(parts: &mut Parts<'_>) -> Vec<Header> {
    let mut headers = Vec::new();
    while !parts.is_empty() && headers.len() < 16 {
        let name = match parts.byte() {
            0 => Bytes::from_static(b"vc"),
            1 => Bytes::from_static(b"vc-sender"),
            2 => Bytes::from_static(b"vc-seq"),
            3 => Bytes::from_static(b"vc-"),
            length => Bytes::copy_from_slice(parts.take(usize::from(length - 4) % 8)),
        };
        let value = parts.nullable();
        headers.push(Header { name, value });
    }
    headers
}

/// Protocol headers are read alike by whoever reads them: read or taken, by a client and by a node. A node refuses what it cannot read with
/// the code of what is wrong, and what it takes it delivers or holds, also when it is begun anew.
pub fn headers(bytes: &[u8]) {
    let headers = headers_of(&mut Parts(bytes));
    let read = ProtocolHeaders::read(&headers);
    let mut left = headers.clone();
    let taken = ProtocolHeaders::take(&mut left);
    assert_eq!(read, taken);
    match &taken {
        Ok(_) => {
            let applications = headers
                .iter()
                .filter(|header| !wire::is_reserved(&header.name));
            assert!(
                left.iter().eq(applications),
                "what is left is the application's"
            );
        }
        Err(_) => assert_eq!(left, headers, "as they stood"),
    }
    let clock = read.as_ref().map_err(Clone::clone).and_then(|read| {
        let clock = read.clock.as_deref().map(wire::decode).transpose()?;
        Ok(clock.map_or_else(Clock::new, wire::Decoded::into_clock))
    });
    let mut client = CausalClock::new();
    assert_eq!(client.observe(A, 7, &headers).is_ok(), clock.is_ok());
    match &clock {
        Ok(clock) => assert!(client.claims().dominates(clock)),
        Err(_) => assert!(client.is_empty(), "nothing of it is taken up"),
    }
    if let (
        Ok(ProtocolHeaders {
            sender: Some((sender, sequence)),
            ..
        }),
        Ok(clock),
    ) = (&read, &clock)
    {
        let stamped = wire::stamp_headers(wire::encode(clock).into(), *sender, *sequence);
        let again = ProtocolHeaders::read(&stamped).expect("a stamp");
        assert_eq!(again.sender, Some((*sender, *sequence)));
    }
    fed(headers, left, clock);
}

fn fed(headers: Vec<Header>, applications: Vec<Header>, clock: Result<Clock, CorruptHeaders>) {
    let mut store = MemoryStore::new();
    let open = |store: &mut MemoryStore| {
        let (node, _) = Node::open(config(vec![A, B], vec![]), &OpenFacts::default(), store)
            .expect("what a node has written");
        node
    };
    let mut node = open(&mut store);
    let record = Record {
        channel: A,
        offset: 7,
        timestamp_ms: -1,
        key: None,
        value: Some(Bytes::from_static(b"v")),
        headers,
    };
    let clock = match (node.receive(record), clock) {
        (Ok(receipt), Ok(clock)) => {
            assert_ne!(receipt, Receipt::Dropped);
            clock
        }
        (Err(NodeError::Refused(refusal)), Err(why)) => {
            let code = match why {
                CorruptHeaders::Clock(_) => RefusalCode::CorruptClock,
                _ => RefusalCode::CorruptSender,
            };
            assert_eq!(
                (refusal.code, refusal.channel, refusal.offset),
                (code, Some(A), Some(7))
            );
            return;
        }
        (received, clock) => {
            panic!("the node answers {received:?} to what is read as {clock:?}")
        }
    };
    let waits = clock.offset(B).is_some() || !clock.sequences_on(B).is_empty();
    let delivered = node.next_delivery(&store).expect("a store in memory");
    assert_eq!(delivered.is_none(), waits);
    node.commit(&[], &mut store).expect("a store in memory");
    let again = open(&mut store);
    assert_eq!(again.held(), u64::from(waits));
    if let Some(delivery) = delivered {
        assert_eq!(delivery.headers, applications);
    }
}

/// A node opens on the state that it is given, or refuses it as corrupt. What it opens on it writes so that it opens again and changes no
/// more, and it delivers from it in the order of the offsets.
pub fn state(bytes: &[u8]) {
    let mut parts = Parts(bytes);
    let mut store = MemoryStore::new();
    while !parts.is_empty() {
        let kind = parts.byte();
        let on = if kind & 8 == 0 { A } else { B };
        let key = match kind % 8 {
            0 => StateKey::Scope,
            1 => StateKey::Carried,
            2 => StateKey::Frontier(on),
            3 => StateKey::Advertised(on),
            4 => StateKey::QueueMeta(on),
            5 => StateKey::QueueEntry(on, u64::from(parts.byte())),
            6 => StateKey::SendSequence(on),
            _ => StateKey::DeliveredSequence(on, SenderId::of_task("shop", "sell", 0)),
        };
        let key = match kind & 0x40 {
            0 => key.to_bytes(),
            _ => parts.part().to_vec(),
        };
        let value = Bytes::copy_from_slice(parts.part());
        store.put(&key, value).expect("a store in memory");
    }
    let scope = match Scope::recorded(&store) {
        Ok(scope) => scope.unwrap_or_default(),
        Err(error) => return refused_as_corrupt(&error, &store),
    };
    let sinks: Vec<Sink> = scope
        .sinks
        .iter()
        .map(|&topic| Sink {
            topic,
            partitions: 1,
        })
        .collect();
    let open = |store: &mut MemoryStore| {
        let config = config(scope.channels.clone(), sinks.clone());
        Node::open(config, &OpenFacts::default(), store)
    };
    let mut node = match open(&mut store) {
        Ok((node, opened)) => {
            assert!(opened.joined.is_empty() || Scope::recorded(&store).is_ok());
            node
        }
        Err(error) => return refused_as_corrupt(&error, &store),
    };
    node.commit(&[], &mut store).expect("a store in memory");
    let written = store.clone();
    let (mut node, _) = open(&mut store).expect("what a node has written");
    node.commit(&[], &mut store).expect("a store in memory");
    assert_eq!(store, written, "nothing has happened since");

    let (mut node, _) = open(&mut store).expect("what a node has written");
    let held = node.held();
    let mut last: std::collections::BTreeMap<Channel, i64> = std::collections::BTreeMap::new();
    let mut delivered = 0;
    while let Some(delivery) = node.next_delivery(&store).expect("what was read before") {
        let before = last.insert(delivery.channel, delivery.offset);
        assert!(before < Some(delivery.offset));
        delivered += 1;
    }
    assert_eq!(node.held(), held - delivered);
    node.commit(&[], &mut store).expect("a store in memory");
    let (node, _) = open(&mut store).expect("what a node has written");
    assert_eq!(node.held(), held - delivered);
}

fn refused_as_corrupt(error: &NodeError, store: &MemoryStore) {
    let NodeError::Refused(refusal) = error else {
        panic!("state is refused, and is no error of another kind: {error}");
    };
    assert_eq!(refusal.code, RefusalCode::CorruptState, "{refusal}");
    let keys: BTreeSet<String> = store
        .iter()
        .map(|(key, _)| format!("{:?}", String::from_utf8_lossy(key)))
        .collect();
    let text = refusal.to_string();
    assert!(
        keys.iter().any(|key| text.contains(key)) || text.contains("/m\""),
        "it names its key: {text}"
    );
}
