//! What the fuzzers began with and what they found, replayed: each file of `fuzz/seeds` and `fuzz/corpus` once, on its target.

use std::collections::BTreeSet;
use std::fs;
use std::panic;
use std::path::{Path, PathBuf};

use parsley_fuzz_targets::TARGETS;

/// How many files a target has at least, and all of them together.
const SEEDS_MIN: usize = 6;
const KEPT_MIN: usize = 1;
const FILES_MIN: usize = 3_000;

/// How many bytes all of it may take, so that it stays a part of the repository that nobody minds.
const BYTES_MAX: u64 = 3 << 20;

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let files =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn the_corpus_replays() {
    let mut count = 0;
    let mut failed = Vec::new();
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    for (name, body) in TARGETS {
        for (folder, least) in [("seeds", SEEDS_MIN), ("corpus", KEPT_MIN)] {
            let files = files(&fuzz().join(folder).join(name));
            if files.len() < least {
                failed.push(format!(
                    "{folder}/{name} has {} files, expected {least}",
                    files.len()
                ));
            }
            count += files.len();
            for file in files {
                let bytes = fs::read(&file).unwrap();
                if let Err(panicked) = panic::catch_unwind(|| body(&bytes)) {
                    let text = panicked.downcast_ref::<String>().map(String::as_str);
                    let text = text.or(panicked.downcast_ref::<&str>().copied());
                    failed.push(format!("{name} on {}: {text:?}", file.display()));
                }
            }
        }
    }
    panic::set_hook(hook);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    assert!(count >= FILES_MIN, "{count} files, expected {FILES_MIN}");
}

#[test]
fn the_corpus_is_of_the_targets_and_small() {
    let known: BTreeSet<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
    assert_eq!(known.len(), TARGETS.len());
    let mut bytes = 0;
    for folder in ["seeds", "corpus"] {
        let folders = files(&fuzz().join(folder));
        let named: BTreeSet<&str> = folders
            .iter()
            .map(|folder| folder.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(named, known, "{folder}");
        for file in folders.iter().flat_map(|folder| files(folder)) {
            bytes += fs::metadata(file).unwrap().len();
        }
    }
    assert!(bytes <= BYTES_MAX, "{bytes} bytes");
}

/// The fuzzer's binaries are built apart from everything else: one that is missing, or that runs another target, shows here.
#[test]
fn every_target_has_a_binary_that_runs_it() {
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
    for (name, _) in TARGETS {
        let text =
            fs::read_to_string(fuzz().join("fuzz_targets").join(format!("{name}.rs"))).unwrap();
        assert!(
            text.contains(&format!("parsley_fuzz_targets::{name}(bytes)")),
            "{text}"
        );
        let binary = format!("[[bin]]\nname = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n");
        assert!(manifest.contains(&binary), "{name}");
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
