//! `cargo xtask fuzz`: every decoder that meets bytes from outside, fuzzed, and the figures as `docs/verification.md` has them.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;

use crate::command::{Counts, Failure, Run};
use crate::soak::grouped;
use crate::stages::{self, target};
use crate::{root, tools};

/// Each target, and the longest input in bytes that is tried on it. They are those of `parsley-fuzz-targets`, which says what they assert.
const TARGETS: [(&str, u32); 23] = [
    ("clock", 512),
    ("clock_join", 1024),
    ("headers", 512),
    ("held_record", 512),
    ("state_key", 128),
    ("state_value", 512),
    ("state", 1024),
    ("token", 512),
    ("account_record", 768),
    ("codec", 256),
    ("log_chunk", 512),
    ("log_description", 256),
    ("log_format", 128),
    ("kafka_config", 384),
    ("kafka_description", 384),
    ("kafka_checkpoint", 64),
    ("node_script", 768),
    ("dumped_record", 384),
    ("judged_lines", 768),
    ("clock_line", 512),
    ("demo_command", 192),
    ("argument", 128),
    ("lines", 192),
];

/// The targets whose binaries have librdkafka in them, which has to be built for them alone: the gate leaves those to the replay of their corpus.
const WITH_KAFKA: [&str; 4] = [
    "kafka_config",
    "kafka_description",
    "kafka_checkpoint",
    "dumped_record",
];

/// How long one input may take, in seconds, and how much memory the whole process, in MiB.
const INPUT_S: u32 = 20;
const MEMORY_MIB: u32 = 512;

/// How long each target is fuzzed in the gate, in seconds, and how many at once.
pub const GATE_S: u32 = 6;
pub const GATE_JOBS: u16 = 2;

/// The names that `--target` takes.
pub fn names() -> PossibleValuesParser {
    TARGETS.map(|(name, _)| name).into()
}

/// What to fuzz, and for how long.
#[derive(clap::Args)]
pub struct Options {
    /// How long to fuzz each target, in seconds
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    seconds: u32,
    /// End a target after so many executions, if that comes first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    executions: Option<u64>,
    /// Where the fuzzer's random numbers begin, from 1; drawn anew each time without it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    seed: Option<u32>,
    /// Fuzz this target alone; can be given more than once
    #[arg(long, value_name = "NAME", value_parser = names())]
    target: Vec<String>,
    /// How many targets to fuzz at once
    #[arg(long, value_name = "N", default_value_t = GATE_JOBS, value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Write the smallest part of what was found that reaches as much to fuzz/corpus, which ordinary tests replay
    #[arg(long)]
    keep: bool,
}

impl Options {
    /// What the gate does.
    pub fn of_gate() -> Self {
        let targets = TARGETS.map(|(name, _)| name).into_iter();
        Self {
            seconds: GATE_S,
            executions: None,
            // Who changed nothing is told nothing new.
            seed: Some(1),
            target: targets
                .filter(|name| !WITH_KAFKA.contains(name))
                .map(str::to_owned)
                .collect(),
            jobs: GATE_JOBS,
            keep: false,
        }
    }

    /// What was typed.
    fn command(&self) -> String {
        let mut command = format!("cargo xtask fuzz --seconds {}", self.seconds);
        if let Some(executions) = self.executions {
            command += &format!(" --executions {executions}");
        }
        if let Some(seed) = self.seed {
            command += &format!(" --seed {seed}");
        }
        for name in &self.target {
            command += &format!(" --target {name}");
        }
        format!("{command} --jobs {}", self.jobs)
    }
}

/// What became of a target.
#[derive(Debug, PartialEq)]
struct Fuzzed {
    name: &'static str,
    executions: u64,
    /// How many inputs reach all that was reached.
    corpus: u64,
    took: Duration,
    /// What the fuzzer said last, if it found something.
    finding: Option<Finding>,
}

impl Fuzzed {
    /// A target that could not be fuzzed, or does not say what it did.
    fn failed(name: &'static str, failure: &Failure) -> Self {
        Self {
            name,
            executions: 0,
            corpus: 0,
            took: Duration::ZERO,
            finding: Some(Finding {
                told: failure.to_string(),
                artifact: None,
                log: None,
            }),
        }
    }
}

/// Something is wrong, and this shows it.
#[derive(Debug, PartialEq)]
struct Finding {
    /// What the target said.
    told: String,
    /// The input; `None` when the fuzzer itself failed.
    artifact: Option<PathBuf>,
    /// What the fuzzer printed; `None` when it was not run.
    log: Option<PathBuf>,
}

/// Builds the targets and fuzzes them. The targets that something was found of.
pub fn run(options: &Options) -> Result<Vec<&'static str>, Failure> {
    tools::cargo_subcommand("fuzz")?;
    let wanted = |(name, _): &(&str, u32)| {
        options.target.is_empty() || options.target.iter().any(|wanted| wanted == name)
    };
    let targets: Vec<_> = TARGETS.into_iter().filter(wanted).collect();
    build(targets.iter().any(|(name, _)| WITH_KAFKA.contains(name)))?;
    let binaries = binaries()?;
    let fuzzed = at_once(&targets, usize::from(options.jobs), |(name, length_max)| {
        let fuzzed = fuzz(&binaries, name, length_max, options);
        // What was found of the others is told all the same.
        Ok(fuzzed.unwrap_or_else(|failure| Fuzzed::failed(name, &failure)))
    })?;
    print!("\n{}", page(&options.command(), &fuzzed));
    let mut found = Vec::new();
    for Fuzzed { name, finding, .. } in &fuzzed {
        if let Some(finding) = finding {
            found.push(*name);
            eprintln!("{}", told(name, finding));
        }
    }
    if options.keep && found.is_empty() {
        at_once(&targets, usize::from(options.jobs), |(name, length_max)| {
            keep(&binaries, name, length_max)
        })?;
    }
    Ok(found)
}

/// A run of cargo-fuzz, which needs a compiler that takes unstable options.
fn cargo_fuzz(arguments: &str) -> Run {
    match tools::has_nightly() {
        true => Run::cargo(&format!("+nightly fuzz {arguments}")),
        false => Run::cargo(&format!("fuzz {arguments}")).variable("RUSTC_BOOTSTRAP", "1"),
    }
}

/// Without a sanitizer: nothing here is unsafe, and executions count.
fn build(with_kafka: bool) -> Result<(), Failure> {
    // A lock file that does not fit its manifests would be rewritten by the build, unseen.
    Run::cargo("metadata --locked --format-version 1 --manifest-path fuzz/Cargo.toml").read()?;
    let mut run = cargo_fuzz("build -s none --target-dir")
        .argument(target().join("fuzz").display().to_string());
    if with_kafka {
        tools::native_build()?;
    } else {
        run = run.argument("--no-default-features");
    }
    run.show(&mut Counts::default())
}

/// Where Cargo puts what it builds for this machine.
fn binaries() -> Result<PathBuf, Failure> {
    Ok(target().join("fuzz").join(stages::host()?).join("release"))
}

/// Does work on every target, so many at once. Ends with the first failure.
fn at_once<T: Send>(
    targets: &[(&'static str, u32)],
    jobs: usize,
    work: impl Fn((&'static str, u32)) -> Result<T, Failure> + Sync,
) -> Result<Vec<T>, Failure> {
    let next = Mutex::new(targets.iter().enumerate());
    let take = || next.lock().ok()?.next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((place, &target)) = take() {
            done.push((place, work(target)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        let joined = workers.into_iter().map(|worker| worker.join());
        joined
            .flat_map(|done| done.expect("a worker does not panic"))
            .collect::<Vec<_>>()
    });
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The folders of a target: what is found, the seeds, what was kept, and where inputs that show something go.
fn folders(name: &str) -> [PathBuf; 4] {
    let fuzz = root().join("fuzz");
    [
        target().join("fuzz-corpus").join(name),
        fuzz.join("seeds").join(name),
        fuzz.join("corpus").join(name),
        fuzz.join("artifacts").join(name),
    ]
}

fn unmet(path: &Path) -> impl Fn(std::io::Error) -> Failure {
    let path = path.display().to_string();
    move |error| Failure::Unmet(format!("{path}: {error}"))
}

fn fuzz(
    binaries: &Path,
    name: &'static str,
    length_max: u32,
    options: &Options,
) -> Result<Fuzzed, Failure> {
    let [found, seeds, kept, artifacts] = folders(name);
    for folder in [&found, &seeds, &kept, &artifacts] {
        fs::create_dir_all(folder).map_err(unmet(folder))?;
    }
    let binary = binaries.join(name).display().to_string();
    let log = found.with_extension("log");
    let mut run = Run::new(&binary, &[]);
    // What is found goes to the first folder; the others stay as they are.
    for folder in [&found, &seeds, &kept] {
        run = run.argument(folder.display().to_string());
    }
    run = run
        .argument(format!("-artifact_prefix={}/", artifacts.display()))
        .argument(format!("-max_total_time={}", options.seconds))
        .argument(format!("-max_len={length_max}"))
        .argument(format!("-timeout={INPUT_S}"))
        .argument(format!("-rss_limit_mb={MEMORY_MIB}"))
        .argument("-print_final_stats=1");
    if let Some(executions) = options.executions {
        run = run.argument(format!("-runs={executions}"));
    }
    if let Some(seed) = options.seed {
        run = run.argument(format!("-seed={seed}"));
    }
    let started = Instant::now();
    let passed = run.log_to(&log)?;
    let took = started.elapsed();
    let text = fs::read(&log).map_err(unmet(&log))?;
    let text = String::from_utf8_lossy(&text);
    let fuzzed = read(name, &text, passed, took, &log);
    println!(
        "{name}: {} executions in {:.0} s{}",
        grouped(fuzzed.executions),
        took.as_secs_f64(),
        if passed { "" } else { ", FINDING" }
    );
    if passed && fuzzed.executions == 0 {
        return Err(Failure::Output {
            line: run.line(),
            problem: format!("it does not say what it did; see {}", log.display()),
        });
    }
    Ok(fuzzed)
}

/// What libFuzzer says of a run.
fn read(name: &'static str, text: &str, passed: bool, took: Duration, log: &Path) -> Fuzzed {
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let last = |prefix: &str| {
        text.lines()
            .rev()
            .find_map(|line| line.strip_prefix(prefix))
    };
    let corpus = text.lines().rev().find_map(|line| {
        let (_, corpus) = line.split_once(" corp: ")?;
        number(corpus.split('/').next()?)
    });
    let finding = (!passed).then(|| Finding {
        told: panic_of(text),
        artifact: last("artifact_prefix=")
            .and_then(|line| line.rsplit_once("Test unit written to "))
            .map(|(_, path)| PathBuf::from(path)),
        log: Some(log.to_owned()),
    });
    Fuzzed {
        name,
        executions: last("stat::number_of_executed_units:")
            .and_then(number)
            .unwrap_or(0),
        corpus: corpus.unwrap_or(0),
        took,
        finding,
    }
}

/// What a panic said, or else what libFuzzer did.
fn panic_of(text: &str) -> String {
    let from_panic: Vec<&str> = text
        .lines()
        .skip_while(|line| !line.contains("panicked at "))
        .take_while(|line| {
            let behind = ["note: ", "==", "stack backtrace:"];
            !behind.iter().any(|start| line.starts_with(start))
        })
        .take(6)
        .collect();
    if !from_panic.is_empty() {
        return from_panic.join("\n");
    }
    let error = text.lines().find(|line| line.contains("ERROR: "));
    error.unwrap_or("the fuzzer failed").to_owned()
}

/// A finding as it is told, with the command that shows it again.
fn told(name: &str, finding: &Finding) -> String {
    let mut text = format!("FINDING of {name}\n{}\n", finding.told);
    match (&finding.artifact, &finding.log) {
        (Some(artifact), _) => {
            let nightly = if tools::has_nightly() {
                "+nightly "
            } else {
                ""
            };
            // As little is built as its target needs.
            let features = match WITH_KAFKA.contains(&name) {
                true => "",
                false => " --no-default-features",
            };
            text += &format!("  INPUT: {}\n", artifact.display());
            // What is printed outlives the machine that found it.
            if let Ok(bytes) = fs::read(artifact) {
                text += &format!("  BYTES: {}\n", escaped(&bytes));
            }
            text += &format!(
                "  REPLAY: cargo {nightly}fuzz run -s none{features} --target-dir {} {name} {}",
                target().join("fuzz").display(),
                artifact.display()
            );
        }
        (None, Some(log)) => text += &format!("  LOG: {}", log.display()),
        (None, None) => {}
    }
    text
}

/// Bytes as `printf` takes them.
fn escaped(bytes: &[u8]) -> String {
    let escaped = |byte: &u8| match byte {
        b' '..=b'~' if !b"\\%'\"".contains(byte) => char::from(*byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    bytes.iter().map(escaped).collect()
}

/// Replaces what is kept of a target by the smallest part of all there is that reaches as much.
fn keep(binaries: &Path, name: &'static str, length_max: u32) -> Result<(), Failure> {
    let [found, seeds, kept, _] = folders(name);
    let fresh = found.with_extension("kept");
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(unmet(&fresh))?;
    }
    fs::create_dir_all(&fresh).map_err(unmet(&fresh))?;
    let binary = binaries.join(name).display().to_string();
    let mut run = Run::new(&binary, &["-set_cover_merge=1"])
        .argument(format!("-max_len={length_max}"))
        .argument(format!("-rss_limit_mb={MEMORY_MIB}"));
    for folder in [&fresh, &found, &kept, &seeds] {
        run = run.argument(folder.display().to_string());
    }
    let log = found.with_extension("kept.log");
    if !run.log_to(&log)? {
        return Err(Failure::Output {
            line: run.line(),
            problem: format!("it failed; see {}", log.display()),
        });
    }
    fs::remove_dir_all(&kept).map_err(unmet(&kept))?;
    fs::create_dir_all(&kept).map_err(unmet(&kept))?;
    for file in fs::read_dir(&fresh).map_err(unmet(&fresh))? {
        let file = file.map_err(unmet(&fresh))?;
        // The seeds are there as they are.
        let bytes = fs::read(file.path()).map_err(unmet(&file.path()))?;
        if !is_among(&seeds, &bytes)? {
            let to = kept.join(file.file_name());
            fs::write(&to, bytes).map_err(unmet(&to))?;
        }
    }
    Ok(())
}

fn is_among(folder: &Path, bytes: &[u8]) -> Result<bool, Failure> {
    for file in fs::read_dir(folder).map_err(unmet(folder))? {
        let path = file.map_err(unmet(folder))?.path();
        if fs::read(&path).map_err(unmet(&path))? == bytes {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The figures as a table of a page.
fn page(command: &str, fuzzed: &[Fuzzed]) -> String {
    let mut page =
        format!("`{command}`:\n\n| Target | Executions | A second | Corpus | Findings |\n");
    page += "|---|---:|---:|---:|---:|\n";
    for Fuzzed {
        name,
        executions,
        corpus,
        took,
        finding,
    } in fuzzed
    {
        let a_second = *executions as f64 / took.as_secs_f64().max(f64::EPSILON);
        page += &format!(
            "| `{name}` | {} | {} | {} | {} |\n",
            grouped(*executions),
            grouped(a_second as u64),
            grouped(*corpus),
            u8::from(finding.is_some())
        );
    }
    let executions = fuzzed.iter().map(|fuzzed| fuzzed.executions).sum();
    let findings = fuzzed
        .iter()
        .filter(|fuzzed| fuzzed.finding.is_some())
        .count();
    page += &format!("| **all** | {} | | | {findings} |\n", grouped(executions));
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_target_has_its_binary_and_its_seeds() {
        let known: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
        let named = |folder: &str| -> BTreeSet<String> {
            let files = fs::read_dir(root().join("fuzz").join(folder)).unwrap();
            files
                .map(|file| {
                    let path = file.unwrap().path();
                    path.file_stem().unwrap().to_str().unwrap().to_owned()
                })
                .collect()
        };
        assert_eq!(named("fuzz_targets"), known);
        assert_eq!(named("seeds"), known);
        assert_eq!(named("corpus"), known);
    }

    /// What the gate builds is what it fuzzes.
    #[test]
    fn the_binaries_with_librdkafka_are_those_of_the_feature() {
        let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
        for (name, _) in TARGETS {
            let binary = format!("path = \"fuzz_targets/{name}.rs\"\n");
            let (_, rest) = manifest.split_once(&binary).unwrap();
            let has_feature = rest.starts_with("required-features = [\"kafka\"]\n");
            assert_eq!(has_feature, WITH_KAFKA.contains(&name), "{name}");
        }
        let gate = Options::of_gate().target;
        assert_eq!(gate.len() + WITH_KAFKA.len(), TARGETS.len());
    }

    #[test]
    fn no_seed_is_longer_than_what_is_tried() {
        for (name, length_max) in TARGETS {
            let [_, seeds, kept, _] = folders(name);
            for folder in [seeds, kept] {
                for file in fs::read_dir(folder).unwrap() {
                    let file = file.unwrap();
                    let length = file.metadata().unwrap().len();
                    assert!(length <= length_max.into(), "{}", file.path().display());
                }
            }
        }
    }

    /// A target that could not be read ended the whole run, and what was found of the others was not told.
    #[test]
    fn a_target_that_cannot_be_fuzzed_is_told_like_what_is_found_of_others() {
        let failure = Failure::Unmet("there is no such binary".to_owned());
        let fuzzed = Fuzzed::failed("clock", &failure);
        let told = told(fuzzed.name, &fuzzed.finding.unwrap());
        assert!(told.starts_with("FINDING of clock\n"), "{told}");
        assert!(told.contains(&failure.to_string()));
    }

    const PASSED: &str = "#2\tINITED cov: 10 ft: 11 corp: 1/1b exec/s: 0 rss: 30Mb\n\
        #1048576\tpulse  cov: 62 ft: 71 corp: 21/431b lim: 512 exec/s: 524288 rss: 30Mb\n\
        #1500000\tDONE   cov: 62 ft: 72 corp: 22/440b lim: 512 exec/s: 500000 rss: 30Mb\n\
        Done 1500000 runs in 3 second(s)\n\
        stat::number_of_executed_units: 1500000\n\
        stat::average_exec_per_sec:     500000\n";

    const FOUND: &str = "#2\tINITED cov: 10 ft: 11 corp: 7/1b exec/s: 0 rss: 30Mb\n\n\
        thread '<unnamed>' (7) panicked at crates/x/src/y.rs:3:5:\n\
        attempt to add with overflow\n\
        note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n\
        ==7== ERROR: libFuzzer: deadly signal\n\
        artifact_prefix='/x/fuzz/artifacts/clock/'; Test unit written to /x/fuzz/artifacts/clock/crash-da39\n\
        stat::number_of_executed_units: 812\n";

    fn fuzzed(text: &str, passed: bool) -> Fuzzed {
        read(
            "clock",
            text,
            passed,
            Duration::from_secs(3),
            Path::new("clock.log"),
        )
    }

    #[test]
    fn what_a_run_says_becomes_a_line_of_the_table() {
        let page = page("x", &[fuzzed(PASSED, true), fuzzed(FOUND, false)]);
        assert_eq!(
            page,
            "`x`:\n\n| Target | Executions | A second | Corpus | Findings |\n|---|---:|---:|---:|---:|\n\
             | `clock` | 1,500,000 | 500,000 | 22 | 0 |\n\
             | `clock` | 812 | 270 | 7 | 1 |\n\
             | **all** | 1,500,812 | | | 1 |\n"
        );
    }

    #[test]
    fn a_finding_is_told_with_its_input_and_its_command() {
        let finding = fuzzed(FOUND, false).finding.unwrap();
        let told = told("clock", &finding);
        for part in [
            "FINDING of clock",
            "panicked at crates/x/src/y.rs:3:5:\nattempt to add with overflow\n",
            "INPUT: /x/fuzz/artifacts/clock/crash-da39\n",
            "fuzz clock /x/fuzz/artifacts/clock/crash-da39",
        ] {
            assert!(told.contains(part), "{told}");
        }
        assert!(!told.contains("RUST_BACKTRACE"), "{told}");
    }

    #[test]
    fn an_input_is_printed_as_printf_takes_it() {
        assert_eq!(escaped(b"a 1\n\xff\\%'\""), r"a 1\012\377\134\045\047\042");
    }

    #[test]
    fn a_fuzzer_that_fails_without_an_input_is_a_finding_with_its_log() {
        let text = "==7== ERROR: libFuzzer: out-of-memory (used: 600Mb; limit: 512Mb)\n";
        let finding = fuzzed(text, false).finding.unwrap();
        let told = told("clock", &finding);
        assert!(
            told.contains("out-of-memory") && told.ends_with("LOG: clock.log"),
            "{told}"
        );
    }

    #[test]
    fn targets_are_told_in_their_order_whoever_ends_first() {
        let targets = [("a", 1), ("b", 2), ("c", 3)];
        let done = at_once(&targets, 2, |(name, length)| Ok((name, length))).unwrap();
        assert_eq!(done, targets);
        let failed = at_once(&targets, 2, |(name, _)| match name {
            "b" => Err(Failure::Unmet("b".to_owned())),
            _ => Ok(()),
        });
        assert!(matches!(failed, Err(Failure::Unmet(name)) if name == "b"));
    }
}
