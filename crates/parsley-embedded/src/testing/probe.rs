//! The contract probe, with a pause between its two halves.

use std::time::Duration;

use parsley_stage::App;
pub use parsley_stage::probe::{Clause, Finding, Note, ProbeReport, Samples};

/// Long enough for a clock of milliseconds to move.
const PAUSE: Duration = Duration::from_millis(3);

/// Probes what an application owes its hosts, with samples of its topics: see [`parsley_stage::probe`]. Between its two halves it waits three
/// milliseconds, so that logic and codecs that look at a clock differ.
///
/// ```
#[doc = include_str!("shop.txt")]
/// use parsley_embedded::testing::{Samples, probe};
///
/// // A payment is possible behind its order alone: the samples are a story.
/// let story = Samples::new()
///     .of(&orders, [("ann", 5_u64), ("bob", 7)])
///     .of(&payments, [("ann", 5_u64), ("bob", 1)])
///     .as_story();
/// probe(&app, &story).assert_clean();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A `HashMap` has another order each time, and an aborted step would be repeated with other bytes:
///
/// ```
/// use std::collections::HashMap;
/// use parsley_embedded::testing::{Clause, Samples, probe};
/// use parsley_stage::{App, Stage, Topic, codec};
///
/// let words = Topic::new("words", codec::null(), codec::string());
/// let counts = Topic::new("counts", codec::null(), codec::json::<HashMap<char, usize>>());
/// let count = Stage::stateless("count")
///     .sink(&counts)
///     .on(&words, { let counts = counts.clone(); move |word, out| {
///         let mut seen = HashMap::new();
///         word.value.chars().for_each(|letter| *seen.entry(letter).or_default() += 1);
///         out.send(&counts, &(), &seen)
///     }})
///     .build()?;
/// let app = App::named("letters").stage(count).build()?;
/// let report = probe(&app, &Samples::new().of(&words, [((), "the quick brown fox jumps over the lazy dog")]));
/// assert!(report.findings().iter().any(|finding| finding.clause == Clause::LogicIsAFunction));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "what was found is in the report"]
pub fn probe(app: &App, samples: &Samples) -> ProbeReport {
    parsley_stage::probe::probe(app, samples, || std::thread::sleep(PAUSE))
}
