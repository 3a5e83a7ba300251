//! What each stage of the gate does.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::command::{Counts, Failure, Run};
use crate::{coverage, fuzz, mutants, publish, tools};

/// The lowest share of lines, in percent, that the tests of the covered crates run.
const COVERAGE_FLOOR_PERCENT: f64 = 90.0;

/// The crates whose lines are counted.
const COVERED_CRATES: [&str; 2] = ["parsley-core", "parsley-stage"];

/// Random scripts that the node and its naive model are compared on.
const MODEL_SCRIPTS: &str = "10000";

/// What every build of a stage is a part of. Cargo unites the features of dependencies over what is chosen, so with another choice it builds them, and
/// librdkafka, once more: what a stage wants of the whole it names by its test binaries.
const WHOLE: &str = "--locked --workspace --features parsley-bench/kafka";

/// The test binaries that need a broker.
const ON_BROKERS: [&str; 12] = [
    "cluster",
    "proxy",
    "broker_facts",
    "brokers",
    "host",
    "load",
    "only_broker",
    "proxied",
    "sim_broker",
    "on_kafka",
    "short_run",
    "kafka",
];

/// Some test binaries of the workspace.
fn tests(options: &str, names: &[&str]) -> Run {
    let run = Run::cargo(&format!("test {WHOLE} {options}"));
    names
        .iter()
        .fold(run, |run, name| run.argument("--test").argument(*name))
}

/// All test binaries of the workspace, once each.
fn test_binaries() -> Result<BTreeSet<String>, Failure> {
    let run = Run::cargo("metadata --no-deps --format-version 1 --locked");
    let names = serde_json::from_str(&run.read()?)
        .ok()
        .and_then(|value: Value| {
            let mut names = BTreeSet::new();
            for package in value.get("packages")?.as_array()? {
                for target in package.get("targets")?.as_array()? {
                    if target
                        .get("kind")?
                        .as_array()?
                        .iter()
                        .any(|kind| kind == "test")
                    {
                        names.insert(target.get("name")?.as_str()?.to_owned());
                    }
                }
            }
            Some(names)
        });
    names.ok_or_else(|| Failure::Output {
        line: run.line(),
        problem: "it has another form".to_owned(),
    })
}

/// A stage's work.
pub type Work = fn(&mut Counts) -> Result<(), Failure>;

/// When a stage runs in a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Alone.
    First,
    /// After those, one after the other.
    WaitsForBrokers,
    /// At the same time as those, one after the other.
    Beside,
}

/// One stage of the gate.
pub struct Stage {
    pub name: &'static str,
    pub about: &'static str,
    /// Whether `--quick` runs it.
    pub quick: bool,
    pub lane: Lane,
    pub work: Work,
}

/// All stages in their order: what fails fast comes first.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "format",
        about: "cargo fmt --check",
        quick: true,
        lane: Lane::First,
        work: format,
    },
    Stage {
        name: "lint",
        about: "cargo clippy on everything, warnings denied",
        quick: true,
        lane: Lane::First,
        work: lint,
    },
    Stage {
        name: "docs",
        about: "cargo doc, warnings denied",
        quick: true,
        lane: Lane::First,
        work: docs,
    },
    Stage {
        name: "test",
        about: "unit, integration and doc tests that need no broker",
        quick: true,
        lane: Lane::First,
        work: test,
    },
    Stage {
        name: "model",
        about: "the node against its naive model, 10,000 random scripts",
        quick: false,
        lane: Lane::Beside,
        work: model,
    },
    Stage {
        name: "sim",
        about: "every simulated scenario on 100 seeds, every sabotage, both hosts, in release",
        quick: false,
        lane: Lane::Beside,
        work: sim,
    },
    Stage {
        name: "kill",
        about: "the demo on a directory, killed 20 times over 100,000 commands",
        quick: false,
        lane: Lane::Beside,
        work: kill,
    },
    Stage {
        name: "load",
        about: "the embedded host's directory damaged, full, killed, and with a million held records, in release",
        quick: false,
        lane: Lane::Beside,
        work: load,
    },
    Stage {
        name: "broker",
        about: "tests on Apache Kafka, newest version",
        quick: false,
        lane: Lane::WaitsForBrokers,
        work: broker,
    },
    Stage {
        name: "broker-oldest",
        about: "what brokers do, and the host on them, on the oldest version",
        quick: false,
        lane: Lane::WaitsForBrokers,
        work: broker_oldest,
    },
    Stage {
        name: "deny",
        about: "licences, bans and origins of dependencies",
        quick: false,
        lane: Lane::Beside,
        work: deny,
    },
    Stage {
        name: "package",
        about: "what would be published: metadata and contents of each package",
        quick: false,
        lane: Lane::Beside,
        work: package,
    },
    Stage {
        name: "coverage",
        about: "90 % of the lines of core and stage",
        quick: false,
        lane: Lane::Beside,
        work: measure_coverage,
    },
    Stage {
        name: "mutants",
        about: "every mutant of decide.rs, drain.rs and wire.rs is caught by the unit tests of core",
        quick: false,
        lane: Lane::Beside,
        work: |_| mutants::strict(),
    },
    Stage {
        name: "fuzz",
        about: "every decoder that meets bytes from outside, fuzzed for 6 s each",
        quick: false,
        lane: Lane::Beside,
        work: fuzz,
    },
];

fn format(counts: &mut Counts) -> Result<(), Failure> {
    Run::cargo("fmt --all --check").show(counts)?;
    Run::cargo("fmt --manifest-path fuzz/Cargo.toml --check").show(counts)
}

fn lint(counts: &mut Counts) -> Result<(), Failure> {
    tools::native_build()?;
    Run::cargo(&format!("clippy {WHOLE} --all-targets -- -D warnings")).show(counts)
}

fn docs(counts: &mut Counts) -> Result<(), Failure> {
    Run::cargo(&format!("doc {WHOLE} --no-deps"))
        .variable("RUSTDOCFLAGS", "-D warnings")
        .show(counts)
}

fn test(counts: &mut Counts) -> Result<(), Failure> {
    // For the page of the status. Everything else is tested without it, and what needs it fails.
    let browser = tools::browser();
    let all = test_binaries()?;
    let names: Vec<&str> = all
        .iter()
        .map(String::as_str)
        .filter(|name| !ON_BROKERS.contains(name))
        .collect();
    // Both run, also when the first fails.
    let outcomes = [
        tests("--no-fail-fast --lib --bins", &names),
        tests("--no-fail-fast --doc", &[]),
    ]
    .map(|run| run.show(counts));
    outcomes.into_iter().chain([browser]).collect()
}

fn model(counts: &mut Counts) -> Result<(), Failure> {
    // The directed tests come along: digests of whole traces have to be those of the debug build.
    tests("--release", &["model_equivalence", "directed"])
        .variable("PARSLEY_MODEL_SCRIPTS", MODEL_SCRIPTS)
        .show(counts)
}

fn sim(counts: &mut Counts) -> Result<(), Failure> {
    let simulator = [
        "catches",
        "diagram",
        "diagram_of_anything",
        "explore",
        "faults",
        "figures",
        "sabotage",
        "shiviz",
        "suite",
    ];
    let judges = ["oracle", "broken", "host_duties"];
    let simulated = tests(
        "--release --no-fail-fast",
        &[&simulator[..], &judges].concat(),
    )
    .show(counts);
    // The embedded host, through the kit, with what it prints: how much was run.
    let embedded = tests("--release", &["conformance"]).arguments("-- --nocapture");
    simulated.and(embedded.show(counts))
}

fn kill(counts: &mut Counts) -> Result<(), Failure> {
    // With what the test prints: the seed, and how far the demo had come at each kill.
    tests("--release", &["demo_kill"])
        .arguments("-- --nocapture")
        .show(counts)
}

fn load(counts: &mut Counts) -> Result<(), Failure> {
    // One after the other: they measure memory and time. With what they print, which tells the numbers.
    tests(
        "--release --no-fail-fast",
        &["torn_writes", "full_disk", "killed", "million_held"],
    )
    .arguments("-- --nocapture --test-threads=1")
    .show(counts)
}

fn broker(counts: &mut Counts) -> Result<(), Failure> {
    tools::broker()?;
    tools::browser()?;
    // Every kind of fault once, on three brokers. In release: its judges take longer than its faults otherwise.
    let in_release = ["short_run"];
    let names: Vec<&str> = ON_BROKERS
        .into_iter()
        .filter(|name| !in_release.contains(name))
        .collect();
    // With what the tests print, which tells the numbers that they saw. They wait for brokers most of the time, so more run at once than the machine has
    // processors.
    tests("--no-fail-fast", &names)
        .arguments("-- --nocapture --test-threads=4")
        .show(counts)?;
    tests("--release", &in_release)
        .arguments("-- --nocapture")
        .show(counts)
}

fn broker_oldest(counts: &mut Counts) -> Result<(), Failure> {
    tools::broker()?;
    // What brokers do and what the host makes of it; how it fares under load and without brokers is shown on the newest, as is what asks nothing of a
    // broker that others do not: ticks, edge clients, what the host tells of itself.
    tests(
        "--no-fail-fast",
        &["broker_facts", "sim_broker", "host", "proxied"],
    )
    .arguments("-- --test-threads=4 --skip ticks:: --skip edge:: --skip told::")
    .variable("PARSLEY_KAFKA_VERSION", kafka_cluster::OLDEST)
    .show(counts)
}

fn deny(counts: &mut Counts) -> Result<(), Failure> {
    tools::cargo_subcommand("deny")?;
    Run::cargo("deny --locked check licenses bans sources").show(counts)
}

fn package(counts: &mut Counts) -> Result<(), Failure> {
    // Building each package anew takes minutes: `cargo xtask publish`.
    publish::run(counts, false)
}

fn measure_coverage(_: &mut Counts) -> Result<(), Failure> {
    tools::cargo_subcommand("llvm-cov")?;
    let report = target().join("coverage.json");
    let mut run = Run::cargo("llvm-cov test --locked --json --summary-only --output-path")
        .argument(report.display().to_string());
    for name in COVERED_CRATES {
        run = run.argument("-p").argument(name);
    }
    for (name, path) in tools::llvm()? {
        run = run.variable(name, path);
    }
    // The tests were counted where they ran for themselves.
    run.show(&mut Counts::default())?;

    let malformed = |problem: String| Failure::Output {
        line: run.line(),
        problem,
    };
    let text =
        fs::read_to_string(&report).map_err(|error| malformed(format!("no report: {error}")))?;
    let value = serde_json::from_str(&text)
        .map_err(|error| malformed(format!("the report is no JSON: {error}")))?;
    let lines = coverage::lines(&value, &COVERED_CRATES)
        .ok_or_else(|| malformed("the report has another form".to_owned()))?;
    let mut both = coverage::Lines::default();
    for (name, lines) in &lines {
        println!("{name}: {:.2} % of {} lines", lines.percent(), lines.count);
        if lines.count == 0 {
            return Err(Failure::Unmet(format!("the report has no line of {name}")));
        }
        both.covered += lines.covered;
        both.count += lines.count;
    }
    println!(
        "both: {:.2} % of {} lines, floor {COVERAGE_FLOOR_PERCENT} %",
        both.percent(),
        both.count
    );
    if both.percent() < COVERAGE_FLOOR_PERCENT {
        return Err(Failure::Unmet(format!(
            "{:.2} % of the lines are covered, the floor is {COVERAGE_FLOOR_PERCENT} %",
            both.percent()
        )));
    }
    Ok(())
}

fn fuzz(_: &mut Counts) -> Result<(), Failure> {
    match fuzz::run(&fuzz::Options::of_gate())?.as_slice() {
        [] => Ok(()),
        found => Err(Failure::Unmet(format!(
            "the fuzzer found something, see FINDING of {}",
            found.join(", ")
        ))),
    }
}

/// The machine that this compiler compiles for, as Cargo names it.
pub fn host() -> Result<String, Failure> {
    let run = Run::new("rustc", &["-vV"]);
    let said = run.read()?;
    let host = said.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::Output {
        line: run.line(),
        problem: "it names no host".to_owned(),
    })
}

/// Cargo's target folder.
pub fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| crate::root().join("target"), PathBuf::from)
}

#[cfg(test)]
mod tests_of_stages {
    use super::*;

    /// A binary that is renamed would be run without its broker, and what is left of a list would be asked of Cargo in vain.
    #[test]
    fn what_needs_a_broker_is_there() {
        let names = test_binaries().unwrap();
        assert!(
            names.contains("directed") && names.contains("explore"),
            "{names:?}"
        );
        for name in ON_BROKERS {
            assert!(names.contains(name), "{name}");
        }
    }
}
