//! Installs what a stage needs and the machine lacks. Each step is idempotent and says what it installs.

use crate::command::{Counts, Failure, Run};

/// Debian's LLVM whose tools read the profiles of this toolchain.
const LLVM: &str = "19";

/// Installs a Cargo subcommand, built from its published lock file, unless it runs already.
pub fn cargo_subcommand(name: &str) -> Result<(), Failure> {
    if Run::cargo(&format!("{name} --version")).succeeds() {
        return Ok(());
    }
    println!("installing cargo-{name}");
    Run::cargo(&format!("install --locked cargo-{name}")).show(&mut Counts::default())
}

/// Installs Debian's `package` unless `program` runs with `argument`.
fn program(program: &str, argument: &str, package: &str) -> Result<(), Failure> {
    if Run::new(program, &[argument]).succeeds() {
        return Ok(());
    }
    let command = format!("apt-get update && apt-get install -y --no-install-recommends {package}");
    let is_root = Run::new("id", &["-u"])
        .read()
        .is_ok_and(|id| id.trim() == "0");
    if !is_root || !Run::new("apt-get", &["--version"]).succeeds() {
        return Err(Failure::Unmet(format!(
            "`{program}` is missing; install it, on Debian as root with: {command}"
        )));
    }
    println!("installing {package} for `{program}`");
    Run::new("sh", &["-c", &command])
        .variable("DEBIAN_FRONTEND", "noninteractive")
        .show(&mut Counts::default())?;
    if Run::new(program, &[argument]).succeeds() {
        return Ok(());
    }
    Err(Failure::Unmet(format!(
        "`{program}` does not run, though {package} is installed"
    )))
}

/// What librdkafka is built with.
pub fn native_build() -> Result<(), Failure> {
    program("make", "--version", "make")?;
    program("c++", "--version", "g++")
}

/// What ends a program that takes too much.
pub fn limits() -> Result<(), Failure> {
    program("prlimit", "--version", "util-linux")
}

/// What a broker is fetched and run with.
pub fn broker() -> Result<(), Failure> {
    match std::env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        // A missing one is named by the broker's start.
        Some(_) => {}
        None => program("java", "-version", "openjdk-17-jre-headless")?,
    }
    program("mvn", "--version", "maven")
}

/// What pages are opened in by tests: the one that `CHROMIUM` names, else Debian's.
pub fn browser() -> Result<(), Failure> {
    match std::env::var_os("CHROMIUM").filter(|path| !path.is_empty()) {
        // One that is missing is named by the tests.
        Some(_) => Ok(()),
        None => program("chromium", "--version", "chromium"),
    }
}

/// The paths of `llvm-cov` and `llvm-profdata`: those of `LLVM_COV` and `LLVM_PROFDATA` when both are set, else Debian's.
pub fn llvm() -> Result<[(&'static str, String); 2], Failure> {
    let set = |name: &str| std::env::var(name).ok().filter(|path| !path.is_empty());
    if let (Some(cov), Some(profdata)) = (set("LLVM_COV"), set("LLVM_PROFDATA")) {
        return Ok([("LLVM_COV", cov), ("LLVM_PROFDATA", profdata)]);
    }
    let cov = format!("/usr/bin/llvm-cov-{LLVM}");
    program(&cov, "--version", &format!("llvm-{LLVM}"))?;
    Ok([
        ("LLVM_COV", cov),
        ("LLVM_PROFDATA", format!("/usr/bin/llvm-profdata-{LLVM}")),
    ])
}

/// Whether rustup has a nightly toolchain.
pub fn has_nightly() -> bool {
    Run::new("rustup", &["toolchain", "list"])
        .read()
        .is_ok_and(|listed| listed.lines().any(|line| line.starts_with("nightly")))
}
