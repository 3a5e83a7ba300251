//! Random scripts drive a [`parsley_core::Node`] and the naive model of `docs/protocol.md` in lockstep: same deliveries in
//! the same order, same drops, refusals, stamps, hold reports, positions and stored bytes.
//!
//! `PARSLEY_MODEL_SCRIPTS` sets how many scripts run (500 by default), `PARSLEY_MODEL_SEED` the first seed.

mod equivalence;

use equivalence::coverage::Coverage;
use equivalence::{generate, lockstep, shrink};
use parsley_model as model;

fn from_environment(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|error| panic!("{name}={text}: {error}")),
        Err(_) => otherwise,
    }
}

#[test]
fn the_node_does_what_the_model_does() {
    let first = from_environment("PARSLEY_MODEL_SEED", 0);
    let count = from_environment("PARSLEY_MODEL_SCRIPTS", 500);
    let mut coverage = Coverage::default();
    for seed in first..first + count {
        let script = generate::script(seed);
        match lockstep::run(&script.ops, script.budget) {
            Ok(reached) => coverage.add(reached),
            Err(difference) => {
                let (ops, difference) = shrink::shrink(script.ops, script.budget, difference);
                panic!(
                    "seed {seed}, metadata budget {}: {}\nthe script, shrunk:\n{}",
                    script.budget,
                    difference.what,
                    script.world.names.script(&ops),
                );
            }
        }
    }
    println!("{}", coverage.report(count as usize));
    coverage.assert_floors(count as usize);
}
