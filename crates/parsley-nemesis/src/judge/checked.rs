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
    check(court, [trace.to_owned()].into_iter().chain(dumps).collect())
}

/// What it finds in the account of the spare application, whose topics were cut and deleted.
pub fn of_spare(court: &Court) -> Result<Found, Trouble> {
    let account = Evidence::dump(&court.folder, SPARE_ACCOUNT);
    match account.exists() {
        true => check(court, vec![account]),
        false => Ok((0, Vec::new())),
    }
}

fn check(court: &Court, files: Vec<PathBuf>) -> Result<Found, Trouble> {
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
    let violations = summary["summary"]["violations"].as_u64();
    let shown = lines.into_iter().map(str::to_owned).collect();
    Ok((violations.ok_or_else(failed)?, shown))
}
