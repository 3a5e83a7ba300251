//! Causal delivery order for stream processors.
//!
//! An effect never reaches your logic before its cause: a payment that someone made because of an order is delivered after that order, on
//! whatever topics the two travel, and after however many processors in between. Each record carries the positions that it depends on,
//! and a record that arrives ahead of them is held until they have been delivered. Nothing is guessed, and nothing waits for a timer.
//!
//! A topology is declared once and runs on any host:
//!
//! ```
//! use parsley::{App, Stage, Topic, codec};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Book { ordered: u64, paid: u64 }
//!
//! let orders = Topic::new("orders", codec::string(), codec::u64());
//! let payments = Topic::new("payments", codec::string(), codec::u64());
//! let settled = Topic::new("settlements", codec::string(), codec::json::<Book>());
//!
//! let settle = Stage::stateful("settle", codec::string(), codec::json::<Book>())
//!     .sink(&settled)
//!     .on(&orders, |book, order, _out| {
//!         book.ordered += order.value;
//!         Ok(())
//!     })
//!     .on(&payments, move |book, payment, out| {
//!         book.paid += payment.value;
//!         out.send(&settled, &payment.key, book)
//!     })
//!     .build()?;
//! let app = App::named("shop").stage(settle).build()?;
//! # assert!(app.topics().into_iter().eq(["orders", "payments", "settlements"]));
//! # Ok::<(), parsley::BuildError>(())
//! ```
//!
//! Logic is synchronous and pure: it sees the message, the state of the message's key, and an [`Outbox`] that collects what it emits.
//! A step (the records consumed, the state changed, the records emitted) is committed as one or dropped as one.
#![cfg_attr(feature = "embedded", doc = include_str!("running.md"))]
//! # Features
//!
//! | Feature | On by default | What | Needs |
//! |---|---|---|---|
//! | `embedded` | yes | the host that runs an application in this process (module `embedded`), and `TestDriver` (module `testing`) | |
//! | `kafka` | | the host on Apache Kafka (module `kafka`) | make, a C++ compiler, zlib's headers: librdkafka is built |
//! | `ssl` | | with `kafka`: TLS, SCRAM, OAUTHBEARER | the system's OpenSSL with its headers |
//! | `ssl-vendored` | | the same | OpenSSL is built |
//! | `sasl` | | with `kafka`: SASL/GSSAPI (Kerberos) | the system's Cyrus SASL with its headers |
//! | `status-server` | | metrics, status and holds over HTTP, and a live page (module `status`) | |
//!
//! # Where to go
//!
//! | | |
//! |---|---|
//! | declare | [`Topic`], [`codec`], [`Stage`], [`App`] |
//! | write logic | [`Message`], [`Outbox`], [`Outcome`] |
//! | try out codecs and logic on samples, as part of your tests | [`probe`] |
//! | read what was delivered, and what had to wait | [`audit`] |
//! | show what runs, what is held and which record is missing | [`report`] |
//! | produce and consume beside the stages, read your own writes | [`CausalClock`], [`edge`] |
//! | build a host of your own | [`Task`] |
//! | the protocol itself | [`core`] |

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub use parsley_stage::{
    App, AppBuilder, ApplicationError, AuditRecord, AuditRecordError, Audited, AuditedWait,
    BoxError, BuildError, CausalClock, Codec, FailureKind, Initial, Message, NameFault, Named,
    Outbox, Outcome, Part, Processed, RawSend, SendError, SendOrder, Stage, StageBuilder, Stateful,
    Stateless, StepCommit, Task, TaskConfig, TaskError, Tick, TickSchedule, TickTopicWidth, To,
    Topic, TopicInfo, audit, codec, edge, fold, partition, probe, report,
};

/// The protocol as a pure state machine: what records, positions, clocks and stores are made of.
pub mod core {
    pub use parsley_core::*;
}

/// The host that runs an application inside this process.
#[cfg(feature = "embedded")]
pub mod embedded {
    pub use parsley_embedded::*;
}

/// Tests of an application without threads, brokers or waiting: [`testing::TestDriver`].
#[cfg(feature = "embedded")]
pub mod testing {
    pub use parsley_embedded::testing::*;
}

/// The host that runs an application on Apache Kafka.
#[cfg(feature = "kafka")]
pub mod kafka {
    pub use parsley_kafka::*;
}

/// What an application is doing, over HTTP: metrics for Prometheus, and a live page.
#[cfg(feature = "status-server")]
pub mod status {
    pub use parsley_status::*;
}

/// The README's example is compiled and run with the other doc-tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;
