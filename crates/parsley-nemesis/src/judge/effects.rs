//! Whether each record was delivered once to each stage that consumes it and had its effects once, and whether the counts in them are those of the
//! deliveries: a state that was lost or doubled counts otherwise.

use std::collections::HashMap;

use crate::history::{Delivery, History, Place, Standing, Task};
use crate::topology::{STAGES, TOPICS, effects};

/// The stage that keeps no counts.
const STATELESS: &str = "spread";

/// All that is wrong.
pub fn judge(history: &History) -> Vec<String> {
    let mut wrong = history.oddities.clone();
    let sent = history.sent();
    let standing = history.standing();
    let mut accounted = 0;
    for (task, deliveries) in &history.deliveries {
        let mut counts: HashMap<&[u8], u64> = HashMap::new();
        for delivery in deliveries {
            let key = delivery.key.as_deref().unwrap_or_default();
            let count = counts.entry(key).or_default();
            *count += 1;
            let of = sent.get(&(task.0, delivery.place, delivery.offset));
            let of = of.map_or(&[][..], Vec::as_slice);
            accounted += of.len() as u64;
            wrong.extend(judge_one(*task, delivery, *count, of, &standing));
        }
    }
    let stand = history.effects();
    if accounted != stand {
        wrong.push(format!(
            "{stand} effects stand, and {accounted} came of what was delivered"
        ));
    }
    for (stage, (name, inputs)) in STAGES.iter().enumerate() {
        for input in *inputs {
            let of_stage = history
                .deliveries
                .iter()
                .filter(|((of, _), _)| *of == stage);
            let all = of_stage.flat_map(|(_, all)| all);
            let delivered = all.filter(|one| TOPICS[one.place.topic] == *input).count() as u64;
            let topic = TOPICS.iter().position(|topic| topic == input);
            let stand = topic.map_or(0, |topic| history.records_of(topic));
            if delivered != stand {
                wrong.push(format!(
                    "{stand} records stand in {input}, and {name} was delivered {delivered}"
                ));
            }
        }
    }
    wrong
}

fn judge_one(
    task: Task,
    delivery: &Delivery,
    count: u64,
    sent: &[(Place, i64)],
    standing: &HashMap<(Place, i64), &Standing>,
) -> Option<String> {
    let (stage, topic) = (STAGES[task.0].0, TOPICS[delivery.place.topic]);
    let (partition, offset) = (delivery.place.partition, delivery.offset);
    let of = format!(
        "{stage}/{} was delivered {topic}:{partition}@{offset}",
        task.1
    );
    let mut topics: Vec<&str> = sent.iter().map(|(place, _)| TOPICS[place.topic]).collect();
    let mut due = effects(stage, topic).to_vec();
    topics.sort_unstable();
    due.sort_unstable();
    if topics != due {
        return Some(format!("{of}, and sent to {topics:?}"));
    }
    let expected = match stage {
        STATELESS => 0,
        _ => count,
    };
    let mut causes = sent.iter().filter_map(|at| standing.get(at)?.effect);
    let other = causes.find(|cause| cause.count != expected)?;
    let counted = other.count;
    Some(format!(
        "{of}, number {expected} of its key, and counted {counted}"
    ))
}
