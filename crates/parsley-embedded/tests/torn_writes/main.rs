//! Directories whose files were cut or have a bit flipped: each opens as the last step left it, and the application goes on from there to the
//! right end; or it is refused with a named error, and as good as before once the damage is undone. Nothing panics, hangs, or takes memory
//! without bound.
//!
//! A release build does 1,000 cuts and 1,000 flips of the database at random places, and every flip of its header:
//! `cargo test --release -p parsley-embedded --test torn_writes -- --nocapture`.
#![cfg(target_os = "linux")]

mod application;
mod damage;
mod observed;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use application::{Deed, Refused, World, assert_done, story};
use damage::Damage;
use observed::{Digest, Of, digest};
use parsley_embedded::{
    HostError, Log, LogConfig, OpenError, ReadError, SendError, StepError, StorageError, TaskEnd,
    TopicError,
};
use support::dir::fast_dir;
use support::numbers::Numbers;
use support::process::{self, memory, playing_by, say};

const DATABASE: &str = "log.redb";
/// The part of the database that says where everything else is.
const HEADER_BYTES: u64 = 320;
/// How much address space the process gets, in KiB: a length that is believed too soon shows as an allocation that fails.
const ADDRESS_SPACE_KIB: u64 = 1 << 20;
/// A case takes some 20 ms.
const CASE_MAX: Duration = Duration::from_secs(120);

/// Which of the header's bits are flipped: every so many-th.
const HEADER_BITS_STEP: usize = if cfg!(debug_assertions) { 251 } else { 1 };
/// Which bits of the small files are flipped.
const SMALL_BITS_STEP: usize = if cfg!(debug_assertions) { 31 } else { 1 };

/// How many random cuts there are, and how many random flips.
fn random() -> usize {
    let usual = if cfg!(debug_assertions) { 10 } else { 1000 };
    std::env::var("PARSLEY_TORN_WRITES").map_or(usual, |number| number.parse().unwrap())
}

/// A directory as it was left, with all its files.
struct Image {
    files: BTreeMap<String, Vec<u8>>,
    /// How many of the deeds had been done.
    done: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Closed,
    /// As a process leaves it that is killed.
    Killed,
}

impl Image {
    fn of(dir: &Path, done: usize, kind: Kind) -> Self {
        let file = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read(entry.path()).unwrap())
        };
        let files = fs::read_dir(dir).unwrap().map(|entry| file(entry.unwrap()));
        Self {
            files: files.collect(),
            done,
            kind,
        }
    }

    fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for (name, bytes) in &self.files {
            fs::write(dir.join(name), bytes).unwrap();
        }
    }
}

/// What the application left behind each deed.
struct History {
    deeds: Vec<Deed>,
    /// How many deeds had been done when a log looked so.
    seen: BTreeMap<Digest, usize>,
    images: Vec<Image>,
    held_max: u64,
}

/// The application runs to its end, and every step of the way is written down.
fn record(parent: &Path) -> History {
    let deeds = story();
    // The first one comes while a transaction is open.
    let mut moments = [deeds.len() / 3, deeds.len() * 2 / 3, deeds.len()]
        .into_iter()
        .peekable();
    let (dir, copy) = (parent.join("story"), parent.join("copy"));
    let mut history = History {
        seen: BTreeMap::new(),
        images: Vec::new(),
        held_max: 0,
        deeds,
    };
    let mut world = World::open(&dir).unwrap();
    for done in 0..=history.deeds.len() {
        if let Some(last) = done.checked_sub(1) {
            world.do_it(&history.deeds[last]).unwrap();
        }
        history.held_max = history.held_max.max(world.held());
        let image = Image::of(&dir, done, Kind::Killed);
        image.write(&copy);
        let reopened = open(&copy).unwrap();
        // While a transaction is open, readers do not get to see what is committed behind it.
        if !world.has_open_transactions() {
            let committed = |log| digest(log, Of::WhatIsCommitted).unwrap();
            assert_eq!(
                committed(&reopened),
                committed(world.host.log()),
                "once {done} deeds are done"
            );
        }
        // Not every deed is durable when it is done. The last one counts: the process has done it.
        let everything = digest(&reopened, Of::Everything).unwrap();
        history.seen.insert(everything, done);
        drop(reopened);
        fs::remove_dir_all(&copy).unwrap();
        let is_moment = !history.images.is_empty() || world.has_open_transactions();
        if is_moment && moments.next_if(|moment| done >= *moment).is_some() {
            history.images.push(image);
            drop(world_behind(&history.deeds[..done], &copy));
            history.images.push(Image::of(&copy, done, Kind::Closed));
            fs::remove_dir_all(&copy).unwrap();
        }
    }
    assert!(moments.next().is_none(), "no transaction was open");
    assert!(history.held_max > 0, "nothing was ever held");
    world.finish(&[]).unwrap();
    assert_done(&world);
    history
}

fn open(dir: &Path) -> Result<Log, OpenError> {
    Log::open(
        dir,
        LogConfig::default().cache_bytes(application::CACHE_BYTES),
    )
}

/// The application behind some deeds, in a new directory.
fn world_behind(deeds: &[Deed], dir: &Path) -> World {
    let mut world = World::open(dir).unwrap();
    for deed in deeds {
        world.do_it(deed).unwrap();
    }
    world
}

impl History {
    /// What a log looks like in the end when it was left behind so many deeds and gone on with.
    fn end_from(&self, done: usize, dir: &Path) -> Digest {
        drop(world_behind(&self.deeds[..done], dir));
        let mut world = World::open(dir).unwrap();
        world.finish(&self.deeds[done..]).unwrap();
        assert_done(&world);
        let end = digest(world.host.log(), Of::Everything).unwrap();
        drop(world);
        fs::remove_dir_all(dir).unwrap();
        end
    }
}

/// A file of an image, and what befalls it.
struct Case {
    image: usize,
    file: &'static str,
    damage: Damage,
    /// In which row of the table it counts.
    row: &'static str,
}

/// What a damaged directory came to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// It opened as it was left, and the application came to its end.
    AsLeft,
    /// It was refused with this error.
    Refused(&'static str),
    /// It opened, and could not be read then.
    Unread(&'static str),
    /// Anything else.
    Wrong(String),
}

fn cases(images: &[Image]) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut numbers = Numbers::of_seed(19);
    let mut flip = |length: u64| {
        let bit = numbers.below(8 * length);
        Damage::Flip {
            byte: bit / 8,
            bit: (bit % 8) as u8,
        }
    };
    let length = |image: usize, file| images[image].files[file].len() as u64;
    for number in 0..random() {
        let image = number % images.len();
        let damage = flip(length(image, DATABASE));
        cases.push(Case {
            image,
            file: DATABASE,
            damage,
            row: "a bit anywhere in log.redb",
        });
        // Any number does: a cut is at no bit.
        let Damage::Flip { byte: at, .. } = flip(length(image, DATABASE)) else {
            continue;
        };
        cases.push(Case {
            image,
            file: DATABASE,
            damage: Damage::Cut { at },
            row: "log.redb cut anywhere",
        });
    }
    for (image, _) in images.iter().enumerate() {
        for bit in (image..8 * HEADER_BYTES as usize).step_by(HEADER_BITS_STEP * images.len()) {
            cases.push(Case {
                image,
                file: DATABASE,
                damage: Damage::Flip {
                    byte: bit as u64 / 8,
                    bit: (bit % 8) as u8,
                },
                row: "a bit of log.redb's header",
            });
        }
    }
    for file in ["FORMAT", "LOCK"] {
        let length = length(0, file);
        let cuts = (0..length).map(|at| Damage::Cut { at });
        let flips = (0..8 * length)
            .step_by(SMALL_BITS_STEP)
            .map(|bit| Damage::Flip {
                byte: bit / 8,
                bit: (bit % 8) as u8,
            });
        cases.extend(cuts.chain(flips).map(|damage| Case {
            image: 0,
            file,
            damage,
            row: file,
        }));
    }
    cases
}

/// What is known once it has been worked out.
struct Trial {
    history: History,
    parent: PathBuf,
    ends: Mutex<BTreeMap<usize, Digest>>,
}

impl Trial {
    fn end_from(&self, done: usize) -> Digest {
        let mut ends = self.ends.lock().unwrap();
        *ends
            .entry(done)
            .or_insert_with(|| self.history.end_from(done, &self.parent.join("end")))
    }

    fn judge(&self, case: &Case, dir: &Path) -> Outcome {
        let image = &self.history.images[case.image];
        let mut files = image.files.clone();
        case.damage.apply(files.get_mut(case.file).unwrap());
        let damaged = Image {
            files,
            done: image.done,
            kind: image.kind,
        };
        damaged.write(dir);
        let log = match open(dir) {
            Ok(log) => log,
            Err(error) => {
                return match self.is_mended(case, image, dir) {
                    true => Outcome::Refused(name_of_open(&error)),
                    false => Outcome::Wrong(format!("refused, and worse for it: {error}")),
                };
            }
        };
        let found = match digest(&log, Of::Everything) {
            Ok(found) => found,
            Err(error) => return name_of_read(error.into()),
        };
        let Some(&done) = self.history.seen.get(&found) else {
            return Outcome::Wrong("opened as it never was".to_owned());
        };
        drop(log);
        let went_on = World::open(dir).and_then(|mut world| {
            world.finish(&self.history.deeds[done..])?;
            Ok((digest(world.host.log(), Of::Everything)?, world))
        });
        let (end, world) = match went_on {
            Ok(went_on) => went_on,
            Err(refused) => return name_of_read(refused),
        };
        assert_done(&world);
        if end != self.end_from(done) {
            return Outcome::Wrong(format!("went on from deed {done} to another end"));
        }
        match image.done - done {
            0 => Outcome::AsLeft,
            // It was acknowledged, and nobody is told (decision E12).
            lost => Outcome::Wrong(format!("{lost} deeds are lost without a word")),
        }
    }

    /// Whether what was refused is as good as before once the damage is undone.
    fn is_mended(&self, case: &Case, image: &Image, dir: &Path) -> bool {
        let path = dir.join(case.file);
        let mut bytes = fs::read(&path).unwrap();
        case.damage.undo(&mut bytes, &image.files[case.file]);
        fs::write(&path, bytes).unwrap();
        let found = open(dir).map(|log| digest(&log, Of::Everything).unwrap());
        found.is_ok_and(|found| self.history.seen.get(&found) == Some(&image.done))
    }

    fn run(&self, case: &Case, dir: &Path) -> Outcome {
        let judged = catch_unwind(AssertUnwindSafe(|| self.judge(case, dir)));
        fs::remove_dir_all(dir).unwrap();
        judged.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            Outcome::Wrong(format!("a panic: {}", text.unwrap_or_default()))
        })
    }
}

fn name_of_open(error: &OpenError) -> &'static str {
    match error {
        OpenError::InUse { .. } => "InUse",
        OpenError::Foreign { .. } => "Foreign",
        OpenError::Format { .. } => "Format",
        OpenError::Io { .. } => "Io",
        OpenError::Storage(error) => name_of_storage(error),
        _ => "other",
    }
}

fn name_of_storage(error: &StorageError) -> &'static str {
    match error {
        StorageError::Full { .. } => "Full",
        StorageError::Io { .. } => "Io",
        StorageError::Corrupt { .. } => "Corrupt",
        StorageError::InDoubt { .. } => "InDoubt",
        _ => "other",
    }
}

/// An error of something that was opened: named, if it is one of the directory.
fn name_of_read(refused: Refused) -> Outcome {
    match refused {
        Refused::Open(HostError::Open(error)) => Outcome::Unread(name_of_open(&error)),
        Refused::Commit(error)
        | Refused::Topic(TopicError::Storage(error))
        | Refused::Send(SendError::Storage(error))
        | Refused::Read(ReadError::Storage(error)) => Outcome::Unread(name_of_storage(&error)),
        Refused::Read(ReadError::State { .. }) => Outcome::Unread("state"),
        Refused::Step(StepError::Ended { end, .. }) => match end {
            TaskEnd::Storage(error) => Outcome::Unread(name_of_storage(&error)),
            TaskEnd::Refused(refusal) => Outcome::Unread(refusal.code.as_str()),
            end => Outcome::Wrong(end.to_string()),
        },
        refused => Outcome::Wrong(refused.to_string()),
    }
}

/// Runs all cases, two at a time. Ends the process when one takes too long.
fn run_all(trial: &Trial, cases: &[Case]) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; cases.len()]);
    let worker = |number: usize| {
        let dir = trial.parent.join(format!("case-{number}"));
        let (begin, watched) = mpsc::channel();
        std::thread::spawn(move || watch(&watched));
        loop {
            let at = next.fetch_add(1, Ordering::SeqCst);
            let Some(case) = cases.get(at) else {
                return;
            };
            begin
                .send(format!("{}, {}", case.row, case.damage))
                .unwrap();
            let outcome = trial.run(case, &dir);
            outcomes.lock().unwrap()[at] = Some(outcome);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || worker(number));
        }
    });
    let outcomes = outcomes.into_inner().unwrap().into_iter();
    outcomes
        .map(|outcome| outcome.expect("it was run"))
        .collect()
}

/// Hears of every case that begins, and ends the process when none does for too long.
fn watch(begun: &mpsc::Receiver<String>) {
    let mut at_hand = String::new();
    loop {
        match begun.recv_timeout(CASE_MAX) {
            Ok(case) => at_hand = case,
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                eprintln!("this does not end: {at_hand}");
                std::process::exit(1);
            }
        }
    }
}

fn all_damages(parent: &Path) {
    let began = Instant::now();
    let history = record(parent);
    let sizes = history
        .images
        .iter()
        .map(|image| image.files[DATABASE].len() >> 10);
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.iter().all(|kib| *kib > 1024), "{sizes:?}");
    say(format!(
        "{} deeds, {} states, up to {} records held; log.redb has {sizes:?} KiB",
        history.deeds.len(),
        history.seen.len(),
        history.held_max,
    ));
    let cases = cases(&history.images);
    let trial = Trial {
        history,
        parent: parent.to_owned(),
        ends: Mutex::default(),
    };
    let outcomes = run_all(&trial, &cases);

    let mut table: BTreeMap<(&str, String), BTreeMap<Outcome, usize>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (case, outcome) in cases.iter().zip(&outcomes) {
        let kind = trial.history.images[case.image].kind;
        let row = table.entry((case.row, format!("{kind:?}").to_lowercase()));
        *row.or_default().entry(outcome.clone()).or_default() += 1;
        if let Outcome::Wrong(why) = outcome {
            wrong.push(format!("image {}, {}: {why}", case.image, case.damage));
        }
    }
    for ((row, kind), outcomes) in &table {
        let all: usize = outcomes.values().sum();
        let each: Vec<_> = outcomes
            .iter()
            .map(|(outcome, count)| format!("{count} {outcome}"))
            .collect();
        say(format!("{all} × {row}, {kind}: {}", each.join(", ")));
    }
    say(format!(
        "{} cases in {:.1} s, at most {} MiB of memory",
        cases.len(),
        began.elapsed().as_secs_f64(),
        memory().peak_kib >> 10
    ));
    assert!(wrong.is_empty(), "{} are wrong: {wrong:#?}", wrong.len());
    // Neither would be worth much without the other.
    let is = |outcome: fn(&Outcome) -> bool| outcomes.iter().filter(|one| outcome(one)).count();
    assert!(is(|outcome| matches!(outcome, Outcome::AsLeft)) > 0);
    assert!(is(|outcome| matches!(outcome, Outcome::Refused("Corrupt"))) > 0);
    assert!(is(|outcome| matches!(outcome, Outcome::Refused("Format"))) > 0);
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsLeft => write!(f, "as it was left"),
            Self::Refused(error) => write!(f, "refused ({error})"),
            Self::Unread(error) => write!(f, "opened, not to be read ({error})"),
            Self::Wrong(_) => write!(f, "WRONG"),
        }
    }
}

#[test]
#[cfg_attr(
    debug_assertions,
    ignore = "takes a release build, which the gate's stage `load` runs"
)]
fn a_damaged_directory_opens_on_a_committed_step_or_is_refused() {
    const NAME: &str = "a_damaged_directory_opens_on_a_committed_step_or_is_refused";
    if let Some((_, dir)) = process::role() {
        return all_damages(Path::new(&dir));
    }
    let parent = fast_dir();
    let mut limited = Command::new("sh");
    limited.args([
        "-c",
        "ulimit -v \"$0\" && exec \"$@\"",
        &ADDRESS_SPACE_KIB.to_string(),
    ]);
    process::run(playing_by(limited, NAME, "damage", parent.path()));
}
