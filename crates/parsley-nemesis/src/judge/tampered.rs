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

/// Removes, from the middle on, a delivery that has others of its channel before and behind it: what lies before the first of a channel is asked of
/// nobody, who may have started late.
fn remove(history: &mut History) -> bool {
    let Some(deliveries) = busiest(history) else {
        return false;
    };
    let is_like = |place| move |one: &Delivery| one.place == place;
    let found = (deliveries.len() / 2..deliveries.len()).find(|at| {
        let is_like = is_like(deliveries[*at].place);
        deliveries[..*at].iter().any(is_like) && deliveries[at + 1..].iter().any(is_like)
    });
    found.map(|at| deliveries.remove(at)).is_some()
}

fn double(history: &mut History) -> bool {
    let Some(deliveries) = busiest(history) else {
        return false;
    };
    let again = deliveries[deliveries.len() / 2].clone();
    deliveries.push(again);
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Place;

    /// A run of the gate failed, and named nothing that was wrong: the delivery in the middle was the first of its channel, and that such a one is gone is
    /// no violation to `parsley topic check`, as a task may have started behind it. So the judge was taken for blind.
    #[test]
    fn what_is_removed_has_others_of_its_channel_before_and_behind_it() {
        let deliveries_of = |partitions: &[i32]| {
            let delivery = |(offset, partition): (i64, &i32)| Delivery {
                place: Place {
                    topic: 1,
                    partition: *partition,
                },
                offset,
                key: None,
                clock: Default::default(),
                was_held: false,
            };
            let mut history = History::default();
            let task = (STAGES.len() - 1, 0);
            let deliveries = (0..).zip(partitions).map(delivery).collect();
            history.deliveries.insert(task, deliveries);
            history
        };
        let left = |partitions: &[i32]| {
            let mut history = deliveries_of(partitions);
            let is_removed = remove(&mut history);
            let left = busiest(&mut history)
                .into_iter()
                .flatten()
                .map(|one| one.offset)
                .collect::<Vec<_>>();
            (is_removed, left)
        };
        assert_eq!(left(&[0, 0, 1, 2, 1, 1, 2]), (true, vec![0, 1, 2, 3, 5, 6]));
        let unfit = [0, 1, 0, 2, 0, 1];
        assert_eq!(left(&unfit), (false, vec![0, 1, 2, 3, 4, 5]));
    }
}
