//! The recorder of metrics, and its text.

use std::fmt;
use std::sync::Arc;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use crate::error::RecorderTaken;

/// Bounds of the buckets of durations, in seconds.
const SECONDS: [f64; 12] = [
    0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0,
];

/// How durations end their names, which is Prometheus' own convention.
const SECONDS_SUFFIX: &str = "_seconds";

type Render = Arc<dyn Fn() -> String + Send + Sync>;
type Upkeep = Arc<dyn Fn() + Send + Sync>;

/// What `/metrics` answers with.
///
/// Metrics go through the facade of crate `metrics`, of which a process has one recorder. [`Metrics::install`] makes one and installs it. A
/// process that has its own keeps it, and gives its text with [`Metrics::rendered_by`]:
///
/// ```
/// use metrics_exporter_prometheus::PrometheusBuilder;
/// use parsley_status::Metrics;
///
/// let handle = PrometheusBuilder::new().install_recorder()?;
/// let metrics = Metrics::rendered_by(move || handle.render());
/// assert_eq!(Metrics::install().unwrap_err(), parsley_status::RecorderTaken);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Metrics {
    render: Render,
    upkeep: Upkeep,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    /// Makes a recorder that speaks Prometheus and installs it for the process. Names that end with `_seconds` get buckets from 0.5 ms to
    /// 30 s, other histograms quantiles.
    ///
    /// What it records grows until it is rendered or a [`StatusServer`](crate::StatusServer) that was given it looks after it, every five
    /// seconds.
    ///
    /// # Errors
    ///
    /// When the process has a recorder. It is left as it is.
    pub fn install() -> Result<Self, RecorderTaken> {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Suffix(SECONDS_SUFFIX.to_owned()), &SECONDS)
            .expect("the buckets are some")
            .build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(|_| RecorderTaken)?;
        let kept = handle.clone();
        Ok(Self {
            render: Arc::new(move || handle.render()),
            upkeep: Arc::new(move || kept.run_upkeep()),
        })
    }

    /// What a recorder of the process' own has, in Prometheus' text format. It is called on the server's threads for each request that is
    /// not answered from the last quarter of a second.
    pub fn rendered_by(render: impl Fn() -> String + Send + Sync + 'static) -> Self {
        Self {
            render: Arc::new(render),
            upkeep: Arc::new(|| {}),
        }
    }

    pub(crate) fn render(&self) -> String {
        (self.render)()
    }

    pub(crate) fn keep_up(&self) {
        (self.upkeep)();
    }
}
