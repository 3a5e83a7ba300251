//! The wall clock, as an argument.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a host takes the time from: the timestamp of a record that names none, and the age of what a truncation rests on. Nothing that is
/// delivered, and no order, depends on it.
#[derive(Clone)]
pub struct TimeSource(Arc<dyn Fn() -> i64 + Send + Sync>);

impl TimeSource {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Arc::new(|| {
            match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(before) => {
                    i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |millis| -millis)
                }
            }
        }))
    }

    /// A clock of your own, in milliseconds since the Unix epoch: for runs that can be repeated.
    pub fn from_fn(now_ms: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// Milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl Default for TimeSource {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for TimeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TimeSource")
    }
}
