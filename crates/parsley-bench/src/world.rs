//! Channels, records and nodes as the benchmarks need them.

use std::sync::LazyLock;

use bytes::Bytes;
use parsley_core::{
    Channel, Clock, Header, MemoryStore, Node, NodeConfig, NodeLimits, Offset, OpenFacts, Record,
    SenderId, Sink, TopicId, wire,
};

/// Partitions of each topic that channels are taken from.
const PARTITIONS: i32 = 4;
const VALUE: [u8; 100] = [b'v'; 100];

/// `count` channels in channel order, four of each topic.
pub fn channels(count: usize) -> Vec<Channel> {
    let topics = (0..).map(|number| TopicId::of_name(&format!("topic {number}")));
    let mut channels: Vec<Channel> = topics
        .flat_map(|topic| (0..PARTITIONS).map(move |partition| topic.partition(partition)))
        .take(count)
        .collect();
    channels.sort_unstable();
    channels
}

/// The one channel that the nodes send to.
pub fn sink() -> Channel {
    // The hash of a name takes longer than a stamp.
    static SINK: LazyLock<Channel> = LazyLock::new(|| TopicId::of_name("sink").partition(0));
    *SINK
}

/// A record as a plain producer writes it: no protocol headers, a value of 100 bytes.
pub fn plain(channel: Channel, offset: Offset) -> Record {
    Record {
        channel,
        offset,
        timestamp_ms: 1_700_000_000_000 + offset,
        key: Some(Bytes::copy_from_slice(&offset.to_be_bytes())),
        value: Some(Bytes::from_static(&VALUE)),
        headers: Vec::new(),
    }
}

/// A record as a node sends it, with its three protocol headers. One sender fills the channel, so its sequences are the offsets.
pub fn stamped(channel: Channel, offset: Offset, clock: &Clock) -> Record {
    let sender = SenderId::of_name("upstream");
    let headers: [Header; 3] = wire::stamp_headers(wire::encode(clock).into(), sender, offset);
    Record {
        headers: headers.into(),
        ..plain(channel, offset)
    }
}

/// A node over an empty store that receives these channels and sends to [`sink`].
pub fn node(inputs: &[Channel], store: &mut MemoryStore) -> Node {
    let (node, _) = Node::open(config(inputs), &OpenFacts::default(), store)
        .expect("an empty store opens under any declaration");
    node
}

/// What such a node is declared to be.
pub fn config(inputs: &[Channel]) -> NodeConfig {
    NodeConfig {
        sender: SenderId::of_task("bench", "stage", 0),
        inputs: inputs.to_vec(),
        sinks: vec![Sink {
            topic: sink().topic,
            partitions: 1,
        }],
        limits: NodeLimits::default(),
    }
}
