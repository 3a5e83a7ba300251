//! A test that needs a process of its own: the test's binary, run again with that test alone.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Names the part that the process is to play.
const ROLE: &str = "PARSLEY_TEST_ROLE";
/// Names the directory that it works on.
const DIR: &str = "PARSLEY_TEST_DIR";
/// What begins a line that such a process prints for the test. The test runner of the process prints others.
const SAID: &str = "\u{1}";

/// The part that this process is to play, with the directory; `None` in the process that the tests were started in.
pub fn role() -> Option<(String, String)> {
    Some((std::env::var(ROLE).ok()?, std::env::var(DIR).ok()?))
}

/// The command that plays a part of a test, which has to ask for its [`role`] before anything else.
pub fn playing(test: &str, role: &str, dir: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    prepare(&mut command, test, role, dir);
    command
}

/// Has a command play a part of a test that ends by running the program named by its first argument with the others.
pub fn playing_by(mut command: Command, test: &str, role: &str, dir: &Path) -> Command {
    command.arg(std::env::current_exe().unwrap());
    prepare(&mut command, test, role, dir);
    command
}

fn prepare(command: &mut Command, test: &str, role: &str, dir: &Path) {
    command
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdin(Stdio::null());
}

/// Says something to the test that started this process.
pub fn say(line: impl std::fmt::Display) {
    println!("\n{SAID}{line}");
}

/// What a line of such a process says to the test, if it does.
pub fn said(line: &str) -> Option<&str> {
    line.strip_prefix(SAID)
}

/// Runs a part to its end, which has to be a good one, and prints what it says meanwhile.
pub fn run(mut command: Command) {
    let shown = format!("{command:?}");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut rest = String::new();
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        match said(&line) {
            Some(line) => println!("  {line}"),
            None => rest += &format!("{line}\n"),
        }
    }
    let status = child.wait().unwrap();
    assert!(status.success(), "{shown} ended with {status}\n{rest}");
}

/// What this process takes of memory, in KiB.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub resident_kib: u64,
    /// The most that it was since [`forget_peak`].
    pub peak_kib: u64,
}

pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
        number.expect("a number of kB").parse().unwrap()
    };
    Memory {
        resident_kib: field("VmRSS:"),
        peak_kib: field("VmHWM:"),
    }
}

/// Begins anew to watch for the most memory taken.
pub fn forget_peak() {
    fs::write("/proc/self/clear_refs", "5").unwrap();
}
