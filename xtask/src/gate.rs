//! `cargo xtask test`: the stages one after the other, and a summary.

use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::command::{Counts, Failure};
use crate::stages::{STAGES, Stage};

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
struct Report {
    name: &'static str,
    took: Duration,
    counts: Counts,
    failure: Option<Failure>,
}

/// Runs the stages asked for, all of them even when one fails. Whether everything passed.
pub fn run(quick: bool, only: &[String]) -> bool {
    let wanted = |stage: &&Stage| match only {
        [] => stage.quick || !quick,
        names => names.iter().any(|name| name == stage.name),
    };
    let mut reports = Vec::new();
    for stage in STAGES.iter().filter(wanted) {
        println!("\n=== {}: {}", stage.name, stage.about);
        let started = Instant::now();
        let mut counts = Counts::default();
        let failure = (stage.work)(&mut counts).err();
        let report = Report {
            name: stage.name,
            took: started.elapsed(),
            counts,
            failure,
        };
        match &report.failure {
            None => println!(
                "=== {}: passed in {:.1} s",
                report.name,
                report.took.as_secs_f64()
            ),
            Some(failure) => println!(
                "=== {}: FAILED in {:.1} s: {failure}",
                report.name,
                report.took.as_secs_f64()
            ),
        }
        reports.push(report);
    }
    let (text, passed) = summary(&reports);
    print!("\n{text}");
    passed
}

/// The table, and below it the sum of all tests. Whether everything passed.
fn summary(reports: &[Report]) -> (String, bool) {
    let mut text = format!(
        "{:<14} {:>9} {:>8} {:>8} {:>8}  result\n",
        "stage", "seconds", "passed", "failed", "ignored"
    );
    let mut total = Counts::default();
    let mut took = Duration::ZERO;
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
            "{:<14} {seconds:>9.1} {passed:>8} {failed:>8} {ignored:>8}  {result}\n",
            report.name
        ));
        total.add(report.counts);
        took += report.took;
    }
    let passed = total.failed == 0 && reports.iter().all(|report| report.failure.is_none());
    text.push_str(&format!(
        "{:<14} {:>9.1} {:>8} {:>8} {:>8}  {}\n\n{} passed, {} failed\n",
        "all",
        took.as_secs_f64(),
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

    fn report(passed: u64, failed: u64, failure: Option<&str>) -> Report {
        Report {
            name: "x",
            took: Duration::from_secs(1),
            counts: Counts {
                passed,
                failed,
                ignored: 0,
            },
            failure: failure.map(|text| Failure::Unmet(text.to_owned())),
        }
    }

    #[test]
    fn the_last_line_is_the_sum_over_the_stages() {
        let (text, passed) = summary(&[report(3, 0, None), report(4, 0, None)]);
        assert!(passed);
        assert_eq!(text.lines().last(), Some("7 passed, 0 failed"));
    }

    #[test]
    fn a_failed_stage_fails_the_gate_whatever_the_tests_say() {
        let (text, passed) = summary(&[report(3, 0, None), report(0, 0, Some("a lint"))]);
        assert!(!passed);
        assert!(text.contains("FAILED: a lint"), "{text}");
        let (text, passed) = summary(&[report(3, 1, None)]);
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
}
