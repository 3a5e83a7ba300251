//! The end of an instance's log.

use std::fmt::Write;
use std::path::Path;

/// How many of the last lines are shown, and how many of those that are asked for.
const LINES: usize = 15;
const ASKED_FOR: usize = 5;

/// The last lines of a log, and before them the last of those that say `of`, in words.
pub(crate) fn last(log: &Path, of: Option<&str>) -> String {
    let text = match std::fs::read(log) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) => return format!("its log cannot be read: {error}"),
    };
    let tail = |lines: Vec<&str>, count: usize| {
        let from = lines.len().saturating_sub(count);
        let lines = lines[from..].iter();
        lines.fold(String::new(), |mut all, line| {
            let _ = write!(all, "\n    {line}");
            all
        })
    };
    let mut shown = String::new();
    if let Some(of) = of {
        let said = text
            .lines()
            .filter(|line| line.split_whitespace().any(|word| word == of));
        shown = match tail(said.collect(), ASKED_FOR) {
            none if none.is_empty() => format!("its log says nothing with {of}; "),
            lines => format!("its log says of it:{lines}\n  "),
        };
    }
    let lines = tail(text.lines().collect(), LINES);
    format!("{shown}the log ends:{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_and_those_that_are_asked_for_however_far_back() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        assert!(last(&log, None).contains("cannot be read"));
        let lines = (0..100).map(|number| format!("line {number} group=g{}\n", number / 50));
        std::fs::write(&log, lines.collect::<String>()).unwrap();
        let shown = last(&log, Some("group=g0"));
        let numbers: Vec<&str> = shown
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix("line "))
            .map(|line| line.split(' ').next().unwrap())
            .collect();
        let expected: Vec<String> = (45..50)
            .chain(85..100)
            .map(|n: u32| n.to_string())
            .collect();
        assert_eq!(numbers, expected);
        assert!(last(&log, Some("group=g")).contains("nothing with group=g;"));
    }
}
