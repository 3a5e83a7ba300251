//! Declarations that change from one execution to the next, and how executions begin.

use std::collections::{BTreeMap, BTreeSet};

use crate::equivalence::edits;
use crate::equivalence::generate::Generator;
use crate::equivalence::ops::Op;
use crate::equivalence::world::NODE;
use crate::model::{Channel, OpenLine, Topic, parse, topic_of};

impl Generator {
    pub fn declare_first(&mut self) {
        let channels = self.world.channels();
        for _ in 0..2 + self.chance.below(4) {
            self.inputs.extend(self.chance.pick(&channels));
        }
        for _ in 0..self.chance.below(3) {
            self.declare_sink();
        }
        for _ in 0..self.chance.below(20) {
            self.world.append(&mut self.chance);
        }
    }

    pub fn declare_sink(&mut self) {
        let live: Vec<(Topic, i32)> = self
            .world
            .partitions
            .iter()
            .filter(|(topic, _)| !self.world.gone.contains(topic))
            .map(|(&topic, &count)| (topic, count))
            .collect();
        self.sinks.extend(self.chance.pick(&live));
    }

    /// Channels that the committed store still holds records of.
    pub fn holding(&self) -> BTreeSet<Channel> {
        let state = parse(self.model.store()).expect("the model's own bytes");
        state
            .held
            .into_iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(on, _)| on)
            .collect()
    }

    pub fn redeclare(&mut self) {
        if !self.chance.percent(45) {
            return;
        }
        let holding = self.holding();
        let channels = self.world.channels();
        for _ in 0..1 + self.chance.below(2) {
            match self.chance.below(7) {
                0 | 1 => {
                    let gone: Vec<Channel> = channels
                        .iter()
                        .copied()
                        .filter(|&on| self.world.gone.contains(&topic_of(on)))
                        .collect();
                    let from = if self.chance.percent(20) && !gone.is_empty() {
                        &gone
                    } else {
                        &channels
                    };
                    self.inputs.extend(self.chance.pick(from));
                }
                2 | 3 => {
                    let inputs: Vec<Channel> = self.inputs.iter().copied().collect();
                    if let Some(on) = self.chance.pick(&inputs)
                        && inputs.len() > 1
                        && (!holding.contains(&on) || self.chance.percent(30))
                    {
                        self.inputs.remove(&on);
                    }
                }
                4 => self.declare_sink(),
                _ => {
                    let sinks: Vec<Topic> = self.sinks.keys().copied().collect();
                    if let Some(topic) = self.chance.pick(&sinks) {
                        self.sinks.remove(&topic);
                    }
                }
            }
        }
    }

    pub fn open_line(&mut self) -> OpenLine {
        let state = parse(self.model.store()).expect("the model's own bytes");
        let recorded = state.scope.clone().unwrap_or_default();
        let mut line = OpenLine {
            name: NODE.to_owned(),
            inputs: self.inputs.clone(),
            sinks: self.sinks.clone(),
            ..OpenLine::default()
        };
        // The identity check sees each deletion, mostly; a topic that is declared as a sink does not resolve then.
        for &topic in &self.world.gone {
            let held = self.holding().into_iter().any(|on| topic_of(on) == topic);
            if if held {
                self.chance.percent(30)
            } else {
                self.chance.percent(90)
            } {
                line.deleted.insert(topic);
            }
        }
        if !self.chance.percent(20) {
            line.sinks.retain(|topic, _| !line.deleted.contains(topic));
            self.sinks = line.sinks.clone();
        }
        if self.chance.percent(2) {
            line.unresolved.extend(
                self.chance
                    .pick(&recorded.1.iter().copied().collect::<Vec<_>>()),
            );
            line.unresolved.extend(
                self.chance
                    .pick(&line.sinks.keys().copied().collect::<Vec<_>>()),
            );
        }
        let sinks: BTreeSet<Topic> = recorded
            .1
            .iter()
            .chain(line.sinks.keys())
            .copied()
            .collect();
        let no_reading = self.chance.percent(10);
        for on in self.world.live_channels() {
            let joins = line.inputs.contains(&on) && !recorded.0.contains(&on);
            if joins || sinks.contains(&topic_of(on)) && !no_reading {
                line.ends.insert(on, self.end(on));
            }
        }
        let some_join = line.inputs.iter().any(|on| !recorded.0.contains(on));
        if self.chance.percent(if some_join { 85 } else { 50 }) {
            line.log_starts = self.learned_log_starts();
        }
        for &on in &self.inputs {
            let Some(log) = self.world.logs.get(&on) else {
                continue;
            };
            let fed = state
                .held
                .get(&on)
                .and_then(|queue| queue.last())
                .map(|held| held.record.offset);
            let fed = fed.max(state.frontiers.get(&on).copied());
            let covered = fed.map_or(0, |fed| fed + 1);
            let start = if state.scope.is_none() || !recorded.0.contains(&on) {
                match self.chance.below(6) {
                    0 => None,
                    1 => Some(log.end),
                    2 | 3 => Some(0),
                    _ => Some(log.start),
                }
            } else {
                match self.chance.below(40) {
                    0..6 => None,
                    6..11 => Some((covered - self.chance.between(1, 4)).max(0)),
                    11 => Some(covered.saturating_add(self.chance.between(1, 3))),
                    _ => fed.map(|_| covered),
                }
            };
            line.start.extend(start.map(|start| (on, start)));
        }
        line
    }

    /// The high watermark that the broker answers; in a wild world it may say too little.
    pub fn end(&mut self, on: Channel) -> i64 {
        let end = self.world.end(on);
        if self.world.wild && self.chance.percent(30) {
            self.chance.between(0, end)
        } else {
            end
        }
    }

    /// Log starts, now and then of a channel that retention has eaten too much of.
    pub fn learned_log_starts(&mut self) -> BTreeMap<Channel, i64> {
        let mut learned = BTreeMap::new();
        for on in self.world.channels() {
            // Of a topic that is gone there may be a stale answer.
            let gone = self.world.gone.contains(&topic_of(on));
            if self.chance.percent(if gone { 15 } else { 70 }) {
                let start = self.world.logs[&on].start;
                let ahead = self
                    .chance
                    .percent(if gone { 50 } else { 2 })
                    .then(|| self.world.end(on) + self.chance.between(0, 2));
                learned.insert(on, ahead.unwrap_or(start));
            }
        }
        learned
    }

    /// Whether an execution runs now.
    pub fn open(&mut self) -> bool {
        if self.ops.is_empty() && self.chance.percent(4) {
            let line = OpenLine {
                group_has_positions: true,
                ..self.open_line()
            };
            self.apply_open(line);
        }
        while self.refused_opens < 3 {
            self.redeclare();
            if self.chance.percent(10) {
                let line = self.open_line();
                let edits = edits::of(self.model.store(), &mut self.chance);
                self.ops.push(Op::OpenEdited { line, edits });
            }
            let line = self.open_line();
            if self.apply_open(line) {
                return true;
            }
            self.refused_opens += 1;
            // What was removed while it held records comes back.
            self.inputs.extend(self.holding());
        }
        false
    }

    pub fn apply_open(&mut self, line: OpenLine) -> bool {
        let window = self.chance.pick(&[1, 2, 3, 1000]).expect("a window");
        self.ops.push(Op::Open {
            line: line.clone(),
            window,
        });
        self.marks.clear();
        self.unacknowledged.clear();
        let Ok(opened) = self.model.open(&line) else {
            return false;
        };
        self.reading.clear();
        for &on in &line.inputs {
            let resume = opened
                .resume
                .get(&on)
                .or(self.model.execution().resume.get(&on))
                .copied();
            let baseline = || self.world.logs.get(&on).map_or(0, |log| log.start);
            self.reading.insert(on, resume.unwrap_or_else(baseline));
        }
        match self.chance.below(4) {
            0 => {}
            1 => self.drain(Some(1)),
            _ => self.drain(None),
        }
        self.commit();
        true
    }
}
