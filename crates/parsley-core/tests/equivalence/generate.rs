//! Random scripts. The generator runs the model along, so that most of what it writes is what a host could do.

use std::collections::{BTreeMap, BTreeSet};

use crate::equivalence::chance::Chance;
use crate::equivalence::edits;
use crate::equivalence::ops::Op;
use crate::equivalence::world::{NODE, World};
use crate::model::{
    Channel, Fetched, Mark, Model, OpenLine, Refused, Topic, Truncation, layout, named, topic_of,
};

/// A generated script: names for printing, the metadata budget, the operations.
pub struct Script {
    pub world: World,
    pub budget: usize,
    pub ops: Vec<Op>,
}

struct Generator {
    chance: Chance,
    world: World,
    budget: usize,
    model: Model,
    ops: Vec<Op>,
    inputs: BTreeSet<Channel>,
    sinks: BTreeMap<Topic, i32>,
    /// Where the host reads each channel next.
    reading: BTreeMap<Channel, i64>,
    marks: Vec<Mark>,
    /// Sends since the last fence: where the last one on each channel was appended.
    unacknowledged: BTreeMap<Channel, i64>,
    refused_opens: usize,
    /// A channel that the host seldom gets to, so that much waits for it.
    slow: Option<Channel>,
}

pub fn script(seed: u64) -> Script {
    let mut chance = Chance::seeded(seed);
    let world = World::new(&mut chance);
    let budget = if chance.percent(10) {
        120 + chance.below(300)
    } else {
        262_144
    };
    let mut generator = Generator {
        chance,
        world,
        budget,
        model: Model::with_budget(budget),
        ops: Vec::new(),
        inputs: BTreeSet::new(),
        sinks: BTreeMap::new(),
        reading: BTreeMap::new(),
        marks: Vec::new(),
        unacknowledged: BTreeMap::new(),
        refused_opens: 0,
        slow: None,
    };
    generator.declare_first();
    let executions = 1 + generator.chance.below(5);
    for _ in 0..executions {
        if !generator.open() {
            break;
        }
        generator.execute();
    }
    Script {
        world: generator.world,
        budget,
        ops: generator.ops,
    }
}

impl Generator {
    fn declare_first(&mut self) {
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

    fn declare_sink(&mut self) {
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
    fn holding(&self) -> BTreeSet<Channel> {
        let state = layout::parse(self.model.store()).expect("the model's own bytes");
        state
            .held
            .into_iter()
            .filter(|(_, queue)| !queue.is_empty())
            .map(|(on, _)| on)
            .collect()
    }

    fn redeclare(&mut self) {
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

    fn open_line(&mut self) -> OpenLine {
        let state = layout::parse(self.model.store()).expect("the model's own bytes");
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
    fn end(&mut self, on: Channel) -> i64 {
        let end = self.world.end(on);
        if self.world.wild && self.chance.percent(30) {
            self.chance.between(0, end)
        } else {
            end
        }
    }

    /// Log starts, now and then of a channel that retention has eaten too much of.
    fn learned_log_starts(&mut self) -> BTreeMap<Channel, i64> {
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
    fn open(&mut self) -> bool {
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

    fn apply_open(&mut self, line: OpenLine) -> bool {
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

    fn execute(&mut self) {
        for _ in 0..3 + self.chance.below(14) {
            if self.chance.percent(15) {
                let inputs: Vec<Channel> = self.inputs.iter().copied().collect();
                self.slow = self
                    .chance
                    .percent(50)
                    .then(|| self.chance.pick(&inputs))
                    .flatten();
            }
            for _ in 0..self.chance.below(6) {
                self.world.append(&mut self.chance);
            }
            let running = match self.chance.below(100) {
                0..62 => self.step(),
                62..73 => self.burst(),
                73..78 => {
                    self.ops.push(Op::Mark);
                    self.marks.push(self.model.mark());
                    true
                }
                78..87 => self.evidence(),
                87..94 => self.check_and_sweep(),
                94..97 => self.delete_a_topic(),
                _ => self.violate(),
            };
            if !running {
                return;
            }
        }
        match self.chance.below(3) {
            0 => self.abort(),
            _ => self.stop(),
        }
    }

    /// One step of the host. Whether the execution goes on.
    fn step(&mut self) -> bool {
        for _ in 0..1 + self.chance.below(4) {
            let outcome = match self.chance.below(100) {
                0..70 => self.feed(),
                70..82 => self.advance(),
                82..95 => self.send(),
                _ => {
                    self.fence();
                    Ok(())
                }
            };
            if outcome.is_err() {
                return self.lost();
            }
            match self.chance.below(10) {
                0..6 => self.drain(None),
                6..8 => self.drain(Some(1)),
                _ => {}
            }
            if self.chance.percent(20) && self.send().is_err() {
                return self.lost();
            }
        }
        if self.chance.percent(60) {
            self.drain(None);
        }
        self.end_or_go_on()
    }

    /// A step that feeds much before it delivers, and may end within the drain.
    fn burst(&mut self) -> bool {
        for _ in 0..3 + self.chance.below(8) {
            if self.feed().is_err() {
                return self.lost();
            }
        }
        for _ in 0..self.chance.below(4) {
            self.drain(Some(1));
            if self.chance.percent(30) && self.send().is_err() {
                return self.lost();
            }
        }
        self.end_or_go_on()
    }

    fn end_or_go_on(&mut self) -> bool {
        match self.chance.below(20) {
            0 => self.abort(),
            1 => self.stop(),
            _ => {
                self.commit();
                return true;
            }
        }
        false
    }

    fn feed(&mut self) -> Result<(), Refused> {
        let slow = if self.chance.percent(8) {
            None
        } else {
            self.slow
        };
        let ready: Vec<Channel> = self
            .inputs
            .iter()
            .copied()
            .filter(|&on| slow != Some(on))
            .filter(|&on| {
                self.world.next_record(on, self.reading[&on]).is_some()
                    && !self.world.gone.contains(&topic_of(on))
            })
            .collect();
        let Some(on) = self.chance.pick(&ready) else {
            return Ok(());
        };
        let fetched = self
            .world
            .next_record(on, self.reading[&on])
            .expect("a record")
            .clone();
        self.reading.insert(on, fetched.offset + 1);
        self.apply_feed(on, fetched)
    }

    fn apply_feed(&mut self, on: Channel, fetched: Fetched) -> Result<(), Refused> {
        self.ops.push(Op::Feed {
            on,
            fetched: fetched.clone(),
        });
        self.model.receive(on, &fetched).map(drop)
    }

    /// The consumer's position stands before the next record, or at the end.
    fn advance(&mut self) -> Result<(), Refused> {
        let inputs: Vec<Channel> = self.inputs.iter().copied().collect();
        let on = self.chance.pick(&inputs).expect("an input");
        let Some(log) = self.world.logs.get(&on) else {
            return Ok(());
        };
        let bound = self
            .world
            .next_record(on, self.reading[&on])
            .map_or(log.end, |record| record.offset);
        let next = if self.chance.percent(85) {
            bound
        } else {
            (bound - self.chance.between(1, 3)).max(0)
        };
        self.reading.insert(on, self.reading[&on].max(next));
        self.ops.push(Op::Position { on, next });
        self.model.position(on, next)
    }

    fn send(&mut self) -> Result<(), Refused> {
        let Some(to) = self.chance.pick(&self.model.execution().sink_channels()) else {
            return Ok(());
        };
        self.ops.push(Op::Send { to });
        let stamp = self.model.send(to)?;
        let offset = self.world.append_send(&stamp);
        self.unacknowledged.insert(to, offset);
        Ok(())
    }

    fn acks(&mut self) -> BTreeMap<Channel, i64> {
        let mut acks = BTreeMap::new();
        for (on, offset) in std::mem::take(&mut self.unacknowledged) {
            if self.chance.percent(55) {
                // Now and then an answer that cannot be about these sends.
                let stale = self.chance.percent(6);
                acks.insert(
                    on,
                    if stale {
                        self.chance.between(0, offset)
                    } else {
                        offset
                    },
                );
            }
        }
        if self.chance.percent(3)
            && let Some(on) = self.chance.pick(&self.model.execution().sink_channels())
        {
            // An acknowledgement that comes again, or late, with no send since the last fence.
            acks.entry(on)
                .or_insert((self.world.end(on) - 1 - self.chance.between(0, 3)).max(0));
        }
        acks
    }

    fn fence(&mut self) {
        let acks = self.acks();
        self.ops.push(Op::Fence { acks: acks.clone() });
        self.model.fence(&acks);
    }

    fn commit(&mut self) {
        let acks = self.acks();
        self.ops.push(Op::Commit { acks: acks.clone() });
        self.model.commit(&acks);
        self.world.commit();
    }

    fn drain(&mut self, most: Option<usize>) {
        self.ops.push(Op::Drain { most });
        for _ in 0..most.unwrap_or(usize::MAX) {
            if self.model.deliver_next().is_none() {
                break;
            }
        }
    }

    fn stop(&mut self) {
        self.ops.push(Op::Stop);
        self.model.stop();
        self.world.commit();
    }

    fn abort(&mut self) {
        self.ops.push(Op::Abort);
        self.model.abort();
        self.world.abort();
    }

    /// A refusal has ended the execution.
    fn lost(&mut self) -> bool {
        self.world.abort();
        false
    }

    fn evidence(&mut self) -> bool {
        let mark = if self.marks.is_empty() || self.chance.percent(40) {
            None
        } else {
            Some(self.chance.below(self.marks.len()))
        };
        let mut watermarks = BTreeMap::new();
        for on in self.world.live_channels() {
            if self.chance.percent(60) {
                let nothing = self.chance.percent(4);
                watermarks.insert(on, if nothing { 0 } else { self.end(on) });
            }
        }
        let taken = mark.map_or_else(|| self.model.mark(), |mark| self.marks[mark].clone());
        self.ops.push(Op::Watermarks {
            mark,
            watermarks: watermarks.clone(),
        });
        self.model.watermarks(&taken, &watermarks);
        self.end_of_step()
    }

    /// What every operation that stands outside a step ends with.
    fn end_of_step(&mut self) -> bool {
        match self.chance.below(6) {
            0 => self.drain(Some(1)),
            _ => self.drain(None),
        }
        self.commit();
        true
    }

    fn check_and_sweep(&mut self) -> bool {
        // Retention moves on, behind what is committed as read.
        for (on, position) in self.model.resume_positions() {
            let bound = self
                .model
                .execution()
                .held(on)
                .first()
                .map_or(position, |head| head.record.offset);
            if self.chance.percent(20)
                && let Some(log) = self.world.logs.get_mut(&on)
                && bound.min(log.end) > log.start
            {
                log.start = self.chance.between(log.start, bound.min(log.end));
                log.records = log.records.split_off(&log.start);
            }
        }
        for on in self.world.channels() {
            if !self.inputs.contains(&on)
                && self.chance.percent(40)
                && let Some(log) = self.world.logs.get_mut(&on)
            {
                log.start = self.chance.between(log.start, log.end);
                log.records = log.records.split_off(&log.start);
            }
        }
        let mut truncation = Truncation {
            log_starts: self.learned_log_starts(),
            ..Truncation::default()
        };
        for on in self.model.stamp_channels() {
            if self.chance.percent(40) {
                let bound = self.world.end(on) - self.chance.between(0, 4);
                truncation.drop_below.insert(on, bound.max(0));
            }
        }
        for &topic in &self.world.gone {
            let held = self
                .inputs
                .iter()
                .any(|&on| topic_of(on) == topic && !self.model.execution().held(on).is_empty());
            if self.chance.percent(if held { 20 } else { 75 }) {
                truncation.gone.insert(topic);
            }
            if self.chance.percent(40) {
                truncation.drop_gone.insert(topic);
            }
        }
        self.ops.push(Op::Truncate(truncation.clone()));
        if self.model.truncate(&truncation).is_err() {
            return self.lost();
        }
        self.end_of_step()
    }

    fn delete_a_topic(&mut self) -> bool {
        let held = self.holding().into_iter().map(topic_of).collect::<Vec<_>>();
        let topics: Vec<Topic> = if self.chance.percent(35) && !held.is_empty() {
            held
        } else if self.chance.percent(50) && !self.sinks.is_empty() {
            self.sinks.keys().copied().collect()
        } else {
            self.world.partitions.keys().copied().collect()
        };
        if self.world.gone.len() + 3 < self.world.partitions.len() {
            self.world.gone.extend(self.chance.pick(&topics));
        }
        !self.chance.percent(50) || self.check_and_sweep()
    }

    /// Does what a guard refuses, in one of its forms. Whether the execution goes on all the same.
    fn violate(&mut self) -> bool {
        let inputs: Vec<Channel> = self.inputs.iter().copied().collect();
        let on = self.chance.pick(&inputs).expect("an input");
        let next = self.reading[&on];
        let header = |name: &str, value: &[u8]| (name.to_owned(), Some(value.to_vec()));
        let sender = [7; 16];
        let outside: Vec<Channel> = self
            .world
            .channels()
            .into_iter()
            .filter(|on| !self.inputs.contains(on))
            .collect();
        let headers = match self.chance.below(13) {
            0 => vec![("vc".to_owned(), None)],
            1 => vec![header("vc", &self.corrupt_clock())],
            2 => vec![header("vc", &vec![0; self.budget])],
            3 => vec![header("vc", &vec![0; self.budget + 1])],
            4 => vec![header("vc-sender", &sender)],
            5 => vec![header("vc-sender", &sender[1..]), header("vc-seq", &[0; 8])],
            6 => vec![header("vc-sender", &sender), header("vc-seq", &[255; 8])],
            7 => vec![
                header("vc", &[1, 0, 0, 0, 0, 0, 0, 0, 0]),
                header("vc", &[]),
            ],
            8 => {
                let Some(outside) = self.chance.pick(&outside) else {
                    return true;
                };
                let refused = if self.chance.percent(50) {
                    let fetched = Fetched {
                        offset: self.chance.between(0, 9),
                        ..Fetched::default()
                    };
                    self.apply_feed(outside, fetched).is_err()
                } else {
                    self.ops.push(Op::Position {
                        on: outside,
                        next: 3,
                    });
                    self.model.position(outside, 3).is_err()
                };
                assert!(refused, "input on a channel outside the declaration");
                return self.lost();
            }
            9 | 10 => {
                let offset = (next - self.chance.between(1, 3)).max(0);
                let fetched = Fetched {
                    offset,
                    ..Fetched::default()
                };
                return if self.apply_feed(on, fetched).is_err() {
                    self.lost()
                } else {
                    self.end_of_step()
                };
            }
            11 => {
                let sinks = &self.model.execution().sinks;
                let undeclared = self
                    .world
                    .channels()
                    .into_iter()
                    .filter(|on| !sinks.contains_key(&topic_of(*on)));
                let Some(to) = self.chance.pick(&undeclared.collect::<Vec<_>>()) else {
                    return true;
                };
                self.ops.push(Op::Send { to });
                assert!(
                    self.model.send(to).is_err(),
                    "a send to a sink that is not declared"
                );
                return self.lost();
            }
            _ => {
                let me = named(NODE);
                let echo = [me.0.to_be_bytes(), me.1.to_be_bytes()].concat();
                vec![header("vc-sender", &echo)]
            }
        };
        let fetched = Fetched {
            offset: next,
            headers,
            ..Fetched::default()
        };
        self.reading.insert(on, next + 1);
        if self.apply_feed(on, fetched).is_err() {
            self.lost()
        } else {
            self.end_of_step()
        }
    }

    fn corrupt_clock(&mut self) -> Vec<u8> {
        let mut clock = crate::model::Clock::default();
        for on in self.world.channels() {
            clock.claim_offset(on, 1);
        }
        let mut bytes = clock.encode();
        let first = bytes[5..33].to_vec();
        match self.chance.below(5) {
            0 => bytes[0] = 2,
            1 => bytes.push(0),
            2 => bytes.truncate(self.chance.below(bytes.len())),
            3 => bytes[33..61].copy_from_slice(&first),
            _ => bytes[25] = 0x80,
        }
        bytes
    }
}
