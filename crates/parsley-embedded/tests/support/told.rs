//! What a process tells of itself: a recorder of metrics and a subscriber to events, for all that a test binary runs.
// Each binary of tests uses a part of it.
#![allow(dead_code)]

#[path = "recorder.rs"]
mod recorder;

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

pub use recorder::Metrics;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::dynamic_filter_fn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::prelude::*;

/// All events of all levels, a line each.
#[derive(Clone, Default)]
pub struct Events(Arc<Mutex<Vec<u8>>>);

impl Write for Events {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Events {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Events {
    /// Those of this process, on threads whose names begin with one of these; on all, if none is named.
    pub fn installed(threads: &'static [&'static str]) -> &'static Self {
        static EVENTS: OnceLock<Events> = OnceLock::new();
        EVENTS.get_or_init(|| {
            let events = Events::default();
            let is_wanted = move |_: &tracing::Metadata<'_>, _: &Context<'_, Registry>| {
                let current = std::thread::current();
                let name = current.name().unwrap_or_default();
                threads.is_empty() || threads.iter().any(|wanted| name.starts_with(wanted))
            };
            let layer = tracing_subscriber::fmt::layer()
                .with_ansi(false)
                .with_writer(events.clone())
                .with_filter(dynamic_filter_fn(is_wanted));
            tracing_subscriber::registry().with(layer).init();
            events
        })
    }

    /// The lines that have all of these texts in them.
    pub fn with(&self, texts: &[&str]) -> Vec<String> {
        let all = self.all();
        let lines = all
            .lines()
            .filter(|line| texts.iter().all(|text| line.contains(text)));
        lines.map(str::to_owned).collect()
    }

    pub fn all(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// The forms in which bytes may turn up in a text.
pub fn forms_of(payload: &str) -> Vec<String> {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

    let bytes = payload.as_bytes();
    let numbers = bytes.iter().map(u8::to_string).collect::<Vec<_>>();
    let mut forms = vec![
        payload.to_owned(),
        payload.escape_debug().to_string(),
        bytes.escape_ascii().to_string(),
        hex::encode(bytes),
        hex::encode_upper(bytes),
        numbers.join(", "),
    ];
    // Of bytes within others, what does not depend on where they begin.
    for shift in 0..3 {
        let inner = &bytes[shift..shift + (bytes.len() - shift) / 3 * 3];
        forms.extend([STANDARD_NO_PAD.encode(inner), URL_SAFE_NO_PAD.encode(inner)]);
    }
    forms
}
