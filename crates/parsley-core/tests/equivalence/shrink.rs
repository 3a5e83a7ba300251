//! Makes a failing script small.

use crate::equivalence::lockstep::{self, Difference};
use crate::equivalence::ops::Op;

/// Leaves operations out, first in large runs and then one by one, as long as the two still differ.
pub fn shrink(
    mut ops: Vec<Op>,
    budget: usize,
    mut difference: Difference,
) -> (Vec<Op>, Difference) {
    ops.truncate(difference.at + 1);
    let mut run = ops.len() / 2;
    while run > 0 {
        let mut from = 0;
        let mut smaller = false;
        while from < ops.len() {
            let mut without = ops.clone();
            without.drain(from..(from + run).min(ops.len()));
            match lockstep::run(&without, budget) {
                Err(found) => {
                    without.truncate(found.at + 1);
                    ops = without;
                    difference = found;
                    smaller = true;
                }
                Ok(_) => from += run,
            }
        }
        if !smaller {
            run /= 2;
        }
    }
    (ops, difference)
}
