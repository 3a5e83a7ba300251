//! A step that was aborted never happened: no verdict, then or later, is another one than if it had not been begun.

use std::collections::{BTreeMap, BTreeSet};

use parsley_oracle::{Emission, Rule, Violation};
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::script::{CHANNELS, Event, ORDERS, Told, choices, script};

/// A verdict in labels. A record that never was has none.
type Labelled = Result<
    usize,
    (
        Rule,
        usize,
        usize,
        Option<i64>,
        Option<usize>,
        Option<usize>,
        Vec<usize>,
    ),
>;

fn labelled(
    told: &Told,
    never: &BTreeSet<usize>,
    verdict: Result<Emission, Violation>,
) -> Labelled {
    let label =
        |emission: Emission| Some(told.label(emission)).filter(|label| !never.contains(label));
    verdict
        .map(|record| told.label(record))
        .map_err(|violation| {
            (
                violation.rule,
                violation.actor.index(),
                violation.channel.index(),
                violation.offset,
                violation.record.and_then(label),
                violation.other.and_then(label),
                violation.path.into_iter().filter_map(label).collect(),
            )
        })
}

/// For each event whether it belongs to a step that is aborted in the end, and the labels emitted in such steps.
fn aborted(events: &[Event]) -> (Vec<bool>, BTreeSet<usize>) {
    let mut never = vec![false; events.len()];
    let mut labels = BTreeSet::new();
    let mut open: [Vec<usize>; ORDERS.len()] = Default::default();
    let mut creators = BTreeMap::new();
    for (at, event) in events.iter().enumerate() {
        match *event {
            Event::Emit { label, actor, .. } => {
                creators.insert(label, actor);
                open[actor].push(at);
            }
            Event::Append { label, .. } => {
                if let Some(actor) = creators.get(&label) {
                    open[*actor].push(at);
                }
            }
            Event::Deliver { actor, .. } | Event::Observe { actor, .. } => open[actor].push(at),
            Event::Commit { actor } => {
                for at in open[actor].drain(..) {
                    if let Event::Emit { label, .. } = events[at] {
                        creators.remove(&label);
                    }
                }
            }
            Event::Abort { actor } => {
                never[at] = true;
                for at in open[actor].drain(..) {
                    never[at] = true;
                    if let Event::Emit { label, .. } = events[at] {
                        labels.insert(label);
                    }
                }
            }
            Event::Consume { .. } | Event::Stop { .. } | Event::Forget { .. } => {}
        }
    }
    (never, labels)
}

/// What the oracle would say to a delivery of each place to each actor.
fn every_possible_verdict(told: &Told, never: &BTreeSet<usize>) -> Vec<Labelled> {
    let mut verdicts = Vec::new();
    for actor in &told.actors {
        for channel in &told.channels {
            for offset in 0..12 {
                let verdict = told.oracle.clone().deliver(*actor, *channel, offset);
                verdicts.push(labelled(told, never, verdict));
            }
        }
    }
    assert_eq!(verdicts.len(), ORDERS.len() * CHANNELS * 12);
    verdicts
}

/// What would be in the past of a record that each actor sent now.
fn every_possible_past(told: &Told) -> Vec<Vec<usize>> {
    let past_of_next = |actor| {
        let mut oracle = told.oracle.clone();
        let next = oracle.emit(actor, told.channels[0], None);
        let mut past: Vec<usize> = oracle
            .past_of(next)
            .map(|emission| told.label(emission))
            .collect();
        past.sort_unstable();
        past
    };
    told.actors
        .iter()
        .map(|actor| past_of_next(*actor))
        .collect()
}

proptest! {
    #![proptest_config(Config { cases: 200, ..Config::default() })]

    #[test]
    fn an_aborted_step_never_was(choices in choices()) {
        let events = script(&choices);
        let (skipped, never) = aborted(&events);
        let (mut with, mut without) = (Told::new(), Told::new());
        for (event, skipped) in events.iter().zip(&skipped) {
            let said = with.tell(*event);
            if !skipped {
                let same = without.tell(*event).map(|verdict| labelled(&without, &never, verdict));
                prop_assert_eq!(said.map(|verdict| labelled(&with, &never, verdict)), same, "{:?}", event);
            }
        }
        prop_assert_eq!(every_possible_verdict(&with, &never), every_possible_verdict(&without, &never));
        prop_assert_eq!(every_possible_past(&with), every_possible_past(&without));
        let lacking = |told: &Told| -> Vec<Labelled> {
            told.oracle.complete().into_iter().map(|violation| labelled(told, &never, Err(violation))).collect()
        };
        prop_assert_eq!(lacking(&with), lacking(&without));
        for (index, (one, other)) in with.actors.iter().zip(&without.actors).enumerate() {
            let inputs = |told: &Told, actor| -> Vec<usize> {
                told.oracle.inputs(actor).iter().map(|input| told.label(*input)).collect()
            };
            prop_assert_eq!(inputs(&with, *one), inputs(&without, *other), "of actor {}", index);
        }
    }
}
