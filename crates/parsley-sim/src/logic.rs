//! A plan's stage as an application would declare it.

use std::sync::Arc;

use bytes::Bytes;
use parsley_stage::{BoxError, BuildError, Message, Outbox, Stage, Topic, codec};

use crate::host::CrashSwitch;
use crate::payload::{self, Payload};
use crate::plan::{Declaration, StagePlan, TopicName};

type SimTopic = Topic<Option<Bytes>, Bytes>;
type SimMessage = Message<Option<Bytes>, Bytes>;

/// Builds the stage that a declaration describes. The logic of a stateful one counts the deliveries of each key, from 1 to 3 and then from none again.
///
/// # Errors
///
/// When the declaration is none that a stage can have.
pub fn build(
    plan: &StagePlan,
    stage: usize,
    declaration: &Arc<Declaration>,
    switch: &CrashSwitch,
) -> Result<Stage, BuildError> {
    let sinks: Vec<SimTopic> = declaration.sinks.iter().map(|&name| topic(name)).collect();
    let logic = |on: TopicName| Logic {
        stage,
        on,
        declaration: Arc::clone(declaration),
        sinks: sinks.clone(),
        switch: switch.clone(),
    };
    if plan.stateful {
        let key = codec::nullable(codec::bytes());
        let mut builder = Stage::stateful(plan.name, key, codec::nullable(codec::u64()))
            .start_at(plan.initial)
            .send_order(plan.send_order);
        for input in &declaration.inputs {
            let logic = logic(input.topic);
            builder = builder.on(
                &topic(input.topic),
                move |count: &mut Option<u64>, message: SimMessage, out: &mut Outbox| {
                    *count = counted(count.unwrap_or(0) + 1);
                    logic.run(&message, out)
                },
            );
        }
        for sink in &sinks {
            builder = builder.sink(sink);
        }
        return builder.build();
    }
    let mut builder = Stage::stateless(plan.name)
        .start_at(plan.initial)
        .send_order(plan.send_order);
    for input in &declaration.inputs {
        let logic = logic(input.topic);
        builder = builder.on(
            &topic(input.topic),
            move |message: SimMessage, out: &mut Outbox| logic.run(&message, out),
        );
    }
    for sink in &sinks {
        builder = builder.sink(sink);
    }
    builder.build()
}

/// What the state of a key counts after so many deliveries: every fourth one takes the state away.
pub fn counted(deliveries: u64) -> Option<u64> {
    Some(deliveries % STATE_ENDS_AFTER).filter(|&count| count > 0)
}

/// See [`counted`].
const STATE_ENDS_AFTER: u64 = 4;

fn topic(name: TopicName) -> SimTopic {
    Topic::new(name, codec::nullable(codec::bytes()), codec::bytes())
}

struct Logic {
    stage: usize,
    on: TopicName,
    declaration: Arc<Declaration>,
    sinks: Vec<SimTopic>,
    switch: CrashSwitch,
}

impl Logic {
    fn run(&self, message: &SimMessage, out: &mut Outbox) -> Result<(), BoxError> {
        if self.switch.fails_now() {
            return Err("the process ends here".into());
        }
        let payload = Payload::of_bytes(&message.value).ok_or("not a simulated record")?;
        let key = payload::key_of(message.key.as_ref());
        for emission in payload::emissions(&self.declaration, self.stage, self.on, key, payload) {
            let sink = self.sinks.iter().find(|sink| sink.name() == emission.to);
            let sink = sink.ok_or("an emission to a topic that is no sink")?;
            let key = emission.key.map(payload::key_bytes);
            out.send(sink, &key, &emission.payload.to_bytes())?;
        }
        Ok(())
    }
}
