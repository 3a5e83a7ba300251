//! Runs the program.

#![allow(dead_code, reason = "not every test file uses all of it")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// What a run printed and how it ended.
#[derive(Debug)]
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// The lines of standard output, as JSON.
    pub fn lines(&self) -> Vec<Value> {
        let parse =
            |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        self.stdout.lines().map(parse).collect()
    }
}

/// Runs the program with these arguments and this input.
pub fn parsley<A: AsRef<std::ffi::OsStr>>(arguments: &[A], input: &[u8]) -> Run {
    parsley_with(arguments, input, &[])
}

/// The same, with these variables of the environment.
pub fn parsley_with<A: AsRef<std::ffi::OsStr>>(
    arguments: &[A],
    input: &[u8],
    variables: &[(&str, &str)],
) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_parsley"))
        .args(arguments)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    // The program may stop reading before the end.
    let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().expect("the program ends");
    feed.join().expect("the input is fed");
    Run {
        code: output.status.code().expect("the program exits"),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// A file or directory of the workspace.
pub fn workspace(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path)
}
