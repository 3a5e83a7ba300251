//! Guards that the task raises itself, and failures of the application's code.

mod support;

use std::panic::panic_any;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use parsley_core::{Header, OpenFacts, RefusalCode};
use parsley_stage::{
    FailureKind, Message, Outbox, Outcome, SendError, Stage, TaskError, Topic, codec,
};
use support::{Host, Log};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

/// A stage that counts what it sees by key, sends to `out`, and then does what the test says.
fn stage(
    then: impl Fn(&Message<String, String>, &mut Outbox) -> Outcome + Send + Sync + 'static,
) -> Stage {
    let out = text("out");
    Stage::stateful("s", codec::string(), codec::u64())
        .sink(&out)
        .on(&text("in"), move |seen, message, outbox| {
            *seen += 1;
            outbox.send(&out, &message.key, &message.value)?;
            then(&message, outbox)
        })
        .build()
        .unwrap()
}

fn log() -> Log {
    let mut log = Log::new(&[("in", 1), ("out", 1), ("elsewhere", 1)]);
    for value in ["first", "second", "third"] {
        log.produce(&text("in"), &"k".into(), &value.into(), vec![]);
    }
    log
}

/// Runs the stage over three records in one step, which has to fail at the second. Asserts that the task stays failed and that nothing
/// of the step is kept: a task opened from the committed state is given all three again.
fn failure_of(stage: &Stage) -> TaskError {
    let mut log = log();
    let mut host = Host::new(stage);
    host.open(&log).unwrap();
    let committed = (
        host.ordering.contents(),
        host.fold.contents(),
        host.positions.clone(),
        log.clone(),
    );
    host.feed(&log, &["in"]).unwrap();
    let error = host.step(&mut log, None).unwrap_err();
    let shown = error.to_string();
    assert!(host.task().take_sends().is_empty());
    assert!(!host.task().has_later_rounds());
    assert_eq!(host.task().process_next().unwrap_err().to_string(), shown);
    assert_eq!(host.task().fence(&[]).unwrap_err().to_string(), shown);
    assert_eq!(host.task().finish_step(&[]).unwrap_err().to_string(), shown);
    let channel = log.channel("in", 0);
    assert_eq!(
        host.task().advance(channel, 9).unwrap_err().to_string(),
        shown
    );
    let now = (
        host.ordering.contents(),
        host.fold.contents(),
        host.positions.clone(),
        log.clone(),
    );
    assert_eq!(committed, now);

    host.redeploy(&self::stage(|_, _| Ok(())));
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    assert_eq!(
        host.delivered.iter().map(|p| p.offset).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert_eq!(log.of("out").len(), 3);
    let count = host
        .fold
        .contents()
        .iter()
        .next()
        .map(|(_, value)| value.clone());
    assert_eq!(count.as_deref(), Some(&3_u64.to_be_bytes()[..]));
    error
}

fn refusal_of(stage: &Stage) -> parsley_core::Refusal {
    let error = failure_of(stage);
    let refusal = error.refusal().unwrap_or_else(|| panic!("{error}")).clone();
    assert_eq!(refusal.channel, Some(log().channel("in", 0)));
    assert_eq!(refusal.offset, Some(1));
    refusal
}

#[test]
fn g5_an_undeclared_sink_refuses_and_keeps_nothing_of_the_step() {
    let elsewhere = text("elsewhere");
    let refusal = refusal_of(&stage(move |message, out| {
        if message.value == "second" {
            out.send(&elsewhere, &message.key, &message.value)
        } else {
            Ok(())
        }
    }));
    assert_eq!(refusal.code, RefusalCode::UndeclaredSink);
    assert!(
        refusal.to_string().starts_with("vc-undeclared-sink at "),
        "{refusal}"
    );
    assert!(refusal.found.contains("elsewhere"), "{refusal}");
}

#[test]
fn g5_logic_cannot_swallow_an_undeclared_sink() {
    let (elsewhere, out) = (text("elsewhere"), text("out"));
    let refusal = refusal_of(&stage(move |message, outbox| {
        if message.value == "second" {
            let error = outbox
                .send(&elsewhere, &message.key, &message.value)
                .unwrap_err();
            assert!(matches!(
                error.downcast_ref(),
                Some(SendError::UndeclaredSink { .. })
            ));
            assert!(outbox.send(&out, &message.key, &message.value).is_err());
        }
        Ok(())
    }));
    assert_eq!(refusal.code, RefusalCode::UndeclaredSink);
}

#[test]
fn g5_a_panic_after_it_does_not_hide_it() {
    let elsewhere = text("elsewhere");
    let refusal = refusal_of(&stage(move |message, outbox| {
        if message.value == "second" {
            outbox
                .send(&elsewhere, &message.key, &message.value)
                .unwrap();
        }
        Ok(())
    }));
    assert_eq!(refusal.code, RefusalCode::UndeclaredSink);
}

#[test]
fn g5_a_declared_name_with_another_codec_is_not_that_sink() {
    let disguised = Topic::new("out", codec::string(), codec::bytes());
    let refusal = refusal_of(&stage(move |message, out| {
        if message.value == "second" {
            out.send(&disguised, &message.key, &Bytes::from_static(b"b"))
        } else {
            Ok(())
        }
    }));
    assert_eq!(refusal.code, RefusalCode::UndeclaredSink);
}

#[test]
fn g5_an_equal_declaration_made_elsewhere_is_that_sink() {
    let mut log = log();
    let mut host = Host::new(&stage(|message, out| {
        out.send(&text("out"), &message.key, &"again".into())
    }));
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    assert_eq!(log.of("out").len(), 6);
}

#[test]
fn g6_a_declared_sink_that_does_not_resolve_refuses_the_opening() {
    let mut log = log();
    log.topics.remove("out");
    let error = Host::new(&stage(|_, _| Ok(()))).open(&log).unwrap_err();
    let refusal = error.refusal().unwrap();
    assert_eq!(refusal.code, RefusalCode::MissingSink);
    assert!(refusal.found.contains("out"), "{refusal}");
}

/// A task that was opened without the ends of its sinks once stamped less than its earlier executions had sent.
/// Nobody can read the end of a topic that is not there.
#[test]
fn a_sink_that_is_gone_or_does_not_resolve_is_refused_though_its_end_was_not_read() {
    let log = log();
    let out = log.topics["out"].id;
    for (gone, unresolved) in [([out].into(), [].into()), ([].into(), [out].into())] {
        let facts = OpenFacts {
            gone,
            unresolved,
            ..OpenFacts::default()
        };
        let config = parsley_stage::TaskConfig::new("shop", 0, log.topics.clone());
        let memory = || Box::new(parsley_core::MemoryStore::new());
        let opened =
            parsley_stage::Task::open(stage(|_, _| Ok(())), config, &facts, memory(), memory());
        let refused = opened.map(|_| ()).unwrap_err();
        let refusal = refused.refusal().map(|refusal| refusal.code);
        assert_eq!(refusal, Some(RefusalCode::MissingSink), "{refused}");
    }
}

#[test]
fn a_sink_whose_end_was_not_read_is_no_opening() {
    let log = log();
    let partitions = log.topics["out"].partitions;
    let config = || parsley_stage::TaskConfig::new("shop", 0, log.topics.clone());
    let memory = || Box::new(parsley_core::MemoryStore::new());
    for read in 0..=partitions {
        let ends = (0..read)
            .map(|partition| (log.topics["out"].id.partition(partition), 0))
            .collect();
        let facts = OpenFacts {
            ends,
            ..OpenFacts::default()
        };
        let opened =
            parsley_stage::Task::open(stage(|_, _| Ok(())), config(), &facts, memory(), memory());
        match opened {
            Ok(_) => assert_eq!(read, partitions),
            Err(parsley_stage::TaskError::MissingEnd { topic, partition }) => {
                assert_eq!((&*topic, partition), ("out", read));
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn g14_a_reserved_header_refuses_and_keeps_nothing_of_the_step() {
    for name in ["vc", "vc-", "vc-sender", "vc-of-our-own"] {
        let out = text("out");
        let refusal = refusal_of(&stage(move |message, outbox| {
            if message.value == "second" {
                let _ignored = outbox
                    .to(&out)
                    .header(name, "v")
                    .send(&message.key, &message.value);
            }
            Ok(())
        }));
        assert_eq!(refusal.code, RefusalCode::ReservedHeader);
        let is_named = refusal.found.contains(&format!("the header {name} on"));
        assert_eq!(is_named, ["vc", "vc-sender"].contains(&name), "{refusal}");
    }
}

/// A refusal is logged as it is, and no log has what a record says. Logic that named a header for what it was delivered had that name, and so
/// the record's own words, in the error event of the guard that stopped it.
#[test]
fn g14_what_a_refusal_says_has_nothing_of_a_header_that_logic_named() {
    let out = text("out");
    let refusal = refusal_of(&stage(move |message, outbox| match &*message.value {
        "second" => outbox
            .to(&out)
            .header(format!("vc-{}", message.value), "v")
            .send(&message.key, &message.value),
        _ => Ok(()),
    }));
    assert_eq!(refusal.code, RefusalCode::ReservedHeader);
    assert!(!refusal.to_string().contains("second"), "{refusal}");
    assert!(refusal.found.contains("begins with vc-"), "{refusal}");
    assert!(refusal.found.contains("emission to out"), "{refusal}");
}

#[test]
fn g14_a_null_header_and_a_copied_one_are_headers_too() {
    let out = text("out");
    let refusal = refusal_of(&stage(move |message, outbox| match &*message.value {
        "second" => outbox
            .to(&out)
            .null_header("vc")
            .send(&message.key, &message.value),
        _ => Ok(()),
    }));
    assert_eq!(refusal.code, RefusalCode::ReservedHeader);
    let out = text("out");
    let refusal = refusal_of(&stage(move |message, outbox| match &*message.value {
        "second" => {
            let reserved = [Header::new("fine", "1"), Header::new("vc-seq", "2")];
            outbox
                .to(&out)
                .headers(&reserved)
                .send(&message.key, &message.value)
        }
        _ => Ok(()),
    }));
    assert_eq!(refusal.code, RefusalCode::ReservedHeader);
}

#[test]
fn g14_names_that_only_look_reserved_are_the_applications() {
    let mut log = log();
    let out = text("out");
    let mut host = Host::new(&stage(move |message, outbox| {
        let names = ["vcx", "VC", "Vc-seq", "v", "x-vc-"];
        names.iter().try_for_each(|name| {
            outbox
                .to(&out)
                .header(*name, "v")
                .send(&message.key, &message.value)
        })
    }));
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    assert_eq!(log.of("out").len(), 18);
}

fn application_failure_of(stage: &Stage) -> (FailureKind, String) {
    let error = failure_of(stage);
    let failure = error.application().unwrap_or_else(|| panic!("{error}"));
    assert_eq!(
        (&*failure.stage, &*failure.topic, failure.offset),
        ("s", "in", 1)
    );
    assert_eq!(failure.channel, log().channel("in", 0));
    (failure.kind, failure.message.clone())
}

#[test]
fn an_error_of_the_logic_is_an_application_failure_with_its_words() {
    let failure = application_failure_of(&stage(|message, _| match &*message.value {
        "second" => {
            "x".parse::<u8>()?;
            Ok(())
        }
        _ => Ok(()),
    }));
    assert_eq!(
        failure,
        (FailureKind::Logic, "invalid digit found in string".into())
    );
}

#[test]
fn a_panic_of_the_logic_is_an_application_failure_with_its_words() {
    let failure = application_failure_of(&stage(|message, _| match &*message.value {
        "second" => panic_any(format!("no {}", message.key)),
        _ => Ok(()),
    }));
    assert_eq!(failure, (FailureKind::Panic, "no k".into()));
}

#[test]
fn a_panic_of_a_codec_is_an_application_failure() {
    let input = Topic::new(
        "in",
        codec::string(),
        codec::from_fns(
            |text: &String| Ok(text.clone().into_bytes()),
            |bytes| {
                if bytes == b"second" {
                    panic_any("cannot")
                } else {
                    Ok(String::from_utf8(bytes.to_vec())?)
                }
            },
        ),
    );
    let stage = Stage::stateless("s")
        .on(&input, |_, _| Ok(()))
        .build()
        .unwrap();
    assert_eq!(
        application_failure_of(&stage),
        (FailureKind::Panic, "cannot".into())
    );
}

/// Errors of the application were once read outside of what catches its panics: one whose text panics ended the task for good.
#[test]
fn a_panic_of_an_errors_text_is_an_application_failure() {
    #[derive(Debug)]
    struct Unspeakable;
    impl std::fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic_any("no words")
        }
    }
    impl std::error::Error for Unspeakable {}

    let of_logic = stage(|message, _| match &*message.value {
        "second" => Err(Unspeakable.into()),
        _ => Ok(()),
    });
    assert_eq!(
        application_failure_of(&of_logic),
        (FailureKind::Panic, "no words".into())
    );

    let out = Topic::new(
        "out",
        codec::string(),
        codec::from_fns(
            |text: &String| match &**text {
                "second" => Err(Unspeakable.into()),
                _ => Ok(text.clone().into_bytes()),
            },
            |bytes| Ok(String::from_utf8(bytes.to_vec())?),
        ),
    );
    let of_codec = Stage::stateless("s")
        .on(&text("in"), {
            let out = out.clone();
            move |message, outbox| {
                let _ignored = outbox.send(&out, &message.key, &message.value);
                Ok(())
            }
        })
        .sink(&out)
        .build()
        .unwrap();
    assert_eq!(
        application_failure_of(&of_codec),
        (FailureKind::Panic, "no words".into())
    );
}

#[test]
fn a_value_that_does_not_decode_is_an_application_failure() {
    let input = Topic::new(
        "in",
        codec::string(),
        codec::from_fns(
            |_: &()| Ok(vec![]),
            |bytes| {
                if bytes == b"second" {
                    Err("unknown shape".into())
                } else {
                    Ok(())
                }
            },
        ),
    );
    let stage = Stage::stateless("s")
        .on(&input, |_, _| Ok(()))
        .build()
        .unwrap();
    let failure = application_failure_of(&stage);
    assert_eq!(
        failure,
        (
            FailureKind::Decode,
            "the value does not decode: unknown shape".into()
        )
    );
}

#[test]
fn an_emission_that_does_not_encode_fails_the_step_also_when_ignored() {
    let odd = || {
        Topic::new(
            "out",
            codec::string(),
            codec::from_fns(
                |_: &()| Err::<Vec<u8>, _>("no bytes for this".into()),
                |_| Ok(()),
            ),
        )
    };
    let out = odd();
    let stage = Stage::stateless("s")
        .sink(&out)
        .on(&text("in"), move |message, outbox| {
            if message.value == "second" {
                let _ignored = outbox.send(&out, &message.key, &());
            }
            Ok(())
        });
    let (kind, message) = application_failure_of(&stage.build().unwrap());
    assert_eq!(kind, FailureKind::Encode);
    assert_eq!(
        message,
        "the value of an emission to out does not encode: no bytes for this"
    );
}

#[test]
fn a_state_that_does_not_encode_or_decode_is_an_application_failure() {
    let state = |fails_to_encode: bool| {
        codec::from_fns(
            move |n: &u64| {
                if fails_to_encode && *n == 2 {
                    Err("full".into())
                } else {
                    Ok(vec![*n as u8])
                }
            },
            move |bytes| {
                if fails_to_encode {
                    Ok(u64::from(bytes[0]))
                } else {
                    Err("rotten".into())
                }
            },
        )
    };
    for (fails_to_encode, words) in [
        (true, "the state does not encode: full"),
        (false, "the stored state does not decode: rotten"),
    ] {
        let stage = Stage::stateful("s", codec::string(), state(fails_to_encode))
            .on(&text("in"), |seen, _, _| {
                *seen += 1;
                Ok(())
            })
            .build()
            .unwrap();
        assert_eq!(
            application_failure_of(&stage),
            (FailureKind::State, words.into())
        );
    }
}

#[test]
fn a_null_where_the_codec_has_none_is_a_decode_failure() {
    let mut log = Log::new(&[("in", 1)]);
    log.produce(
        &Topic::new("in", codec::null(), codec::string()),
        &(),
        &"v".into(),
        vec![],
    );
    let mut host = Host::new(
        &Stage::stateless("s")
            .on(&text("in"), |_, _| Ok(()))
            .build()
            .unwrap(),
    );
    host.open(&log).unwrap();
    let error = host.run(&mut log, &["in"]).unwrap_err();
    let failure = error.application().unwrap();
    assert_eq!(failure.kind, FailureKind::Decode);
    assert_eq!(
        failure.message,
        "the key does not decode: null, where the codec expects a value"
    );
}

#[test]
fn malformed_input_can_be_routed_to_a_sink_of_its_own() {
    let input = Topic::new("in", codec::string(), codec::fallible(codec::u64()));
    let (out, rejects) = (
        Topic::new("out", codec::string(), codec::u64()),
        Topic::new("rejects", codec::string(), codec::bytes()),
    );
    let stage =
        Stage::stateless("s")
            .sink(&out)
            .sink(&rejects)
            .on(&input, move |message, outbox| match &message.value {
                Ok(value) => outbox.send(&out, &message.key, &(value + 1)),
                Err(malformed) => {
                    let bytes = malformed.bytes.clone().unwrap_or_default();
                    outbox
                        .to(&rejects)
                        .header("why", malformed.error.to_string())
                        .send(&message.key, &bytes)
                }
            });
    let mut log = Log::new(&[("in", 1), ("out", 1), ("rejects", 1)]);
    let raw = Topic::new("in", codec::string(), codec::byte_vec());
    log.produce(&raw, &"k".into(), &7_u64.to_be_bytes().to_vec(), vec![]);
    log.produce(&raw, &"k".into(), &b"seven".to_vec(), vec![]);
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    assert_eq!(
        log.of("out")[0].value.as_deref(),
        Some(&8_u64.to_be_bytes()[..])
    );
    assert_eq!(log.of("rejects")[0].value.as_deref(), Some(&b"seven"[..]));
    assert_eq!(
        support::headers(&log.of("rejects")[0], "why"),
        ["5 bytes, where the codec expects 8"]
    );
}

#[test]
fn a_configuration_that_does_not_fit_the_stage_is_an_error() {
    let (stage, log) = (stage(|_, _| Ok(())), log());
    let open = |log: &Log, partition| Host::of_partition(&stage, partition).open(log).unwrap_err();

    let mut without_input = log.clone();
    without_input.topics.remove("in");
    assert!(
        matches!(open(&without_input, 0), TaskError::UnresolvedInput { topic } if &*topic == "in")
    );

    assert!(matches!(
        open(&log, 1),
        TaskError::NoChannel { partition: 1, .. }
    ));
    assert!(matches!(
        open(&log, -1),
        TaskError::NoChannel { partition: -1, .. }
    ));

    let mut empty = log.clone();
    empty.topics.get_mut("out").unwrap().partitions = 0;
    assert!(matches!(
        open(&empty, 0),
        TaskError::NoPartitions { found: 0, .. }
    ));

    let two = Stage::stateless("s")
        .on(&text("in"), |_, _| Ok(()))
        .on(&text("elsewhere"), |_, _| Ok(()));
    let mut one_identity = log.clone();
    one_identity
        .topics
        .insert("elsewhere".into(), log.topics["in"]);
    let error = Host::new(&two.build().unwrap())
        .open(&one_identity)
        .unwrap_err();
    assert!(matches!(error, TaskError::SharedIdentity { id } if id == log.topics["in"].id));
}

#[test]
fn calls_out_of_turn_stop_the_task() {
    let two_rounds = || {
        let out = text("out");
        let elsewhere = text("elsewhere");
        Stage::stateless("s")
            .sink(&out)
            .sink(&elsewhere)
            .on(&text("in"), move |message, outbox| {
                outbox.send(&out, &message.key, &message.value)?;
                outbox.send(&elsewhere, &message.key, &message.value)
            })
            .build()
            .unwrap()
    };
    let opened = || {
        let log = log();
        let mut host = Host::new(&two_rounds());
        host.open_knowing(&log, OpenFacts::default()).unwrap();
        host.feed(&log, &["in"]).unwrap();
        host.task().process_next().unwrap().unwrap();
        host
    };
    let out_of_turn = |error: TaskError| match error {
        TaskError::OutOfTurn { call, state } => format!("{call} while {state}"),
        other => panic!("{other}"),
    };

    let mut host = opened();
    assert_eq!(
        out_of_turn(host.task().fence(&[]).unwrap_err()),
        "fence while sends of the step were not taken"
    );
    assert!(!host.task().has_later_rounds());
    assert!(host.task().take_sends().is_empty());

    let mut host = opened();
    assert_eq!(host.task().take_sends().len(), 1);
    let error = host.task().finish_step(&[]).unwrap_err();
    assert_eq!(
        out_of_turn(error),
        "finish_step while rounds of the step remain"
    );

    let mut host = opened();
    assert_eq!(host.task().take_sends().len(), 1);
    host.task().fence(&[]).unwrap();
    let error = host.task().process_next().unwrap_err();
    assert_eq!(out_of_turn(error), "process_next while the step is fenced");

    let mut host = opened();
    let _handed_over = host.task().take_sends();
    host.task().fence(&[]).unwrap();
    let error = host.task().finish_step(&[]).unwrap_err();
    assert_eq!(
        out_of_turn(error),
        "finish_step while sends of the step were not taken"
    );

    let mut host = opened();
    host.task().step_committed();
    let error = host.task().process_next().unwrap_err();
    assert_eq!(
        out_of_turn(error),
        "step_committed while the step takes deliveries"
    );

    let mut host = opened();
    let _handed_over = host.task().take_sends();
    host.task().fence(&[]).unwrap();
    assert_eq!(host.task().take_sends().len(), 1);
    let _dropped = host.task().finish_step(&[]).unwrap();
    let error = host.task().process_next().unwrap_err();
    assert_eq!(
        out_of_turn(error),
        "process_next while the step is being committed"
    );
}

#[test]
fn a_failed_store_stops_the_task() {
    use parsley_core::{MemoryStore, StateStore, StoreError, Visit};
    struct Unreadable(Arc<AtomicBool>);
    impl StateStore for Unreadable {
        fn get(&self, _: &[u8]) -> Result<Option<Bytes>, StoreError> {
            if self.0.load(Ordering::Relaxed) {
                Err(StoreError::new("the disk is gone"))
            } else {
                Ok(None)
            }
        }
        fn put(&mut self, _: &[u8], _: Bytes) -> Result<(), StoreError> {
            unreachable!("tasks do not write")
        }
        fn delete(&mut self, _: &[u8]) -> Result<(), StoreError> {
            unreachable!("tasks do not write")
        }
        fn scan(
            &self,
            _: &[u8],
            _: &[u8],
            _: &mut dyn FnMut(&[u8], &Bytes) -> Visit,
        ) -> Result<(), StoreError> {
            Ok(())
        }
    }
    let log = log();
    let gone = Arc::new(AtomicBool::new(false));
    let config = parsley_stage::TaskConfig::new("shop", 0, log.topics.clone());
    let fold = Box::new(Unreadable(Arc::clone(&gone)));
    let stage = stage(|_, _| Ok(()));
    let ends = [(log.topics["out"].id.partition(0), 0)].into();
    let (mut task, _) = parsley_stage::Task::open(
        stage,
        config,
        &OpenFacts {
            ends,
            ..OpenFacts::default()
        },
        Box::new(MemoryStore::new()),
        fold,
    )
    .unwrap();
    task.receive(log.of("in")[0].clone()).unwrap();
    gone.store(true, Ordering::Relaxed);
    let error = task.process_next().unwrap_err();
    assert!(matches!(error, TaskError::Fold(_)));
    assert!(error.to_string().contains("the disk is gone"));
    gone.store(false, Ordering::Relaxed);
    assert!(matches!(task.process_next(), Err(TaskError::Fold(_))));
}
