//! The figures as tables: for a terminal, and for the page.

use std::collections::BTreeSet;

use crate::machine;
use crate::mutants::ledger::{Ledger, Outcome, Sum};
use crate::mutants::survivors::{Survivor, why};
use crate::soak::grouped;

/// A table of the files for a terminal.
pub fn files(ledger: &Ledger) -> String {
    let mut text = format!(
        "{:<44} {:>7} {:>10} {:>7} {:>8} {:>9} {:>7}\n",
        "file", "caught", "simulator", "missed", "timeouts", "unviable", "%"
    );
    for (name, sum) in rows(ledger) {
        text += &format!(
            "{name:<44} {:>7} {:>10} {:>7} {:>8} {:>9} {:>7.1}\n",
            sum.caught,
            sum.simulator,
            sum.missed,
            sum.timeout,
            sum.unviable,
            sum.percent()
        );
    }
    text
}

/// The figures as the page has them.
pub fn page(ledger: &Ledger, listed: &[Survivor]) -> String {
    let all = ledger.sum(|_| true);
    let mut text = format!(
        "{} `cargo xtask mutants`: {} mutants that compile, {:.1} % of those that end are caught.\n\n\
         | File | Caught | By the simulator alone | Missed | Timeouts | Unviable | Caught, % |\n|---|---:|---:|---:|---:|---:|---:|\n",
        machine::line(),
        grouped(all.caught + all.simulator + all.missed + all.timeout),
        all.percent()
    );
    for (name, sum) in rows(ledger) {
        text += &format!(
            "| `{name}` | {} | {} | {} | {} | {} | {:.1} |\n",
            grouped(sum.caught),
            grouped(sum.simulator),
            grouped(sum.missed),
            grouped(sum.timeout),
            grouped(sum.unviable),
            sum.percent()
        );
    }
    text += "\n| Survivor | Why it may |\n|---|---|\n";
    let missed = |outcome| outcome == Outcome::Missed;
    for mutant in ledger.mutants().filter(|mutant| missed(mutant.outcome)) {
        text += &format!(
            "| `{}`: {} in `{}` | {} |\n",
            short(&mutant.file),
            cell(&mutant.change),
            cell(&mutant.source),
            why(mutant, listed).map_or_else(|| "not listed".to_owned(), cell)
        );
    }
    text
}

/// The files by name, then the sum.
fn rows(ledger: &Ledger) -> Vec<(String, Sum)> {
    let files: BTreeSet<&str> = ledger
        .mutants()
        .map(|mutant| mutant.file.as_str())
        .collect();
    let each = files
        .iter()
        .map(|name| (short(name), ledger.sum(|file| file == *name)));
    let all = ("all".to_owned(), ledger.sum(|_| true));
    each.chain([all]).collect()
}

/// `core/decide.rs` for `crates/parsley-core/src/decide.rs`.
fn short(file: &str) -> String {
    let file = file.strip_prefix("crates/parsley-").unwrap_or(file);
    file.replacen("/src/", "/", 1)
}

/// A text in one cell of a table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::ledger::tests::ledger;

    #[test]
    fn the_page_has_each_file_the_sum_and_each_survivor_with_its_argument() {
        let file = "crates/parsley-core/src/decide.rs";
        let ledger = ledger(&[
            (file, 1, "replace | with ^", "MissedMutant"),
            (file, 2, "replace f with 0", "CaughtMutant"),
            (file, 3, "replace g with 0", "CaughtMutant"),
            (file, 4, "replace h with 0", "CaughtMutant"),
            (
                "crates/parsley-stage/src/a/b.rs",
                5,
                "replace + with -",
                "MissedMutant",
            ),
        ]);
        let listed = [Survivor {
            file: file.to_owned(),
            change: "replace | with ^".to_owned(),
            source: "line 1".to_owned(),
            column: 3,
            why: "the bits are apart".to_owned(),
        }];
        let text = page(&ledger, &listed);
        for line in [
            "| `core/decide.rs` | 3 | 0 | 1 | 0 | 0 | 75.0 |",
            "| `stage/a/b.rs` | 0 | 0 | 1 | 0 | 0 | 0.0 |",
            "| `all` | 3 | 0 | 2 | 0 | 0 | 60.0 |",
            "| `core/decide.rs`: replace \\| with ^ in `line 1` | the bits are apart |",
            "| `stage/a/b.rs`: replace + with - in `line 5` | not listed |",
        ] {
            assert!(text.lines().any(|each| each == line), "{line}\n{text}");
        }
        let shown = files(&ledger);
        assert!(shown.contains("core/decide.rs"), "{shown}");
        assert_eq!(shown.lines().count(), 4);
    }
}
