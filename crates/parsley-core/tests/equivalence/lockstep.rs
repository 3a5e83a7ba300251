//! One script, run on the node and on the model; whatever either shows is compared after every operation.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::equivalence::coverage::Reached;
use crate::equivalence::ops::Op;
use crate::equivalence::subject::Subject;
use crate::model::{Broken, Mark, Model, Refused};

/// Where the two part, and how.
#[derive(Debug)]
pub struct Difference {
    /// The index of the operation.
    pub at: usize,
    pub what: String,
}

struct Lockstep {
    subject: Subject,
    model: Model,
    marks: Vec<Mark>,
    reached: Reached,
    /// A drain was cut and nothing has ended it since.
    cut: bool,
    in_step: bool,
    window: usize,
}

/// Runs the script, or says where the two differ. A panic of the node is a difference too.
pub fn run(ops: &[Op], budget: usize) -> Result<Reached, Difference> {
    run_beside(Model::with_budget(budget), ops, budget)
}

/// The same beside a model that breaks a rule.
pub fn run_beside_broken(broken: Broken, ops: &[Op], budget: usize) -> Result<Reached, Difference> {
    let model = Model::with_budget(budget).breaking(Some(broken));
    run_beside(model, ops, budget)
}

fn run_beside(model: Model, ops: &[Op], budget: usize) -> Result<Reached, Difference> {
    let mut lockstep = Lockstep {
        subject: Subject::new(budget),
        model,
        marks: Vec::new(),
        reached: Reached::default(),
        cut: false,
        in_step: false,
        window: 1,
    };
    for (at, op) in ops.iter().enumerate() {
        let outcome = catch_unwind(AssertUnwindSafe(|| lockstep.step(op)));
        let what = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(what)) => what,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                format!("panic: {}", text.unwrap_or_default())
            }
        };
        return Err(Difference { at, what });
    }
    Ok(lockstep.reached)
}

fn same<T: PartialEq + Debug>(what: &str, node: &T, model: &T) -> Result<(), String> {
    if node == model {
        Ok(())
    } else {
        Err(format!("{what}\n  node:  {node:?}\n  model: {model:?}"))
    }
}

/// Names the first key that differs.
fn same_store(
    node: &BTreeMap<String, Vec<u8>>,
    model: &BTreeMap<String, Vec<u8>>,
) -> Result<(), String> {
    for key in node.keys().chain(model.keys()) {
        let value = |store: &BTreeMap<String, Vec<u8>>| store.get(key).map(hex::encode);
        same(&format!("stored {key}"), &value(node), &value(model))?;
    }
    Ok(())
}

impl Lockstep {
    fn step(&mut self, op: &Op) -> Result<(), String> {
        // A shrunk script may lack what started or ended an execution, or the step before what stands outside one.
        let starts = matches!(op, Op::Open { .. } | Op::OpenEdited { .. });
        if starts == self.model.running() {
            return Ok(());
        }
        if self.in_step && op.stands_outside_a_step() {
            return Ok(());
        }
        self.operate(op)?;
        self.in_step = op.stands_in_a_step() || self.in_step && !op.ends_a_step();
        if self.model.running() {
            self.reached.state(&self.model, op, self.window);
            same("holds", &self.subject.holds(), &self.model.holds())?;
            let waited = self.model.waited_for_by_sequence();
            same(
                "channels waited for by sequence",
                &self.subject.waited_for_by_sequence(),
                &waited,
            )?;
            same(
                "channels claimed by sequence",
                &self.subject.channels_claimed_by_sequence(),
                &self.model.channels_claimed_by_sequence(),
            )?;
            same(
                "sequence claims",
                &self.subject.sequence_claims(),
                &self.model.sequence_claims(),
            )?;
            same("held", &self.subject.held(), &self.model.held())?;
            same(
                "resume positions",
                &self.subject.resume_positions(),
                &self.model.resume_positions(),
            )?;
            same(
                "stamp channels",
                &self.subject.stamp_channels(),
                &self.model.stamp_channels(),
            )?;
        }
        if op.ends_a_step() {
            same_store(&self.subject.store(), self.model.store())?;
        }
        Ok(())
    }

    /// Both answers, compared; a refusal ends both executions.
    fn both<T: PartialEq + Debug>(
        &mut self,
        op: &Op,
        node: Result<T, Refused>,
        model: Result<T, Refused>,
    ) -> Result<(), String> {
        same("answer", &node, &model)?;
        if let Err(refused) = &model {
            self.reached.refused(refused, op);
            self.cut = false;
        }
        Ok(())
    }

    fn operate(&mut self, op: &Op) -> Result<(), String> {
        match op {
            Op::Open { line, window } => {
                self.marks.clear();
                let before = self.model.clone();
                let (node, model) = (self.subject.open(line, *window), self.model.open(line));
                if model.is_ok() {
                    self.reached.opened(&before, &self.model, line);
                }
                self.window = *window;
                self.both(op, node, model)
            }
            Op::OpenEdited { line, edits } => {
                let edit = |store: &BTreeMap<String, Vec<u8>>| {
                    let mut store = store.clone();
                    for (key, value) in edits {
                        match value {
                            Some(value) => drop(store.insert(key.clone(), value.clone())),
                            None => drop(store.remove(key)),
                        }
                    }
                    store
                };
                let store = edit(self.model.store());
                let node = Subject::over(&store, self.subject.budget()).open(line, 2);
                let model = Model::over(store, self.subject.budget()).open(line);
                self.both(op, node, model)
            }
            Op::Feed { on, fetched } => {
                if self.cut {
                    self.reached
                        .reach("a record received behind a drain that was cut");
                }
                let (node, model) = (
                    self.subject.receive(*on, fetched),
                    self.model.receive(*on, fetched),
                );
                if model == Ok(true) {
                    self.reached.reach("a record fed again and dropped");
                }
                self.both(op, node, model)
            }
            Op::Position { on, next } => {
                let (node, model) = (
                    self.subject.position(*on, *next),
                    self.model.position(*on, *next),
                );
                self.both(op, node, model)
            }
            Op::Drain { most } => {
                let before = self.model.clone();
                let mut delivered = 0;
                while most.is_none_or(|most| delivered < most) {
                    let (node, model) = (self.subject.deliver_next(), self.model.deliver_next());
                    same("delivery", &node, &model)?;
                    if model.is_none() {
                        break;
                    }
                    delivered += 1;
                }
                self.cut = self.model.deliverable();
                if most.is_none() {
                    self.reached.drained(&before, delivered);
                }
                Ok(())
            }
            Op::Send { to } => {
                let (node, model) = (self.subject.send(*to), self.model.send(*to));
                self.both(op, node, model.map(|stamp| (stamp.sequence, stamp.bytes)))
            }
            Op::Fence { acks } => {
                self.subject.fence(acks);
                self.model.fence(acks);
                Ok(())
            }
            Op::Commit { acks } => {
                if self.cut {
                    self.reached.reach("a step that ends within a drain");
                }
                self.cut = false;
                self.subject.commit(acks);
                for (on, position) in self.model.commit(acks) {
                    let committed = self.subject.committed_positions().get(&on).copied();
                    same(
                        "committed position",
                        &(on, committed),
                        &(on, Some(position)),
                    )?;
                }
                Ok(())
            }
            Op::Abort => {
                self.reached.reach("an aborted step");
                self.subject.abort();
                self.model.abort();
                self.cut = false;
                Ok(())
            }
            Op::Stop => {
                self.subject.stop();
                self.model.stop();
                self.cut = false;
                Ok(())
            }
            Op::Mark => {
                self.subject.mark();
                self.marks.push(self.model.mark());
                Ok(())
            }
            Op::Watermarks { mark, watermarks } => {
                let number = mark.filter(|&number| number < self.marks.len());
                let taken =
                    number.map_or_else(|| self.model.mark(), |number| self.marks[number].clone());
                self.subject.watermarks(number, watermarks);
                self.model.watermarks(&taken, watermarks);
                Ok(())
            }
            Op::Truncate(truncation) => {
                let named = self.model.stamp_channels().len();
                let (node, model) = (
                    self.subject.truncate(truncation),
                    self.model.truncate(truncation),
                );
                if model.is_ok() {
                    if self.model.stamp_channels().len() < named {
                        self.reached.reach("a sweep that drops a claim");
                    }
                    let inputs = &self.model.execution().inputs;
                    if inputs
                        .iter()
                        .any(|&(msb, lsb, _)| truncation.gone.contains(&(msb, lsb)))
                    {
                        self.reached.reach("a topic found gone by a check");
                    }
                }
                self.both(op, node, model)
            }
        }
    }
}
