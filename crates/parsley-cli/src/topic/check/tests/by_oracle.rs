//! The judgement of causes against the oracle's (`parsley-oracle`), which keeps the past of each record as a set, and has never seen an offset
//! that stands for those below it.

use std::collections::{BTreeMap, BTreeSet};

use parsley_oracle::{Oracle, Rule, SendOrder};
use proptest::prelude::*;

use super::*;

/// A topic, and an offset.
type At = (&'static str, i64);

/// What happened: the deliveries of `first` (x to a), of `second` (x, y and a to b), and of `third`, in any order.
#[derive(Clone, Debug)]
struct Schedule {
    /// How many records x and y have.
    outside: [i64; 2],
    /// How many records `first` sends for each of its deliveries, and `second`, in turn.
    sends: Vec<i64>,
    /// From which channel `second` takes its next, in turn.
    choices: Vec<usize>,
    /// Exchanges of what `third` is delivered, which begins in an order that is right; and what it never is.
    exchanges: Vec<(usize, usize)>,
    left_out: Vec<usize>,
}

fn schedules() -> impl Strategy<Value = Schedule> {
    (
        [1_i64..8, 1_i64..8],
        proptest::collection::vec(0_i64..3, 1..8),
        proptest::collection::vec(0_usize..3, 1..12),
        proptest::collection::vec((0_usize..40, 0_usize..40), 0..6),
        proptest::collection::vec(0_usize..40, 0..2),
    )
        .prop_map(|(outside, sends, choices, exchanges, left_out)| Schedule {
            outside,
            sends,
            choices,
            exchanges,
            left_out,
        })
}

/// A task's deliveries, each with what was sent for it.
type History = Vec<(At, Vec<At>)>;

impl Schedule {
    fn histories(&self) -> [History; 3] {
        let mut sends = self.sends.iter().copied().cycle();
        let mut next = [0_i64; 2];
        let mut send = |to: usize| -> Vec<At> {
            let topic = ["a", "b"][to];
            let count = sends.next().unwrap_or(0);
            let from = next[to];
            next[to] += count;
            (from..from + count).map(|offset| (topic, offset)).collect()
        };
        let first: History = (0..self.outside[0])
            .map(|offset| (("x", offset), send(0)))
            .collect();
        let a: Vec<At> = first.iter().flat_map(|(_, sent)| sent.clone()).collect();
        let mut sources: [std::collections::VecDeque<At>; 3] = [
            (0..self.outside[0]).map(|offset| ("x", offset)).collect(),
            (0..self.outside[1]).map(|offset| ("y", offset)).collect(),
            a.iter().copied().collect(),
        ];
        let mut second = History::new();
        let mut choices = self.choices.iter().cycle();
        while sources.iter().any(|source| !source.is_empty()) {
            let from = choices.next().copied().unwrap_or(0);
            let taken = (0..3).find_map(|more| sources[(from + more) % 3].pop_front());
            second.extend(taken.map(|at| (at, send(1))));
        }
        // Right for sure: all from outside, then what `first` sent, then what `second` did.
        let outside = second.iter().map(|(at, _)| *at).filter(|at| at.0 != "a");
        let b = second.iter().flat_map(|(_, sent)| sent.clone());
        let mut order: Vec<At> = outside.chain(a).chain(b).collect();
        for (from, to) in &self.exchanges {
            let length = order.len();
            order.swap(from % length, to % length);
        }
        for at in &self.left_out {
            if order.len() > 1 {
                order.remove(at % order.len());
            }
        }
        [
            first,
            second,
            order.into_iter().map(|at| (at, Vec::new())).collect(),
        ]
    }
}

const STAGES: [&str; 3] = ["first", "second", "third"];

/// The deliveries that the oracle finds late, as its rules say it, and whether a task was delivered anything wrong at all.
fn by_oracle(histories: &[History; 3]) -> (BTreeSet<(usize, At)>, [bool; 3]) {
    let mut oracle = Oracle::new();
    let mut channels = BTreeMap::new();
    for topic in ["x", "y", "a", "b"] {
        channels.insert(topic, oracle.add_channel(topic));
    }
    let actors = STAGES.map(|stage| oracle.add_actor(stage, SendOrder::PerDelivery));
    for (history, actor) in histories.iter().zip(actors) {
        let mut lowest: BTreeMap<&str, i64> = BTreeMap::new();
        for ((topic, offset), _) in history {
            let known = lowest.entry(topic).or_insert(*offset);
            *known = (*known).min(*offset);
        }
        for (topic, baseline) in lowest {
            oracle.consume(actor, channels[topic], baseline);
        }
    }
    let mut outside: BTreeSet<At> = BTreeSet::new();
    for ((topic, offset), _) in histories[1].iter().filter(|(at, _)| at.0 != "a") {
        outside.insert((topic, *offset));
    }
    for (topic, offset) in outside {
        // Whoever writes from outside knows of nothing.
        let nobody = oracle.add_actor(topic, SendOrder::PerDelivery);
        let record = oracle.emit(nobody, channels[topic], None);
        oracle.appended(record, offset).unwrap();
        oracle.commit(nobody);
    }
    let (mut late, mut wrong) = (BTreeSet::new(), [false; 3]);
    for (task, history) in histories.iter().enumerate() {
        for (at, sent) in history {
            if let Err(violation) = oracle.deliver(actors[task], channels[at.0], at.1) {
                wrong[task] = true;
                if matches!(violation.rule, Rule::Fifo | Rule::ReEntry) {
                    late.insert((task, *at));
                }
                assert_ne!(violation.rule, Rule::Phantom, "{violation}");
            }
            for (topic, offset) in sent {
                let record = oracle.emit(actors[task], channels[topic], None);
                oracle.appended(record, *offset).unwrap();
            }
            oracle.commit(actors[task]);
        }
        // What was passed over is lost, though nothing that was delivered came of it.
        wrong[task] |= oracle.complete_for(actors[task]).iter().any(|lost| {
            let mut delivered = history.iter().map(|(at, _)| at);
            delivered.any(|at| channels[at.0] == lost.channel && Some(at.1) > lost.offset)
        });
    }
    (late, wrong)
}

fn by_check(histories: &[History; 3]) -> (BTreeSet<(usize, At)>, [bool; 3]) {
    let mut lines = Vec::new();
    for (stage, history) in STAGES.iter().zip(histories) {
        for (number, ((topic, offset), sent)) in (0..).zip(history) {
            let line = match *topic {
                // No clock claims anything: what is found, is found by causes alone.
                "a" => delivered_of(
                    stage,
                    number,
                    (topic, *offset),
                    ("first", *offset),
                    clock(&[]),
                ),
                "b" => delivered_of(
                    stage,
                    number,
                    (topic, *offset),
                    ("second", *offset),
                    clock(&[]),
                ),
                _ => delivered(stage, number, topic, *offset),
            };
            let sent: Vec<_> = sent.iter().map(|(topic, at)| (*topic, *at, *at)).collect();
            lines.push(sending(line, &sent));
        }
    }
    let (world, findings, _) = judged(&[&lines], &[]);
    let (mut late, mut wrong) = (BTreeSet::new(), [false; 3]);
    for finding in &findings.kept {
        let (Some(task), Some(record)) = (finding.task, finding.record) else {
            continue;
        };
        let stage = &*world.tasks.thing(task).stage;
        let task = STAGES.iter().position(|known| *known == stage).unwrap();
        let record = &world.records[record as usize];
        let topic = world.topics[record.channel as usize].as_deref();
        let topic = ["x", "y", "a", "b"]
            .into_iter()
            .find(|known| topic == Some(known));
        let is_late = matches!(
            finding.kind,
            Kind::ChannelOrder | Kind::DeliveredAfterEffect
        );
        if is_late {
            late.insert((task, (topic.unwrap(), record.offset)));
        }
        wrong[task] |= is_late || matches!(finding.kind, Kind::NotDelivered | Kind::Skipped);
    }
    (late, wrong)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_judgement_is_the_oracles(schedule in schedules()) {
        let histories = schedule.histories();
        prop_assert_eq!(by_check(&histories), by_oracle(&histories));
    }
}

/// The comparison sees both: histories that are right, and those that are not.
#[test]
fn the_schedules_have_both_kinds() {
    let right = Schedule {
        outside: [3, 3],
        sends: vec![1],
        choices: vec![0, 0, 0, 1, 2],
        exchanges: Vec::new(),
        left_out: Vec::new(),
    };
    assert_eq!(by_oracle(&right.histories()), (BTreeSet::new(), [false; 3]));
    let wrong = Schedule {
        exchanges: vec![(0, 8)],
        ..right
    };
    assert!(by_oracle(&wrong.histories()).1[2]);
}
