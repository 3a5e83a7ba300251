//! `cargo xtask bench core`: the benchmarks of `parsley-bench`, and the table of `docs/performance.md`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::command::{Counts, Failure, Run};
use crate::machine;
use crate::soak::grouped;

mod rows;

use rows::{Goal, ROWS, Unit};

/// The page with the table, and what stands before and behind it there.
const PAGE: &str = "docs/performance.md";
const BEGIN: &str = "<!-- begin of the figures -->";
const END: &str = "<!-- end of the figures -->";

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
        let path = crate::root().join(PAGE);
        let page = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
        let page = replaced(&page, &text)
            .ok_or_else(|| Failure::Unmet(format!("{PAGE} has not both of {BEGIN} and {END}")))?;
        fs::write(&path, page).map_err(|error| unmet(&path, &error))?;
    }
    Ok(())
}

fn unmet(path: &Path, error: &std::io::Error) -> Failure {
    Failure::Unmet(format!("{}: {error}", path.display()))
}

/// The figures of a run by their names.
type Figures = BTreeMap<&'static str, Figure>;

/// What was measured of one piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    /// The median of the samples, in nanoseconds.
    median_ns: f64,
    /// How far samples stand from it: the median of that.
    spread_ns: f64,
}

impl Figure {
    /// Reads what criterion estimated.
    fn read(home: &Path, name: &str) -> Result<Self, Failure> {
        let path = home.join(name).join("new/estimates.json");
        let text = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
        let value = serde_json::from_str(&text)
            .map_err(|error| Failure::Unmet(format!("{}: {error}", path.display())))?;
        Self::of(&value).ok_or_else(|| Failure::Unmet(format!("{}: another form", path.display())))
    }

    fn of(estimates: &Value) -> Option<Self> {
        let estimate = |name: &str| estimates.get(name)?.get("point_estimate")?.as_f64();
        Some(Self {
            median_ns: estimate("median")?,
            spread_ns: estimate("median_abs_dev")?,
        })
    }
}

/// The figures as a table of the page.
fn table(figures: &Figures) -> String {
    let mut text = String::from(
        "| Work | Here | Spread | Java original | Times faster | Goal | |\n|---|---:|---:|---:|---:|---|---|\n",
    );
    for row in ROWS {
        let figure = figures[row.figure];
        let original = row
            .original_ns
            .map_or_else(String::new, |ns| row.unit.text(ns));
        let faster = row.original_ns.map(|ns| ns / figure.median_ns);
        let (goal, met) = match row.goal {
            Goal::None => (String::new(), None),
            Goal::Faster(times) => (
                format!("{} times faster", grouped(times as u64)),
                faster.map(|faster| faster >= times),
            ),
            Goal::Near {
                figure: other,
                factor,
            } => {
                let ratio = figure.median_ns / figures[other].median_ns;
                let name = ROWS.iter().find(|row| row.figure == other);
                let name = name.map_or(other, |row| row.work);
                (
                    format!("within {factor} of “{name}”: {ratio:.2}"),
                    Some(ratio <= factor),
                )
            }
        };
        text += &format!(
            "| {} | {} | {:.0} % | {original} | {} | {goal} | {} |\n",
            row.work,
            row.unit.text(figure.median_ns),
            100.0 * figure.spread_ns / figure.median_ns,
            faster.map_or_else(String::new, times),
            match met {
                None => "",
                Some(true) => "met",
                Some(false) => "**missed**",
            },
        );
    }
    text
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

/// The page with another table; `None` when it has no place for one.
fn replaced(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::rows::Row;
    use super::*;

    fn figures(ns: impl Fn(&Row) -> f64) -> Figures {
        let figure = |row: &'static Row| Figure {
            median_ns: ns(row),
            spread_ns: ns(row) / 50.0,
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
            "| decode, 64 claims | 1,551 ns | 2 % | 1,551 ns | 1.0 | 8 times faster | **missed** |"
        );
        let fast = table(&figures(|row| row.original_ns.unwrap_or(1000.0) / 1000.0));
        assert_eq!(
            line_of(&fast, "decode, 64 claims"),
            "| decode, 64 claims | 1.6 ns | 2 % | 1,551 ns | 1,000 | 8 times faster | met |"
        );
        assert_eq!(
            line_of(&fast, "restore of 100,000 held records"),
            "| restore of 100,000 held records | 0.0 ms | 2 % | 49.0 ms | 1,000 | 4 times faster | met |"
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
    fn estimates_are_read_and_nothing_else_is() {
        let estimate = |ns: f64| json!({"point_estimate": ns, "standard_error": 1.0});
        let estimates = json!({"mean": estimate(5.0), "median": estimate(4.0), "median_abs_dev": estimate(0.5)});
        let figure = Figure {
            median_ns: 4.0,
            spread_ns: 0.5,
        };
        assert_eq!(Figure::of(&estimates), Some(figure));
        assert_eq!(Figure::of(&json!({"median": estimate(4.0)})), None);
        assert_eq!(Figure::of(&json!([])), None);
    }

    #[test]
    fn the_table_is_put_between_its_marks() {
        let page = format!("a\n{BEGIN}\nold\n{END}\nb\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("a\n{BEGIN}\nnew\n{END}\nb\n"));
        assert_eq!(replaced(&new, "new\n").unwrap(), new);
        assert_eq!(replaced("no marks", "new\n"), None);
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = fs::read_to_string(crate::root().join(PAGE)).unwrap();
        let new = replaced(&page, "x\n").unwrap();
        assert!(new.len() < page.len(), "the page has figures");
    }
}
