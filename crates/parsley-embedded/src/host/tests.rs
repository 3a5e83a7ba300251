use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parsley_stage::meter::StageMeter;
use parsley_stage::watch::TaskWatch;
use parsley_stage::{App, Stage, Topic, TopicInfo, codec};

use super::context::{Context, StopFlag};
use super::execution::Execution;
use super::journal::Counts;
use super::reads::Reads;
use super::telling::Telling;
use crate::log::Fault;
use crate::{Host, NewRecord, Reads as StepReads, StorageError, TimeSource};

/// The context of the one task of `s`, which copies `a` to `b`.
fn context(host: &Host) -> Context {
    let topic = |name: &'static str| Topic::new(name, codec::string(), codec::string());
    let (a, b) = (topic("a"), topic("b"));
    let stage = Stage::stateless("s")
        .on(&a, {
            let b = b.clone();
            move |message, out| out.send(&b, &message.key, &message.value)
        })
        .sink(&b)
        .build()
        .unwrap();
    let app = App::named("app").stage(stage.clone()).build().unwrap();
    let topics: BTreeMap<Arc<str>, TopicInfo> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let id = host.create_topic(name, 1).unwrap();
            (name.into(), TopicInfo { id, partitions: 1 })
        })
        .collect();
    let application: Arc<str> = "app".into();
    let watch = TaskWatch::new(&application, &stage, 0, &topics, Duration::MAX);
    let meter = StageMeter::register(&application, &stage.name().into());
    Context {
        log: host.log().clone(),
        settings: Arc::clone(&host.settings),
        stop: StopFlag::default(),
        application: "app".into(),
        group: app.consumer_group(&stage),
        stage,
        stage_name: "s".into(),
        partition: 0,
        topics,
        audit: None,
        telling: Telling::new(watch, meter, TimeSource::system()),
    }
}

#[test]
fn a_stop_ends_a_step_behind_the_delivery_at_hand() {
    let host = Host::in_memory();
    let context = context(&host);
    for value in ["1", "2", "3"] {
        let record = NewRecord::to("a").key("k").value(value);
        host.producer().send(record).unwrap();
    }
    let (mut execution, _) = Execution::open(&context).unwrap();
    let mut counts = Counts::default();
    context.stop.raise();
    let committed = execution.step(&context, &Reads::everything(), None, &mut counts);
    assert!(committed.unwrap());
    assert_eq!((counts.received, counts.delivered), (3, 1));
    assert_eq!(execution.held(), 2, "the others stay for the next start");
    assert_eq!(host.consumer("b").unwrap().read_to_end().unwrap().len(), 1);
}

/// A task whose step is in doubt opens when it is known what became of it, and not before: from what was committed it would do again
/// what may have been done.
#[test]
fn a_task_opens_when_no_step_of_it_is_in_doubt() {
    for writes in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::open(dir.path()).unwrap();
        let app = {
            let topic = |name: &'static str| Topic::new(name, codec::string(), codec::string());
            let (a, b) = (topic("a"), topic("b"));
            let copy = {
                let b = b.clone();
                move |message: parsley_stage::Message<String, String>,
                      out: &mut parsley_stage::Outbox| {
                    out.send(&b, &message.key, &message.value)
                }
            };
            let stage = Stage::stateless("s").on(&a, copy).sink(&b).build().unwrap();
            App::named("app").stage(stage).build().unwrap()
        };
        for topic in ["a", "b"] {
            host.create_topic(topic, 1).unwrap();
        }
        let record = NewRecord::to("a").key("k").value("v");
        host.producer().send(record).unwrap();
        let mut stepper = host.step_by_step(&app).unwrap();
        stepper.open("s", 0).unwrap();
        let all = StepReads::everything();
        let in_doubt = |error: &super::StepError| {
            matches!(
                error.end().and_then(super::TaskEnd::storage),
                Some(StorageError::InDoubt { .. } | StorageError::Full { .. })
            )
        };

        host.log().faults().set(Fault::Silent { writes });
        let error = stepper.step("s", 0, &all).unwrap_err();
        assert!(in_doubt(&error), "{error}");
        let error = stepper.open("s", 0).unwrap_err();
        assert!(in_doubt(&error), "{error}");

        host.log().faults().set(Fault::None);
        stepper.open("s", 0).unwrap();
        let delivered = stepper.step("s", 0, &all).unwrap().delivered.len();
        assert_eq!(delivered, usize::from(!writes));
        let copies = host.consumer("b").unwrap().read_to_end().unwrap();
        assert_eq!(copies.len(), 1, "once, whether the disk had it or not");
    }
}
