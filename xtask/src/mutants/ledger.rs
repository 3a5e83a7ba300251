//! What came of each mutant, over all runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::command::Failure;
use crate::page::unmet;

/// What came of a mutant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A test of its own crate failed.
    Caught,
    /// A test of the simulator failed.
    CaughtBySimulator,
    /// Every test passed.
    Missed,
    /// The tests did not end, so somebody would have noticed. Counted apart.
    Timeout,
    /// It does not compile.
    Unviable,
}

impl Outcome {
    const ALL: [(&'static str, Self); 5] = [
        ("caught", Self::Caught),
        ("caught by the simulator", Self::CaughtBySimulator),
        ("missed", Self::Missed),
        ("timeout", Self::Timeout),
        ("unviable", Self::Unviable),
    ];

    fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(_, outcome)| *outcome == self);
        known.expect("every outcome has a name").0
    }
}

/// Whether a run's log says that its tests took all the processor time that they may take, which ends them by SIGXCPU, and none had failed by then.
fn is_spent(log: &str) -> bool {
    log.contains("(signal: 24") && !log.contains(" ... FAILED")
}

/// Whose tests a run used.
#[derive(Clone, Copy, Debug)]
pub enum By {
    OwnTests,
    Simulator,
}

/// One change of the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mutant {
    pub package: String,
    /// From the root of the work tree.
    pub file: String,
    pub line: u64,
    /// What is changed, without the place.
    pub change: String,
    /// The line of the source that is changed, as it stands there without the blanks before it.
    pub source: String,
    /// Where in that it is changed, in characters from 1: a line can be changed alike in several places.
    pub column: u64,
    pub outcome: Outcome,
}

/// All mutants of which something is known, by the names that `cargo mutants` gives them.
#[derive(Debug, Default)]
pub struct Ledger {
    mutants: BTreeMap<String, Mutant>,
}

/// How many mutants came to what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    pub caught: u64,
    pub simulator: u64,
    pub missed: u64,
    pub timeout: u64,
    pub unviable: u64,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Caught => &mut self.caught,
            Outcome::CaughtBySimulator => &mut self.simulator,
            Outcome::Missed => &mut self.missed,
            Outcome::Timeout => &mut self.timeout,
            Outcome::Unviable => &mut self.unviable,
        } += 1;
    }

    /// The caught in percent of the caught and the missed; of none, 100.
    pub fn percent(self) -> f64 {
        // Counts are far below the 2^52 that a float holds exactly.
        let caught = (self.caught + self.simulator) as f64;
        match self.caught + self.simulator + self.missed {
            0 => 100.0,
            judged => 100.0 * caught / judged as f64,
        }
    }

    /// Those that do not compile in percent of all; of none, 0.
    pub fn unviable_percent(self) -> f64 {
        match self.caught + self.simulator + self.missed + self.timeout + self.unviable {
            0 => 0.0,
            all => 100.0 * self.unviable as f64 / all as f64,
        }
    }
}

impl Ledger {
    /// What was written; nothing when nothing was.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let text = fs::read_to_string(path).map_err(|error| unmet(path, &error))?;
        serde_json::from_str(&text)
            .ok()
            .and_then(|value| Self::parsed(&value))
            .ok_or_else(|| {
                let path = path.display();
                Failure::Unmet(format!("{path} has another form; `--fresh` begins anew"))
            })
    }

    fn parsed(value: &Value) -> Option<Self> {
        let mut mutants = BTreeMap::new();
        for mutant in value.as_array()? {
            let text = |key: &str| mutant.get(key)?.as_str().map(str::to_owned);
            let outcome = text("outcome")?;
            let outcome = Outcome::ALL.iter().find(|(name, _)| *name == outcome)?.1;
            mutants.insert(
                text("name")?,
                Mutant {
                    package: text("package")?,
                    file: text("file")?,
                    line: mutant.get("line")?.as_u64()?,
                    change: text("change")?,
                    source: text("source")?,
                    column: mutant.get("column")?.as_u64()?,
                    outcome,
                },
            );
        }
        Some(Self { mutants })
    }

    pub fn write(&self, path: &Path) -> Result<(), Failure> {
        let mutants: Vec<Value> = self
            .mutants
            .iter()
            .map(|(name, mutant)| {
                json!({
                    "name": name,
                    "package": mutant.package,
                    "file": mutant.file,
                    "line": mutant.line,
                    "change": mutant.change,
                    "source": mutant.source,
                    "column": mutant.column,
                    "outcome": mutant.outcome.name(),
                })
            })
            .collect();
        let text = serde_json::to_string_pretty(&mutants).map_err(std::io::Error::other);
        text.and_then(|text| fs::write(path, text + "\n"))
            .map_err(|error| unmet(path, &error))
    }

    /// Takes over what a run of `cargo mutants` left in its folder, also one that was stopped. Nothing when it left nothing.
    pub fn take(&mut self, folder: &Path, by: By) -> Result<(), Failure> {
        let path = folder.join("mutants.out/outcomes.json");
        if !path.exists() {
            return Ok(());
        }
        let text = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
        let source = |file: &str, line: u64| {
            let text = fs::read_to_string(crate::root().join(file)).ok()?;
            let index = usize::try_from(line.checked_sub(1)?).ok()?;
            Some(text.lines().nth(index)?.to_owned())
        };
        let is_spent = |log: &str| {
            let log = fs::read(folder.join("mutants.out").join(log));
            log.is_ok_and(|log| is_spent(&String::from_utf8_lossy(&log)))
        };
        let taken = serde_json::from_str(&text)
            .ok()
            .and_then(|value| self.take_outcomes(&value, by, &source, &is_spent));
        taken.ok_or_else(|| {
            let path = path.display();
            Failure::Unmet(format!(
                "{path}: the outcomes have another form, or are of other sources"
            ))
        })
    }

    fn take_outcomes(
        &mut self,
        value: &Value,
        by: By,
        source: &dyn Fn(&str, u64) -> Option<String>,
        is_spent: &dyn Fn(&str) -> bool,
    ) -> Option<()> {
        for outcome in value.get("outcomes")?.as_array()? {
            // The run without a mutant has another form.
            let Some(mutant) = outcome.pointer("/scenario/Mutant") else {
                continue;
            };
            let text = |key: &str| mutant.get(key)?.as_str();
            let (name, file) = (text("name")?, text("file")?);
            let place = |pointer: &str| mutant.pointer(pointer)?.as_u64();
            let line = place("/span/start/line")?;
            let column = place("/span/start/column")?;
            let log = outcome.get("log_path")?.as_str()?;
            let came_to = match (outcome.get("summary")?.as_str()?, by) {
                ("CaughtMutant", _) if is_spent(log) => Outcome::Timeout,
                ("CaughtMutant", By::OwnTests) => Outcome::Caught,
                ("CaughtMutant", By::Simulator) => Outcome::CaughtBySimulator,
                ("MissedMutant", _) => Outcome::Missed,
                ("Timeout", _) => Outcome::Timeout,
                ("Unviable", _) => Outcome::Unviable,
                _ => return None,
            };
            // `cargo mutants` tries those that delete a field whatever it is asked for, also those of other shares.
            let known = self.mutants.get(name);
            if matches!(by, By::Simulator)
                && known.is_none_or(|known| known.outcome != Outcome::Missed)
            {
                continue;
            }
            let change = name.split_once(": ")?.1;
            // Where the sources were changed since, the mutant is none of theirs.
            let source = source(file, line).unwrap_or_default();
            let trimmed = source.trim_start();
            let blanks = source.chars().count() - trimmed.chars().count();
            self.mutants.insert(
                name.to_owned(),
                Mutant {
                    package: text("package")?.to_owned(),
                    file: file.to_owned(),
                    line,
                    change: change.to_owned(),
                    source: trimmed.trim_end().to_owned(),
                    column: column.saturating_sub(blanks as u64),
                    outcome: came_to,
                },
            );
        }
        Some(())
    }

    /// Forgets the mutants of a package that its sources do not have any more.
    pub fn keep_only(&mut self, package: &str, names: &[String]) {
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        self.mutants
            .retain(|name, mutant| mutant.package != package || names.contains(name.as_str()));
    }

    /// Forgets the mutants of a file.
    pub fn forget(&mut self, file: &str) {
        self.mutants.retain(|_, mutant| mutant.file != file);
    }

    /// How many mutants of these names nothing is known of.
    pub fn untried(&self, names: &[String]) -> usize {
        let is_untried = |name: &&String| !self.mutants.contains_key(*name);
        names.iter().filter(is_untried).count()
    }

    /// The names of the mutants of a package that were missed.
    pub fn missed(&self, package: &str) -> Vec<String> {
        self.mutants
            .iter()
            .filter(|(_, mutant)| mutant.package == package && mutant.outcome == Outcome::Missed)
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// All mutants, by files and lines.
    pub fn mutants(&self) -> impl Iterator<Item = &Mutant> {
        let mut mutants: Vec<&Mutant> = self.mutants.values().collect();
        mutants.sort_by_key(|mutant| (&mutant.file, mutant.line, &mutant.change));
        mutants.into_iter()
    }

    /// Whether anything is known of a file's mutants.
    pub fn has(&self, file: &str) -> bool {
        self.mutants.values().any(|mutant| mutant.file == file)
    }

    /// What the mutants of some files came to.
    pub fn sum(&self, files: impl Fn(&str) -> bool) -> Sum {
        let mut sum = Sum::default();
        for mutant in self.mutants.values().filter(|mutant| files(&mutant.file)) {
            sum.add(mutant.outcome);
        }
        sum
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    fn outcomes(mutants: &[(&str, u64, &str, &str)]) -> Value {
        let mut outcomes = vec![json!({"scenario": "Baseline", "summary": "Success"})];
        for (file, line, change, summary) in mutants {
            outcomes.push(json!({
                "scenario": {"Mutant": {
                    "name": format!("{file}:{line}:5: {change}"),
                    "package": "p",
                    "file": file,
                    "span": {"start": {"line": line, "column": 5}},
                }},
                "summary": summary,
                "log_path": format!("log/{line}.log"),
            }));
        }
        json!({ "outcomes": outcomes })
    }

    /// What a run came to whose sources have on each line `line N`.
    pub fn ledger(mutants: &[(&str, u64, &str, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        take(&mut ledger, mutants, By::OwnTests).unwrap();
        ledger
    }

    impl Ledger {
        /// As if all were so many characters behind where they are in their lines.
        pub fn move_all(&mut self, by: u64) {
            for mutant in self.mutants.values_mut() {
                mutant.column += by;
            }
        }
    }

    fn take(ledger: &mut Ledger, mutants: &[(&str, u64, &str, &str)], by: By) -> Option<()> {
        let source = |_: &str, line| Some(format!("  line {line}"));
        // As if the tests of the mutants behind line 100 had gone round for ever.
        let is_spent = |log: &str| log.len() > "log/99.log".len();
        ledger.take_outcomes(&outcomes(mutants), by, &source, &is_spent)
    }

    #[test]
    fn outcomes_are_summed_with_timeouts_apart() {
        let ledger = ledger(&[
            ("a.rs", 1, "replace f with 0", "CaughtMutant"),
            ("a.rs", 2, "replace + with -", "MissedMutant"),
            ("a.rs", 3, "replace + with *", "Timeout"),
            ("b.rs", 4, "replace g with 1", "Unviable"),
            ("b.rs", 5, "replace g with 2", "CaughtMutant"),
            ("b.rs", 100, "replace g with 3", "CaughtMutant"),
        ]);
        let sum = ledger.sum(|_| true);
        let expected = Sum {
            caught: 2,
            simulator: 0,
            missed: 1,
            timeout: 2,
            unviable: 1,
        };
        assert_eq!(sum, expected);
        assert!((sum.percent() - 200.0 / 3.0).abs() < 1e-9);
        assert_eq!(ledger.sum(|file| file == "b.rs").percent(), 100.0);
        assert_eq!(
            ledger.missed("p"),
            ["a.rs:2:5: replace + with -".to_owned()]
        );
        assert!(ledger.missed("q").is_empty());
    }

    /// Tests that the limit had ended were taken for tests that failed: what was looked for is the signal's name, and Cargo prints its number alone.
    #[test]
    fn tests_that_the_limit_ended_are_told_by_what_cargo_says_of_them() {
        let ended = "running 2 tests\ntest a ... ok\nerror: test failed, to rerun pass `--lib`\n\nCaused by:\n  \
             process didn't exit successfully: `prlimit --cpu=6:7 x` (signal: 24)\n";
        assert!(is_spent(ended));
        assert!(is_spent(
            &ended.replace("24)", "24, SIGXCPU: CPU time limit exceeded)")
        ));
        assert!(!is_spent(
            &ended.replace("24", "6, SIGABRT: process abort signal")
        ));
        let failed = ended.replace("a ... ok", "a ... FAILED");
        assert!(!is_spent(&failed), "a test had failed before");
    }

    #[test]
    fn what_the_simulator_catches_is_not_missed_any_more() {
        let mut ledger = ledger(&[("a.rs", 1, "x", "MissedMutant")]);
        take(
            &mut ledger,
            &[("a.rs", 1, "x", "CaughtMutant")],
            By::Simulator,
        )
        .unwrap();
        assert_eq!(ledger.sum(|_| true).simulator, 1);
        assert!(ledger.missed("p").is_empty());
    }

    /// Some mutants are tried on the simulator whoever is asked for: those that a crate's own tests had caught, and the simulator did not, were missed.
    #[test]
    fn what_its_own_tests_caught_the_simulator_need_not() {
        let mut ledger = ledger(&[
            ("a.rs", 1, "x", "CaughtMutant"),
            ("a.rs", 2, "y", "MissedMutant"),
        ]);
        let tried = [
            ("a.rs", 1, "x", "MissedMutant"),
            ("a.rs", 2, "y", "MissedMutant"),
            ("b.rs", 3, "of another share", "MissedMutant"),
        ];
        take(&mut ledger, &tried, By::Simulator).unwrap();
        let sum = ledger.sum(|_| true);
        assert_eq!((sum.caught, sum.simulator, sum.missed), (1, 0, 1));
    }

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let folder = crate::stages::target().join("mutants-test");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("ledger.json");
        let ledger = ledger(&[
            ("a.rs", 7, "x", "Timeout"),
            ("b.rs", 8, "y", "CaughtMutant"),
        ]);
        ledger.write(&path).unwrap();
        assert_eq!(Ledger::read(&path).unwrap().mutants, ledger.mutants);
        fs::write(&path, "[{}]").unwrap();
        assert!(Ledger::read(&path).is_err());
    }

    #[test]
    fn mutants_that_the_sources_do_not_have_are_forgotten() {
        let mut ledger = ledger(&[
            ("a.rs", 1, "x", "MissedMutant"),
            ("a.rs", 2, "y", "Timeout"),
        ]);
        ledger.keep_only("q", &[]);
        assert_eq!(ledger.mutants().count(), 2);
        let names = ["a.rs:2:5: y".to_owned(), "a.rs:3:5: z".to_owned()];
        ledger.keep_only("p", &names);
        assert_eq!(ledger.mutants().count(), 1);
        assert_eq!(ledger.untried(&names), 1);
        ledger.forget("b.rs");
        assert_eq!(ledger.untried(&names), 1);
        ledger.forget("a.rs");
        assert_eq!(ledger.untried(&names), 2);
    }

    #[test]
    fn outcomes_of_another_form_are_refused() {
        let mut ledger = Ledger::default();
        assert_eq!(
            take(&mut ledger, &[("a.rs", 1, "x", "Novelty")], By::OwnTests),
            None
        );
        let none = ledger.take_outcomes(&json!({}), By::OwnTests, &|_, _| None, &|_| false);
        assert_eq!(none, None);
    }
}
