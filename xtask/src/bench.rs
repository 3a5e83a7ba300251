//! `cargo xtask bench core`: the benchmarks of `parsley-bench` that need no broker, and their table in `docs/performance.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{Counts, Failure, Run};
use crate::machine;
use crate::page::{self, Marks, unmet};
use crate::soak::grouped;

pub mod kafka;
mod rows;

use rows::{Goal, ROWS, Unit};

/// The page with the tables.
const PAGE: &str = "docs/performance.md";

/// What stands before and behind the table there.
const MARKS: Marks = [
    "<!-- begin of the figures -->",
    "<!-- end of the figures -->",
];

/// Runs the benchmarks and prints the table; writes it into the page when `save`. A goal that is missed is no failure.
pub fn run(save: bool) -> Result<(), Failure> {
    // Of figures that lie here from before, none can be taken for one of this run.
    let home = crate::stages::target().join("bench-core");
    if home.exists() {
        fs::remove_dir_all(&home).map_err(|error| unmet(&home, &error))?;
    }
    Run::cargo("bench --locked -p parsley-bench")
        .variable("CRITERION_HOME", &home)
        .show(&mut Counts::default())?;
    let mut figures = Figures::new();
    for row in ROWS {
        figures.insert(row.figure, Figure::read(&home, row.figure)?);
    }
    let text = format!("{}\n\n{}", machine::line(), table(&figures));
    print!("\n{text}");
    if save {
        page::put(PAGE, MARKS, &text)?;
    }
    Ok(())
}

/// The figures of a run by their names.
type Figures = BTreeMap<&'static str, Figure>;

/// What was measured of one piece of work. A sample is the mean of many runs of it.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    /// The fastest sample, in nanoseconds: what the work takes where nothing else runs meanwhile.
    fastest_ns: f64,
    /// The median of the samples. How far it lies above tells how much else ran.
    median_ns: f64,
}

impl Figure {
    /// Reads what criterion has written.
    fn read(home: &Path, name: &str) -> Result<Self, Failure> {
        let read = |file: &str| {
            let path = home.join(name).join("new").join(file);
            let text = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
            serde_json::from_str::<Value>(&text)
                .map_err(|error| Failure::Unmet(format!("{}: {error}", path.display())))
        };
        Self::of(&read("estimates.json")?, &read("sample.json")?)
            .ok_or_else(|| Failure::Unmet(format!("{name}: the figures have another form")))
    }

    fn of(estimates: &Value, sample: &Value) -> Option<Self> {
        let numbers = |name: &str| -> Option<Vec<f64>> {
            let numbers = sample.get(name)?.as_array()?.iter();
            numbers.map(Value::as_f64).collect()
        };
        let (runs, times) = (numbers("iters")?, numbers("times")?);
        let means = runs.iter().zip(&times).map(|(runs, time)| time / runs);
        Some(Self {
            fastest_ns: means.min_by(f64::total_cmp)?,
            median_ns: estimates.get("median")?.get("point_estimate")?.as_f64()?,
        })
    }
}

/// The figures as a table of the page.
fn table(figures: &Figures) -> String {
    let mut text = String::from(
        "| Work | Here | Median | Java original | Times faster | Goal | |\n|---|---:|---:|---:|---:|---|---|\n",
    );
    for row in ROWS {
        let figure = figures[row.figure];
        let original = row.original_ns.map(|ns| row.unit.text(ns));
        let faster = row.original_ns.map(|ns| ns / figure.fastest_ns);
        let (goal, verdict) = match row.goal {
            Goal::None => (String::new(), ""),
            Goal::Faster(times) => (
                format!("{} times faster", grouped(times as u64)),
                verdict(|of| row.original_ns.is_some_and(|ns| ns / of(&figure) >= times)),
            ),
            Goal::Near {
                figure: name,
                factor,
            } => {
                let other = figures[name];
                let ratio = figure.fastest_ns / other.fastest_ns;
                let work = ROWS.iter().find(|row| row.figure == name);
                let work = work.map_or(name, |row| row.work);
                (
                    format!("within {factor} of “{work}”: {ratio:.2}"),
                    verdict(|of| of(&figure) / of(&other) <= factor),
                )
            }
        };
        text += &format!(
            "| {} | {} | {:+.0} % | {} | {} | {goal} | {verdict} |\n",
            row.work,
            row.unit.text(figure.fastest_ns),
            100.0 * (figure.median_ns / figure.fastest_ns - 1.0),
            original.unwrap_or_default(),
            faster.map_or_else(String::new, times),
        );
    }
    text
}

/// Whether a goal is met by the fastest samples, and by the medians too.
fn verdict(is_met: impl Fn(fn(&Figure) -> f64) -> bool) -> &'static str {
    match (
        is_met(|figure| figure.fastest_ns),
        is_met(|figure| figure.median_ns),
    ) {
        (true, true) => "met",
        (true, false) => "met, not by the median",
        (false, _) => "**missed**",
    }
}

/// A ratio, with a digit behind the point where that says something.
fn times(ratio: f64) -> String {
    if ratio < 20.0 {
        format!("{ratio:.1}")
    } else {
        grouped(ratio.round() as u64)
    }
}

impl Unit {
    /// A time in nanoseconds, written in this unit.
    fn text(self, ns: f64) -> String {
        match self {
            Self::Nanoseconds if ns < 100.0 => format!("{ns:.1} ns"),
            Self::Nanoseconds => format!("{} ns", grouped(ns.round() as u64)),
            Self::Milliseconds => format!("{:.1} ms", ns / 1e6),
            Self::PerSecond => format!("{}/s", grouped((1e9 / ns).round() as u64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rows::Row;
    use super::*;

    fn figures(ns: impl Fn(&Row) -> f64) -> Figures {
        let figure = |row: &'static Row| Figure {
            fastest_ns: ns(row),
            median_ns: ns(row) * 1.02,
        };
        ROWS.iter().map(|row| (row.figure, figure(row))).collect()
    }

    fn line_of<'a>(table: &'a str, work: &str) -> &'a str {
        let start = format!("| {work} |");
        table.lines().find(|line| line.starts_with(&start)).unwrap()
    }

    #[test]
    fn every_goal_names_a_row_and_is_judged_against_something() {
        for row in ROWS {
            match row.goal {
                Goal::None => {}
                Goal::Faster(_) => assert!(row.original_ns.is_some(), "{}", row.work),
                Goal::Near { figure, .. } => {
                    assert!(ROWS.iter().any(|other| other.figure == figure), "{figure}");
                }
            }
            let same = ROWS.iter().filter(|other| other.figure == row.figure);
            assert_eq!(same.count(), 1, "{}", row.figure);
        }
    }

    #[test]
    fn what_is_as_fast_as_the_original_misses_its_goals_and_says_so() {
        let slow = table(&figures(|row| row.original_ns.unwrap_or(1000.0)));
        assert_eq!(
            line_of(&slow, "decode, 64 claims"),
            "| decode, 64 claims | 1,551 ns | +2 % | 1,551 ns | 1.0 | 8 times faster | **missed** |"
        );
        let fast = table(&figures(|row| row.original_ns.unwrap_or(1000.0) / 1000.0));
        assert_eq!(
            line_of(&fast, "decode, 64 claims"),
            "| decode, 64 claims | 1.6 ns | +2 % | 1,551 ns | 1,000 | 8 times faster | met |"
        );
        assert_eq!(
            line_of(&fast, "restore of 100,000 held records"),
            "| restore of 100,000 held records | 0.0 ms | +2 % | 49.0 ms | 1,000 | 4 times faster | met |"
        );
    }

    #[test]
    fn a_goal_that_compares_two_rows_is_judged_within_the_run() {
        let even = |row: &Row| match row.figure {
            "stream/idle/1024" => 131.0,
            _ => 100.0,
        };
        let table = table(&figures(even));
        let line = line_of(&table, "one record beside 1,024 idle channels");
        assert!(
            line.ends_with(
                "| within 1.3 of “one record beside 1 idle channel”: 1.31 | **missed** |"
            ),
            "{line}"
        );
        let line = line_of(&table, "chain of 1,024 released");
        assert!(line.ends_with("released”: 1.00 | met |"), "{line}");
    }

    #[test]
    fn a_goal_that_only_the_fastest_sample_meets_is_told_so() {
        let near_median = figures(|row| row.original_ns.unwrap_or(1000.0) / 9.0);
        assert!(line_of(&table(&near_median), "merge, 64 claims").ends_with("| met |"));
        let far_median = figures(|row| row.original_ns.unwrap_or(1000.0) / 8.01);
        let table = table(&far_median);
        let line = line_of(&table, "merge, 64 claims");
        assert!(line.ends_with("| met, not by the median |"), "{line}");
    }

    #[test]
    fn figures_are_read_and_nothing_else_is() {
        let estimates = json!({"mean": {"point_estimate": 5.0}, "median": {"point_estimate": 4.0}});
        let sample = json!({"sampling_mode": "Linear", "iters": [10.0, 20.0, 30.0], "times": [50.0, 60.0, 120.0]});
        let figure = Figure {
            fastest_ns: 3.0,
            median_ns: 4.0,
        };
        assert_eq!(Figure::of(&estimates, &sample), Some(figure));
        assert_eq!(Figure::of(&json!([]), &sample), None);
        for other in [
            json!({}),
            json!({"iters": [], "times": []}),
            json!({"iters": ["1"], "times": [1.0]}),
        ] {
            assert_eq!(Figure::of(&estimates, &other), None);
        }
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        crate::page::assert_has_place(PAGE, MARKS);
    }
}
