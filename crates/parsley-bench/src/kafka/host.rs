//! The host, with a stage that passes each record on.

use std::io;

use parsley_kafka::{KafkaConfig, KafkaHost, Status};
use parsley_stage::{App, BuildError, Stage, Topic, codec};

use super::cluster::Cluster;
use super::meter::{Measured, Meter};
use super::{BOUND, COMMIT_INTERVAL, Input, Outcome};

/// One stage, named like the topic that it writes to.
fn app(input: &str, sink: &str, is_stateful: bool) -> Result<App, BuildError> {
    let from = Topic::new(input, codec::bytes(), codec::bytes());
    let to = Topic::new(sink, codec::bytes(), codec::bytes());
    let out_topic = to.clone();
    let stage = if is_stateful {
        Stage::stateful("count", codec::bytes(), codec::u64())
            .on(&from, move |seen, record, out| {
                *seen += 1;
                out.send(&out_topic, &record.key, &record.value)
            })
            .sink(&to)
            .build()?
    } else {
        Stage::stateless("pass")
            .on(&from, move |record, out| {
                out.send(&out_topic, &record.key, &record.value)
            })
            .sink(&to)
            .build()?
    };
    App::named(sink).stage(stage).build()
}

/// Passes all records on.
pub fn run(cluster: &Cluster, input: &Input, sink: &str, is_stateful: bool) -> Outcome<Measured> {
    let state_dir = tempfile::tempdir()?;
    let mut config =
        KafkaConfig::new(cluster.brokers(), state_dir.path()).commit_interval(COMMIT_INTERVAL);
    config.properties = cluster.properties();
    let app = app(&input.topic, sink, is_stateful)?;
    let mut meter = Meter::new(cluster.broker_process());
    let mut failed: Option<io::Error> = None;
    let running = KafkaHost::new(config)?.start(&app)?;
    let is_done = |status: &Status| {
        let delivered = status.delivered();
        failed = meter.committed(delivered).err();
        failed.is_some() || delivered >= input.records || status.is_over()
    };
    let is_in_time = running.wait(BOUND, is_done);
    let measured = meter.end()?;
    let status = running.stop();
    if let Some(error) = failed {
        return Err(error.into());
    }
    if !is_in_time || status.delivered() != input.records {
        return Err(format!("not all of {} records passed: {status:#?}", input.records).into());
    }
    Ok(measured)
}
