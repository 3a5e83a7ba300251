//! The causal delivery protocol as a pure state machine.
//!
//! [`Node`] is the protocol: it takes records and position advances, hands out deliveries in causal order, and stamps what is sent. It
//! knows no I/O, no clock, no thread and no randomness; hosts drive it. The rules are those of `docs/protocol.md`, each in the file that is
//! named after it:
//!
//! | Rule | Here |
//! |---|---|
//! | channels, senders and their order | [`Channel`], [`SenderId`], [`ReceivedChannels`] |
//! | the clock and its bytes | [`Clock`], [`wire`] |
//! | the decision | [`decide`] |
//! | order of deliveries | `drain.rs` |
//! | the stamp, own sends | [`Node::prepare_send`], `stamp.rs` |
//! | watermark evidence | [`Mark`], `watermark.rs` |
//! | log starts, deletions, truncation | [`Node::check`], [`Node::truncate`], `truncate.rs` |
//! | state keys and values | [`layout`] |
//! | initialisation and scope changes | [`Node::open`], `open.rs` |
//! | hold reports | [`Hold`] |
//! | guards | [`Refusal`], [`RefusalCode`] |
//!
//! ```
//! use std::collections::BTreeMap;
//! use parsley_core::{MemoryStore, Node, NodeConfig, NodeLimits, OpenFacts, Record, SenderId, TopicId, Clock, wire};
//!
//! let (orders, payments) = (TopicId::of_name("orders").partition(0), TopicId::of_name("payments").partition(0));
//! let config = NodeConfig {
//!     sender: SenderId::of_task("shop", "settle", 0),
//!     inputs: vec![orders, payments],
//!     sinks: vec![],
//!     limits: NodeLimits::default(),
//! };
//! let mut store = MemoryStore::new();
//! let (mut node, _) = Node::open(config, &OpenFacts::default(), &mut store)?;
//!
//! // A payment arrives before the order that caused it: its clock claims orders up to offset 0.
//! let mut clock = Clock::new();
//! clock.claim_offset(orders, 0);
//! let record = |channel, headers| Record { channel, offset: 0, timestamp_ms: 0, key: None, value: None, headers };
//! let header = parsley_core::Header::new(wire::CLOCK_HEADER, wire::encode(&clock));
//! node.receive(record(payments, vec![header]))?;
//! assert!(node.next_delivery(&store)?.is_none());
//!
//! node.receive(record(orders, vec![]))?;
//! assert_eq!(node.next_delivery(&store)?.map(|delivery| delivery.channel), Some(orders));
//! assert_eq!(node.next_delivery(&store)?.map(|delivery| delivery.channel), Some(payments));
//! node.commit(&[], &mut store)?;
//! # Ok::<(), parsley_core::NodeError>(())
//! ```

#![forbid(unsafe_code)]

mod channel;
mod clock;
pub mod decide;
mod drain;
#[cfg(test)]
mod golden;
mod hold;
mod input;
pub mod layout;
mod node;
mod open;
mod queue;
mod record;
mod refusal;
mod stamp;
mod store;
#[cfg(test)]
mod strategies;
mod truncate;
mod watermark;
pub mod wire;

pub use channel::{Channel, Id, Offset, ReceivedChannels, SenderId, TopicId};
pub use clock::{Claim, Claims, Clock, OffsetClaim, Section, SequenceClaim};
pub use hold::{Hold, HoldCode, Wait};
pub use layout::Scope;
pub use node::{Delivery, Node, NodeConfig, NodeError, NodeLimits, Receipt, Sink};
pub use open::{Joined, OpenFacts, Opened};
pub use record::{Header, Record};
pub use refusal::{Refusal, RefusalCode};
pub use stamp::Stamp;
pub use store::{Changes, MemoryStore, Staged, StateStore, StoreError, Visit};
pub use watermark::Mark;
