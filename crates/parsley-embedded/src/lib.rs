//! Runs a Parsley application inside one process: a log that behaves as a broker's, and a host that runs the application's tasks on
//! threads over it.
//!
//! [`Host`] is where to begin. [`testing::TestDriver`] runs an application in a test, typed and at the test's word, over [`Stepper`], which runs
//! tasks without threads, one step after the other. [`Log`] is of use without either, to try out how a partition's offsets, markers and
//! retention behave.
//!
//! A step of a task is atomic: its sends, the positions it consumed and the state it changed become visible together, or not at all. The
//! host commits it with one lock on the log held, so sends reach their partitions in the order of their stamps
//! (`docs/protocol.md`, Send order).

#![forbid(unsafe_code)]

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod log;
pub mod testing;
mod time;

pub use host::{
    AppendedSend, Backoff, DeliveryEvent, FailingTask, HoldEvent, Host, HostBuilder, HostError,
    InputStatus, JoinedInput, NotReached, Opening, Reads, RefusedTask, Running, StartError, Status,
    StepError, StepReport, Stepper, StopError, TaskEnd, TaskState, TaskStatus, Waited,
    WatermarkAnswer,
};
pub use log::{
    Appended, Consumer, Ids, Log, LogConfig, NewRecord, OpenError, PARTITIONS_MAX, Producer,
    RECORD_BYTES_MAX, ReadError, SendError, StorageError, TopicConfig, TopicError, Transaction,
};
pub use time::TimeSource;
