//! `cargo xtask nemesis`: the Kafka host under faults, and the figures as `docs/verification.md` has them.

use std::fs;
use std::hash::{BuildHasher, RandomState};

use clap::ValueEnum;
use serde_json::Value;

use crate::command::{Counts, Failure, Run};
use crate::page::{self, Marks, unmet};
use crate::soak::grouped;
use crate::{machine, stages, tools};

/// The page with the figures.
const PAGE: &str = "docs/verification.md";

/// What stands before and behind the figures there.
const MARKS: Marks = [
    "<!-- begin of the figures of the nemesis -->",
    "<!-- end of the figures of the nemesis -->",
];

/// How many deliveries a run of 20 minutes has to have judged.
const DELIVERIES_EACH_MINUTE: u64 = 10_000;

/// A part of what is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Tests of the host that take minutes each
    Load,
    /// The faults, mixed
    Mix,
}

/// Runs the parts. Whether nothing was wrong.
pub fn run(
    minutes: u64,
    seed: Option<u64>,
    save: bool,
    only: Option<Part>,
) -> Result<bool, Failure> {
    tools::broker()?;
    if only != Some(Part::Mix) {
        for tests in [
            "-p parsley-kafka --test load --test brokers -- --ignored",
            "-p parsley-cli --test on_kafka -- --ignored",
            // In release it kills twenty times over 100,000 commands.
            "-p parsley-cli --test on_kafka -- on_kafka_kill",
        ] {
            Run::cargo(&format!(
                "test --release --locked {tests} --nocapture --test-threads=1"
            ))
            .show(&mut Counts::default())?;
        }
    }
    match only {
        Some(Part::Load) => Ok(true),
        _ => mix(minutes, seed, save),
    }
}

fn mix(minutes: u64, seed: Option<u64>, save: bool) -> Result<bool, Failure> {
    // Keyed freshly for each state, which is chance enough. Short, so that it can be typed again.
    let seed = seed.unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    Run::cargo("build --release --locked -p parsley-nemesis -p parsley-cli")
        .show(&mut Counts::default())?;
    let folder = stages::target().join("nemesis");
    let (out, evidence) = (
        folder.join("figures.json"),
        folder.join(format!("evidence-{seed}")),
    );
    fs::create_dir_all(&folder).map_err(|error| unmet(&folder, &error))?;
    for old in [&out, &evidence] {
        let removed = match old.is_dir() {
            true => fs::remove_dir_all(old),
            false if old.exists() => fs::remove_file(old),
            false => Ok(()),
        };
        removed.map_err(|error| unmet(old, &error))?;
    }
    let parsley = stages::target().join("release/parsley");
    let made = Run::cargo("run --quiet --release --locked -p parsley-nemesis --bin nemesis -- run")
        .argument(format!("--minutes={minutes}"))
        .argument(format!("--seed={seed}"))
        .argument(format!("--parsley={}", parsley.display()))
        .argument(format!("--evidence={}", evidence.display()))
        .argument(format!("--out={}", out.display()))
        .show(&mut Counts::default());
    // It says what is wrong, and where the evidence is. Without figures there is nothing to show.
    if !out.exists() {
        return made.map(|()| false);
    }
    let text = fs::read_to_string(&out).map_err(|error| unmet(&out, &error))?;
    let figures: Option<Value> = serde_json::from_str(&text).ok();
    let malformed = || {
        let out = out.display();
        Failure::Unmet(format!("{out}: the figures have another form"))
    };
    let figures = figures.ok_or_else(malformed)?;
    let command = format!("cargo xtask nemesis --minutes {minutes} --seed {seed}");
    let text = text_of(&command, minutes, &figures).ok_or_else(malformed)?;
    let text = format!("{} {text}", machine::line());
    print!("\n{text}");
    if save {
        page::put(PAGE, MARKS, &text)?;
    }
    let judged = figures["deliveries"].as_u64().unwrap_or(0);
    let due = minutes * DELIVERIES_EACH_MINUTE;
    if judged < due {
        eprintln!(
            "only {} deliveries were judged, and {} are asked for",
            grouped(judged),
            grouped(due)
        );
    }
    Ok(made.is_ok() && judged >= due)
}

/// The figures as the page has them; `None` when they have another form.
fn text_of(command: &str, minutes: u64, figures: &Value) -> Option<String> {
    let number = |name: &str| figures.get(name)?.as_u64().map(grouped);
    let wrong = figures.get("wrong")?.as_array()?.len() as u64;
    let stall = figures.get("longest_stall_ms")?.as_u64()? as f64 / 1000.0;
    let mut text = format!(
        "Apache Kafka {}. `{command}`: {} violations, {} other things wrong.\n\n\
         | | |\n|---|---:|\n\
         | minutes under faults | {minutes} |\n\
         | commands written and committed | {} |\n\
         | deliveries judged, by `parsley topic check` and by the oracle | {} |\n\
         | of records that had to wait | {} |\n\
         | records held at the end | {} |\n\
         | entries of the spare application's account judged | {} |\n\
         | starts of an instance | {} |\n\
         | times that a member joined a group | {} |\n\
         | longest time without a delivery while one was due | {stall:.1} s |\n",
        figures.get("kafka")?.as_str()?,
        number("violations")?,
        grouped(wrong),
        number("commands")?,
        number("deliveries")?,
        number("held")?,
        number("held_at_end")?,
        number("spare_entries")?,
        number("starts")?,
        number("joins")?,
    );
    text += "\n| Fault | Times |\n|---|---:|\n";
    for (kind, count) in figures.get("faults")?.as_object()? {
        text += &format!("| {kind} | {} |\n", grouped(count.as_u64()?));
    }
    text += "\n| Refusal | Justified by | Tasks |\n|---|---|---:|\n";
    for refusal in figures.get("refusals")?.as_array()? {
        let (code, by) = (refusal.get("code")?, refusal.get("justified_by")?);
        let count = grouped(refusal.get("count")?.as_u64()?);
        text += &format!("| `{}` | {} | {count} |\n", code.as_str()?, by.as_str()?);
    }
    text +=
        "\n| Tampered with | Found by `parsley topic check` | By the oracle |\n|---|---:|---:|\n";
    for way in figures.get("tampered")?.as_array()? {
        let found = |name: &str| way.get(name)?.as_u64().map(grouped);
        let name = way.get("way")?.as_str()?;
        text += &format!("| {name} | {} | {} |\n", found("check")?, found("oracle")?);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn figures() -> Value {
        json!({
            "kafka": "4.4.0", "commands": 25_000, "deliveries": 250_000, "held": 60_000, "held_at_end": 0,
            "spare_entries": 9000, "starts": 120, "joins": 2000, "violations": 0, "longest_stall_ms": 21_460,
            "faults": {"broker killed": 12, "instance killed": 40},
            "refusals": [{"code": "vc-positions-lost", "justified_by": "a fault", "count": 3}],
            "tampered": [{"way": "a delivery doubled", "check": 1, "oracle": 2}], "wrong": ["something"],
        })
    }

    #[test]
    fn the_figures_become_tables() {
        let text = text_of("cargo xtask nemesis --minutes 20 --seed 7", 20, &figures()).unwrap();
        for part in [
            "Apache Kafka 4.4.0. `cargo xtask nemesis --minutes 20 --seed 7`: 0 violations, 1 other things wrong.\n",
            "| deliveries judged, by `parsley topic check` and by the oracle | 250,000 |\n",
            "| longest time without a delivery while one was due | 21.5 s |\n",
            "| Fault | Times |\n|---|---:|\n| broker killed | 12 |\n| instance killed | 40 |\n",
            "| `vc-positions-lost` | a fault | 3 |\n",
            "| a delivery doubled | 1 | 2 |\n",
        ] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn figures_of_another_form_are_no_tables() {
        for name in ["kafka", "deliveries", "refusals", "tampered", "wrong"] {
            let mut figures = figures();
            figures[name] = json!({"other": 1});
            assert_eq!(text_of("x", 1, &figures), None, "{name}");
        }
    }

    #[test]
    fn the_page_has_a_place_for_the_figures() {
        page::assert_has_place(PAGE, MARKS);
    }
}
