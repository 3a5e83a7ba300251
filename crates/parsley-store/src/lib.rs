//! An ordered map from bytes to bytes in one file, changed by batches that are atomic, and durable when they are written: where hosts keep
//! what outlives a process.
//!
//! It is `redb` with what a host needs on top (decisions E12 and E16): the whole file is checked when it is opened, a failed write is
//! resolved by opening the file anew, and a failure of the library is an error like any other.
//!
//! ```
//! use parsley_store::{Batch, Database};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("data");
//! let database = Database::create(&path, 1 << 20)?;
//! let mut batch = Batch::default();
//! batch.put("a".into(), "1".into());
//! batch.put("b".into(), "2".into());
//! database.write(&batch)?;
//! drop(database);
//!
//! let database = Database::open(&path, 1 << 20)?;
//! assert_eq!(database.get(b"b")?.unwrap(), "2");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod batch;
mod database;
mod error;

pub use batch::Batch;
pub use database::{Database, Visitor};
pub use error::DatabaseError;
