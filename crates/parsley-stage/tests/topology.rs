//! What makes a stage and an application, and what does not.

mod support;

use std::time::Duration;

use std::sync::Arc;

use bytes::Bytes;
use parsley_stage::{
    App, BuildError, Codec, Initial, NameFault, Named, Part, SendOrder, Stage, StageBuilder,
    Stateless, Topic, codec,
};
use support::{Host, Log};

fn text(name: &str) -> Topic<String, String> {
    Topic::new(name, codec::string(), codec::string())
}

fn reading(stage: &str, topic: &str) -> StageBuilder<Stateless> {
    Stage::stateless(stage).on(&text(topic), |_, _| Ok(()))
}

fn stage(name: &str) -> Stage {
    reading(name, "in").build().unwrap()
}

#[test]
fn an_application_lists_what_it_declares() {
    let settle = reading("settle", "orders")
        .sink(&text("settled"))
        .sink(&text("audit"))
        .build()
        .unwrap();
    let project = reading("project", "settled")
        .on(&text("orders"), |_, _| Ok(()))
        .start_at(Initial::Latest)
        .send_order(SendOrder::PerDelivery)
        .build()
        .unwrap();
    assert_eq!(
        (settle.initial(), settle.send_order()),
        (Initial::Earliest, SendOrder::PerKey)
    );
    assert_eq!(
        (project.initial(), project.send_order()),
        (Initial::Latest, SendOrder::PerDelivery)
    );
    assert_eq!(project.inputs().collect::<Vec<_>>(), ["settled", "orders"]);
    assert!(!project.is_stateful());
    let app = App::named("shop")
        .stage(settle)
        .stage(project)
        .build()
        .unwrap();
    assert_eq!(app.name(), "shop");
    assert_eq!(
        app.stages().iter().map(Stage::name).collect::<Vec<_>>(),
        ["settle", "project"]
    );
    assert!(app.inputs().into_iter().eq(["orders", "settled"]));
    assert!(app.sinks().into_iter().eq(["audit", "settled"]));
    assert!(app.topics().into_iter().eq(["audit", "orders", "settled"]));
    assert_eq!(
        app.consumer_group(app.stage("settle").unwrap()),
        "shop-settle"
    );
    assert!(app.stage("nothing").is_none());
}

#[test]
fn applications_and_stages_can_go_to_threads() {
    fn sendable<T: Clone + Send + Sync + 'static>() {}
    sendable::<App>();
    sendable::<Stage>();
    sendable::<Topic<std::rc::Rc<u8>, std::cell::Cell<u8>>>();
    fn movable<T: Send + 'static>() {}
    movable::<parsley_stage::Task>();
}

#[test]
fn a_stage_without_input_is_refused() {
    let error = Stage::stateless("idle")
        .sink(&text("out"))
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        BuildError::NoInput {
            stage: "idle".into()
        }
    );
}

#[test]
fn an_input_or_a_sink_declared_twice_is_refused() {
    let error = reading("s", "in")
        .on(&text("in"), |_, _| Ok(()))
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        BuildError::DuplicateInput {
            stage: "s".into(),
            topic: "in".into()
        }
    );
    let error = reading("s", "in")
        .sink(&text("out"))
        .sink(&text("out"))
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        BuildError::DuplicateSink {
            stage: "s".into(),
            topic: "out".into()
        }
    );
}

#[test]
fn a_topic_may_be_input_and_sink_of_one_stage() {
    let stage = reading("loop", "in").sink(&text("in")).build().unwrap();
    assert!(App::named("a").stage(stage).build().is_ok());
}

#[test]
fn two_stages_of_one_name_are_refused() {
    let error = App::named("shop")
        .stage(stage("s"))
        .stage(stage("t"))
        .stage(stage("s"))
        .build()
        .unwrap_err();
    assert_eq!(
        error,
        BuildError::DuplicateStage {
            application: "shop".into(),
            stage: "s".into()
        }
    );
}

#[test]
fn an_application_without_stages_is_refused() {
    assert_eq!(
        App::named("shop").build().unwrap_err(),
        BuildError::NoStage {
            application: "shop".into()
        }
    );
}

#[test]
fn one_topic_with_two_codecs_is_refused_within_a_stage_and_across_stages() {
    let raw = Topic::new("t", codec::string(), codec::bytes());
    let expected = BuildError::TwoCodecs {
        topic: "t".into(),
        part: Part::Value,
        first: "string of alloc::string::String".into(),
        second: "bytes of bytes::bytes::Bytes".into(),
    };
    assert_eq!(reading("s", "t").sink(&raw).build().unwrap_err(), expected);
    let writer = reading("writer", "in").sink(&raw).build().unwrap();
    let reader = reading("reader", "t").build().unwrap();
    assert_eq!(
        App::named("a")
            .stage(reader)
            .stage(writer)
            .build()
            .unwrap_err(),
        expected
    );

    let by_number = Topic::new("t", codec::i32(), codec::string());
    let error = reading("s", "t").sink(&by_number).build().unwrap_err();
    assert!(
        matches!(
            error,
            BuildError::TwoCodecs {
                part: Part::Key,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn codecs_of_one_type_are_told_apart() {
    let with = |value: Codec<u64>| Topic::new("t", codec::string(), value);
    let build = |first: Codec<u64>, second: Codec<u64>| {
        reading("s", "in")
            .on(&with(first), |_, _| Ok(()))
            .sink(&with(second))
            .build()
    };
    assert!(build(codec::u64(), codec::u64()).is_ok());
    assert!(matches!(
        build(codec::u64(), codec::json()),
        Err(BuildError::TwoCodecs { .. })
    ));
    assert!(matches!(
        build(codec::u64(), codec::u64().named("milliseconds")),
        Err(BuildError::TwoCodecs { .. })
    ));
}

#[test]
fn a_stage_is_shown_with_what_it_declares() {
    let stage = reading("settle", "orders").sink(&text("settled"));
    let shown = format!("{:?}", text("orders"));
    assert!(
        shown.starts_with("Topic") && shown.contains("\"orders\""),
        "{shown}"
    );
    assert_eq!(shown.matches("Codec(").count(), 2, "{shown}");
    let shown = format!("{:?}", stage.build().unwrap());
    for part in [
        "Stage",
        "\"settle\"",
        "[\"orders\"]",
        "[\"settled\"]",
        "PerKey",
        "Earliest",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
}

#[test]
fn a_stage_knows_the_codecs_of_what_it_keeps() {
    let counting = Stage::stateful("counting", codec::string(), codec::u64())
        .on(&text("x"), |seen, _, _| {
            *seen += 1;
            Ok(())
        })
        .build()
        .unwrap();
    assert!(counting.keeps(&codec::string(), &codec::u64()));
    assert!(!counting.keeps(&codec::string(), &codec::i64()));
    assert!(!counting.keeps(&codec::bytes(), &codec::u64()));
    assert!(!counting.keeps_ticks(&codec::u64()));
    let ticking = reading("ticking", "x")
        .ticks(Duration::from_secs(1), codec::u64(), |_, _, _| Ok(()))
        .build()
        .unwrap();
    assert!(ticking.keeps_ticks(&codec::u64()) && !ticking.keeps_ticks(&codec::i64()));
    assert!(!ticking.keeps(&codec::string(), &codec::u64()));
}

#[test]
fn an_input_whose_keys_are_written_otherwise_than_the_states_keys_is_refused() {
    let stage = Stage::stateful("s", codec::json::<String>(), codec::u64())
        .on(&text("in"), |_, _, _| Ok(()));
    assert_eq!(
        stage.build().unwrap_err(),
        BuildError::KeyCodec {
            stage: "s".into(),
            topic: "in".into(),
            expected: "json of alloc::string::String".into(),
            found: "string of alloc::string::String".into(),
        }
    );
}

#[test]
fn names_that_kafka_does_not_take_are_refused() {
    let fault = |error: BuildError| match error {
        BuildError::Name { what, fault, .. } => (what, fault),
        other => panic!("{other}"),
    };
    let slash = NameFault::Character { found: '/' };
    assert_eq!(
        fault(App::named("a/b").stage(stage("s")).build().unwrap_err()),
        (Named::Application, slash)
    );
    assert_eq!(
        fault(App::named("").stage(stage("s")).build().unwrap_err()),
        (Named::Application, NameFault::Empty)
    );
    assert_eq!(
        fault(reading("", "in").build().unwrap_err()),
        (Named::Stage, NameFault::Empty)
    );
    assert_eq!(
        fault(reading("a/b", "in").build().unwrap_err()),
        (Named::Stage, slash)
    );
    assert_eq!(
        fault(reading("s", "..").build().unwrap_err()),
        (Named::Topic, NameFault::Directory)
    );
    assert_eq!(
        fault(reading("s", "in").sink(&text("a/b")).build().unwrap_err()),
        (Named::Topic, slash)
    );
}

#[test]
fn names_of_internal_topics_are_checked_too() {
    let (app, name) = ("a".repeat(200), "s".repeat(40));
    let error = App::named(app).stage(stage(&name)).build().unwrap_err();
    let fault = NameFault::TooLong {
        found: 257,
        max: 249,
    };
    assert!(
        matches!(&error, BuildError::Name { what: Named::Internal, fault: found, .. } if *found == fault),
        "{error}"
    );
    for topic in [
        "shop-s-state-changelog",
        "shop-s-fold-changelog",
        "shop-s-ticks",
    ] {
        let error = App::named("shop")
            .stage(stage("s"))
            .stage(reading("t", topic).build().unwrap())
            .build();
        assert_eq!(
            error.unwrap_err(),
            BuildError::InternalTopic {
                stage: "s".into(),
                topic: topic.into()
            }
        );
    }
}

/// A null key, an empty key and any other each have a state of their own, and a state codec that gives null removes one.
#[test]
fn state_is_kept_by_the_bytes_of_the_key() {
    let input = || Topic::new("in", codec::nullable(codec::bytes()), codec::i64());
    let stage = Stage::stateful(
        "sums",
        codec::nullable(codec::bytes()),
        codec::nullable(codec::i64()),
    )
    .on(&input(), |sum, message, _| {
        let total = sum.unwrap_or(0) + message.value;
        *sum = (total != 0).then_some(total);
        Ok(())
    })
    .build()
    .unwrap();
    let mut log = Log::new(&[("in", 1)]);
    let key = |bytes: &'static [u8]| Some(Bytes::from_static(bytes));
    for (key, value) in [
        (None, 1),
        (key(b""), 2),
        (key(&[0]), 3),
        (None, 10),
        (key(b"gone"), 5),
        (key(b"gone"), -5),
    ] {
        log.produce(&input(), &key, &value, vec![]);
    }
    for max_step_deliveries in [1, 100] {
        let config: fn(&mut parsley_stage::TaskConfig) = if max_step_deliveries == 1 {
            |config| config.max_step_deliveries = 1
        } else {
            |_| {}
        };
        let mut host = Host::new(&stage).configured(config);
        host.open(&log).unwrap();
        host.run(&mut log.clone(), &["in"]).unwrap();
        let fold = host.fold.contents();
        let fold: Vec<(&[u8], i64)> = fold
            .iter()
            .map(|(key, sum)| {
                (
                    key.as_ref(),
                    i64::from_be_bytes(sum.as_ref().try_into().unwrap()),
                )
            })
            .collect();
        assert_eq!(fold, [(&[0][..], 11), (&[1][..], 2), (&[1, 0][..], 3)]);
    }
}

/// What a state keeps outside of its codec does not survive a delivery, wherever steps end.
#[test]
fn a_state_is_what_its_codec_keeps_of_it() {
    #[derive(Default)]
    struct Counter {
        kept: u8,
        forgotten: u8,
    }
    let counters = codec::from_fns(
        |counter: &Counter| Ok(vec![counter.kept]),
        |bytes| {
            Ok(Counter {
                kept: bytes[0],
                forgotten: 0,
            })
        },
    );
    let out = Topic::new("out", codec::string(), codec::byte_vec());
    let stage = Stage::stateful("s", codec::string(), counters)
        .sink(&out)
        .on(&text("in"), move |counter, message, outbox| {
            counter.kept += 1;
            counter.forgotten += 1;
            outbox.send(&out, &message.key, &vec![counter.kept, counter.forgotten])
        })
        .build()
        .unwrap();
    let mut log = Log::new(&[("in", 1), ("out", 1)]);
    for _ in 0..3 {
        log.produce(&text("in"), &"k".into(), &"v".into(), vec![]);
    }
    let mut host = Host::new(&stage);
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    let sent: Vec<Bytes> = log
        .of("out")
        .iter()
        .filter_map(|record| record.value.clone())
        .collect();
    assert_eq!(
        sent,
        [[1, 1], [2, 1], [3, 1]].map(|bytes| Bytes::from(bytes.to_vec()))
    );
}

#[test]
fn topics_of_different_types_meet_on_one_stage() {
    let (names, ages) = (
        text("names"),
        Topic::new("ages", codec::string(), codec::u32()),
    );
    let out = text("out");
    let stage = Stage::stateful("people", codec::string(), codec::json::<(String, u32)>())
        .sink(&out)
        .on(&names, |person, message, _| {
            person.0 = message.value;
            Ok(())
        })
        .on(&ages, move |person, message, outbox| {
            person.1 = message.value;
            outbox.send(&out, &message.key, &format!("{} is {}", person.0, person.1))
        })
        .build()
        .unwrap();
    let mut log = Log::new(&[("names", 1), ("ages", 1), ("out", 1)]);
    log.produce(&names, &"1".into(), &"ann".into(), vec![]);
    log.produce(&ages, &"1".into(), &42, vec![]);
    let mut host = Host::new(&stage);
    host.open(&log).unwrap();
    host.run(&mut log, &["names"]).unwrap();
    host.run(&mut log, &["ages"]).unwrap();
    assert_eq!(log.of("out")[0].value.as_deref(), Some(&b"ann is 42"[..]));
}

#[test]
fn logic_sees_where_a_message_came_from() {
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let stage = Stage::stateless("s").on(&text("in"), {
        let seen = Arc::clone(&seen);
        move |message, _| {
            seen.lock().unwrap().push(message);
            Ok(())
        }
    });
    let mut log = Log::new(&[("in", 1)]);
    let header = parsley_core::Header::new("h", "1");
    log.produce(&text("in"), &"k".into(), &"v".into(), vec![header.clone()]);
    let mut host = Host::new(&stage.build().unwrap());
    host.open(&log).unwrap();
    host.run(&mut log, &["in"]).unwrap();
    let expected = parsley_stage::Message {
        key: "k".to_owned(),
        value: "v".to_owned(),
        timestamp_ms: 1000,
        headers: vec![header],
        topic: "in".into(),
        partition: 0,
        offset: 0,
    };
    assert_eq!(*seen.lock().unwrap(), [expected]);
}
