//! Contract probes: what an application owes its hosts, tried out on samples, without brokers.
//!
//! The guarantee rests on things that no type can ask for. A codec has to be a function, or a restart does not reproduce what an aborted step
//! sent. Logic has to be one as well, and has to take whatever its topics bring, or its task tries the same step for ever. [`probe`] looks for
//! breaches: it gives each input its samples, on the default state, one after the other, and on the state that the whole row leaves, and
//! does all of it twice. Findings name the [`Clause`] that is broken, where, and what to do.
//!
//! What it sees is what the samples reach: a probe that finds nothing is no proof. Nor does it see what is lost in the same way each time: a
//! key codec that writes two keys as the same bytes, so that they share a state; a field that `#[serde(skip)]` keeps out of what is written, so
//! that a restart finds its default; a clock that is read in whole seconds, if `between` waits for less than one.

mod case;
mod report;
mod samples;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use parsley_core::{MemoryStore, wire};

pub use report::{Clause, Finding, Note, ProbeReport};
pub use samples::Samples;

use crate::app::App;
use crate::codec::{Rewrite, RewriteError};
use crate::failure::Failure;
use crate::fold::TICK_STATE_KEY;
use crate::stage::Stage;
use case::{Case, Given, Outcome};
use report::Place;
use samples::{Encoded, Sample};

/// Probes an application with samples of its topics.
///
/// Everything is done twice, and `between` runs in the middle: what logic and codecs make of a clock that they should not look at differs
/// then, if `between` waits until it has moved. The hosts' `testing` modules come with one that does.
///
/// ```
/// use parsley_stage::probe::{Clause, Samples, probe};
/// use parsley_stage::{App, Stage, Topic, codec};
///
/// let orders = Topic::new("orders", codec::string(), codec::u64());
/// let shares = Topic::new("shares", codec::string(), codec::u64());
/// let split = Stage::stateless("split")
///     .sink(&shares)
///     .on(&orders, { let shares = shares.clone(); move |order, out| {
///         out.send(&shares, &order.key, &(100 / order.value))
///     }})
///     .build()?;
/// let app = App::named("shop").stage(split).build()?;
///
/// let samples = Samples::new().of(&orders, [("ann", 4_u64)]);
/// probe(&app, &samples, || ()).assert_clean();
///
/// let samples = samples.of(&orders, [("bob", 0_u64)]);
/// let report = probe(&app, &samples, || ());
/// assert_eq!(report.findings()[0].clause, Clause::LogicTakesAll);
/// # Ok::<(), parsley_stage::BuildError>(())
/// ```
#[must_use = "what was found is in the report"]
pub fn probe(app: &App, samples: &Samples, between: impl FnOnce()) -> ProbeReport {
    let mut report = ProbeReport::default();
    note_coverage(app, samples, &mut report);
    let encoded = probe_samples(app, samples, &mut report);
    let rows: Vec<(&Stage, Vec<(Case, Outcome)>)> = app
        .stages()
        .iter()
        .map(|stage| (stage, run_stage(app, stage, samples, &encoded)))
        .collect();
    between();
    for (sample, first) in samples.all().iter().zip(&encoded) {
        if let Some(first) = first
            && guarded(|| sample.encode())
                .ok()
                .and_then(Result::ok)
                .as_ref()
                != Some(first)
        {
            let found = "the same value was written as other bytes the second time";
            report.find(Clause::CodecIsAFunction, sample.place(), found);
        }
    }
    for (stage, cases) in &rows {
        for (case, first) in cases {
            judge(stage, case, first, &mut report);
            let second = case.run(app.name(), stage);
            if let Some(difference) = first.difference(&second) {
                report.find(Clause::LogicIsAFunction, case.place(stage), difference);
            }
        }
    }
    report
}

/// Says what the samples do not reach.
fn note_coverage(app: &App, samples: &Samples, report: &mut ProbeReport) {
    let ticks: BTreeSet<&str> = app.stages().iter().filter_map(Stage::tick_topic).collect();
    let sampled = samples.topics();
    for topic in app.inputs() {
        if !sampled.contains(topic) && !ticks.contains(topic) {
            report.note(
                topic,
                "no samples: what is done with its records was not probed",
            );
        }
    }
    for topic in sampled {
        if !app.inputs().contains(topic) {
            report.note(
                topic,
                "samples that no stage consumes: their codecs alone were probed",
            );
        }
    }
}

/// The samples' bytes, where they have any, and what is wrong with their codecs.
fn probe_samples(app: &App, samples: &Samples, report: &mut ProbeReport) -> Vec<Option<Encoded>> {
    let declared = app.stages().iter().flat_map(|stage| {
        let inputs = stage.declared_inputs().iter().map(|input| &input.topic);
        inputs.chain(stage.declared_sinks())
    });
    let declared: Vec<_> = declared.collect();
    let bytes_of = |sample: &Sample| {
        let place = sample.place();
        let other = declared
            .iter()
            .find(|topic| topic.name == sample.topic.name);
        if other.is_some_and(|topic| ***topic != *sample.topic) {
            let found =
                "the sample's codecs are not those that the application declares for the topic";
            return Err((Clause::CodecsAgree, place, found.to_owned()));
        }
        match guarded(|| sample.encode()) {
            Ok(Ok(encoded)) => Ok(encoded),
            Ok(Err(error)) => Err((Clause::CodecTakesAll, place, error)),
            Err(panic) => Err((
                Clause::CodecTakesAll,
                place,
                format!("writing it panics: {panic}"),
            )),
        }
    };
    let mut all = Vec::new();
    for sample in samples.all() {
        match bytes_of(sample) {
            Err((clause, place, found)) => {
                report.find(clause, place, found);
                all.push(None);
            }
            Ok(encoded) => {
                if let Err(error) = wire::ProtocolHeaders::read(&encoded.headers)
                    .map_err(|error| error.to_string())
                    .and_then(|headers| check_clock(headers.clock.as_ref()))
                {
                    report.find(Clause::StampReads, sample.place(), error);
                }
                let parts = [
                    ("key", &sample.topic.keys, &encoded.key),
                    ("value", &sample.topic.values, &encoded.value),
                ];
                let mut readable = true;
                for (part, codec, bytes) in parts {
                    if let Err(fault) = come_back(&**codec, bytes.as_ref()) {
                        let (clause, found) = fault.of_topic(part);
                        readable &= clause == Clause::CodecIsAFunction;
                        report.find(clause, sample.place(), found);
                    }
                }
                all.push(readable.then_some(encoded));
            }
        }
    }
    all
}

/// All cases of a stage, and what became of each the first time.
fn run_stage(
    app: &App,
    stage: &Stage,
    samples: &Samples,
    encoded: &[Option<Encoded>],
) -> Vec<(Case, Outcome)> {
    let consumed = |topic: &str| stage.inputs().any(|input| input == topic);
    let rows = samples.all().iter().zip(encoded);
    let mut given: Vec<Given> = rows
        .filter(|(sample, _)| consumed(&sample.topic.name))
        .filter_map(|(sample, encoded)| {
            Some(Given::Record {
                index: sample.index(),
                topic: sample.topic.name.clone(),
                record: encoded.clone()?,
            })
        })
        .collect();
    if stage.tick_topic().is_some() {
        given.push(Given::Tick);
    }
    let mut cases = Vec::new();
    let mut run = |given: &Given, on: &'static str, fold: &MemoryStore| {
        let case = Case {
            given: given.clone(),
            on,
            fold: fold.clone(),
        };
        let outcome = case.run(app.name(), stage);
        let changes = outcome.changes();
        cases.push((case, outcome));
        changes
    };
    let mut fold = MemoryStore::new();
    if !samples.is_story() {
        for given in &given {
            run(given, "on the default state", &fold);
        }
    }
    for given in &given {
        if let Some(changes) = run(given, "behind the samples before it", &fold) {
            fold.apply(changes);
        }
    }
    if !samples.is_story() {
        for given in &given {
            run(given, "behind all samples", &fold);
        }
    }
    cases
}

/// What one outcome says by itself.
fn judge(stage: &Stage, case: &Case, outcome: &Outcome, report: &mut ProbeReport) {
    let done = match outcome {
        Outcome::Failed {
            clause, message, ..
        } => {
            let found = format!("{}: {message}", case.on);
            report.find(*clause, case.place(stage), found);
            return;
        }
        Outcome::Done(done) => done,
    };
    for send in &done.sends {
        let place = || Place {
            stage: Some(stage.name().to_owned()),
            topic: Some(send.topic.to_string()),
            sample: case.sample(),
        };
        let stamp = wire::ProtocolHeaders::read(&send.headers).map_err(|error| error.to_string());
        if let Err(error) = stamp.and_then(|headers| check_clock(headers.clock.as_ref())) {
            report.find(Clause::StampReads, place(), error);
        }
        let declared = stage.declared_sinks().iter();
        let Some(sink) = declared.into_iter().find(|sink| sink.name == send.topic) else {
            continue;
        };
        let parts = [
            ("key", &sink.keys, &send.key),
            ("value", &sink.values, &send.value),
        ];
        for (part, codec, bytes) in parts {
            if let Err(fault) = come_back(&**codec, bytes.as_ref()) {
                let (clause, found) = fault.of_output(part);
                report.find(clause, place(), found);
            }
        }
    }
    for (key, state) in &done.changes.0 {
        let is_tick = key.as_ref() == [TICK_STATE_KEY];
        let codec = if is_tick {
            stage.tick_states()
        } else {
            stage.states()
        };
        if let (Some(codec), Some(state)) = (codec, state)
            && let Err(fault) = come_back(codec, Some(state))
        {
            report.find(Clause::StateComesBack, case.place(stage), fault.of_state());
        }
    }
}

fn check_clock(clock: Option<&Bytes>) -> Result<(), String> {
    match clock {
        None => Ok(()),
        Some(bytes) => wire::decode(bytes)
            .map(drop)
            .map_err(|error| error.to_string()),
    }
}

/// How bytes fail to come back.
enum Fault {
    Unreadable(String),
    Unwritable(String),
    Differs,
}

impl Fault {
    fn of_topic(self, part: &str) -> (Clause, String) {
        let clause = match self {
            Self::Differs => Clause::CodecIsAFunction,
            _ => Clause::CodecTakesAll,
        };
        (clause, self.words(part))
    }

    fn of_output(self, part: &str) -> (Clause, String) {
        let clause = match self {
            Self::Differs => Clause::CodecIsAFunction,
            _ => Clause::OutputReads,
        };
        (clause, self.words(part))
    }

    fn of_state(self) -> String {
        self.words("state")
    }

    fn words(self, part: &str) -> String {
        match self {
            Self::Unreadable(error) => {
                format!("the {part} does not decode from the bytes that it was written as: {error}")
            }
            Self::Unwritable(error) => {
                format!("the {part} does not encode again, once it was read: {error}")
            }
            Self::Differs => format!("the {part} is written as other bytes, once it was read"),
        }
    }
}

/// Whether bytes that were written are read, and written as the same bytes again.
fn come_back(codec: &dyn Rewrite, bytes: Option<&Bytes>) -> Result<(), Fault> {
    match guarded(|| codec.rewrite(bytes)) {
        Ok(Ok(again)) if again.as_ref() == bytes => Ok(()),
        Ok(Ok(_)) => Err(Fault::Differs),
        Ok(Err(RewriteError::Decode(error))) => Err(Fault::Unreadable(error.to_string())),
        Ok(Err(RewriteError::Encode(error))) => Err(Fault::Unwritable(error.to_string())),
        Err(panic) => Err(Fault::Unreadable(format!("a panic: {panic}"))),
    }
}

/// Runs a codec of the application, whose panics are its failures (decision T7).
fn guarded<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|payload| Failure::of_panic(&*payload).message)
}

#[cfg(test)]
mod tests {
    use parsley_core::{Changes, Header};

    use super::*;
    use crate::topic::Topic;
    use crate::{RawSend, codec};

    /// No application can have its task write a stamp that is none; should a task do so, the probe says it.
    #[test]
    fn a_send_whose_stamp_cannot_be_read_is_found() {
        let input = Topic::new("in", codec::null(), codec::null());
        let stage = Stage::stateless("s").on(&input, |_, _| Ok(()));
        let stage = stage.build().unwrap();
        let case = Case {
            given: Given::Tick,
            on: "on the default state",
            fold: MemoryStore::new(),
        };
        let send = RawSend {
            topic: "out".into(),
            channel: parsley_core::TopicId::of_name("out").partition(0),
            round: 0,
            key: None,
            value: None,
            timestamp_ms: 0,
            headers: vec![Header::new(wire::CLOCK_HEADER, "no clock")],
        };
        let done = case::Done {
            sends: vec![send],
            changes: Changes::default(),
        };
        let mut report = ProbeReport::default();
        judge(&stage, &case, &Outcome::Done(done), &mut report);
        assert_eq!(report.findings()[0].clause, Clause::StampReads);
    }
}
