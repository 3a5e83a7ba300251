//! Driving tasks step by step, and reading what they report.

use parsley_core::{Offset, Record};
use parsley_embedded::{
    Host, HostBuilder, Ids, LogConfig, Reads, StepError, StepReport, Stepper, TaskEnd, TimeSource,
};
use parsley_stage::App;

use super::{builder, copying, create, text};

pub const ALL: Reads = Reads::everything();

/// A builder whose runs are the same to the last timestamp. Of the host's clock too: what is held has an age, and two runs once differed
/// by the milliseconds between a step and the look at it.
pub fn repeatable() -> HostBuilder {
    let time = TimeSource::from_fn(|| 7);
    let config = LogConfig::default().ids(Ids::Seeded(1));
    builder().log_config(config.time(time.clone())).time(time)
}

/// `s` copies x and y to out.
pub fn pair() -> App {
    let stage = copying("s", &[&text("x"), &text("y")], &text("out"));
    App::named("app").stage(stage).build().unwrap()
}

pub fn pair_host(builder: HostBuilder) -> Host {
    let host = builder.build().unwrap();
    create(&host, 1, &["x", "y", "out"]);
    host
}

pub fn opened(host: &Host, app: &App) -> Stepper {
    let mut stepper = host.step_by_step(app).unwrap();
    let names: Vec<_> = stepper
        .tasks()
        .map(|(stage, partition)| (stage.to_owned(), partition))
        .collect();
    for (stage, partition) in names {
        stepper.open(&stage, partition).unwrap();
    }
    stepper
}

pub fn delivered(step: &StepReport) -> Vec<(&str, Offset)> {
    let each = step.delivered.iter();
    each.map(|delivery| (&*delivery.topic, delivery.offset))
        .collect()
}

pub fn appended(step: &StepReport) -> Vec<(&str, Offset, usize)> {
    let each = step.appended.iter();
    each.map(|sent| (&*sent.send.topic, sent.offset, sent.send.round))
        .collect()
}

/// How an execution ended, and what its step had done.
pub fn ended<T: std::fmt::Debug>(result: Result<T, StepError>) -> (TaskEnd, StepReport) {
    match result {
        Err(StepError::Ended { end, given_up }) => (end, *given_up),
        other => panic!("an execution that ends, not {other:?}"),
    }
}

/// Everything of a topic that a reader gets.
pub fn records(host: &Host, topic: &str) -> Vec<Record> {
    host.consumer(topic).unwrap().read_to_end().unwrap()
}
