//! What the scripts reached, counted in scripts, so that the test cannot go quiet.

use std::collections::{BTreeMap, BTreeSet};

use crate::equivalence::ops::Op;
use crate::model::{MISSING_END, Model, OpenLine, Refused, parse, topic_of};

/// What must be reached at least, in scripts out of a thousand: about half of what is.
const FLOORS: &[(&str, usize)] = &[
    ("a hold", 290),
    ("a hold across a restart", 200),
    ("a hold across two restarts", 90),
    ("a queue beyond its window", 160),
    ("a queue of more than eight", 20),
    ("a release by watermark evidence", 12),
    ("evidence as of an older mark", 60),
    ("a step that ends within a drain", 170),
    ("a record received behind a drain that was cut", 40),
    ("a record fed again and dropped", 150),
    ("an aborted step", 320),
    ("a fence with an offset", 270),
    ("a fence without an offset", 250),
    ("a sweep that drops a claim", 160),
    ("a topic found gone by a check", 20),
    ("an input removed", 110),
    ("an input added without a seed", 40),
    ("an input added with an offset seed", 20),
    ("an input added with a sequence seed", 30),
    ("an input added that is gone", 6),
    ("a sink added", 70),
    ("a sink removed and folded", 80),
    ("a sink removed that is gone", 12),
    ("vc-corrupt-clock", 50),
    ("vc-corrupt-sender", 80),
    ("vc-unconsumed-channel", 12),
    ("vc-out-of-order-feed", 30),
    ("vc-undeclared-sink", 14),
    ("vc-missing-sink", 14),
    ("vc-corrupt-state", 80),
    ("vc-removed-input-held", 6),
    ("vc-deleted-input-held", 5),
    ("vc-positions-lost", 90),
    ("vc-state-lost", 14),
    ("vc-clock-too-wide", 30),
    ("a stamp too wide", 12),
    ("vc-positions-ahead", 60),
];

/// How many scripts reached each thing.
#[derive(Default)]
pub struct Coverage(BTreeMap<&'static str, usize>);

/// What one script reached.
#[derive(Default)]
pub struct Reached {
    names: BTreeSet<&'static str>,
    restarts_holding: usize,
}

impl Coverage {
    pub fn add(&mut self, reached: Reached) {
        for name in reached.names {
            *self.0.entry(name).or_default() += 1;
        }
    }

    pub fn report(&self, scripts: usize) -> String {
        let mut lines = vec![format!("{scripts} scripts, of which reached")];
        lines.extend(
            self.0
                .iter()
                .map(|(name, count)| format!("{count:>8}  {name}")),
        );
        lines.join("\n")
    }

    /// Fewer scripts than the default prove nothing about rates.
    pub fn assert_floors(&self, scripts: usize) {
        if scripts < 500 {
            return;
        }
        for (name, per_thousand) in FLOORS {
            let count = self.0.get(name).copied().unwrap_or(0);
            let floor = per_thousand * scripts / 1000;
            assert!(
                count >= floor,
                "only {count} of {scripts} scripts reached {name}, the floor is {floor}"
            );
        }
    }
}

impl Reached {
    pub fn reach(&mut self, name: &'static str) {
        self.names.insert(name);
    }

    pub fn refused(&mut self, refused: &Refused, op: &Op) {
        if refused.code != MISSING_END {
            self.reach(refused.code);
        }
        if refused.code == "vc-clock-too-wide" && matches!(op, Op::Send { .. }) {
            self.reach("a stamp too wide");
        }
    }

    /// Looks at an initialisation: `before` is stopped, `after` has gone through it.
    pub fn opened(&mut self, before: &Model, after: &Model, line: &OpenLine) {
        let state = parse(before.store()).expect("the model's own bytes");
        if state.held.values().any(|queue| !queue.is_empty()) {
            self.restarts_holding += 1;
            self.reach("a hold across a restart");
            if self.restarts_holding > 1 {
                self.reach("a hold across two restarts");
            }
        }
        let Some((inputs, sinks)) = state.scope else {
            return;
        };
        if inputs.difference(&line.inputs).next().is_some() {
            self.reach("an input removed");
        }
        let execution = after.execution();
        for on in line.inputs.difference(&inputs) {
            self.reach(if line.deleted.contains(&topic_of(*on)) {
                "an input added that is gone"
            } else if !execution.delivered.contains_key(on) {
                "an input added without a seed"
            } else if execution.state.marks.keys().any(|(marked, _)| marked == on) {
                "an input added with a sequence seed"
            } else {
                "an input added with an offset seed"
            });
        }
        if line.sinks.keys().any(|topic| !sinks.contains(topic)) {
            self.reach("a sink added");
        }
        for topic in sinks.iter().filter(|topic| !line.sinks.contains_key(topic)) {
            if line.deleted.contains(topic) {
                self.reach("a sink removed that is gone");
            } else if line
                .ends
                .iter()
                .any(|(on, &end)| topic_of(*on) == *topic && end > 0)
            {
                self.reach("a sink removed and folded");
            }
        }
    }

    /// Looks at a drain to its end.
    pub fn drained(&mut self, before: &Model, delivered: usize) {
        if !before.execution().evidence.is_empty() {
            let mut blind = before.clone();
            blind.forget_evidence();
            if blind.drain().len() < delivered {
                self.reach("a release by watermark evidence");
            }
        }
    }

    /// Looks at the state after any operation.
    pub fn state(&mut self, model: &Model, op: &Op, window: usize) {
        let execution = model.execution();
        let depth = execution
            .inputs
            .iter()
            .map(|&on| execution.held(on).len())
            .max();
        if depth > Some(window + 1) {
            self.reach("a queue beyond its window");
        }
        if depth > Some(8) {
            self.reach("a queue of more than eight");
        }
        match op {
            Op::Drain { most: None }
                if execution
                    .inputs
                    .iter()
                    .any(|&on| !execution.held(on).is_empty()) =>
            {
                self.reach("a hold");
            }
            Op::Watermarks { mark: Some(_), .. } => self.reach("evidence as of an older mark"),
            Op::Fence { acks } | Op::Commit { acks } if !acks.is_empty() => {
                self.reach("a fence with an offset")
            }
            Op::Fence { .. } | Op::Commit { .. } if !execution.own_claims.is_empty() => {
                self.reach("a fence without an offset");
            }
            _ => {}
        }
    }
}
