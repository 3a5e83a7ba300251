//! Random scripts. The generator runs the model along, so that most of what it writes is what a host could do.

use std::collections::{BTreeMap, BTreeSet};

use crate::equivalence::chance::Chance;
use crate::equivalence::ops::Op;
use crate::equivalence::world::World;
use crate::model::{Channel, Fetched, Mark, Model, Refused, Topic, Truncation, topic_of};

/// A generated script: names for printing, the metadata budget, the operations.
pub struct Script {
    pub world: World,
    pub budget: usize,
    pub ops: Vec<Op>,
}

/// The generator's state: the world, the model that runs along, and what the host remembers.
pub struct Generator {
    pub chance: Chance,
    pub world: World,
    pub budget: usize,
    pub model: Model,
    pub ops: Vec<Op>,
    pub inputs: BTreeSet<Channel>,
    pub sinks: BTreeMap<Topic, i32>,
    /// Where the host reads each channel next.
    pub reading: BTreeMap<Channel, i64>,
    pub marks: Vec<Mark>,
    /// Sends since the last fence: where the last one on each channel was appended.
    pub unacknowledged: BTreeMap<Channel, i64>,
    pub refused_opens: usize,
    /// A channel that the host seldom gets to, so that much waits for it.
    pub slow: Option<Channel>,
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
    pub fn execute(&mut self) {
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
    pub fn step(&mut self) -> bool {
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
    pub fn burst(&mut self) -> bool {
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

    pub fn end_or_go_on(&mut self) -> bool {
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

    pub fn feed(&mut self) -> Result<(), Refused> {
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

    pub fn apply_feed(&mut self, on: Channel, fetched: Fetched) -> Result<(), Refused> {
        self.ops.push(Op::Feed {
            on,
            fetched: fetched.clone(),
        });
        self.model.receive(on, &fetched).map(drop)
    }

    /// The consumer's position stands before the next record, or at the end.
    pub fn advance(&mut self) -> Result<(), Refused> {
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

    pub fn send(&mut self) -> Result<(), Refused> {
        let Some(to) = self.chance.pick(&self.model.execution().sink_channels()) else {
            return Ok(());
        };
        self.ops.push(Op::Send { to });
        let stamp = self.model.send(to)?;
        let offset = self.world.append_send(&stamp);
        self.unacknowledged.insert(to, offset);
        Ok(())
    }

    pub fn acks(&mut self) -> BTreeMap<Channel, i64> {
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

    pub fn fence(&mut self) {
        let acks = self.acks();
        self.ops.push(Op::Fence { acks: acks.clone() });
        self.model.fence(&acks);
    }

    pub fn commit(&mut self) {
        let acks = self.acks();
        self.ops.push(Op::Commit { acks: acks.clone() });
        self.model.commit(&acks);
        self.world.commit();
    }

    pub fn drain(&mut self, most: Option<usize>) {
        self.ops.push(Op::Drain { most });
        for _ in 0..most.unwrap_or(usize::MAX) {
            if self.model.deliver_next().is_none() {
                break;
            }
        }
    }

    pub fn stop(&mut self) {
        self.ops.push(Op::Stop);
        self.model.stop();
        self.world.commit();
    }

    pub fn abort(&mut self) {
        self.ops.push(Op::Abort);
        self.model.abort();
        self.world.abort();
    }

    /// A refusal has ended the execution.
    pub fn lost(&mut self) -> bool {
        self.world.abort();
        false
    }

    pub fn evidence(&mut self) -> bool {
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
    pub fn end_of_step(&mut self) -> bool {
        match self.chance.below(6) {
            0 => self.drain(Some(1)),
            _ => self.drain(None),
        }
        self.commit();
        true
    }

    pub fn check_and_sweep(&mut self) -> bool {
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

    pub fn delete_a_topic(&mut self) -> bool {
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
}
