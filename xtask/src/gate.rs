//! `cargo xtask test`: the stages, and a summary.
//!
//! A whole run has two lanes. Tests on brokers wait most of the time, and what keeps the processors busy runs beside them, at the lowest priority, in a
//! process of its own whose output is shown when it ends.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};

use crate::command::{Counts, Failure};
use crate::machine;
use crate::page::unmet;
use crate::stages::{self, Lane, STAGES, Stage};

/// The stages, for `--help`.
pub fn stages_help() -> String {
    let mut text = "Stages:\n".to_owned();
    for stage in STAGES {
        let left_out = if stage.quick {
            ""
        } else {
            " (not with --quick)"
        };
        text.push_str(&format!("  {:<14} {}{left_out}\n", stage.name, stage.about));
    }
    text
}

/// The names that `--only` takes.
pub fn stage_names() -> PossibleValuesParser {
    STAGES
        .iter()
        .map(|stage| stage.name)
        .collect::<Vec<_>>()
        .into()
}

/// What became of a stage.
#[derive(Debug, PartialEq)]
struct Report {
    name: String,
    took: Duration,
    /// How long it kept processors busy, if the system tells.
    busy: Option<Duration>,
    counts: Counts,
    /// Why it failed.
    failure: Option<String>,
}

/// Runs the stages asked for, all of them even when one fails. Whether everything passed.
pub fn run(quick: bool, only: &[String], report: Option<&Path>) -> Result<bool, Failure> {
    let started = Instant::now();
    let wanted = |stage: &&Stage| match only {
        [] => stage.quick || !quick,
        names => names.iter().any(|name| name == stage.name),
    };
    let wanted: Vec<&Stage> = STAGES.iter().filter(wanted).collect();
    // In a part of a run nothing waits for brokers, or little else is to be done.
    let has_lanes = only.is_empty() && !quick;
    let mut beside = None;
    let mut reports = Vec::new();
    for stage in &wanted {
        match stage.lane {
            Lane::Beside if has_lanes => continue,
            Lane::WaitsForBrokers if has_lanes && beside.is_none() => {
                beside = Some(Beside::start(&wanted)?);
            }
            _ => {}
        }
        reports.push(run_stage(stage));
    }
    if let Some(beside) = beside {
        reports.extend(beside.end()?);
    }
    let (text, passed) = summary(&reports, started.elapsed());
    print!("\n{text}");
    if let Some(path) = report {
        write(&reports, path)?;
    }
    Ok(passed)
}

fn run_stage(stage: &Stage) -> Report {
    println!("\n=== {}: {}", stage.name, stage.about);
    let (started, busy) = (Instant::now(), machine::busy());
    let mut counts = Counts::default();
    let failure = (stage.work)(&mut counts).err();
    let report = Report {
        name: stage.name.to_owned(),
        took: started.elapsed(),
        busy: machine::busy()
            .zip(busy)
            .map(|(after, before)| after.saturating_sub(before)),
        counts,
        failure: failure.map(|failure| failure.to_string()),
    };
    let seconds = report.took.as_secs_f64();
    match &report.failure {
        None => println!("=== {}: passed in {seconds:.1} s", report.name),
        Some(failure) => println!("=== {}: FAILED in {seconds:.1} s: {failure}", report.name),
    }
    report
}

/// The process that runs the stages of the lane beside.
struct Beside {
    child: Child,
    log: PathBuf,
    report: PathBuf,
}

impl Beside {
    fn start(wanted: &[&Stage]) -> Result<Self, Failure> {
        let folder = stages::target().join("gate");
        fs::create_dir_all(&folder).map_err(|error| unmet(&folder, &error))?;
        let (log, report) = (folder.join("beside.log"), folder.join("beside.json"));
        if report.exists() {
            fs::remove_file(&report).map_err(|error| unmet(&report, &error))?;
        }
        let program = std::env::current_exe().map_err(|source| Failure::Start {
            program: "xtask".to_owned(),
            source,
        })?;
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(program).arg("test");
        let mut names = Vec::new();
        for stage in wanted.iter().filter(|stage| stage.lane == Lane::Beside) {
            command.args(["--only", stage.name]);
            names.push(stage.name);
        }
        let shown = File::create(&log).map_err(|error| unmet(&log, &error))?;
        let errors = shown.try_clone().map_err(|error| unmet(&log, &error))?;
        let child = command
            .arg("--report")
            .arg(&report)
            .stdin(Stdio::null())
            .stdout(shown)
            .stderr(errors)
            .spawn()
            .map_err(|source| Failure::Start {
                program: "nice".to_owned(),
                source,
            })?;
        println!(
            "\n=== beside the next ones, shown when done: {}",
            names.join(", ")
        );
        Ok(Self { child, log, report })
    }

    /// Waits for it and shows what it printed.
    fn end(mut self) -> Result<Vec<Report>, Failure> {
        let status = self.child.wait().map_err(|source| Failure::Start {
            program: "nice".to_owned(),
            source,
        })?;
        let shown = fs::read(&self.log).map_err(|error| unmet(&self.log, &error))?;
        print!("{}", String::from_utf8_lossy(&shown));
        let lost = |problem: &str| {
            let log = self.log.display();
            Failure::Unmet(format!("the stages beside {problem} ({status}), see {log}"))
        };
        let text = fs::read_to_string(&self.report).map_err(|_| lost("left no report"))?;
        let value =
            serde_json::from_str(&text).map_err(|_| lost("left a report that is no JSON"))?;
        read(&value).ok_or_else(|| lost("left a report of another form"))
    }
}

/// Writes what became of the stages, for programs.
fn write(reports: &[Report], path: &Path) -> Result<(), Failure> {
    let reports: Vec<Value> = reports
        .iter()
        .map(|report| {
            json!({
                "stage": report.name,
                "seconds": report.took.as_secs_f64(),
                "busy_seconds": report.busy.map(|busy| busy.as_secs_f64()),
                "passed": report.counts.passed,
                "failed": report.counts.failed,
                "ignored": report.counts.ignored,
                "failure": report.failure,
            })
        })
        .collect();
    let text = format!("{:#}\n", Value::from(reports));
    fs::write(path, text).map_err(|error| unmet(path, &error))
}

/// What [`write()`] wrote.
fn read(value: &Value) -> Option<Vec<Report>> {
    let report = |value: &Value| {
        let number = |key: &str| value.get(key)?.as_u64();
        let seconds = |value: &Value| Duration::try_from_secs_f64(value.as_f64()?).ok();
        Some(Report {
            name: value.get("stage")?.as_str()?.to_owned(),
            took: seconds(value.get("seconds")?)?,
            busy: match value.get("busy_seconds")? {
                Value::Null => None,
                busy => Some(seconds(busy)?),
            },
            counts: Counts {
                passed: number("passed")?,
                failed: number("failed")?,
                ignored: number("ignored")?,
            },
            failure: match value.get("failure")? {
                Value::Null => None,
                failure => Some(failure.as_str()?.to_owned()),
            },
        })
    };
    value.as_array()?.iter().map(report).collect()
}

/// The table, and below it the sum of all tests. Whether everything passed.
fn summary(reports: &[Report], took: Duration) -> (String, bool) {
    let mut text = format!(
        "{:<14} {:>9} {:>9} {:>8} {:>8} {:>8}  result\n",
        "stage", "seconds", "busy", "passed", "failed", "ignored"
    );
    let told = |busy: Option<Duration>| {
        busy.map_or_else(
            || "-".to_owned(),
            |busy| format!("{:.1}", busy.as_secs_f64()),
        )
    };
    let mut total = Counts::default();
    for report in reports {
        let Counts {
            passed,
            failed,
            ignored,
        } = report.counts;
        let result = report.failure.as_ref().map_or_else(
            || "passed".to_owned(),
            |failure| format!("FAILED: {failure}"),
        );
        let seconds = report.took.as_secs_f64();
        text.push_str(&format!(
            "{:<14} {seconds:>9.1} {:>9} {passed:>8} {failed:>8} {ignored:>8}  {result}\n",
            report.name,
            told(report.busy)
        ));
        total.add(report.counts);
    }
    let passed = total.failed == 0 && reports.iter().all(|report| report.failure.is_none());
    text.push_str(&format!(
        "{:<14} {:>9.1} {:>9} {:>8} {:>8} {:>8}  {}\n\n{} passed, {} failed\n",
        "all",
        took.as_secs_f64(),
        told(reports.iter().map(|report| report.busy).sum()),
        total.passed,
        total.failed,
        total.ignored,
        if passed { "passed" } else { "FAILED" },
        total.passed,
        total.failed,
    ));
    (text, passed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_secs(2);

    fn report(passed: u64, failed: u64, failure: Option<&str>) -> Report {
        Report {
            name: "x".to_owned(),
            took: Duration::from_secs(1),
            busy: passed.is_multiple_of(2).then_some(TOOK),
            counts: Counts {
                passed,
                failed,
                ignored: 0,
            },
            failure: failure.map(str::to_owned),
        }
    }

    #[test]
    fn the_last_line_is_the_sum_over_the_stages() {
        let (text, passed) = summary(&[report(3, 0, None), report(4, 0, None)], TOOK);
        assert!(passed);
        assert_eq!(text.lines().last(), Some("7 passed, 0 failed"));
    }

    #[test]
    fn a_failed_stage_fails_the_gate_whatever_the_tests_say() {
        let (text, passed) = summary(&[report(3, 0, None), report(0, 0, Some("a lint"))], TOOK);
        assert!(!passed);
        assert!(text.contains("FAILED: a lint"), "{text}");
        let (text, passed) = summary(&[report(3, 1, None)], TOOK);
        assert!(!passed);
        assert_eq!(text.lines().last(), Some("3 passed, 1 failed"));
    }

    #[test]
    fn the_help_tells_what_quick_leaves_out() {
        let help = stages_help();
        for stage in STAGES {
            let line = help
                .lines()
                .find(|line| line.trim_start().starts_with(&format!("{} ", stage.name)))
                .unwrap();
            assert_eq!(line.contains("not with --quick"), !stage.quick, "{line}");
        }
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let folder = stages::target().join("gate-test");
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("report.json");
        let reports = [report(3, 0, None), report(2, 1, Some("a \"lint\""))];
        write(&reports, &path).unwrap();
        let value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(read(&value).unwrap(), reports);
        assert_eq!(read(&json!([{"stage": "x"}])), None);
    }

    #[test]
    fn the_lane_beside_starts_with_what_waits_for_brokers() {
        let waits = |stage: &&Stage| stage.lane == Lane::WaitsForBrokers;
        assert!(STAGES.iter().any(|stage| waits(&stage)));
        assert!(STAGES.iter().any(|stage| stage.lane == Lane::Beside));
        // What is quick is looked at first.
        for stage in STAGES.iter().filter(|stage| stage.quick) {
            assert_eq!(stage.lane, Lane::First, "{}", stage.name);
        }
    }
}
