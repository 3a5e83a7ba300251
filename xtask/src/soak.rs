//! `cargo xtask soak`: all scenarios over many seeds, and the figures as `docs/verification.md` has them.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::command::{Counts, Failure, Run};

/// Builds the program and soaks. Whether everything held.
///
/// The program runs in the release build, and shows how far it is where standard error is a terminal.
pub fn run(seeds: u64, jobs: Option<u16>) -> Result<bool, Failure> {
    Run::cargo("build --release --locked -p parsley-cli").show(&mut Counts::default())?;
    let mut soak = Run::cargo("run --quiet --release --locked -p parsley-cli -- sim run")
        .argument("--json")
        .argument("--seeds")
        .argument(format!("0..{seeds}"));
    if let Some(jobs) = jobs {
        soak = soak.argument("--jobs").argument(jobs.to_string());
    }
    let started = Instant::now();
    // The program ends with 1 when something is wrong, and its output says what.
    let (text, success) = soak.verdict()?;
    let took = started.elapsed();
    let malformed = |problem: String| Failure::Output {
        line: soak.line(),
        problem,
    };
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let lines = lines
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(format!("no JSON: {error}")))?;
    let page = page(&command(seeds, jobs), &lines, took)
        .ok_or_else(|| malformed("the figures have another form".to_owned()))?;
    print!("\n{page}");
    for line in failures(&lines) {
        eprintln!("{line}");
    }
    Ok(success)
}

/// What was typed, but for how many threads the machine has by itself.
fn command(seeds: u64, jobs: Option<u16>) -> String {
    let jobs = jobs.map_or_else(String::new, |jobs| format!(" --jobs {jobs}"));
    format!("cargo xtask soak --seeds {seeds}{jobs}")
}

/// The figures that a scenario's counts have.
const COUNTS: [(&str, &str); 6] = [
    ("Steps", "steps"),
    ("Deliveries", "deliveries"),
    ("Holds", "holds"),
    ("Crashes", "crashes"),
    ("Restores with holds", "restores_with_holds"),
    ("Advances", "position_advances"),
];

/// The figures as a table of a page; `None` when they are not what `parsley sim run --json` prints.
fn page(command: &str, lines: &[Value], took: Duration) -> Option<String> {
    let (last, scenarios) = lines.split_last()?;
    let summary = last.get("summary")?;
    let mut table = String::from("| Scenario | Runs |");
    for (head, _) in COUNTS {
        table += &format!(" {head} |");
    }
    table += " Violations | Floors |\n|---|";
    table += &"---:|".repeat(COUNTS.len() + 2);
    table += "---|\n";
    let mut runs = 0;
    for scenario in scenarios {
        let seeds = scenario.get("seeds")?.as_u64()?;
        runs += seeds;
        table += &format!(
            "| {} | {} |",
            scenario.get("scenario")?.as_str()?,
            grouped(seeds)
        );
        for (_, key) in COUNTS {
            let count = scenario.get("counts")?.get(key)?.as_u64()?;
            table += &format!(" {} |", grouped(count));
        }
        let floors = scenario.get("floors")?.as_array()?;
        let is_met = |floor: &&Value| floor.get("met").and_then(Value::as_bool) == Some(true);
        let met = floors.iter().filter(is_met).count();
        table += &format!(
            " {} | {met} of {} met |\n",
            grouped(scenario.get("violations")?.as_u64()?),
            floors.len()
        );
    }
    table += &format!("| **all** | {} |", grouped(runs));
    for (_, key) in COUNTS {
        table += &format!(" {} |", grouped(summary.get(key)?.as_u64()?));
    }
    let violations = grouped(summary.get("violations")?.as_u64()?);
    let missed = grouped(summary.get("floors_missed")?.as_u64()?);
    table += &format!(" {violations} | {missed} missed |\n");
    let seconds = took.as_secs_f64();
    Some(format!(
        "`{command}`: {} runs in {seconds:.0} s, {} a second; {violations} violations, {missed} floors missed.\n\n{table}",
        grouped(runs),
        grouped((runs as f64 / seconds.max(f64::EPSILON)) as u64),
    ))
}

/// What is wrong, each with the command that shows it.
fn failures(lines: &[Value]) -> Vec<String> {
    let mut failures = Vec::new();
    for scenario in lines {
        let name = scenario["scenario"].as_str().unwrap_or_default();
        for floor in scenario["floors"].as_array().into_iter().flatten() {
            if floor["met"] == false {
                let (seeds, due) = (&floor["seeds"], &floor["due"]);
                failures.push(format!(
                    "FLOOR of {name} missed: {} on {seeds} seeds, expected {due}",
                    floor["what"]
                ));
            }
        }
        for found in scenario["violating"].as_array().into_iter().flatten() {
            failures.push(format!(
                "VIOLATION of {} in {name}, seed {}\n  REPLAY: {}",
                found["rule"],
                found["seed"],
                found["replay"].as_str().unwrap_or_default()
            ));
        }
    }
    failures
}

/// A number with its thousands apart.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn scenario(name: &str, violations: u64, met: bool) -> Value {
        let counts: serde_json::Map<String, Value> = COUNTS
            .iter()
            .zip(1..)
            .map(|((_, key), number)| ((*key).to_owned(), json!(number * 1000)))
            .collect();
        let found = json!({"seed": 7, "rule": "lost", "replay": "run it"});
        json!({
            "scenario": name,
            "seeds": 2000,
            "counts": counts,
            "floors": [{"what": "a crash", "seeds": 3, "due": 400, "met": met}],
            "violations": violations,
            "violating": vec![found; violations as usize],
        })
    }

    fn summary() -> Value {
        let keys = COUNTS.iter().map(|(_, key)| *key);
        let keys = keys.chain(["violations", "floors_missed"]);
        let figures: serde_json::Map<String, Value> =
            keys.map(|key| (key.to_owned(), json!(1_234_567))).collect();
        json!({ "summary": figures })
    }

    #[test]
    fn numbers_have_their_thousands_apart() {
        for (number, text) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (123_456, "123,456"),
            (u64::MAX, "18,446,744,073,709,551,615"),
        ] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn the_figures_become_a_table() {
        let lines = [scenario("a", 0, true), scenario("b", 1, false), summary()];
        let command = command(2000, Some(2));
        let page = page(&command, &lines, Duration::from_secs(4)).unwrap();
        assert_eq!(
            page,
            "`cargo xtask soak --seeds 2000 --jobs 2`: 4,000 runs in 4 s, 1,000 a second; 1,234,567 violations, 1,234,567 floors missed.\n\n\
             | Scenario | Runs | Steps | Deliveries | Holds | Crashes | Restores with holds | Advances | Violations | Floors |\n\
             |---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n\
             | a | 2,000 | 1,000 | 2,000 | 3,000 | 4,000 | 5,000 | 6,000 | 0 | 1 of 1 met |\n\
             | b | 2,000 | 1,000 | 2,000 | 3,000 | 4,000 | 5,000 | 6,000 | 1 | 0 of 1 met |\n\
             | **all** | 4,000 | 1,234,567 | 1,234,567 | 1,234,567 | 1,234,567 | 1,234,567 | 1,234,567 | 1,234,567 | 1,234,567 missed |\n"
        );
    }

    #[test]
    fn what_is_wrong_is_told_with_its_command() {
        let lines = [scenario("a", 0, true), scenario("b", 1, false), summary()];
        assert_eq!(
            failures(&lines),
            [
                "FLOOR of b missed: \"a crash\" on 3 seeds, expected 400",
                "VIOLATION of \"lost\" in b, seed 7\n  REPLAY: run it",
            ]
        );
    }

    #[test]
    fn figures_of_another_form_are_no_table() {
        let took = Duration::from_secs(1);
        for lines in [
            vec![],
            vec![scenario("a", 0, true)],
            vec![json!({}), summary()],
            vec![json!({"summary": {}})],
        ] {
            assert_eq!(page("x", &lines, took), None);
        }
    }
}
