//! `cargo xtask bench kafka`: the Kafka host beside a bare loop over `rdkafka`, and its table in `docs/performance.md`.

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::PAGE;
use crate::command::{Counts, Failure, Run};
use crate::machine;
use crate::page::{self, unmet};
use crate::soak::grouped;

/// What stands before and behind the table on the page.
const MARKS: [&str; 2] = [
    "<!-- begin of the figures on Kafka -->",
    "<!-- end of the figures on Kafka -->",
];

/// How much of the rate of the loop that it is compared with the host should have.
const GOAL: f64 = 0.7;

/// A row of the table.
struct Row {
    /// The work, as the page names it.
    work: &'static str,
    /// The runs of it.
    runs: &'static str,
    /// The runs that it is compared with: the loop that reads and writes the same.
    beside: Option<&'static str>,
    has_goal: bool,
}

/// What the others are compared with.
const fn bare(work: &'static str, runs: &'static str) -> Row {
    Row {
        work,
        runs,
        beside: None,
        has_goal: false,
    }
}

const fn beside(work: &'static str, runs: &'static str, other: &'static str) -> Row {
    Row {
        work,
        runs,
        beside: Some(other),
        has_goal: false,
    }
}

impl Row {
    const fn goal(mut self) -> Self {
        self.has_goal = true;
        self
    }
}

/// All rows in their order.
const ROWS: &[Row] = &[
    bare("100 bytes, plain: bare loop, no headers", "plain 100 bare"),
    bare(
        "100 bytes, plain: bare loop, headers as long as a stamp added",
        "plain 100 bare adding headers",
    ),
    beside(
        "100 bytes, plain: host",
        "plain 100 host",
        "plain 100 bare adding headers",
    )
    .goal(),
    beside(
        "100 bytes, plain: host with a state for each key",
        "plain 100 stateful",
        "plain 100 bare adding headers",
    ),
    bare(
        "100 bytes, stamped: bare loop, headers dropped",
        "stamped 100 bare",
    ),
    bare(
        "100 bytes, stamped: bare loop, headers passed on",
        "stamped 100 bare with headers",
    ),
    beside(
        "100 bytes, stamped: host",
        "stamped 100 host",
        "stamped 100 bare with headers",
    )
    .goal(),
    bare("1 KiB, plain: bare loop, no headers", "plain 1024 bare"),
    bare(
        "1 KiB, plain: bare loop, headers as long as a stamp added",
        "plain 1024 bare adding headers",
    ),
    beside(
        "1 KiB, plain: host",
        "plain 1024 host",
        "plain 1024 bare adding headers",
    )
    .goal(),
    beside(
        "1 KiB, plain: host with a state for each key",
        "plain 1024 stateful",
        "plain 1024 bare adding headers",
    ),
    bare(
        "1 KiB, stamped: bare loop, headers dropped",
        "stamped 1024 bare",
    ),
    bare(
        "1 KiB, stamped: bare loop, headers passed on",
        "stamped 1024 bare with headers",
    ),
    beside(
        "1 KiB, stamped: host",
        "stamped 1024 host",
        "stamped 1024 bare with headers",
    )
    .goal(),
];

/// Runs the benchmark and prints the table; writes it into the page when `save`. A goal that is missed is no failure.
pub fn run(save: bool) -> Result<(), Failure> {
    let out = crate::stages::target().join("bench-kafka.json");
    if out.exists() {
        fs::remove_file(&out).map_err(|error| unmet(&out, &error))?;
    }
    Run::cargo(
        "run --release --locked -p parsley-bench --features kafka --bin bench-kafka -- --out",
    )
    .argument(out.display().to_string())
    .show(&mut Counts::default())?;
    let text = fs::read_to_string(&out).map_err(|error| unmet(&out, &error))?;
    let figures = Figures::read(&text).ok_or_else(|| {
        Failure::Unmet(format!("{}: the figures have another form", out.display()))
    })?;
    let table = table(&figures)?;
    let text = format!(
        "{} Apache Kafka {}, {} rounds.\n\n{table}",
        machine::line(),
        figures.kafka,
        figures.rounds()
    );
    print!("\n{text}");
    if save {
        page::put(PAGE, MARKS, &text)?;
    }
    Ok(())
}

/// What the benchmark has written.
#[derive(Debug, PartialEq)]
struct Figures {
    /// The broker's version.
    kafka: String,
    /// The runs of each work, round by round.
    runs: BTreeMap<String, Vec<Figure>>,
}

/// What was measured of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Figure {
    per_second: f64,
    own_cpu_us: f64,
    broker_cpu_us: f64,
}

impl Figures {
    fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let mut runs = BTreeMap::new();
        for (work, rounds) in value.get("runs")?.as_object()? {
            let rounds = rounds.as_array()?.iter().map(Figure::read);
            runs.insert(work.clone(), rounds.collect::<Option<_>>()?);
        }
        let kafka = value.get("kafka")?.as_str()?.to_owned();
        Some(Self { kafka, runs })
    }

    fn rounds(&self) -> usize {
        self.runs.values().map(Vec::len).max().unwrap_or(0)
    }

    fn of(&self, work: &str) -> Result<&[Figure], Failure> {
        match self.runs.get(work) {
            Some(rounds) if !rounds.is_empty() => Ok(rounds),
            _ => Err(Failure::Unmet(format!("{work} was not measured"))),
        }
    }
}

impl Figure {
    fn read(value: &Value) -> Option<Self> {
        let number = |name: &str| value.get(name)?.as_f64().filter(|number| *number >= 0.0);
        Some(Self {
            per_second: number("per_second").filter(|rate| *rate > 0.0)?,
            own_cpu_us: number("own_cpu_us")?,
            broker_cpu_us: number("broker_cpu_us")?,
        })
    }
}

/// The middle of some numbers, or the mean of the two there.
fn median(numbers: impl Iterator<Item = f64>) -> f64 {
    let mut numbers: Vec<f64> = numbers.collect();
    numbers.sort_by(f64::total_cmp);
    let (lower, upper) = ((numbers.len() - 1) / 2, numbers.len() / 2);
    (numbers[lower] + numbers[upper]) / 2.0
}

/// The figures as a table of the page.
fn table(figures: &Figures) -> Result<String, Failure> {
    let mut text = String::from(
        "| Work | Records/s | Lowest to highest | Processors here | In the broker | Of the loop beside | Lowest to highest | Goal | |\n\
         |---|---:|---:|---:|---:|---:|---:|---|---|\n",
    );
    for row in ROWS {
        let rounds = figures.of(row.runs)?;
        let rates = || rounds.iter().map(|figure| figure.per_second);
        let rate = |per_second: f64| grouped(per_second.round() as u64);
        let (lowest, highest) = range(rates());
        text += &format!(
            "| {} | {} | {} to {} | {:.1} µs | {:.1} µs |",
            row.work,
            rate(median(rates())),
            rate(lowest),
            rate(highest),
            median(rounds.iter().map(|figure| figure.own_cpu_us)),
            median(rounds.iter().map(|figure| figure.broker_cpu_us)),
        );
        let Some(other) = row.beside else {
            text += "  |  |  |  |\n";
            continue;
        };
        // Round by round: what else ran then slowed both.
        let others = figures.of(other)?.iter().map(|figure| figure.per_second);
        let ratios: Vec<f64> = rates()
            .zip(others)
            .map(|(own, other)| own / other)
            .collect();
        let ratio = median(ratios.iter().copied());
        let (lowest, highest) = range(ratios.into_iter());
        let (goal, verdict) = match row.has_goal {
            true if ratio >= GOAL => (format!("at least {GOAL}"), "met"),
            true => (format!("at least {GOAL}"), "**missed**"),
            false => (String::new(), ""),
        };
        text += &format!(" {ratio:.2} | {lowest:.2} to {highest:.2} | {goal} | {verdict} |\n");
    }
    Ok(text)
}

fn range(numbers: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let lowest = numbers.clone().fold(f64::INFINITY, f64::min);
    (lowest, numbers.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Figures in which every run has a rate of its own, round by round.
    fn figures(rates: impl Fn(&str) -> Vec<f64>) -> Figures {
        let figure = |per_second| Figure {
            per_second,
            own_cpu_us: 1.24,
            broker_cpu_us: 0.5,
        };
        let runs = ROWS.iter().map(|row| {
            let rounds = rates(row.runs).into_iter().map(figure);
            (row.runs.to_owned(), rounds.collect())
        });
        Figures {
            kafka: "4.4.0".to_owned(),
            runs: runs.collect(),
        }
    }

    fn line_of<'a>(table: &'a str, work: &str) -> &'a str {
        let start = format!("| {work} |");
        table.lines().find(|line| line.starts_with(&start)).unwrap()
    }

    #[test]
    fn every_row_is_compared_with_one_that_there_is() {
        for row in ROWS {
            let is_there = |other| {
                ROWS.iter()
                    .any(|row| row.runs == other && row.beside.is_none())
            };
            assert!(row.beside.is_none_or(is_there), "{}", row.work);
            assert!(!row.has_goal || row.beside.is_some(), "{}", row.work);
        }
    }

    #[test]
    fn the_ratio_is_the_median_of_the_rounds_and_judges_the_goal() {
        let rates = |host: [f64; 3]| {
            figures(move |runs| match runs {
                "plain 100 host" => host.to_vec(),
                _ => vec![100_000.0, 200_000.0, 50_000.0],
            })
        };
        let text = table(&rates([70_000.0, 160_000.0, 30_000.0])).unwrap();
        assert_eq!(
            line_of(&text, "100 bytes, plain: host"),
            "| 100 bytes, plain: host | 70,000 | 30,000 to 160,000 | 1.2 µs | 0.5 µs | 0.70 | 0.60 to 0.80 | at least 0.7 | met |"
        );
        let text = table(&rates([69_000.0, 160_000.0, 30_000.0])).unwrap();
        assert!(line_of(&text, "100 bytes, plain: host").ends_with("| **missed** |"));
        assert_eq!(
            line_of(&text, "100 bytes, plain: bare loop, no headers"),
            "| 100 bytes, plain: bare loop, no headers | 100,000 | 50,000 to 200,000 | 1.2 µs | 0.5 µs |  |  |  |  |"
        );
    }

    #[test]
    fn what_was_not_measured_is_missed() {
        let mut figures = figures(|_| vec![1.0]);
        assert!(table(&figures).is_ok());
        figures.runs.insert("plain 100 host".to_owned(), Vec::new());
        let missed = table(&figures).unwrap_err().to_string();
        assert_eq!(missed, "plain 100 host was not measured");
    }

    #[test]
    fn figures_are_read_and_nothing_else_is() {
        let figure = json!({"per_second": 2.0, "own_cpu_us": 1.0, "broker_cpu_us": 0.0});
        let read = |runs: Value| Figures::read(&json!({"kafka": "k", "runs": runs}).to_string());
        let one = read(json!({"a": [figure]})).unwrap();
        assert_eq!((one.kafka.as_str(), one.rounds()), ("k", 1));
        for other in [
            json!({"a": figure}),
            json!({"a": [{"per_second": 2.0}]}),
            json!({"a": [{"per_second": 0.0, "own_cpu_us": 1.0, "broker_cpu_us": 0.0}]}),
            json!([]),
        ] {
            assert_eq!(read(other), None);
        }
        assert_eq!(Figures::read("no figures"), None);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }

    #[test]
    fn the_page_has_a_place_for_the_table() {
        crate::page::assert_has_place(PAGE, MARKS);
    }
}
