use parsley_model::Broken;

use super::*;
use crate::report::RunId;
use crate::{HostFault, scenarios};

fn request(name: &str, seed: u64) -> Request<'static> {
    Request {
        scenario: scenarios::named(name).unwrap(),
        seed,
        trace: true,
    }
}

fn keep(text: &str) -> Part {
    Part {
        keep: Some(text.parse().unwrap()),
        idle: Vec::new(),
    }
}

/// What shrinking stands on: the list of actions is all there is to a run.
#[test]
fn a_run_from_its_list_of_actions_is_the_run() {
    for sabotage in [Sabotage::None, Sabotage::Protocol(Broken::Eager)] {
        for scenario in scenarios::all() {
            for seed in 0..4 {
                let request = request(scenario.name, seed);
                let run = request.run(sabotage);
                let all = (0..run.actions.len()).map(plain);
                let part = Part {
                    keep: Some(Keep::new(all).unwrap()),
                    idle: Vec::new(),
                };
                let replayed = request.run_part(sabotage, &part).unwrap();
                let [replayed_trace, trace] = [&replayed, &run].map(|outcome| {
                    let mut trace = outcome.trace.clone().unwrap();
                    let command = trace.replay.take().unwrap();
                    (trace, command.contains(" --keep "))
                });
                assert_eq!(replayed_trace, (trace.0, true), "{} {seed}", scenario.name);
                assert!(!trace.1);
                assert_eq!(replayed.violation, run.violation);
                assert_eq!(replayed.counts, run.counts);
            }
        }
    }
}

/// No part of a run that is right is wrong, where the script takes nothing away: what is drawn does not depend on what was left out. Retention once did,
/// and removed what a task had not read yet.
#[test]
fn parts_of_a_run_that_is_right_are_right() {
    for name in [
        "wide-soak",
        "shared-input-race",
        "crash-recovery-chain",
        "b27-transactions-that-abort",
    ] {
        for seed in 0..8 {
            let request = request(name, seed);
            let count = request.run(Sabotage::None).actions.len();
            for every in 2..12 {
                let keeps = |index: &usize| !(index * 7 + seed as usize).is_multiple_of(every);
                let kept = (0..count).filter(keeps).map(plain);
                let part = Part {
                    keep: Some(Keep::new(kept).unwrap()),
                    idle: Vec::new(),
                };
                let outcome = request.run_part(Sabotage::None, &part).unwrap();
                let violation = outcome.violation;
                assert_eq!(violation, None, "{name} {seed} {:?}", part.keep);
            }
        }
    }
}

#[test]
fn nothing_is_left_of_nothing_wrong() {
    assert!(shrink(&request("shared-input-race", 0), Sabotage::None).is_none());
}

#[test]
fn a_part_that_the_run_does_not_have_is_named() {
    let request = request("shared-input-race", 0);
    let count = request.run(Sabotage::None).actions.len();
    let run = |part: &Part| request.run_part(Sabotage::None, part).unwrap_err();
    assert_eq!(
        run(&keep("3,999999")),
        PartError::NoSuchAction {
            found: INDEX_MAX,
            count
        }
    );
    let unlimited = request
        .run(Sabotage::None)
        .actions
        .iter()
        .position(|action| records_of(action).is_none())
        .unwrap();
    assert!(matches!(
        run(&keep(&format!("{unlimited}:1"))),
        PartError::NothingToLimit { index, .. } if index == unlimited
    ));
    let part = Part {
        keep: None,
        idle: vec!["nobody".to_owned()],
    };
    assert_eq!(
        run(&part),
        PartError::NoSuchStage {
            found: "nobody".to_owned(),
            stages: vec!["bill", "ship"],
        }
    );
}

#[test]
fn an_idle_stage_does_nothing() {
    let part = Part {
        keep: None,
        idle: vec!["bill".to_owned()],
    };
    let outcome = request("shared-input-race", 0)
        .run_part(Sabotage::None, &part)
        .unwrap();
    assert_eq!((outcome.violation, outcome.counts.appends), (None, 0));
    assert!(outcome.counts.deliveries > 0);
}

#[test]
fn an_action_can_be_limited() {
    let send = Action::Script(Phase::Send("shop", 5));
    assert_eq!(
        limited(&send, 2),
        Some(Action::Script(Phase::Send("shop", 2)))
    );
    assert_eq!(limited(&send, 9), Some(send));
    let step = |records| Action::Step {
        task: 0,
        reads: vec![(0, records, true), (1, 1, false)],
        tick: None,
        crash: None,
    };
    assert_eq!(limited(&step(usize::MAX), 3), Some(step(3)));
    assert_eq!(records_of(&step(3)), Some(3));
    assert_eq!(records_of(&step(usize::MAX)), Some(READ_MAX));
    assert_eq!(limited(&Action::Crash(0), 3), None);
}

#[test]
fn a_causal_violation_is_two_records_and_a_delivery() {
    let seed = (0..100)
        .find(|&seed| {
            let eager = Sabotage::Protocol(Broken::Eager);
            let outcome = request("shared-input-race", seed).run(eager);
            outcome.violation.is_some()
        })
        .expect("an eager node is caught");
    let eager = Sabotage::Protocol(Broken::Eager);
    let shrunk = shrink(&request("shared-input-race", seed), eager).unwrap();
    assert_eq!(shrunk.records(), 2);
    assert!(shrunk.part.keep.as_ref().unwrap().actions().len() <= 4);
    let violation = shrunk.outcome.violation.as_ref().unwrap();
    assert_eq!(
        violation.rule,
        Rule::Oracle(parsley_oracle::Rule::CausalOrder)
    );
    let trace = shrunk.outcome.trace.as_ref().unwrap();
    assert_eq!(trace.on_purpose, eager.on_purpose());
    let run = RunId {
        scenario: scenarios::named("shared-input-race").unwrap(),
        seed,
        sabotage: eager,
        part: &shrunk.part,
    };
    assert_eq!(trace.replay, Some(run.replay_command()));
    let again = shrink(&request("shared-input-race", seed), eager).unwrap();
    assert_eq!(again.part, shrunk.part);
    assert_eq!(again.outcome.trace, shrunk.outcome.trace);
}

/// Everything that is wrong on purpose is caught by one of the first seeds of some scenario, and shrinks to a dozen records or fewer.
#[test]
fn every_sabotage_shrinks_to_a_dozen_records() {
    let protocols = Broken::ALL.iter().map(|&broken| Sabotage::Protocol(broken));
    let hosts = HostFault::ALL.iter().map(|&fault| Sabotage::Host(fault));
    for sabotage in protocols.chain(hosts) {
        let runs = (0..SEEDS).flat_map(|seed| {
            let scenarios = scenarios::all().into_iter();
            scenarios.map(move |scenario| request(scenario.name, seed))
        });
        let shrunk = runs.filter_map(|request| Some((request, shrink(&request, sabotage)?)));
        let least = shrunk
            .take(SEEDS_SHRUNK)
            .map(|(request, shrunk)| {
                let rule = |outcome: &Outcome| outcome.violation.as_ref().map(|found| found.rule);
                assert_eq!(rule(&shrunk.outcome), rule(&request.run(sabotage)));
                shrunk.records()
            })
            .find(|&records| records <= RECORDS_ENOUGH);
        assert!(least.is_some(), "{sabotage:?}");
    }
}

/// How many seeds of each scenario are tried.
const SEEDS: u64 = 10;

/// How many of the violating ones may be shrunk in vain.
const SEEDS_SHRUNK: usize = 5;
