//! Random scripts drive a [`parsley_core::Node`] and the naive model of `docs/protocol.md` in lockstep: same deliveries in
//! the same order, same drops, refusals, stamps, hold reports, positions and stored bytes.
//!
//! `PARSLEY_MODEL_SCRIPTS` sets how many scripts run (500 by default), `PARSLEY_MODEL_SEED` the first seed.

mod equivalence;

use equivalence::coverage::Coverage;
use equivalence::{alone, generate, lockstep, shrink};
use parsley_model::{self as model, Broken, Model};

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

/// A suite that cannot tell a broken protocol from the right one would not notice a broken node either.
#[test]
fn the_scripts_tell_every_broken_protocol_from_the_node() {
    let mut missed = Vec::new();
    for &broken in Broken::ALL {
        let told_by = (0..500).find(|&seed| {
            let script = generate::script(seed);
            lockstep::run_beside_broken(broken, &script.ops, script.budget).is_err()
        });
        match told_by {
            Some(seed) => println!("{broken}: seed {seed}"),
            None => missed.push(broken.as_str()),
        }
    }
    assert!(missed.is_empty(), "not told apart: {missed:?}");
}

/// A broken protocol is to be condemned for what it breaks, not for bytes that nobody can read.
#[test]
fn what_a_broken_protocol_commits_can_be_read_again() {
    for seed in 0..60 {
        let script = generate::script(seed);
        for &broken in Broken::ALL {
            let model = Model::with_budget(script.budget).breaking(Some(broken));
            assert!(
                alone::leaves_what_it_can_read(model, &script.ops),
                "{broken}, seed {seed}"
            );
        }
    }
}
