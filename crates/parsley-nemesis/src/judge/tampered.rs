//! Ways to tamper with a history, so that it is known that the judges see.

use crate::history::{Delivery, History};
use crate::topology::STAGES;

/// Tampers, if the history has what it takes.
pub type Tamper = fn(&mut History) -> bool;

/// All ways, each with what it does.
pub const WAYS: [(&str, Tamper); 3] = [
    ("two deliveries swapped", swap),
    ("a delivery removed", remove),
    ("a delivery doubled", double),
];

/// The deliveries of the task that has most of them at the stage that sends nothing, so that nothing but the order changes.
fn busiest(history: &mut History) -> Option<&mut Vec<Delivery>> {
    let watch = STAGES.len() - 1;
    let tasks = history.deliveries.iter_mut();
    let tasks = tasks.filter(|((stage, _), _)| *stage == watch);
    let all = tasks.map(|(_, deliveries)| deliveries);
    all.max_by_key(|deliveries| deliveries.len())
        .filter(|deliveries| deliveries.len() > 4)
}

/// Swaps, from the middle on, a delivery with that of an effect of it.
fn swap(history: &mut History) -> bool {
    let sent = history.sent();
    let Some(deliveries) = busiest(history) else {
        return false;
    };
    for at in deliveries.len() / 2..deliveries.len() {
        let cause = &deliveries[at];
        let stages = 0..STAGES.len();
        let effects: Vec<_> = stages
            .filter_map(|stage| sent.get(&(stage, cause.place, cause.offset)))
            .flatten()
            .collect();
        let is_effect = |one: &Delivery| effects.contains(&&(one.place, one.offset));
        if let Some(after) = deliveries[at..].iter().position(is_effect) {
            deliveries.swap(at, at + after);
            return true;
        }
    }
    false
}

fn remove(history: &mut History) -> bool {
    let Some(deliveries) = busiest(history) else {
        return false;
    };
    deliveries.remove(deliveries.len() / 2);
    true
}

fn double(history: &mut History) -> bool {
    let Some(deliveries) = busiest(history) else {
        return false;
    };
    let again = deliveries[deliveries.len() / 2].clone();
    deliveries.push(again);
    true
}
