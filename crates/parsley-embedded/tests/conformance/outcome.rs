//! What a step and an end of the embedded host are to the kit.

use std::collections::BTreeMap;

use parsley_core::{Channel, Offset, Record, RefusalCode};
use parsley_embedded::{AppendedSend, SendError, StartError, StepError, StepReport, TaskEnd};
use parsley_sim::host::{Deployment, Event, Stop, TaskNo};

/// What a step did, in the order in which it went. `before`: where the inputs were read before it. `ticked`: when it
/// ticked, if it did.
pub fn report(
    task: TaskNo,
    report: &StepReport,
    before: &BTreeMap<Channel, Offset>,
    ticked: Option<i64>,
    events: &mut Vec<Event>,
) {
    // Channel after channel: its records, then how far it got behind them.
    for (&channel, &position) in before {
        let mut next = position;
        for &(_, offset) in of_channel(&report.dropped, channel) {
            events.push(Event::Dropped(task, channel, offset));
            next = offset + 1;
        }
        for &(_, offset) in of_channel(&report.received, channel) {
            events.push(Event::Received(task, channel, offset));
            next = offset + 1;
        }
        if let Some(&after) = report.positions.get(&channel)
            && after > next
        {
            events.push(Event::Advanced(task, channel, after));
        }
    }
    events.extend(ticked.map(|timestamp_ms| Event::Ticked(task, timestamp_ms)));
    for delivery in &report.delivered {
        events.push(Event::Delivered {
            task,
            channel: delivery.channel,
            offset: delivery.offset,
            was_held: delivery.was_held,
        });
    }
    for AppendedSend { send, offset, .. } in &report.appended {
        let record = Record {
            channel: send.channel,
            offset: *offset,
            timestamp_ms: send.timestamp_ms,
            key: send.key.clone(),
            value: send.value.clone(),
            headers: send.headers.clone(),
        };
        events.push(Event::Appended { task, record });
    }
}

fn of_channel(
    fed: &[(Channel, Offset)],
    channel: Channel,
) -> impl Iterator<Item = &(Channel, Offset)> {
    fed.iter().filter(move |(of, _)| *of == channel)
}

pub fn failed(why: &str) -> Stop {
    Stop::Failed(why.to_owned())
}

/// How an execution's end looks to the kit. Only what the kit has planned may fail in an application.
pub fn stop_of(error: StepError) -> Stop {
    match error.end() {
        Some(TaskEnd::Refused(refusal)) => Stop::Refused {
            code: refusal.code.to_string(),
            found: refusal.to_string(),
        },
        // The next opening finds that the sink is gone (decision E5).
        Some(TaskEnd::Append(SendError::DeletedTopic { .. })) => Stop::Crashed,
        _ => Stop::Failed(error.to_string()),
    }
}

/// How it looks to the kit that an application cannot start. A sink that does not exist is what guard G6 refuses in a single task.
pub fn stop_of_start(error: &StartError, deployment: &Deployment) -> Stop {
    let code = match error {
        StartError::MissingTopics { topics } => deployment
            .declaration
            .produced()
            .any(|sink| topics.iter().any(|missing| missing == sink))
            .then_some(RefusalCode::MissingSink),
        StartError::Refused { refusal, .. } => Some(refusal.code),
        _ => None,
    };
    match code {
        Some(code) => Stop::Refused {
            code: code.to_string(),
            found: error.to_string(),
        },
        None => Stop::Failed(error.to_string()),
    }
}
