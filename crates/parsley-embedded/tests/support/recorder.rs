//! A recorder of metrics, for all that a test binary runs.
// Each binary of tests uses a part of it.
#![allow(dead_code)]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use metrics::{
    Counter, Gauge, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};

/// Metrics by name and labels, `name{label="value",…}`, as they are.
#[derive(Clone, Default)]
pub struct Metrics(Arc<Shelves>);

#[derive(Default)]
struct Shelves {
    counters: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    gauges: Mutex<BTreeMap<String, Arc<AtomicU64>>>,
    histograms: Mutex<BTreeMap<String, Arc<Values>>>,
    described: Mutex<BTreeMap<String, (Option<Unit>, String)>>,
}

#[derive(Default)]
struct Values(Mutex<Vec<f64>>);

impl HistogramFn for Values {
    fn record(&self, value: f64) {
        self.0.lock().unwrap().push(value);
    }
}

fn name_of(key: &Key) -> String {
    let labels: Vec<String> = key
        .labels()
        .map(|label| format!("{}={:?}", label.key(), label.value()))
        .collect();
    format!("{}{{{}}}", key.name(), labels.join(","))
}

impl Recorder for Metrics {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        let mut described = self.0.described.lock().unwrap();
        described.insert(name.as_str().to_owned(), (unit, help.to_string()));
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, help: SharedString) {
        self.describe_counter(name, unit, help);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        let mut counters = self.0.counters.lock().unwrap();
        Counter::from_arc(Arc::clone(counters.entry(name_of(key)).or_default()))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        let mut gauges = self.0.gauges.lock().unwrap();
        Gauge::from_arc(Arc::clone(gauges.entry(name_of(key)).or_default()))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        let mut histograms = self.0.histograms.lock().unwrap();
        Histogram::from_arc(Arc::clone(histograms.entry(name_of(key)).or_default()))
    }
}

impl Metrics {
    /// Those of this process.
    pub fn installed() -> &'static Self {
        static METRICS: LazyLock<Metrics> = LazyLock::new(|| {
            let metrics = Metrics::default();
            metrics::set_global_recorder(metrics.clone()).expect("there is no other");
            metrics
        });
        &METRICS
    }

    /// A counter; panics when it is not registered.
    pub fn counter(&self, name: &str) -> u64 {
        let counters = self.0.counters.lock().unwrap();
        let found = counters.get(name);
        let counter = found.unwrap_or_else(|| panic!("{name} is not among {:?}", counters.keys()));
        counter.load(Ordering::SeqCst)
    }

    /// A gauge; panics when it is not registered.
    pub fn gauge(&self, name: &str) -> f64 {
        let gauges = self.0.gauges.lock().unwrap();
        let found = gauges.get(name);
        let gauge = found.unwrap_or_else(|| panic!("{name} is not among {:?}", gauges.keys()));
        f64::from_bits(gauge.load(Ordering::SeqCst))
    }

    /// What a histogram was told; panics when it is not registered.
    pub fn histogram(&self, name: &str) -> Vec<f64> {
        let histograms = self.0.histograms.lock().unwrap();
        histograms[name].0.lock().unwrap().clone()
    }

    /// What is known of a metric.
    pub fn described(&self, name: &str) -> Option<(Option<Unit>, String)> {
        self.0.described.lock().unwrap().get(name).cloned()
    }

    /// The names of all metrics that have this text in them.
    pub fn names(&self, with: &str) -> Vec<String> {
        let counters = self.0.counters.lock().unwrap();
        let gauges = self.0.gauges.lock().unwrap();
        let histograms = self.0.histograms.lock().unwrap();
        let names = counters.keys().chain(gauges.keys());
        let names = names.chain(histograms.keys());
        names.filter(|name| name.contains(with)).cloned().collect()
    }
}
