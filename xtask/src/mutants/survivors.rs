//! The mutants that may survive, each with the argument why no test can or need notice it: `testdata/mutants/survivors.toml`.

use std::fs;

use crate::command::Failure;
use crate::mutants::ledger::{Ledger, Mutant, Outcome};
use crate::page::unmet;

const FILE: &str = "testdata/mutants/survivors.toml";

/// A mutant that may survive. Lines move, so it is known by what its line says, and where in that it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survivor {
    pub file: String,
    pub change: String,
    pub source: String,
    pub column: u64,
    pub why: String,
}

impl Survivor {
    fn is(&self, mutant: &Mutant) -> bool {
        self.file == mutant.file
            && self.change == mutant.change
            && (&self.source, self.column) == (&mutant.source, mutant.column)
    }
}

/// All that are listed.
pub fn listed() -> Result<Vec<Survivor>, Failure> {
    let path = crate::root().join(FILE);
    let text = fs::read_to_string(&path).map_err(|error| unmet(&path, &error))?;
    parsed(&text).map_err(|problem| Failure::Unmet(format!("{FILE}: {problem}")))
}

fn parsed(text: &str) -> Result<Vec<Survivor>, String> {
    let table: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    let mut survivors = Vec::new();
    for (key, value) in &table {
        if key != "survivor" {
            return Err(format!("`{key}` is not known"));
        }
        let list = value.as_array().ok_or("`survivor` is no list of tables")?;
        for (index, entry) in list.iter().enumerate() {
            let text = |key: &str| match entry.get(key).and_then(toml::Value::as_str) {
                Some(text) if !text.trim().is_empty() => Ok(text.trim().to_owned()),
                _ => Err(format!("survivor {index} has no `{key}`")),
            };
            let column = entry.get("column").and_then(toml::Value::as_integer);
            let column = column.and_then(|column| u64::try_from(column).ok());
            let survivor = Survivor {
                file: text("file")?,
                change: text("change")?,
                source: text("source")?,
                column: column.ok_or_else(|| format!("survivor {index} has no `column`"))?,
                why: text("why")?,
            };
            survivors.push(survivor);
        }
    }
    Ok(survivors)
}

/// The argument why a mutant may survive.
pub fn why<'a>(mutant: &Mutant, listed: &'a [Survivor]) -> Option<&'a str> {
    let entry = listed.iter().find(|survivor| survivor.is(mutant))?;
    Some(&entry.why)
}

/// Mutants of these files that survive and are not listed, each told.
pub fn not_listed(
    ledger: &Ledger,
    listed: &[Survivor],
    files: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for mutant in ledger.mutants().filter(|mutant| files(&mutant.file)) {
        let Mutant {
            file, line, change, ..
        } = mutant;
        let known = why(mutant, listed).is_some();
        if mutant.outcome == Outcome::Missed && !known {
            wrong.push(format!(
                "SURVIVES: {file}:{line}: {change}\n  in: {}\n  at column: {}\n  Write a test that fails with it, or list it in {FILE} with the argument why it is equivalent.",
                mutant.source, mutant.column
            ));
        }
    }
    wrong
}

/// Mutants of these files that are listed and do not survive, each told.
pub fn not_surviving(
    ledger: &Ledger,
    listed: &[Survivor],
    files: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut wrong = Vec::new();
    for survivor in listed.iter().filter(|survivor| files(&survivor.file)) {
        let survives = ledger
            .mutants()
            .any(|mutant| survivor.is(mutant) && mutant.outcome == Outcome::Missed);
        if !survives {
            wrong.push(format!(
                "LISTED, and does not survive: {}: {}\n  in: {}\n  at column: {}\n  Take it off {FILE}.",
                survivor.file, survivor.change, survivor.source, survivor.column
            ));
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::ledger::tests::ledger;

    fn wrong(ledger: &Ledger, listed: &[Survivor], files: fn(&str) -> bool) -> Vec<String> {
        let mut wrong = not_listed(ledger, listed, files);
        wrong.extend(not_surviving(ledger, listed, files));
        wrong
    }

    fn survivor(file: &str, change: &str, source: &str) -> Survivor {
        Survivor {
            file: file.to_owned(),
            change: change.to_owned(),
            source: source.to_owned(),
            // As the tests of the ledger have it, behind two blanks.
            column: 3,
            why: "it is the same".to_owned(),
        }
    }

    #[test]
    fn the_list_is_read_and_names_mutants_of_files_that_exist() {
        for survivor in listed().unwrap() {
            let text = fs::read_to_string(crate::root().join(&survivor.file)).unwrap();
            let on_a_line = text.lines().any(|line| line.trim() == survivor.source);
            assert!(on_a_line, "{survivor:?}");
        }
    }

    #[test]
    fn an_entry_without_an_argument_is_refused() {
        let full =
            "[[survivor]]\nfile = \"a\"\nchange = \"b\"\nsource = \"c\"\ncolumn = 1\nwhy = \"d\"\n";
        assert_eq!(parsed(full).unwrap().len(), 1);
        for (text, problem) in [
            (full.replace("\"d\"", "\" \""), "survivor 0 has no `why`"),
            (
                full.replace("source", "sauce"),
                "survivor 0 has no `source`",
            ),
            (full.replace("= 1", "= -1"), "survivor 0 has no `column`"),
            ("other = 1".to_owned(), "`other` is not known"),
            ("survivor = 1".to_owned(), "`survivor` is no list of tables"),
        ] {
            assert_eq!(parsed(&text).unwrap_err(), problem);
        }
    }

    /// An entry for the first of two changes of a line hid that the second survived as well.
    #[test]
    fn a_line_that_is_changed_alike_in_two_places_has_an_entry_for_each() {
        let mut ledger = ledger(&[("a.rs", 1, "x", "MissedMutant")]);
        let known = [survivor("a.rs", "x", "line 1")];
        assert!(wrong(&ledger, &known, |_| true).is_empty());
        ledger.move_all(1);
        let wrong_ones = wrong(&ledger, &known, |_| true);
        assert_eq!(wrong_ones.len(), 2, "{wrong_ones:?}");
        assert!(
            wrong_ones[0].contains("\n  at column: 4\n"),
            "{wrong_ones:?}"
        );
    }

    #[test]
    fn survivors_that_are_not_listed_and_listed_ones_that_are_caught_are_wrong() {
        let ledger = ledger(&[
            ("a.rs", 1, "x", "MissedMutant"),
            ("a.rs", 2, "x", "MissedMutant"),
            ("a.rs", 3, "x", "CaughtMutant"),
            ("b.rs", 4, "x", "MissedMutant"),
        ]);
        let known = [survivor("a.rs", "x", "line 1")];
        let wrong_ones = wrong(&ledger, &known, |file| file == "a.rs");
        assert_eq!(wrong_ones.len(), 1, "{wrong_ones:?}");
        assert!(wrong_ones[0].starts_with("SURVIVES: a.rs:2: x\n  in: line 2\n"));

        let known = [
            survivor("a.rs", "x", "line 1"),
            survivor("a.rs", "x", "line 2"),
            survivor("a.rs", "x", "line 3"),
        ];
        let wrong_ones = wrong(&ledger, &known, |file| file == "a.rs");
        assert_eq!(wrong_ones.len(), 1, "{wrong_ones:?}");
        assert!(wrong_ones[0].starts_with("LISTED, and does not survive: a.rs: x\n  in: line 3\n"));
        assert_eq!(wrong(&ledger, &known, |_| true).len(), 2);
    }
}
