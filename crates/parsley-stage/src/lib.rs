//! Typed topologies over the causal delivery protocol, and the task that hosts them.
//!
//! A [`Topic`] says how keys and values are written. A [`Stage`] says which topics are consumed, what is done with each message, and
//! which topics may be emitted to. An [`App`] is a set of stages that a host starts. Logic is a function of the delivered message and,
//! on a stateful stage, of the state of its key; it emits into an [`Outbox`] that only collects, and has no other way to act. So whatever
//! a step did can be dropped and done again, and comes out the same.
//!
//! A [`Task`] is one partition of one stage: ordering, logic, state and sends, as a state machine without I/O. Every host drives it.
//!
//! ```
//! use parsley_core::{MemoryStore, OpenFacts, TopicId};
//! use parsley_stage::{App, RawSend, Stage, Task, TaskConfig, Topic, TopicInfo, codec};
//!
//! // The topology.
//! let visits = Topic::new("visits", codec::string(), codec::string());
//! let counts = Topic::new("counts", codec::string(), codec::u64());
//! let count = Stage::stateful("count", codec::string(), codec::u64())
//!     .on(&visits, {
//!         let counts = counts.clone();
//!         move |seen, visit, out| {
//!             *seen += 1;
//!             out.send(&counts, &visit.key, seen)
//!         }
//!     })
//!     .sink(&counts)
//!     .build()?;
//! let app = App::named("site").stage(count.clone()).build()?;
//! assert!(app.topics().into_iter().eq(["counts", "visits"]));
//!
//! // The same topology as a unit test: one task, driven by hand.
//! let id = TopicId::of_name;
//! let topics = ["visits", "counts"].map(|name| (name.to_owned(), TopicInfo { id: id(name), partitions: 1 }));
//! let config = TaskConfig::new("site", 0, topics.into());
//! let store = || Box::new(MemoryStore::new());
//! let facts = OpenFacts { ends: [(id("counts").partition(0), 0)].into(), ..OpenFacts::default() };
//! let (mut task, _) = Task::open(count, config, &facts, store(), store())?;
//! for offset in 0..3 {
//!     task.receive(visits.record(id("visits").partition(0), offset, &"ann".into(), &"/home".into())?)?;
//!     assert!(task.process_next()?.is_some());
//! }
//! let sent = |send: &RawSend| counts.value().decode(send.value.as_ref());
//! assert_eq!(task.take_sends().iter().map(sent).collect::<Result<Vec<u64>, _>>()?, [1, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod app;
pub mod audit;
mod build_error;
pub mod codec;
pub mod edge;
mod failure;
pub mod fold;
mod message;
pub mod meter;
pub mod opening;
mod outbox;
pub mod partition;
pub mod probe;
pub mod report;
mod rounds;
mod stage;
pub mod sweep;
pub mod task;
mod ticks;
mod topic;
pub mod watch;

pub use app::{App, AppBuilder};
pub use audit::{AuditRecord, AuditRecordError, Audited, AuditedWait};
pub use build_error::{BuildError, NameFault, Named, Part};
pub use codec::Codec;
pub use edge::CausalClock;
pub use failure::{ApplicationError, FailureKind};
pub use message::Message;
pub use outbox::{Outbox, SendError, To};
pub use rounds::SendOrder;
pub use stage::{Initial, Stage, StageBuilder, Stateful, Stateless};
pub use task::{Processed, RawSend, StepCommit, Task, TaskConfig, TaskError, TopicInfo};
pub use ticks::{Tick, TickSchedule, TickTopicWidth};
pub use topic::Topic;

/// Any error, as logic and codecs may return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// What logic returns: `?` takes any error, an error aborts the step.
pub type Outcome = Result<(), BoxError>;
