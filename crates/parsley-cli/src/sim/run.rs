//! `parsley sim run`: scenarios over many seeds.

use std::io::{self, Write};
use std::num::NonZeroUsize;

use parsley_sim::report::{FailureReport, RunId};
use parsley_sim::run::Request;
use parsley_sim::shrink::Part;
use parsley_sim::suite::{Report, Suite};
use parsley_sim::{Counts, Sabotage};
use serde_json::{Value, json};

use super::args::{Scenarios, Wrong};
use super::error::SimError;
use super::table::Table;
use super::{names, progress, seeds};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::style::Style;

/// How many violating seeds of a scenario are reported in full.
const REPORTS_MAX: usize = 3;

/// Runs scenarios over seeds, and says what they came to.
pub fn run(
    scenarios: &Scenarios,
    jobs: Option<u16>,
    wrong: &Wrong,
    json: bool,
    out: &mut impl Write,
) -> Result<Exit, Failure> {
    let sabotage = names::sabotage(wrong).map_err(SimError::from)?;
    let mut suite = Suite::all(seeds::seeds(&scenarios.seeds).map_err(SimError::from)?);
    suite.scenarios = names::scenarios_of(&scenarios.scenario).map_err(SimError::from)?;
    if let Some(jobs) = jobs.and_then(|jobs| NonZeroUsize::new(jobs.into())) {
        suite.jobs = jobs;
    }
    let bar = progress::bar(suite.runs());
    let reports = suite.run(sabotage, &|done| bar.set_position(done));
    bar.finish_and_clear();
    let result = Reports {
        seeds: suite.seeds.end - suite.seeds.start,
        sabotage,
        reports,
    };
    let written = if json {
        result.write_json(out)
    } else {
        result.write_text(out)
    };
    written.and_then(|()| out.flush()).map_err(Failure::Write)?;
    Ok(if result.is_good() {
        Exit::Done
    } else {
        Exit::Failed
    })
}

/// Whether something is wrong on purpose, and has to be found.
fn is_sabotaged(sabotage: Sabotage) -> bool {
    !matches!(sabotage, Sabotage::None | Sabotage::Model)
}

struct Reports {
    /// Of each scenario.
    seeds: u64,
    sabotage: Sabotage,
    reports: Vec<Report>,
}

impl Reports {
    fn is_good(&self) -> bool {
        if is_sabotaged(self.sabotage) {
            return self.violations() > 0;
        }
        self.reports.iter().all(Report::holds)
    }

    fn violations(&self) -> u64 {
        self.reports.iter().map(|report| report.violating).sum()
    }

    /// Of all scenarios. What is wrong on purpose may keep things from happening: then no floor is judged.
    fn floors_missed(&self) -> u64 {
        let missed = |report: &Report| self.floors_missed_by(report).len() as u64;
        self.reports.iter().map(missed).sum()
    }

    fn floors_missed_by(&self, report: &Report) -> Vec<(&'static str, u64, u64)> {
        if is_sabotaged(self.sabotage) {
            return Vec::new();
        }
        report.floors_missed()
    }

    fn total(&self) -> Counts {
        let mut total = Counts::default();
        for report in &self.reports {
            total += report.counts;
        }
        total
    }

    fn runs(&self) -> u64 {
        self.reports.iter().map(|report| report.seeds).sum()
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        for report in &self.reports {
            writeln!(out, "{}", self.scenario_json(report))?;
        }
        let total = self.total();
        let summary = json!({
            "scenarios": self.reports.len(),
            "seeds": self.seeds,
            "steps": total.steps,
            "deliveries": total.deliveries,
            "holds": total.holds,
            "crashes": total.crashes,
            "restores_with_holds": total.restores_with_holds,
            "position_advances": total.position_advances,
            "violations": self.violations(),
            "floors_missed": self.floors_missed(),
        });
        writeln!(out, "{}", json!({ "summary": summary }))
    }

    fn scenario_json(&self, report: &Report) -> Value {
        let floors = report.scenario.floors.iter().zip(&report.fired);
        let floors = floors.map(|(floor, &fired)| {
            let due = floor.of(report.seeds);
            json!({"what": floor.what, "seeds": fired, "due": due, "met": fired >= due})
        });
        let violating = report.violations.iter().map(|(seed, violation)| {
            json!({
                "seed": seed,
                "step": violation.step,
                "rule": violation.rule.to_string(),
                "found": violation.text,
                "replay": self.id(report, *seed, &Part::default()).replay_command(),
            })
        });
        let counts: serde_json::Map<String, Value> = report
            .counts
            .named()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        json!({
            "scenario": report.scenario.name,
            "seeds": report.seeds,
            "counts": counts,
            "floors": floors.collect::<Vec<_>>(),
            "violations": report.violating,
            "rules": report.rules,
            "violating": violating.collect::<Vec<_>>(),
        })
    }

    fn id<'a>(&self, report: &Report, seed: u64, part: &'a Part) -> RunId<'a> {
        RunId {
            scenario: report.scenario,
            seed,
            sabotage: self.sabotage,
            part,
        }
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        if is_sabotaged(self.sabotage) {
            return self.write_catches(out);
        }
        let mut table = Table::new(&[
            "scenario",
            "seeds",
            "steps",
            "deliveries",
            "holds",
            "crashes",
            "advances",
            "violations",
            "floors",
        ]);
        for report in &self.reports {
            let floors = match self.floors_missed_by(report).len() {
                0 => "met".to_owned(),
                missed => format!("{missed} of {} missed", report.scenario.floors.len()),
            };
            let name = report.scenario.name.to_owned();
            table.row(row(
                name,
                report.seeds,
                &report.counts,
                report.violating,
                floors,
            ));
        }
        let missed = self.floors_missed();
        let floors = match missed {
            0 => "met".to_owned(),
            missed => format!("{missed} missed"),
        };
        let name = format!("{} in all", self.reports.len());
        table.row(row(
            name,
            self.runs(),
            &self.total(),
            self.violations(),
            floors,
        ));
        table.write(out)?;

        for report in &self.reports {
            for (what, fired, due) in self.floors_missed_by(report) {
                let name = report.scenario.name;
                writeln!(
                    out,
                    "\nFLOOR of {name} missed: \"{what}\" on {fired} of {} seeds, expected {due}",
                    report.seeds
                )?;
            }
            for &(seed, _) in report.violations.iter().take(REPORTS_MAX) {
                self.write_report(report, seed, out)?;
            }
            let more = report.violating.saturating_sub(REPORTS_MAX as u64);
            if more > 0 {
                let name = report.scenario.name;
                writeln!(out, "\nand {more} more seeds of {name}")?;
            }
        }
        let style = Style::of_stdout();
        let runs = self.runs();
        let (violations, missed) = (self.violations(), self.floors_missed());
        if violations == 0 && missed == 0 {
            let held = format!("All {runs} runs held.");
            return writeln!(out, "\n{}", style.good(held));
        }
        let failed =
            format!("{violations} of {runs} runs violated something, {missed} floors were missed.");
        writeln!(out, "\n{}", style.bad(failed))
    }

    /// Which scenarios noticed what is wrong on purpose, on how many seeds, and by which rule.
    fn write_catches(&self, out: &mut impl Write) -> io::Result<()> {
        let mut table = Table::new(&["scenario", "seeds", "caught", "first", "by"]);
        for report in &self.reports {
            let by = report.rules.iter();
            let by = by.map(|(rule, seeds)| format!("{rule} {seeds}"));
            let first = report.violations.first();
            table.row(vec![
                report.scenario.name.to_owned(),
                report.seeds.to_string(),
                report.violating.to_string(),
                first.map_or_else(|| "-".to_owned(), |(seed, _)| seed.to_string()),
                by.collect::<Vec<_>>().join(", "),
            ]);
        }
        table.write(out)?;
        let caught_by = self.reports.iter().filter(|report| report.violating > 0);
        let first = caught_by.clone().next();
        if let Some(report) = first
            && let Some((seed, _)) = report.violations.first()
        {
            self.write_report(report, *seed, out)?;
        }
        let style = Style::of_stdout();
        let (runs, scenarios) = (self.runs(), self.reports.len());
        if first.is_none() {
            let slipped = format!("Slipped through: none of {runs} runs noticed.");
            return writeln!(out, "\n{}", style.bad(slipped));
        }
        let caught = format!(
            "Caught in {} of {runs} runs, by {} of {scenarios} scenarios.",
            self.violations(),
            caught_by.count()
        );
        writeln!(out, "\n{}", style.good(caught))
    }

    /// The full report of a seed, which is run once more for it.
    fn write_report(&self, report: &Report, seed: u64, out: &mut impl Write) -> io::Result<()> {
        let request = Request {
            scenario: report.scenario,
            seed,
            trace: true,
        };
        let outcome = request.run(self.sabotage);
        let part = Part::default();
        match FailureReport::of(self.id(report, seed, &part), &outcome) {
            Some(text) => write!(out, "\n{text}"),
            None => writeln!(
                out,
                "\nseed {seed} of {} violated something, and does not when it runs again",
                report.scenario.name
            ),
        }
    }
}

fn row(name: String, seeds: u64, counts: &Counts, violations: u64, floors: String) -> Vec<String> {
    let numbers = [
        seeds,
        counts.steps,
        counts.deliveries,
        counts.holds,
        counts.crashes,
        counts.position_advances,
        violations,
    ];
    let mut cells = vec![name];
    cells.extend(numbers.iter().map(u64::to_string));
    cells.push(floors);
    cells
}
