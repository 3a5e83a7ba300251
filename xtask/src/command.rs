//! Runs a program, shows what it prints, and counts the tests in it.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Tests that passed and failed, summed over test binaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Counts {
    /// Adds the counts of a line `test result: ok. 3 passed; 0 failed; …`; any other line changes nothing.
    fn add_line(&mut self, line: &str) {
        let Some(result) = line.strip_prefix("test result: ") else {
            return;
        };
        // The word before the counts ends with a full stop.
        let counts = result.split_once(". ").map_or(result, |(_, counts)| counts);
        for count in counts.split(';') {
            let mut words = count.split_whitespace();
            let (Some(number), Some(kind)) = (
                words.next().and_then(|word| word.parse::<u64>().ok()),
                words.next(),
            ) else {
                continue;
            };
            match kind {
                "passed" => self.passed += number,
                "failed" => self.failed += number,
                "ignored" => self.ignored += number,
                _ => {}
            }
        }
    }

    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }
}

/// Why a stage failed.
#[derive(Debug)]
pub enum Failure {
    /// The program is not there or cannot be started.
    Start { program: String, source: io::Error },
    /// The program ended with a failure.
    Ended { line: String, status: ExitStatus },
    /// What a tool printed is not what was expected.
    Output { line: String, problem: String },
    /// A floor was not reached, or something that the gate needs is missing.
    Unmet(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start { program, source } => {
                write!(f, "`{program}` could not be started: {source}")
            }
            Self::Ended { line, status } => write!(f, "`{line}` failed ({status})"),
            Self::Output { line, problem } => write!(f, "`{line}`: {problem}"),
            Self::Unmet(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Failure {}

/// A program to run in the root of the work tree.
pub struct Run {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(String, String)>,
    without: Vec<String>,
    folder: PathBuf,
}

impl Run {
    pub fn new(program: &str, arguments: &[&str]) -> Self {
        Self {
            program: program.to_owned(),
            arguments: arguments
                .iter()
                .map(|argument| (*argument).to_owned())
                .collect(),
            variables: Vec::new(),
            without: Vec::new(),
            folder: crate::root().to_owned(),
        }
    }

    /// Cargo with these arguments, parted at blanks.
    pub fn cargo(arguments: &str) -> Self {
        let arguments: Vec<&str> = arguments.split_whitespace().collect();
        Self::new("cargo", &arguments)
    }

    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.arguments.push(argument.into());
        self
    }

    /// Arguments, parted at blanks.
    pub fn arguments(self, arguments: &str) -> Self {
        arguments.split_whitespace().fold(self, Self::argument)
    }

    pub fn variable(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.variables.push((
            name.to_owned(),
            value.as_ref().to_string_lossy().into_owned(),
        ));
        self
    }

    /// Runs it as if the variable were not set.
    pub fn without_variable(mut self, name: &str) -> Self {
        self.without.push(name.to_owned());
        self
    }

    /// The line as one would type it.
    pub fn line(&self) -> String {
        let variables = self
            .variables
            .iter()
            .map(|(name, value)| match value.contains(' ') {
                true => format!("{name}='{value}'"),
                false => format!("{name}={value}"),
            });
        let words = [self.program.clone()]
            .into_iter()
            .chain(self.arguments.iter().cloned());
        variables.chain(words).collect::<Vec<_>>().join(" ")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(&self.arguments)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        // What `cargo xtask` itself was run with is nothing to the programs run here, and would make Cargo build things anew.
        for (name, _) in std::env::vars_os() {
            let name_text = name.to_string_lossy();
            if name_text.starts_with("CARGO_PKG_")
                || name_text.starts_with("CARGO_MANIFEST_")
                || name_text == "LD_LIBRARY_PATH"
            {
                command.env_remove(&name);
            }
        }
        for name in &self.without {
            command.env_remove(name);
        }
        command
    }

    fn started<T>(&self, outcome: io::Result<T>) -> Result<T, Failure> {
        outcome.map_err(|source| Failure::Start {
            program: self.program.clone(),
            source,
        })
    }

    fn checked(&self, status: ExitStatus) -> Result<(), Failure> {
        if status.success() {
            Ok(())
        } else {
            Err(self.ended(status))
        }
    }

    /// Runs it, shows everything, adds the tests that it reports to `counts`.
    pub fn show(&self, counts: &mut Counts) -> Result<(), Failure> {
        let status = self.show_status(counts)?;
        self.checked(status)
    }

    /// Like [`Run::show`], but how the program ended is for the caller to judge.
    pub fn show_status(&self, counts: &mut Counts) -> Result<ExitStatus, Failure> {
        println!("$ {}", self.line());
        self.copy_to(&mut io::stdout(), counts)
    }

    /// The failure of a program that ended in this way.
    pub fn ended(&self, status: ExitStatus) -> Failure {
        Failure::Ended {
            line: self.line(),
            status,
        }
    }

    fn copy_to(&self, shown: &mut dyn Write, counts: &mut Counts) -> Result<ExitStatus, Failure> {
        let mut child = self.started(self.command().stdout(Stdio::piped()).spawn())?;
        let out = child
            .stdout
            .take()
            .expect("standard output was asked for as a pipe");
        let mut reader = BufReader::new(out);
        let mut line = Vec::new();
        loop {
            line.clear();
            if self.started(reader.read_until(b'\n', &mut line))? == 0 {
                break;
            }
            self.started(shown.write_all(&line))?;
            counts.add_line(&String::from_utf8_lossy(&line));
        }
        self.started(child.wait())
    }

    /// Runs it and hands back what it prints to standard output; errors are shown.
    pub fn read(&self) -> Result<String, Failure> {
        println!("$ {}", self.line());
        let output = self.started(self.command().stderr(Stdio::inherit()).output())?;
        self.checked(output.status)?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs a check: hands back what it prints to standard output, and whether it passed. A check that did not pass ends with 1; anything
    /// else is a failure of the program.
    pub fn verdict(&self) -> Result<(String, bool), Failure> {
        println!("$ {}", self.line());
        let output = self.started(self.command().stderr(Stdio::inherit()).output())?;
        let passed = output.status.code() != Some(1);
        if passed {
            self.checked(output.status)?;
        }
        Ok((String::from_utf8_lossy(&output.stdout).into_owned(), passed))
    }

    /// Runs it, and writes what it prints to a file. Whether it succeeded.
    pub fn log_to(&self, log: &Path) -> Result<bool, Failure> {
        let unwritable = |error| Failure::Unmet(format!("{}: {error}", log.display()));
        let out = File::create(log).map_err(unwritable)?;
        let errors = out.try_clone().map_err(unwritable)?;
        let status = self.started(self.command().stdout(out).stderr(errors).status())?;
        Ok(status.success())
    }

    /// Whether it can be started and succeeds; what it prints is dropped.
    pub fn succeeds(&self) -> bool {
        let status = self
            .command()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed_and_other_lines_are_not() {
        let mut counts = Counts::default();
        counts.add_line("test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.00s\n");
        counts.add_line("test result: FAILED. 5 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.25s\n");
        counts.add_line("test a_line_with_7 passed ... ok\n");
        counts.add_line("12 passed, 4 failed\n");
        assert_eq!(
            counts,
            Counts {
                passed: 8,
                failed: 2,
                ignored: 1
            }
        );
    }

    #[test]
    fn a_check_that_does_not_pass_is_no_failure_of_the_program() {
        let verdict = |end: &str| Run::new("sh", &["-c", &format!("echo out; {end}")]).verdict();
        let out = "out\n".to_owned();
        assert!(matches!(verdict("exit 0"), Ok((text, true)) if text == out));
        assert!(matches!(verdict("exit 1"), Ok((text, false)) if text == out));
        for end in ["exit 2", "exit 101", "kill -9 $$"] {
            assert!(matches!(verdict(end), Err(Failure::Ended { .. })), "{end}");
        }
    }

    #[test]
    fn a_program_that_fails_or_is_missing_is_an_error_with_its_line() {
        let mut counts = Counts::default();
        let mut shown = Vec::new();
        let script = "echo 'test result: FAILED. 1 passed; 1 failed'; exit 3";
        let run = Run::new("sh", &["-c", script]);
        let status = run.copy_to(&mut shown, &mut counts).unwrap();
        let failed = run.checked(status);
        assert!(
            matches!(&failed, Err(Failure::Ended { status, .. }) if status.code() == Some(3)),
            "{failed:?}"
        );
        assert_eq!(shown, b"test result: FAILED. 1 passed; 1 failed\n");
        assert_eq!(
            counts,
            Counts {
                passed: 1,
                failed: 1,
                ignored: 0
            }
        );
        let missing = Run::new("no-such-program", &[]).copy_to(&mut shown, &mut counts);
        assert!(
            matches!(&missing, Err(Failure::Start { program, .. }) if program == "no-such-program"),
            "{missing:?}"
        );
    }
}
