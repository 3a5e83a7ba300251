//! What `parsley topic check` says.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::Court;
use crate::Trouble;
use crate::evidence::Evidence;
use crate::topology::{SPARE_ACCOUNT, TOPICS};

/// How many violations are shown.
pub const SHOWN: usize = 20;

/// How many violations there are, and the first of them.
pub type Found = (u64, Vec<String>);

/// What it finds in a trace, and the dumps beside it.
pub fn of_trace(court: &Court, trace: &Path) -> Result<Found, Trouble> {
    let dumps = TOPICS
        .iter()
        .map(|topic| Evidence::dump(&court.folder, topic));
    let files = [trace.to_owned()].into_iter().chain(dumps).collect();
    check(court, files, &[])
}

/// What it finds in the account of the spare application, whose topics were cut and deleted.
pub fn of_spare(court: &Court) -> Result<Found, Trouble> {
    let account = Evidence::dump(&court.folder, SPARE_ACCOUNT);
    match account.exists() {
        true => check(court, vec![account], LOST_WITH_TOPICS),
        false => Ok((0, Vec::new())),
    }
}

/// What is right where records are deleted before everybody was delivered them: that they never are.
const LOST_WITH_TOPICS: &[&str] = &["not-delivered", "skipped"];

fn check(court: &Court, files: Vec<PathBuf>, excused: &[&str]) -> Result<Found, Trouble> {
    let output = Command::new(&court.parsley)
        .args(["topic", "check", "--show", &SHOWN.to_string()])
        .args(files)
        .output()
        .map_err(Trouble::io("starting `parsley topic check`"))?;
    let failed = || Trouble::Check {
        status: output.status,
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    };
    // 1 is a violation; everything else but 0 is no verdict.
    if !matches!(output.status.code(), Some(0 | 1)) {
        return Err(failed());
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text.lines().collect();
    let summary = lines.pop().map(serde_json::from_str::<Value>);
    let summary = summary.and_then(Result::ok).ok_or_else(failed)?;
    let kinds = summary["summary"]["by_kind"].as_object();
    let kinds = kinds.ok_or_else(failed)?.iter();
    let counted = kinds.filter(|(kind, _)| !excused.contains(&kind.as_str()));
    let violations = counted.filter_map(|(_, count)| count.as_u64()).sum();
    let is_counted = |line: &&str| {
        let line = serde_json::from_str::<Value>(line).unwrap_or_default();
        let kind = line["violation"]["kind"].as_str().unwrap_or_default();
        !excused.contains(&kind)
    };
    let shown = lines.into_iter().filter(is_counted).map(str::to_owned);
    Ok((violations, shown.collect()))
}
