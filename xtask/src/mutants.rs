//! `cargo xtask mutants`: changes the protocol's code in one place at a time, and counts the changes that no test notices.

mod ledger;
mod sources;
mod survivors;
mod table;

use std::fs;
use std::path::Path;

use ledger::{By, Ledger, Sum};

use crate::command::{Counts, Failure, Run};
use crate::page::{self, Marks, unmet};
use crate::{stages, tools};

/// The lowest share of mutants, in percent, that are caught.
const FLOOR_PERCENT: f64 = 90.0;

/// The highest share of mutants, in percent, that may not compile. Where more do not, it is for another reason, such as a full disk.
const UNVIABLE_MAX_PERCENT: f64 = 25.0;

/// The files whose mutants the gate tries each time.
const STRICT: [&str; 3] = [
    "crates/parsley-core/src/decide.rs",
    "crates/parsley-core/src/drain.rs",
    "crates/parsley-core/src/wire.rs",
];

const PAGE: &str = "docs/verification.md";
const MARKS: Marks = [
    "<!-- begin of the figures of the mutants -->",
    "<!-- end of the figures of the mutants -->",
];

/// After how many seconds tests are ended that wait for something which does not come.
const WAITS_MAX_S: u32 = 300;

/// How much memory one test binary may ask for.
const MEMORY_BYTES: u64 = 8 << 30;

/// What the gate tries them on: the unit tests see all that core's tests see of these files.
const STRICT_TESTS: Tests = Tests {
    mutated: "parsley-core",
    tested: "parsley-core",
    arguments: "--lib",
    processor_s: 6,
};

/// How `cargo mutants` ends when it did its work: everything caught, something missed, something that did not end.
const DONE: [i32; 3] = [0, 2, 3];

/// Tests that mutants of a crate have to get past.
struct Tests {
    /// The crate that is mutated.
    mutated: &'static str,
    /// The crate that the tests are in.
    tested: &'static str,
    /// What `cargo test` is told.
    arguments: &'static str,
    /// How much processor time one test binary may take, in seconds, before a mutant counts as one that does not end: some times what the longest takes
    /// without a mutant. What else the machine does changes nothing about it.
    processor_s: u32,
}

/// The own tests of both crates.
const OWN: [Tests; 2] = [
    Tests {
        mutated: "parsley-core",
        tested: "parsley-core",
        // What is left out asks whether the scripts see a broken model, and no mutant changes the model.
        arguments: "--lib --test=directed --test=model_equivalence -- --skip broken_protocol",
        processor_s: 6,
    },
    Tests {
        mutated: "parsley-stage",
        tested: "parsley-stage",
        // What is left out compiles declarations for half a minute, and no mutant changes a declaration.
        arguments: "--tests -- --skip wrong_types_do_not_compile",
        processor_s: 10,
    },
];

/// What a crate's own tests do not notice has to get past the simulator: every scenario, on 20 seeds each.
fn simulator(mutated: &'static str) -> Tests {
    Tests {
        mutated,
        tested: "parsley-sim",
        arguments: "--test=suite -- every_scenario_holds_and_reaches_its_floors",
        processor_s: 30,
    }
}

impl Tests {
    /// The run that tries mutants on these tests, and leaves what came of each in `folder`. `only` says which, in the tool's own words.
    fn attempt(&self, folder: &Path, jobs: u16, only: &[String]) -> Result<Run, Failure> {
        let mut run = Run::cargo("mutants --no-shuffle --colors=never --no-times --no-config")
            .argument(format!("--package={}", self.mutated))
            .argument(format!("--test-package={}", self.tested))
            .argument(format!("--jobs={jobs}"))
            .argument(format!("--timeout={WAITS_MAX_S}"))
            .argument(format!("--output={}", folder.display()))
            // Each job has a target folder of its own.
            .without_variable("CARGO_TARGET_DIR");
        run = self.bounded(run)?;
        if self.tested != self.mutated {
            // It would run them in the package that is mutated, where they are not.
            run = run.argument("--baseline=skip");
        }
        for argument in only {
            run = run.argument(argument);
        }
        run = run.argument("--");
        for argument in self.arguments.split_whitespace() {
            run = run.argument(argument);
        }
        Ok(run)
    }

    /// The same tests without a mutant, which have to pass.
    fn baseline(&self) -> Result<Run, Failure> {
        let mut run = Run::cargo("test --locked").argument(format!("--package={}", self.tested));
        for argument in self.arguments.split_whitespace() {
            run = run.argument(argument);
        }
        self.bounded(run)
    }

    /// With the bounds of these tests, and with what makes them tell as soon as they can.
    fn bounded(&self, run: Run) -> Result<Run, Failure> {
        let runner = format!(
            "CARGO_TARGET_{}_RUNNER",
            stages::host()?.to_uppercase().replace('-', "_")
        );
        // With a second to say so in.
        let (soft, hard) = (self.processor_s, self.processor_s + 1);
        let limit = format!("prlimit --cpu={soft}:{hard} --as={MEMORY_BYTES}");
        Ok(run
            .variable(&runner, limit)
            .variable("CARGO_PROFILE_DEV_DEBUG", "0")
            // A test that fails is all there is to know: no search for a smaller failure. Cases and scripts are cut to what tells nearly all mutants.
            .variable("PROPTEST_MAX_SHRINK_ITERS", "0")
            .variable("PROPTEST_CASES", "24")
            .variable("PARSLEY_MODEL_SCRIPTS", "40"))
    }
}

/// What to do.
pub struct Request {
    /// `K/N`: of N shares of the mutants, only the K-th, from 0.
    pub shard: Option<String>,
    /// How many mutants are tried at the same time.
    pub jobs: u16,
    /// Forget what earlier runs have caught.
    pub fresh: bool,
    /// Write the figures into the page.
    pub save: bool,
}

/// Tries all mutants that earlier runs have not caught, and judges all of which something is known. Whether the floors are reached.
pub fn run(request: &Request) -> Result<bool, Failure> {
    tools::limits()?;
    tools::cargo_subcommand("mutants")?;
    let folder = stages::target().join("mutants");
    made(&folder, request.fresh)?;
    let kept = folder.join("mutants.json");
    let mut ledger = Ledger::read(&kept)?;
    let mut untried = 0;
    for own in OWN {
        let out = folder.join(own.mutated);
        made(&out, false)?;
        // What a run has found out that was stopped. It is kept at once, as the next run begins its own list.
        ledger.take(&out, By::OwnTests)?;
        let names = mutants(own.mutated)?;
        for file in sources::changed(&out, &names)? {
            println!("{file} has changed: its mutants are tried again");
            ledger.forget(&file);
        }
        ledger.write(&kept)?;
        let mut only = vec!["--iterate".to_owned()];
        if let Some(shard) = &request.shard {
            only.push(format!("--shard={shard}"));
        }
        finished(&own.attempt(&out, request.jobs, &only)?)?;
        ledger.take(&out, By::OwnTests)?;
        ledger.keep_only(own.mutated, &names);
        untried += ledger.untried(&names);
        ledger.write(&kept)?;

        let missed = ledger.missed(own.mutated);
        if missed.is_empty() {
            continue;
        }
        println!("{} mutants are left for the simulator", missed.len());
        let out = folder.join(format!("{}-simulated", own.mutated));
        made(&out, true)?;
        let only: Vec<String> = missed
            .iter()
            .map(|name| format!("--re=^{}$", literal(name)))
            .collect();
        let simulator = simulator(own.mutated);
        simulator.baseline()?.show(&mut Counts::default())?;
        finished(&simulator.attempt(&out, request.jobs, &only)?)?;
        ledger.take(&out, By::Simulator)?;
        ledger.write(&kept)?;
    }
    println!("what came of each mutant is in {}", kept.display());
    let listed = survivors::listed()?;
    print!("\n{}", table::files(&ledger));
    if request.save {
        page::put(PAGE, MARKS, &table::page(&ledger, &listed))?;
    }
    let whole = request.shard.is_none();
    let mut wrong = survivors::not_listed(&ledger, &listed, |_| true);
    // Of a share it cannot be told whether what is listed survives.
    if whole {
        wrong.extend(survivors::not_surviving(&ledger, &listed, |_| true));
        if untried > 0 {
            wrong.push(format!(
                "{untried} mutants were not tried: the run was cut short"
            ));
        }
    }
    wrong.extend(hardly_viable(ledger.sum(|_| true)));
    for line in &wrong {
        eprintln!("{line}");
    }
    let percent = ledger.sum(|_| true).percent();
    if percent < FLOOR_PERCENT {
        eprintln!("{percent:.1} % of the mutants are caught, the floor is {FLOOR_PERCENT} %");
    }
    Ok(wrong.is_empty() && percent >= FLOOR_PERCENT)
}

/// The mutants of the files that decide, against the unit tests of core: what the gate runs.
pub fn strict() -> Result<(), Failure> {
    tools::limits()?;
    tools::cargo_subcommand("mutants")?;
    let out = stages::target().join("mutants-of-the-gate");
    made(&out, true)?;
    let only = STRICT.map(|file| format!("--file={file}"));
    finished(&STRICT_TESTS.attempt(&out, 2, &only)?)?;
    let mut ledger = Ledger::default();
    ledger.take(&out, By::OwnTests)?;
    print!("\n{}", table::files(&ledger));
    if let Some(file) = STRICT.iter().find(|file| !ledger.has(file)) {
        return Err(Failure::Unmet(format!("{file} has no mutants")));
    }
    let (listed, is_strict) = (survivors::listed()?, |file: &str| STRICT.contains(&file));
    let mut wrong = survivors::not_listed(&ledger, &listed, is_strict);
    wrong.extend(survivors::not_surviving(&ledger, &listed, is_strict));
    wrong.extend(hardly_viable(ledger.sum(is_strict)));
    for line in &wrong {
        eprintln!("{line}");
    }
    match wrong.len() {
        0 => Ok(()),
        wrong => Err(Failure::Unmet(format!(
            "{wrong} things are wrong with the mutants"
        ))),
    }
}

/// What is wrong if too many mutants do not compile.
fn hardly_viable(sum: Sum) -> Option<String> {
    let percent = sum.unviable_percent();
    (percent > UNVIABLE_MAX_PERCENT).then(|| {
        format!(
            "{percent:.1} % of the mutants do not compile, at most {UNVIABLE_MAX_PERCENT} % may: see the logs, and begin anew with --fresh"
        )
    })
}

/// A folder that is there, and empty if asked for.
fn made(folder: &Path, empty: bool) -> Result<(), Failure> {
    if empty && folder.exists() {
        fs::remove_dir_all(folder).map_err(|error| unmet(folder, &error))?;
    }
    fs::create_dir_all(folder).map_err(|error| unmet(folder, &error))
}

/// Runs `cargo mutants`, for which it is no failure that mutants survive.
fn finished(run: &Run) -> Result<(), Failure> {
    let status = run.show_status(&mut Counts::default())?;
    match status.code() {
        Some(code) if DONE.contains(&code) => Ok(()),
        _ => Err(run.ended(status)),
    }
}

/// The names of all mutants that a crate has as it is now.
fn mutants(package: &str) -> Result<Vec<String>, Failure> {
    let run = Run::cargo("mutants --list --colors=never --no-config")
        .argument(format!("--package={package}"));
    Ok(run.read()?.lines().map(str::to_owned).collect())
}

/// A regular expression for this text alone. What means nothing in one is left as it is: escaped, some of it would, as `\<` is the beginning of a word.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for character in text.chars() {
        if r"\.+*?()|[]{}^$".contains(character) {
            pattern.push('\\');
        }
        pattern.push(character);
    }
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_the_figures() {
        page::assert_has_place(PAGE, MARKS);
    }

    #[test]
    fn the_files_that_the_gate_mutates_are_there() {
        for file in STRICT {
            assert!(crate::root().join(file).is_file(), "{file}");
        }
    }

    /// Mutants that do not compile are no mutants that are caught: with the disk full, none compiled, and all was well.
    #[test]
    fn where_hardly_any_mutant_compiles_something_is_wrong() {
        let sum = |viable, unviable| Sum {
            caught: viable,
            unviable,
            ..Sum::default()
        };
        assert_eq!(hardly_viable(sum(75, 25)), None);
        assert_eq!(hardly_viable(sum(0, 0)), None);
        let told = hardly_viable(sum(74, 26)).unwrap();
        assert!(told.starts_with("26.0 % of the mutants do not compile"));
        assert!(hardly_viable(sum(0, 272)).is_some());
    }

    /// With every punctuation escaped, the simulator was asked for none of the mutants that have a `<` or a `>`.
    #[test]
    fn a_name_is_a_pattern_for_itself() {
        assert_eq!(
            literal("a.rs:1:2: replace <A as B>::f -> Option<u8> with Some(0) | {}^$*+?[\\]"),
            r"a\.rs:1:2: replace <A as B>::f -> Option<u8> with Some\(0\) \| \{\}\^\$\*\+\?\[\\\]"
        );
    }
}
