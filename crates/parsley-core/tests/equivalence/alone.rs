//! One script, run on a model alone.

use crate::equivalence::ops::Op;
use crate::model::{Mark, Model, parse};

/// Runs the script as far as it goes, refusals included; whether everything that was committed could be read again.
pub fn leaves_what_it_can_read(mut model: Model, ops: &[Op]) -> bool {
    let mut marks: Vec<Mark> = Vec::new();
    ops.iter().all(|op| {
        let starts = matches!(op, Op::Open { .. });
        if starts != model.running() {
            step(&mut model, &mut marks, op);
        }
        !op.ends_a_step() || parse(model.store()).is_some()
    })
}

/// What is refused ends the execution, and the script goes on with the next one.
fn step(model: &mut Model, marks: &mut Vec<Mark>, op: &Op) {
    match op {
        Op::Open { line, .. } => {
            marks.clear();
            drop(model.open(line));
        }
        Op::OpenEdited { .. } => {}
        Op::Feed { on, fetched } => drop(model.receive(*on, fetched)),
        Op::Position { on, next } => drop(model.position(*on, *next)),
        Op::Drain { most } => {
            for _ in 0..most.unwrap_or(usize::MAX) {
                if model.deliver_next().is_none() {
                    break;
                }
            }
        }
        Op::Send { to } => drop(model.send(*to)),
        Op::Fence { acks } => model.fence(acks),
        Op::Commit { acks } => drop(model.commit(acks)),
        Op::Abort => model.abort(),
        Op::Stop => drop(model.stop()),
        Op::Mark => marks.push(model.mark()),
        Op::Watermarks { mark, watermarks } => {
            let taken = mark.and_then(|number| marks.get(number).cloned());
            let taken = taken.unwrap_or_else(|| model.mark());
            model.watermarks(&taken, watermarks);
        }
        Op::Truncate(truncation) => drop(model.truncate(truncation)),
    }
}
