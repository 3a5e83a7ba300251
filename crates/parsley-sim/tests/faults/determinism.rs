//! B28: one seed is one run, whoever runs it, and a kill between two steps changes no order.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use parsley_sim::run::Request;
use parsley_sim::{Action, Sabotage};

use crate::kit::*;

/// Scenarios of every kind: scripted and drawn, with crashes, transactions, rounds, evidence, retention, redeploys.
const PINNED: &[&str] = &[
    "p1-crossed-sends",
    "p1-concurrent-sends",
    "p6-removed-and-added-again",
    "p9-restart-amid-markers",
    "p10-truncation-against-a-holder",
    "p13-watermark-over-a-waiting-record",
    "b03-aborted-steps",
    "b06-two-senders-on-one-partition",
    "b12-loop-recreated-while-stopped",
    "b19-cascade",
    "b27-transactions-that-abort",
];

/// Of each of them.
const PINNED_SEEDS: u64 = 10;

/// FNV-1a over the text of a trace.
fn digest(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn digests() -> String {
    let mut lines = String::new();
    for name in PINNED {
        for seed in 0..PINNED_SEEDS {
            let digest = digest(&trace(name, seed).to_string());
            lines += &format!("digest {name} {seed} {digest:016x}\n");
        }
    }
    lines
}

fn written_down() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sim/digests.txt")
}

/// Run in the debug and in the release build. A change of the simulator that makes other runs of the seeds writes new digests, with
/// `PARSLEY_WRITE_DIGESTS` set.
#[test]
fn b28_traces_are_those_that_were_written_down() {
    let digests = digests();
    println!();
    print!("{digests}");
    if env::var_os("PARSLEY_WRITE_DIGESTS").is_some() {
        fs::write(written_down(), &digests).expect("the file can be written");
    }
    let pinned = fs::read_to_string(written_down()).expect("the file is there");
    let differ: Vec<&str> = digests
        .lines()
        .zip(pinned.lines())
        .filter(|(now, then)| now != then)
        .map(|(now, _)| now)
        .collect();
    assert!(differ.is_empty(), "other runs than before: {differ:#?}");
    assert_eq!(digests.lines().count(), pinned.lines().count());
}

#[test]
fn b28_a_seed_run_twice_gives_the_same_bytes() {
    for name in PINNED {
        for seed in 0..PINNED_SEEDS {
            assert_eq!(
                trace(name, seed).to_string(),
                trace(name, seed).to_string(),
                "{name} {seed}"
            );
        }
    }
}

#[test]
fn b28_a_seed_run_in_other_processes_gives_the_same_bytes() {
    let this = env::current_exe().expect("a test has a file");
    let run = || {
        let output = Command::new(&this)
            .args([
                "--exact",
                "determinism::b28_traces_are_those_that_were_written_down",
            ])
            .arg("--nocapture")
            .env_remove("PARSLEY_WRITE_DIGESTS")
            .output()
            .expect("this very file can be run");
        let text = String::from_utf8(output.stdout).expect("digests are text");
        let lines = text.lines().filter(|line| line.starts_with("digest "));
        lines.map(|line| format!("{line}\n")).collect::<String>()
    };
    let (first, second) = (run(), run());
    assert_eq!(
        first.lines().count() as u64,
        PINNED.len() as u64 * PINNED_SEEDS
    );
    assert_eq!(first, second);
    assert_eq!(first, digests());
}

/// The order in which a task of the run of these actions delivers.
fn order(request: Request<'_>, actions: &[Action], actor: &str) -> Vec<String> {
    let outcome = request.replay(Sabotage::None, actions.to_vec());
    assert_eq!(outcome.violation, None);
    delivered(&outcome.trace.expect("a trace was asked for"), actor)
}

#[test]
fn b28_a_task_killed_after_any_step_delivers_in_the_same_order() {
    let mut kills = 0;
    for (name, actor, task) in [
        ("shared-input-race", "ship/0", 1),
        ("b04-fetched-is-not-handed-over", "n/0", 0),
        ("b05-two-sends-of-one-step", "b/0", 1),
        ("b05-relay-that-does-not-read-the-cause", "b/0", 1),
        ("b19-cascade", "n/0", 0),
        ("p1-crossed-sends", "both/0", 2),
        ("p3-removed-while-waited-for", "n/0", 0),
    ] {
        // Where steps are atomic, each ends between two.
        for seed in (0..SEEDS / 5).map(|seed| 2 * seed) {
            let request = Request {
                scenario: named(name),
                seed,
                trace: true,
            };
            let actions = request.run(Sabotage::None).actions;
            let straight = order(request, &actions, actor);
            assert!(!straight.is_empty(), "{name} {seed}");
            let steps = actions.iter().enumerate().filter(|(_, action)| {
                matches!(action, Action::Step { task: by, crash: None, .. } if *by == task)
            });
            for (index, _) in steps {
                let mut killed = actions.clone();
                killed.splice(
                    index + 1..index + 1,
                    [Action::Crash(task), Action::Start(task)],
                );
                assert_eq!(
                    order(request, &killed, actor),
                    straight,
                    "{name} {seed}, killed after action {index}"
                );
                kills += 1;
            }
        }
    }
    assert!(kills > 3 * SEEDS, "only {kills} kills");
}
