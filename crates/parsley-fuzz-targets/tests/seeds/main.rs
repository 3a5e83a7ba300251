//! What the fuzzers begin with: golden bytes, node scripts, and what the encoders write. `fuzz/seeds` is held equal to it.
//!
//! With `PARSLEY_WRITE_SEEDS=1` the folders are written instead.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use parsley_fuzz_targets::TARGETS;

mod binary;
mod golden;
mod text;

/// Seeds by name.
type Seeds = BTreeMap<String, Vec<u8>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Names seeds by their number.
fn numbered<B: AsRef<[u8]>>(prefix: &str, seeds: impl IntoIterator<Item = B>) -> Seeds {
    let seeds = seeds.into_iter().enumerate();
    seeds
        .map(|(index, seed)| (format!("{prefix}-{index:02}"), seed.as_ref().to_vec()))
        .collect()
}

/// Bytes behind their length in two bytes, as the targets take parts.
fn part(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

fn seeds(name: &str) -> Seeds {
    match name {
        "clock" => golden::clock(),
        "clock_join" => golden::clock_join(),
        "headers" => golden::headers(),
        "held_record" => golden::held_record(),
        "state_key" => golden::state_key(),
        "state_value" => golden::state_value(),
        "state" => golden::state(),
        "token" => golden::token(),
        "account_record" => text::account_record(),
        "codec" => binary::codec(),
        "log_chunk" => binary::log_chunk(),
        "log_description" => binary::log_description(),
        "log_format" => text::log_format(),
        "kafka_config" => text::kafka_config(),
        "kafka_description" => text::kafka_description(),
        "kafka_checkpoint" => binary::kafka_checkpoint(),
        "node_script" => text::node_script(),
        "dumped_record" => binary::dumped_record(),
        "judged_lines" => text::judged_lines(),
        "clock_line" => golden::clock_line(),
        "demo_command" => text::demo_command(),
        "argument" => text::argument(),
        "lines" => text::lines(),
        _ => panic!("no seeds of {name}"),
    }
}

#[test]
fn the_seeds_are_those_of_their_sources() {
    let is_written = std::env::var_os("PARSLEY_WRITE_SEEDS").is_some();
    for (name, _) in TARGETS {
        let folder = root().join("fuzz/seeds").join(name);
        let expected = seeds(name);
        if is_written {
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder).unwrap();
            for (seed, bytes) in &expected {
                fs::write(folder.join(seed), bytes).unwrap();
            }
        }
        let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap());
        let kept: Seeds = files
            .map(|file| {
                let name = file.file_name().into_string().unwrap();
                (name, fs::read(file.path()).unwrap())
            })
            .collect();
        assert!(
            kept == expected,
            "fuzz/seeds/{name} are others: PARSLEY_WRITE_SEEDS=1 writes them"
        );
    }
}
