//! Looks at the application: on a thread that may wait for it, one at a time, and not more often than it is worth.

use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use crate::metrics::Metrics;
use parsley_stage::report::Observed;

/// For how long an answer is given again.
const FRESH: Duration = Duration::from_millis(250);

/// How long the application has to answer. Its logic may be at work for longer.
const PATIENCE: Duration = Duration::from_secs(3);

/// What can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Report,
    Holds,
    Metrics,
}

/// Why there is nothing to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unseen {
    /// There is no application any more.
    Over,
    /// It did not answer in time.
    Busy,
    /// No recorder was given.
    NoRecorder,
    /// It panicked, or what it says cannot be written as JSON.
    Failed,
}

/// Who looks.
pub(crate) struct Lookout {
    observed: Weak<dyn Observed>,
    metrics: Option<Metrics>,
    report: Mutex<Last>,
    holds: Mutex<Last>,
    text: Mutex<Last>,
}

/// What was last seen, and the look that is under way.
#[derive(Default)]
struct Last {
    seen: Option<(Instant, Bytes)>,
    pending: Option<tokio::task::JoinHandle<Result<Bytes, Unseen>>>,
}

impl Lookout {
    pub(crate) fn new(observed: Weak<dyn Observed>, metrics: Option<Metrics>) -> Self {
        Self {
            observed,
            metrics,
            report: Mutex::default(),
            holds: Mutex::default(),
            text: Mutex::default(),
        }
    }

    /// Has the recorder put in order what it took down.
    pub(crate) fn keep_up(&self) {
        if let Some(metrics) = &self.metrics {
            metrics.keep_up();
        }
    }

    /// What there is to see.
    pub(crate) async fn look(self: &Arc<Self>, view: View) -> Result<Bytes, Unseen> {
        let last = match view {
            View::Report => &self.report,
            View::Holds => &self.holds,
            View::Metrics => &self.text,
        };
        // Whoever asks while somebody looks waits for the same answer, and for both the time is bounded.
        let within = async {
            let mut last = last.lock().await;
            if let Some((at, body)) = &last.seen
                && at.elapsed() < FRESH
            {
                return Ok(body.clone());
            }
            // A look that took too long for who began it goes on, and no other begins beside it. What it has found since is of yesterday.
            last.pending.take_if(|pending| pending.is_finished());
            let pending = last.pending.get_or_insert_with(|| {
                let lookout = Arc::clone(self);
                tokio::task::spawn_blocking(move || lookout.see(view))
            });
            let found = pending.await.unwrap_or(Err(Unseen::Failed));
            last.pending = None;
            last.seen = found
                .as_ref()
                .ok()
                .map(|body| (Instant::now(), body.clone()));
            found
        };
        timeout(PATIENCE, within).await.unwrap_or(Err(Unseen::Busy))
    }

    fn see(&self, view: View) -> Result<Bytes, Unseen> {
        let json = |written: serde_json::Result<Vec<u8>>| {
            written.map(Bytes::from).map_err(|_| Unseen::Failed)
        };
        let observed = || self.observed.upgrade().ok_or(Unseen::Over);
        match view {
            View::Report => json(serde_json::to_vec(&observed()?.report())),
            View::Holds => json(serde_json::to_vec(&observed()?.holds())),
            View::Metrics => {
                let metrics = self.metrics.as_ref().ok_or(Unseen::NoRecorder)?;
                Ok(metrics.render().into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parsley_stage::report::{Holds, Report};

    use super::*;

    #[derive(Default)]
    struct Counting(AtomicUsize);

    impl Observed for Counting {
        fn report(&self) -> Report {
            unreachable!("nobody asks for it")
        }

        fn holds(&self) -> Holds {
            self.0.fetch_add(1, Ordering::SeqCst);
            Holds::default()
        }
    }

    /// Who asked had been answered that the application is at work, and the next one, minutes later, was given what had been found since.
    #[test]
    fn what_came_too_late_for_who_asked_is_not_given_to_who_asks_later() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .expect("a runtime");
        let counting = Arc::new(Counting::default());
        let weak: Weak<dyn Observed> = Arc::<Counting>::downgrade(&counting);
        let lookout = Arc::new(Lookout::new(weak, None));
        runtime.block_on(async {
            let late = tokio::task::spawn_blocking(|| Ok(Bytes::from_static(b"late")));
            while !late.is_finished() {
                tokio::task::yield_now().await;
            }
            lookout.holds.lock().await.pending = Some(late);
            let seen = lookout.look(View::Holds).await;
            assert_eq!(seen.as_deref(), Ok(&br#"{"holds":[]}"#[..]));
        });
        assert_eq!(counting.0.load(Ordering::SeqCst), 1);
    }
}
