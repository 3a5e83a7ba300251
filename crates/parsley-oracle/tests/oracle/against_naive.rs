//! Random histories: what the oracle says must be what a plain reading of the definitions says.

use std::collections::{BTreeMap, BTreeSet};

use parsley_oracle::{Emission, Rule, Violation};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use crate::naive::Naive;
use crate::script::{Choice, Event, Told, choices, long_choices, script};

/// The labels of a violation's path, each hop of which must be a direct one.
fn checked_path(told: &Told, naive: &Naive, path: &[Emission]) -> Vec<usize> {
    let path: Vec<usize> = path.iter().map(|emission| told.label(*emission)).collect();
    for hop in path.windows(2) {
        assert!(
            naive.direct_causes(hop[1]).contains(&hop[0]),
            "{} is no direct cause of {}",
            hop[0],
            hop[1]
        );
    }
    path
}

/// A violation must name the pair that breaks the rule, and the shortest way between the two. `naive` is the world before the delivery.
fn check_evidence(told: &Told, naive: &Naive, actor: usize, violation: &Violation) {
    let path = checked_path(told, naive, &violation.path);
    let record = violation.record.map(|record| told.label(record));
    let other = violation.other.map(|other| told.label(other));
    match violation.rule {
        Rule::CausalOrder => {
            let missing = naive.missing(actor, record.expect("there is a record"));
            let nearest = missing.values().min().expect("something is missing");
            assert_eq!(path.len(), nearest + 1);
            assert_eq!(
                (path.first().copied(), path.last().copied()),
                (other, record)
            );
            assert!(missing.contains_key(&path[0]));
        }
        Rule::ReEntry => {
            let record = record.expect("there is a record");
            let delivered = naive.delivered(actor);
            let hops = delivered
                .iter()
                .filter_map(|label| naive.ancestors(*label).get(&record).copied());
            assert_eq!(Some(path.len()), hops.min().map(|hops| hops + 1));
            assert_eq!(
                (path.first().copied(), path.last().copied()),
                (Some(record), other)
            );
            assert!(delivered.contains(&other.expect("there is another")));
        }
        Rule::Fifo => {
            assert!(
                naive
                    .delivered(actor)
                    .contains(&other.expect("there is another"))
            );
            assert!(path.is_empty());
        }
        _ => assert_eq!((other, path), (None, vec![])),
    }
}

/// Runs a history in both and holds each word of the oracle against the plain reading; counts the verdicts.
fn hold_against_naive(choices: &[Choice], verdicts: &mut BTreeMap<Option<Rule>, usize>) {
    let (mut told, mut naive) = (Told::new(), Naive::new());
    for event in script(choices) {
        // Told to the oracle first: its evidence is of the world before the delivery.
        let said = told.tell(event);
        if let (
            Some(Err(violation)),
            Event::Deliver {
                actor,
                channel,
                offset,
            }
            | Event::Observe {
                actor,
                channel,
                offset,
            },
        ) = (&said, event)
        {
            assert_eq!(violation.actor, told.actors[actor]);
            assert_eq!(
                (violation.channel, violation.offset),
                (told.channels[channel], Some(offset))
            );
            if violation.rule != Rule::Phantom {
                check_evidence(&told, &naive, actor, violation);
            }
        }
        let said = said.map(|said| {
            said.map(|record| told.label(record))
                .map_err(|violation| violation.rule)
        });
        assert_eq!(said, naive.tell(event), "{event:?}");
        if let Some(said) = said {
            *verdicts.entry(said.err()).or_default() += 1;
        }
    }
    compare_pasts(&told, &naive);
    compare_completeness(&told, &naive, verdicts);
}

fn compare_pasts(told: &Told, naive: &Naive) {
    let pasts: BTreeMap<usize, BTreeMap<usize, usize>> = naive
        .facts()
        .map(|label| (label, naive.ancestors(label)))
        .collect();
    for (label, emission) in &told.emissions {
        assert_eq!(
            told.oracle.is_committed(*emission),
            naive.is_committed(*label)
        );
        let Some(ancestors) = pasts.get(label) else {
            assert_eq!(told.oracle.path(*emission, *emission), None);
            let into: Vec<_> = told
                .emissions
                .values()
                .filter_map(|from| told.oracle.path(*from, *emission))
                .collect();
            assert_eq!(
                into,
                Vec::<Vec<Emission>>::new(),
                "what never was has no history"
            );
            continue;
        };
        let past: BTreeSet<usize> = told
            .oracle
            .past_of(*emission)
            .map(|emission| told.label(emission))
            .collect();
        assert_eq!(
            past,
            ancestors.keys().copied().collect::<BTreeSet<_>>(),
            "of {label}"
        );
        for (from_label, from) in &told.emissions {
            let path = told
                .oracle
                .path(*from, *emission)
                .map(|path| checked_path(told, naive, &path));
            let ends = path
                .as_ref()
                .map(|path| (path[0], path[path.len() - 1], path.len() - 1));
            assert_eq!(
                ends,
                ancestors
                    .get(from_label)
                    .map(|hops| (*from_label, *label, *hops))
            );
            assert_eq!(
                told.oracle.happened_before(*from, *emission),
                ancestors.contains_key(from_label)
            );
            if let Some(other_way) = pasts.get(from_label) {
                let related = ancestors.contains_key(from_label) || other_way.contains_key(label);
                assert_eq!(
                    told.oracle.concurrent(*from, *emission),
                    from_label != label && !related
                );
            }
        }
    }
    for (index, actor) in told.actors.iter().enumerate() {
        let delivered = naive.delivered(index);
        for (label, emission) in &told.emissions {
            assert_eq!(
                told.oracle.is_delivered(*actor, *emission),
                delivered.contains(label)
            );
        }
    }
}

fn compare_completeness(told: &Told, naive: &Naive, verdicts: &mut BTreeMap<Option<Rule>, usize>) {
    let (mut lost, mut unsent) = (Vec::new(), BTreeSet::new());
    for violation in told.oracle.complete() {
        *verdicts.entry(Some(violation.rule)).or_default() += 1;
        let record = violation.record.expect("what is lacking is a record");
        assert_eq!((violation.other, violation.path), (None, vec![]));
        match (violation.rule, violation.offset) {
            (Rule::Lost, Some(offset)) => {
                assert_eq!(
                    told.oracle.coordinate(record),
                    Some((violation.channel, offset))
                );
                lost.push((violation.actor.index(), violation.channel.index(), offset));
            }
            (Rule::Unsent, None) => {
                assert_eq!(violation.actor, told.oracle.creator(record));
                unsent.insert(told.label(record));
            }
            other => panic!("no other rule is judged at the end: {other:?}"),
        }
    }
    assert!(lost.is_sorted(), "by actor, channel and offset");
    let lost_once: BTreeSet<_> = lost.iter().copied().collect();
    assert_eq!(lost_once.len(), lost.len());
    assert_eq!((lost_once, unsent), naive.incomplete());
}

proptest! {
    #![proptest_config(Config { cases: 200, ..Config::default() })]

    #[test]
    fn the_oracle_says_what_the_definitions_say(choices in choices()) {
        hold_against_naive(&choices, &mut BTreeMap::new());
    }
}

proptest! {
    #![proptest_config(Config { cases: 8, ..Config::default() })]

    #[test]
    fn the_oracle_says_what_the_definitions_say_of_long_histories(choices in long_choices()) {
        hold_against_naive(&choices, &mut BTreeMap::new());
    }
}

#[test]
fn random_histories_reach_every_verdict() {
    let config = Config {
        failure_persistence: None,
        cases: 200,
        ..Config::default()
    };
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let verdicts = std::cell::RefCell::new(BTreeMap::new());
    let outcome = runner.run(&choices(), |choices| {
        hold_against_naive(&choices, &mut verdicts.borrow_mut());
        Ok(())
    });
    assert_eq!(outcome, Ok(()));
    let verdicts = verdicts.into_inner();
    for verdict in [None].into_iter().chain(Rule::ALL.map(Some)) {
        let times = verdicts.get(&verdict).copied().unwrap_or_default();
        assert!(
            times >= 20,
            "{verdict:?} came up {times} times: {verdicts:?}"
        );
    }
}
