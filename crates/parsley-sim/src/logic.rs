//! A plan's stage as an application would declare it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parsley_stage::{
    BoxError, BuildError, Message, Outbox, Stage, StageBuilder, Tick, Topic, codec,
};

use crate::host::CrashSwitch;
use crate::payload::{self, Payload};
use crate::plan::{Declaration, StagePlan, TopicName};

type SimTopic = Topic<Option<Bytes>, Option<Bytes>>;
type SimMessage = Message<Option<Bytes>, Option<Bytes>>;

/// Builds the stage that a declaration describes. The logic of a stateful one counts the deliveries of each key, from 1 to 3 and then from none again;
/// that of ticks counts them.
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
    let ticks = declaration.ticks;
    let inputs = || declaration.inputs.iter().map(|input| input.topic);
    let messages = inputs().filter(|&topic| Some(topic) != ticks);
    if plan.stateful {
        let key = codec::nullable(codec::bytes());
        let mut builder = Stage::stateful(plan.name, key, codec::nullable(codec::u64()))
            .start_at(plan.initial)
            .send_order(plan.send_order);
        for input in messages {
            let logic = logic(input);
            builder = builder.on(
                &topic(input),
                move |count: &mut Option<u64>, message: SimMessage, out: &mut Outbox| {
                    *count = counted(count.unwrap_or(0) + 1);
                    logic.run(&message, out)
                },
            );
        }
        return finished(builder, &sinks, ticks.map(logic)).build();
    }
    let mut builder = Stage::stateless(plan.name)
        .start_at(plan.initial)
        .send_order(plan.send_order);
    for input in messages {
        let logic = logic(input);
        builder = builder.on(
            &topic(input),
            move |message: SimMessage, out: &mut Outbox| logic.run(&message, out),
        );
    }
    finished(builder, &sinks, ticks.map(logic)).build()
}

/// With sinks and ticks.
fn finished<F>(
    mut builder: StageBuilder<F>,
    sinks: &[SimTopic],
    ticks: Option<Logic>,
) -> StageBuilder<F> {
    for sink in sinks {
        builder = builder.sink(sink);
    }
    let Some(logic) = ticks else { return builder };
    builder.ticks(TICK_INTERVAL, codec::u64(), move |count, tick, out| {
        *count += 1;
        logic.run_tick(tick, out)
    })
}

/// Declared and of no consequence: in a simulated world a task ticks when the scheduler says so.
const TICK_INTERVAL: Duration = Duration::from_secs(1);

/// What the state of a key counts after so many deliveries: every fourth one takes the state away.
pub fn counted(deliveries: u64) -> Option<u64> {
    Some(deliveries % STATE_ENDS_AFTER).filter(|&count| count > 0)
}

/// See [`counted`].
const STATE_ENDS_AFTER: u64 = 4;

fn topic(name: TopicName) -> SimTopic {
    let bytes = || codec::nullable(codec::bytes());
    Topic::new(name, bytes(), bytes())
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
        // Another stage's tick makes nobody emit anything.
        let Some(value) = &message.value else {
            return self.fail_if_told();
        };
        let payload = Payload::of_bytes(value).ok_or("not a simulated record")?;
        self.emit(payload::key_of(message.key.as_ref()), payload, out)
    }

    fn run_tick(&self, tick: Tick, out: &mut Outbox) -> Result<(), BoxError> {
        let payload = Payload::of_tick(self.stage, tick.partition, tick.timestamp_ms);
        self.emit(None, payload, out)
    }

    fn emit(&self, key: Option<u64>, payload: Payload, out: &mut Outbox) -> Result<(), BoxError> {
        self.fail_if_told()?;
        for emission in payload::emissions(&self.declaration, self.stage, self.on, key, payload) {
            let sink = self.sinks.iter().find(|sink| sink.name() == emission.to);
            let sink = sink.ok_or("an emission to a topic that is no sink")?;
            let key = emission.key.map(payload::key_bytes);
            out.send(sink, &key, &Some(emission.payload.to_bytes()))?;
        }
        Ok(())
    }

    fn fail_if_told(&self) -> Result<(), BoxError> {
        match self.switch.fails_now() {
            true => Err("the process ends here".into()),
            false => Ok(()),
        }
    }
}
