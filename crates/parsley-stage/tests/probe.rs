//! The contract probe: one planted fault for each clause, and applications without a fault.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parsley_core::{Clock, Header, Record, TopicId, wire};
use parsley_stage::probe::{Clause, ProbeReport, Samples, probe};
use parsley_stage::{App, Codec, Message, Outbox, Outcome, Stage, Topic, codec};

type Numbers = Topic<String, u64>;

fn numbers(name: &'static str) -> Numbers {
    Topic::new(name, codec::string(), codec::u64())
}

fn app(stage: Stage) -> App {
    App::named("app").stage(stage).build().unwrap()
}

/// `s` copies `in` to `out` with this logic.
fn stateless(
    logic: impl Fn(Message<String, u64>, &Numbers, &mut Outbox) -> Outcome + Send + Sync + 'static,
) -> App {
    let (input, output) = (numbers("in"), numbers("out"));
    let to = output.clone();
    let stage = Stage::stateless("s")
        .sink(&output)
        .on(&input, move |message, out| logic(message, &to, out))
        .build()
        .unwrap();
    app(stage)
}

/// `s` keeps a number for each key of `in` with this logic, in this codec.
fn stateful(
    state: Codec<u64>,
    logic: impl Fn(&mut u64, u64) -> Outcome + Send + Sync + 'static,
) -> App {
    let stage = Stage::stateful("s", codec::string(), state)
        .on(&numbers("in"), move |state, message, _out| {
            logic(state, message.value)
        })
        .build()
        .unwrap();
    app(stage)
}

fn samples() -> Samples {
    Samples::new().of(&numbers("in"), [("ann", 1_u64), ("ann", 2)])
}

fn probed(app: &App, samples: &Samples) -> ProbeReport {
    probe(app, samples, || ())
}

/// The clauses that a report finds broken, once each.
fn clauses(report: &ProbeReport) -> BTreeSet<Clause> {
    report
        .findings()
        .iter()
        .map(|finding| finding.clause)
        .collect()
}

/// Expects one finding, of this clause, and gives what it says.
#[track_caller]
fn only(report: &ProbeReport, clause: Clause) -> String {
    assert_eq!(clauses(report), [clause].into(), "{report}");
    assert_eq!(report.findings().len(), 1, "{report}");
    report.findings()[0].to_string()
}

/// A counter that nobody should look at.
fn counter() -> (Arc<AtomicU64>, impl Fn() -> u64 + Clone + Send + Sync) {
    let counter = Arc::new(AtomicU64::new(0));
    let next = {
        let counter = Arc::clone(&counter);
        move || counter.fetch_add(1, Ordering::SeqCst)
    };
    (counter, next)
}

/// Numbers as text, through functions that may be wrong.
fn text(
    encode: impl Fn(u64) -> Result<String, &'static str> + Send + Sync + 'static,
    decode: impl Fn(u64) -> Result<u64, &'static str> + Send + Sync + 'static,
) -> Codec<u64> {
    codec::from_fns(
        move |number: &u64| Ok(encode(*number)?.into_bytes()),
        move |bytes| Ok(decode(std::str::from_utf8(bytes)?.parse()?)?),
    )
}

fn as_text(number: u64) -> Result<String, &'static str> {
    Ok(number.to_string())
}

/// An application that consumes `in` with this codec of values.
fn consuming(values: Codec<u64>) -> (App, Topic<String, u64>) {
    let input = Topic::new("in", codec::string(), values);
    let stage = Stage::stateless("s")
        .on(&input, |_message, _out| Ok(()))
        .build()
        .unwrap();
    (app(stage), input)
}

#[test]
fn applications_without_a_fault_have_no_finding() {
    let (orders, bills) = (numbers("orders"), numbers("bills"));
    let notes = Topic::new(
        "notes",
        codec::nullable(codec::string()),
        codec::fallible(codec::u64()),
    );
    let open = Topic::new(
        "open",
        codec::string(),
        codec::json::<BTreeMap<String, u64>>(),
    );
    let lost = Topic::new("lost", codec::null(), codec::bytes());
    let ledger = Stage::stateful("ledger", codec::string(), codec::nullable(codec::u64()))
        .sink(&open)
        .sink(&bills)
        .on(&orders, {
            let (open, bills) = (open.clone(), bills.clone());
            move |state, order, out| {
                let sum = state.unwrap_or(0) + order.value;
                *state = (sum < 10).then_some(sum);
                // Two sinks and back again: three rounds.
                out.to(&bills)
                    .header("from", "ledger")
                    .send(&order.key, &sum)?;
                out.send(&open, &order.key, &[("sum".to_owned(), sum)].into())?;
                out.send(&bills, &order.key, &0)
            }
        })
        .ticks(Duration::from_secs(1), codec::u64(), {
            let bills = bills.clone();
            move |count, tick, out| {
                *count += 1;
                out.send(&bills, &tick.partition.to_string(), count)
            }
        })
        .build()
        .unwrap();
    let sort = Stage::stateless("sort")
        .sink(&lost)
        .on(&notes, {
            let lost = lost.clone();
            move |note, out| match note.value {
                Ok(_) => Ok(()),
                Err(malformed) => out.send(&lost, &(), &malformed.bytes.unwrap_or_default()),
            }
        })
        .build()
        .unwrap();
    let app = App::named("app").stage(ledger).stage(sort).build().unwrap();
    let mut clock = Clock::new();
    clock.claim_offset(TopicId::of_name("orders").partition(0), 700);
    let record = |value: &'static str, headers: Vec<Header>| Record {
        channel: TopicId::of_name("notes").partition(3),
        offset: 9,
        timestamp_ms: 1,
        key: None,
        value: Some(Bytes::from_static(value.as_bytes())),
        headers,
    };
    let stamp = Header::new(wire::CLOCK_HEADER, wire::encode(&clock));
    let samples = Samples::new()
        .of(&orders, [("ann", 3_u64), ("bob", 4), ("ann", 8)])
        .of_records(
            &notes,
            [record("no number", vec![stamp]), record("12345678", vec![])],
        );
    let report = probed(&app, &samples);
    report.assert_clean();
    assert_eq!((samples.len(), samples.is_empty()), (5, false));
    assert_eq!(report.notes(), []);
    assert_eq!(report.to_string(), "");
}

#[test]
fn a_story_is_told_in_its_order_alone() {
    let (orders, bills) = (numbers("orders"), numbers("bills"));
    let ledger = Stage::stateful("ledger", codec::string(), codec::u64())
        .on(&bills, |open, bill, _out| {
            *open = open.checked_sub(bill.value).ok_or("nobody ordered it")?;
            Ok(())
        })
        .on(&orders, |open, order, _out| {
            *open += order.value;
            Ok(())
        })
        .build()
        .unwrap();
    let app = app(ledger);
    let story = Samples::new()
        .of(&orders, [("ann", 5_u64)])
        .of(&bills, [("ann", 5_u64)]);
    let found = only(&probed(&app, &story), Clause::LogicTakesAll);
    assert!(
        found.contains("on the default state: nobody ordered it (2 times)"),
        "{found}"
    );
    probed(&app, &story.clone().as_story()).assert_clean();
    // What the story itself breaks is found.
    let story = story.of(&bills, [("ann", 1_u64)]).as_story();
    let found = only(&probed(&app, &story), Clause::LogicTakesAll);
    assert!(
        found.starts_with(
            "probe-logic-total at stage ledger, topic bills, sample 1: behind the samples before it"
        ),
        "{found}"
    );
}

#[test]
fn samples_have_the_codecs_of_the_application() {
    let app = stateless(|_, _, _| Ok(()));
    let other = Topic::new("in", codec::string(), codec::i64());
    let report = probed(&app, &Samples::new().of(&other, [("ann", 1_i64)]));
    only(&report, Clause::CodecsAgree);
}

#[test]
fn a_codec_takes_what_it_writes_and_writes_what_it_takes() {
    let odd = |number: u64| {
        if !number.is_multiple_of(2) {
            Err("odd")
        } else {
            Ok(number)
        }
    };
    let odd_text = move |number| odd(number).and_then(as_text);
    let panicking = |_| panic!("no such number");
    let faults: [(&str, Codec<u64>); 4] = [
        ("the value does not encode: odd", text(odd_text, Ok)),
        (
            "the value does not decode from the bytes that it was written as: odd",
            text(as_text, odd),
        ),
        ("writing it panics: no such number", text(panicking, Ok)),
        (
            "the value does not encode again, once it was read: odd",
            text(but_6, |number| Ok(if number == 5 { 6 } else { number })),
        ),
    ];
    for (words, values) in faults {
        let (app, input) = consuming(values);
        let report = probed(
            &app,
            &Samples::new().of(&input, [("ann", 4_u64), ("bob", 5)]),
        );
        let found = only(&report, Clause::CodecTakesAll);
        assert!(found.contains(words), "{found}");
        assert!(
            found.starts_with("probe-codec-total at topic in, sample "),
            "{found}"
        );
    }
}

/// Writes all numbers but one.
fn but_6(number: u64) -> Result<String, &'static str> {
    if number == 6 {
        Err("odd")
    } else {
        as_text(number)
    }
}

/// Codecs are told apart by types and names (decision T3): this one looks like the application's, and is not.
#[test]
fn the_applications_own_codec_reads_the_samples() {
    let up_to = |most: u64| {
        text(as_text, move |number| {
            (number <= most).then_some(number).ok_or("too large")
        })
    };
    let (app, input) = consuming(up_to(9));
    let other = Topic::new("in", codec::string(), up_to(99));
    probed(&app, &Samples::new().of(&input, [("ann", 9_u64)])).assert_clean();
    let report = probed(&app, &Samples::new().of(&other, [("ann", 10_u64)]));
    let found = only(&report, Clause::CodecTakesAll);
    assert!(found.contains("stage s, topic in, sample 0"), "{found}");
}

#[test]
fn a_codec_is_a_function() {
    // Written twice, it differs.
    let (_, next) = counter();
    let counting = text(move |_| as_text(next()), Ok);
    // Read and written again, it differs.
    let halving = text(as_text, |number| Ok(number / 2));
    for values in [counting, halving] {
        let (app, input) = consuming(values);
        let report = probed(&app, &Samples::new().of(&input, [("ann", 4_u64)]));
        only(&report, Clause::CodecIsAFunction);
    }
    // It is another one once the clock has moved.
    let (clock, _) = counter();
    let now = Arc::clone(&clock);
    let (app, input) = consuming(text(move |_| as_text(now.load(Ordering::SeqCst)), Ok));
    let sample = Samples::new().of(&input, [("ann", 4_u64)]);
    probed(&app, &sample).assert_clean();
    let report = probe(&app, &sample, || clock.store(1, Ordering::SeqCst));
    let found = only(&report, Clause::CodecIsAFunction);
    assert!(found.contains("the second time"), "{found}");
}

#[test]
fn a_key_is_probed_as_a_value_is() {
    let keys: Codec<u64> = text(as_text, |number| Ok(number / 2));
    let input: Topic<u64, u64> = Topic::new("in", keys, codec::u64());
    let stage = Stage::stateless("s")
        .on(&input, |_, _| Ok(()))
        .build()
        .unwrap();
    let report = probed(&app(stage), &Samples::new().of(&input, [(4_u64, 4_u64)]));
    let found = only(&report, Clause::CodecIsAFunction);
    assert!(
        found.contains("the key is written as other bytes"),
        "{found}"
    );
}

#[test]
fn logic_takes_all_samples_on_every_state_that_they_reach() {
    let failing = stateless(|message, _, _| {
        (message.value < 2)
            .then_some(())
            .ok_or_else(|| "too much".into())
    });
    let found = only(&probed(&failing, &samples()), Clause::LogicTakesAll);
    assert!(
        found.starts_with("probe-logic-total at stage s, topic in, sample 1: on the default state: too much (3 times); "),
        "{found}"
    );
    let panicking = stateless(|message, _, _| {
        assert!(message.value < 2, "{} is too much", message.value);
        Ok(())
    });
    let found = only(&probed(&panicking, &samples()), Clause::LogicTakesAll);
    assert!(found.contains("2 is too much"), "{found}");
    // The second sample behind the first.
    let in_a_row = stateful(codec::u64(), |state, value| {
        *state += value;
        (*state != 3).then_some(()).ok_or_else(|| "three".into())
    });
    let found = only(&probed(&in_a_row, &samples()), Clause::LogicTakesAll);
    assert!(
        found.contains("sample 1: behind the samples before it: three"),
        "{found}"
    );
    // The first sample behind the second.
    let behind_all = stateful(codec::u64(), |state, value| {
        *state += value;
        (*state != 4).then_some(()).ok_or_else(|| "four".into())
    });
    let found = only(&probed(&behind_all, &samples()), Clause::LogicTakesAll);
    assert!(
        found.contains("sample 0: behind all samples: four"),
        "{found}"
    );
}

#[test]
fn logic_is_a_function() {
    let found = |app: &App| only(&probed(app, &samples()), Clause::LogicIsAFunction);
    let (_, next) = counter();
    let other_value = stateless(move |message, to, out| out.send(to, &message.key, &next()));
    assert!(found(&other_value).contains("the second time a send to out was another"));
    let (_, next) = counter();
    let more_sends = stateless(move |message, to, out| {
        (0..next()).try_for_each(|_| out.send(to, &message.key, &1))
    });
    assert!(found(&more_sends).contains("0 sends, and 6 the second time"));
    let (_, next) = counter();
    let other_state = stateful(codec::u64(), move |state, _| {
        *state = next();
        Ok(())
    });
    assert!(found(&other_state).contains("it left another state"));
    // A clock that stands still while all is run once.
    let (clock, _) = counter();
    let now = Arc::clone(&clock);
    let timed = stateless(move |message, to, out| {
        out.to(to)
            .timestamp(now.load(Ordering::SeqCst) as i64)
            .send(&message.key, &1)
    });
    probed(&timed, &samples()).assert_clean();
    let report = probe(&timed, &samples(), || clock.store(1, Ordering::SeqCst));
    only(&report, Clause::LogicIsAFunction);
}

#[test]
fn logic_that_fails_in_one_run_of_two_is_no_function() {
    let (clock, _) = counter();
    let now = Arc::clone(&clock);
    let moody = stateless(move |_, _, _| match now.load(Ordering::SeqCst) {
        0 => Ok(()),
        _ => Err("not today".into()),
    });
    let report = probe(&moody, &samples(), || clock.store(1, Ordering::SeqCst));
    let found = only(&report, Clause::LogicIsAFunction);
    assert!(found.contains("it failed in one run of two"), "{found}");
    // That it fails otherwise is a difference too; how it words it is none.
    clock.store(0, Ordering::SeqCst);
    let now = Arc::clone(&clock);
    let worded = stateless(move |_, _, _| Err(format!("at {}", now.load(Ordering::SeqCst)).into()));
    let report = probe(&worded, &samples(), || clock.store(1, Ordering::SeqCst));
    only(&report, Clause::LogicTakesAll);
    clock.store(0, Ordering::SeqCst);
    let now = Arc::clone(&clock);
    let undeclared = numbers("elsewhere");
    let two_ways = stateless(move |message, _, out| match now.load(Ordering::SeqCst) {
        0 => Err("no".into()),
        _ => out.send(&undeclared, &message.key, &1),
    });
    let report = probe(&two_ways, &samples(), || clock.store(1, Ordering::SeqCst));
    assert!(
        clauses(&report).contains(&Clause::LogicIsAFunction),
        "{report}"
    );
}

#[test]
fn emissions_go_to_declared_sinks_without_the_headers_of_the_protocol() {
    let elsewhere = numbers("elsewhere");
    let astray = stateless(move |message, _, out| out.send(&elsewhere, &message.key, &1));
    only(&probed(&astray, &samples()), Clause::SinkDeclared);
    let stamping =
        stateless(|message, to, out| out.to(to).header("vc-mine", "1").send(&message.key, &1));
    only(&probed(&stamping, &samples()), Clause::HeaderFree);
}

#[test]
fn emissions_have_bytes_that_their_consumers_read() {
    let emitting = |values: Codec<u64>| {
        let (input, output) = (numbers("in"), Topic::new("out", codec::string(), values));
        let to = output.clone();
        let stage = Stage::stateless("s")
            .sink(&output)
            .on(&input, move |message, out| {
                out.send(&to, &message.key, &message.value)
            })
            .build()
            .unwrap();
        probed(&app(stage), &samples())
    };
    let even = |number: u64| {
        if number.is_multiple_of(2) {
            Err("even")
        } else {
            Ok(number)
        }
    };
    let found = only(
        &emitting(text(move |number| even(number).and_then(as_text), Ok)),
        Clause::OutputWrites,
    );
    assert!(
        found.contains("topic in, sample 1"),
        "the delivery: {found}"
    );
    let found = only(&emitting(text(as_text, even)), Clause::OutputReads);
    assert!(found.contains("topic out, sample 1"), "the sink: {found}");
    let found = only(
        &emitting(text(as_text, |number| Ok(number / 2))),
        Clause::CodecIsAFunction,
    );
    assert!(found.contains("stage s, topic out, sample 0"), "{found}");
    emitting(text(as_text, Ok)).assert_clean();
}

#[test]
fn stamps_can_be_read() {
    let app = stateless(|_, _, _| Ok(()));
    let input = numbers("in");
    let record = |headers: Vec<Header>| Record {
        channel: TopicId::of_name("in").partition(0),
        offset: 0,
        timestamp_ms: 0,
        key: Some(Bytes::from_static(b"ann")),
        value: Some(Bytes::copy_from_slice(&1_u64.to_be_bytes())),
        headers,
    };
    let faults = [
        vec![Header::new("vc", "no clock")],
        vec![Header::null("vc")],
        vec![Header::new("vc-sender", vec![0; 16])],
    ];
    for headers in faults {
        let report = probed(&app, &Samples::new().of_records(&input, [record(headers)]));
        only(&report, Clause::StampReads);
    }
    let stamp = vec![Header::new("vc", wire::encode(&Clock::new()))];
    probed(&app, &Samples::new().of_records(&input, [record(stamp)])).assert_clean();
}

#[test]
fn states_come_back_as_they_were_stored() {
    let add = |state: &mut u64, value: u64| {
        *state += value;
        Ok(())
    };
    let unreadable = stateful(text(as_text, |_| Err("no state")), add);
    let found = only(&probed(&unreadable, &samples()), Clause::StateComesBack);
    assert!(found.contains("the state does not decode"), "{found}");
    let lossy = stateful(text(as_text, |number| Ok(number / 2)), add);
    let found = only(&probed(&lossy, &samples()), Clause::StateComesBack);
    assert!(
        found.contains("the state is written as other bytes, once it was read"),
        "{found}"
    );
    let unwritable = stateful(text(|_| Err("no text"), Ok), add);
    only(&probed(&unwritable, &samples()), Clause::StateComesBack);
}

#[test]
fn ticks_are_probed_with_their_state() {
    let ticking = |state: Codec<u64>, logic: fn(&mut u64) -> Outcome| {
        let stage = Stage::stateless("s")
            .on(&numbers("in"), |_, _| Ok(()))
            .ticks(Duration::from_secs(1), state, move |state, _tick, _out| {
                logic(state)
            })
            .build()
            .unwrap();
        probed(&app(stage), &samples())
    };
    let count = |count: &mut u64| {
        *count += 1;
        Ok(())
    };
    ticking(codec::u64(), count).assert_clean();
    let found = only(
        &ticking(codec::u64(), |_| Err("no tick".into())),
        Clause::LogicTakesAll,
    );
    assert!(
        found.contains("stage s, topic app-s-ticks, a tick: on the default state: no tick"),
        "{found}"
    );
    // The second tick, on the state that the first has left.
    let found = only(
        &ticking(codec::u64(), |count| {
            *count += 1;
            (*count < 2).then_some(()).ok_or_else(|| "enough".into())
        }),
        Clause::LogicTakesAll,
    );
    assert!(found.contains("behind all samples: enough"), "{found}");
    let lossy = text(as_text, |number| Ok(number / 2));
    only(&ticking(lossy, count), Clause::StateComesBack);
}

#[test]
fn what_the_samples_do_not_reach_is_noted_and_is_no_breach() {
    let app = stateless(|_, _, _| Ok(()));
    let report = probed(&app, &Samples::new().of(&numbers("out"), [("ann", 1_u64)]));
    report.assert_clean();
    let notes: Vec<&str> = report.notes().iter().map(|note| &*note.topic).collect();
    assert_eq!(notes, ["in", "out"]);
    assert_eq!(report.to_string().lines().count(), 2);
    assert!(report.to_string().starts_with("note: topic in: no samples"));
}

#[test]
fn a_report_that_is_not_clean_panics_with_all_findings() {
    let astray = stateless(|_, _, _| Err("no".into()));
    let report = probed(&astray, &samples());
    assert!(!report.is_clean());
    let told = report.findings()[0].to_string();
    assert!(
        report.findings()[0].times > 1 && told.contains(" times); "),
        "{told}"
    );
    let another: Topic<String, i64> = Topic::new("in", codec::string(), codec::i64());
    let another = probed(&astray, &Samples::new().of(&another, [("ann", 1_i64)]));
    assert_eq!(another.findings()[0].times, 1);
    let told = another.findings()[0].to_string();
    assert!(!told.contains("times"), "{told}");
    let payload = catch_unwind(AssertUnwindSafe(|| report.assert_clean())).unwrap_err();
    let message = payload.downcast_ref::<String>().unwrap();
    assert!(
        message.contains(&report.findings()[0].to_string()),
        "{message}"
    );
}

#[test]
fn every_clause_has_a_code_a_section_and_a_remedy() {
    let codes: BTreeSet<&str> = Clause::ALL.iter().map(|clause| clause.code()).collect();
    assert_eq!(codes.len(), Clause::ALL.len());
    let remedies: BTreeSet<&str> = Clause::ALL.iter().map(|clause| clause.remedy()).collect();
    assert_eq!(remedies.len(), Clause::ALL.len());
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for clause in Clause::ALL {
        assert!(clause.code().starts_with("probe-"));
        let (page, _) = clause.section().split_once(',').unwrap_or_default();
        let is_written = clause.section() == "the documentation of module `codec`";
        assert!(
            is_written || docs.join(page).is_file(),
            "{}",
            clause.section()
        );
        assert_eq!(clause.to_string(), clause.code());
    }
}

#[test]
fn samples_are_counted_and_shown_by_their_topics() {
    assert!(Samples::new().is_empty() && !samples().is_empty());
    assert_eq!((Samples::new().len(), samples().len()), (0, 2));
    let shown = format!("{:?}", samples().as_story());
    assert_eq!(shown, "Samples { topics: [\"in\", \"in\"], story: true }");
}
