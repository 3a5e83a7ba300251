//! The deliveries as a trace that `parsley topic check` reads, with what was sent for each.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use parsley_core::wire;
use serde_json::{Value, json};

use crate::Trouble;
use crate::evidence::clock_line;
use crate::history::{History, Place};
use crate::topology::{STAGES, TOPICS};

/// Writes the trace.
pub fn write(history: &History, path: &Path) -> Result<(), Trouble> {
    let file = File::create(path).map_err(Trouble::io("making a trace"))?;
    let mut file = BufWriter::new(file);
    let (sent, standing) = (history.sent(), history.standing());
    let channel = |place: Place| -> Value {
        let id = history.ids.get(&place.topic);
        let channel = id.map(|id| id.partition(place.partition));
        channel.map_or(Value::Null, |channel| channel.to_string().into())
    };
    for ((stage, partition), deliveries) in &history.deliveries {
        for (number, delivery) in deliveries.iter().enumerate() {
            let clock = wire::decode(&delivery.clock).map_err(|error| Trouble::Evidence {
                path: path.to_owned(),
                reason: format!("the clock of a delivery: {error}"),
            })?;
            let sent = sent.get(&(*stage, delivery.place, delivery.offset));
            let sent = sent.into_iter().flatten().map(|(place, offset)| {
                json!({
                    "topic": TOPICS[place.topic],
                    "channel": channel(*place),
                    "offset": offset,
                    "sequence": standing.get(&(*place, *offset)).and_then(|one| one.sequence),
                })
            });
            let key = delivery.key.as_deref().map(String::from_utf8_lossy);
            let line = json!({
                "stage": STAGES[*stage].0,
                "partition": partition,
                "topic": TOPICS[delivery.place.topic],
                "channel": channel(delivery.place),
                "offset": delivery.offset,
                "key": key,
                "clock": clock_line(&clock.into_clock()),
                "delivery": number,
                "held": delivery.was_held,
                "sent": sent.collect::<Vec<_>>(),
            });
            writeln!(file, "{line}").map_err(Trouble::io("writing a trace"))?;
        }
    }
    file.flush().map_err(Trouble::io("writing a trace"))
}
