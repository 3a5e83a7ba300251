//! Line coverage of crates, from the report of `cargo llvm-cov --json`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Lines of a crate's sources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    pub covered: u64,
    pub count: u64,
}

impl Lines {
    /// Covered lines in percent; of no lines, 0.
    pub fn percent(self) -> f64 {
        // Line counts are far below the 2^52 that a float holds exactly.
        if self.count == 0 {
            0.0
        } else {
            100.0 * self.covered as f64 / self.count as f64
        }
    }
}

/// The lines of `crates`, each read from the files below `crates/<name>/src/`. A crate of which the report says nothing counts no lines;
/// `None` when the report has another form.
pub fn lines<'a>(report: &Value, crates: &[&'a str]) -> Option<BTreeMap<&'a str, Lines>> {
    let mut sums: BTreeMap<&str, Lines> = crates
        .iter()
        .map(|name| (*name, Lines::default()))
        .collect();
    for file in report.pointer("/data/0/files")?.as_array()? {
        let path = file.get("filename")?.as_str()?;
        let (covered, count) = (
            file.pointer("/summary/lines/covered")?.as_u64()?,
            file.pointer("/summary/lines/count")?.as_u64()?,
        );
        for (name, sum) in &mut sums {
            if path.contains(&format!("/crates/{name}/src/")) {
                sum.covered += covered;
                sum.count += count;
            }
        }
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_summed_by_crate_and_other_files_are_left_out() {
        let file = |path: &str, covered: u64, count: u64| json!({"filename": path, "summary": {"lines": {"covered": covered, "count": count}}});
        let report = json!({"data": [{"files": [
            file("/x/crates/one/src/lib.rs", 8, 10),
            file("/x/crates/one/src/a/b.rs", 1, 10),
            file("/x/crates/one/tests/t.rs", 7, 7),
            file("/x/crates/one-more/src/lib.rs", 3, 4),
        ]}]});
        let lines = lines(&report, &["one", "one-more", "absent"]).unwrap();
        assert_eq!(
            lines["one"],
            Lines {
                covered: 9,
                count: 20
            }
        );
        assert_eq!(
            lines["one-more"],
            Lines {
                covered: 3,
                count: 4
            }
        );
        assert_eq!(lines["absent"].percent(), 0.0);
        assert!((lines["one"].percent() - 45.0).abs() < 1e-9);
        assert_eq!(super::lines(&json!({"data": []}), &["one"]), None);
    }
}
