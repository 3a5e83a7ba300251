use std::collections::BTreeMap;
use std::sync::Arc;

use parsley_stage::{App, Stage, Topic, TopicInfo, codec};

use super::context::{Context, StopFlag};
use super::execution::Execution;
use super::journal::Counts;
use super::reads::Reads;
use crate::{Host, NewRecord};

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
    let committed = execution.step(&context, &Reads::everything(), &mut counts);
    assert!(committed.unwrap());
    assert_eq!((counts.received, counts.delivered), (3, 1));
    assert_eq!(execution.held(), 2, "the others stay for the next start");
    assert_eq!(host.consumer("b").unwrap().read_to_end().unwrap().len(), 1);
}
