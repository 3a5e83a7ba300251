//! The naive model gives the expected output of every node script.

mod script;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use parsley_model::{self as model, Clock};
use script::Script;

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

fn lines(path: &Path) -> Vec<Value> {
    let text =
        fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines = text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}")))
        .collect()
}

/// `message` is for people and is not compared.
fn without_message(mut line: Value) -> Value {
    if let Some(refused) = line.get_mut("refused").and_then(Value::as_object_mut) {
        refused.remove("message");
    }
    line
}

#[test]
fn the_model_gives_the_expected_output_of_every_script() {
    let mut scripts: Vec<PathBuf> = fs::read_dir(testdata().join("node"))
        .expect("scripts")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    scripts.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    scripts.sort();
    assert!(scripts.len() >= 54, "only {} scripts found", scripts.len());
    let mut failed = Vec::new();
    for path in scripts {
        let mut script = Script::default();
        let printed: Vec<Value> = lines(&path)
            .iter()
            .flat_map(|line| script.line(line))
            .collect();
        let expected: Vec<Value> = lines(&path.with_extension("expected"))
            .into_iter()
            .map(without_message)
            .collect();
        if printed != expected {
            let show = |lines: &[Value]| {
                lines
                    .iter()
                    .map(|line| format!("  {line}\n"))
                    .collect::<String>()
            };
            failed.push(format!(
                "{}\nexpected\n{}printed\n{}",
                path.display(),
                show(&expected),
                show(&printed)
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn the_model_reads_and_writes_the_golden_bytes() {
    let vectors = &lines_of_one(&testdata().join("wire.json"));
    for vector in vectors["clocks"].as_array().expect("clocks") {
        let bytes = hex::decode(vector["hex"].as_str().expect("hex")).expect("hex");
        let clock =
            Clock::decode(&bytes).unwrap_or_else(|| panic!("{} does not decode", vector["name"]));
        let entries = |section: &str| {
            vector["clock"][section]
                .as_array()
                .expect("a section")
                .clone()
        };
        assert_eq!(
            clock.offsets.len(),
            entries("offsets").len(),
            "{}",
            vector["name"]
        );
        for entry in entries("offsets") {
            let on = channel_of(&entry);
            assert_eq!(
                clock.offsets.get(&on).copied(),
                entry["offset"].as_i64(),
                "{}",
                vector["name"]
            );
        }
        assert_eq!(
            clock.sequences.len(),
            entries("sequences").len(),
            "{}",
            vector["name"]
        );
        for entry in entries("sequences") {
            let sender =
                model::parse_uuid(entry["sender"].as_str().expect("a sender")).expect("a UUID");
            let claimed = clock.sequences.get(&(channel_of(&entry), sender)).copied();
            assert_eq!(claimed, entry["sequence"].as_i64(), "{}", vector["name"]);
        }
        assert_eq!(clock.encode(), bytes, "{}", vector["name"]);
    }
    for vector in vectors["malformed"].as_array().expect("malformed") {
        let bytes = hex::decode(vector["hex"].as_str().expect("hex")).expect("hex");
        assert_eq!(Clock::decode(&bytes), None, "{}", vector["why"]);
    }
    for vector in vectors["sender_ids"].as_array().expect("sender_ids") {
        let text = |name: &str| vector[name].as_str().expect("a text").to_owned();
        let name = format!(
            "{}/{}/{}",
            text("application"),
            text("stage"),
            vector["partition"]
        );
        assert_eq!(model::uuid_text(model::named(&name)), text("uuid"));
    }
    for (vector, record) in vectors["held"]
        .as_array()
        .expect("held")
        .iter()
        .zip(held_records())
    {
        assert_eq!(
            hex::encode(model::envelope(&record)),
            vector["hex"],
            "{}",
            vector["name"]
        );
    }
}

fn lines_of_one(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).expect("vectors")).expect("JSON")
}

fn channel_of(entry: &Value) -> model::Channel {
    let topic = model::parse_uuid(entry["topic"].as_str().expect("a topic")).expect("a UUID");
    let partition = entry["partition"].as_i64().expect("a partition");
    model::channel(topic, i32::try_from(partition).expect("a partition"))
}

fn held_records() -> [model::Record; 2] {
    let topic = model::parse_uuid("00112233-4455-6677-8899-aabbccddeeff").expect("a UUID");
    let sender = model::parse_uuid("6ba7b810-9dad-11d1-80b4-00c04fd430c8").expect("a UUID");
    let mut clock = Clock::default();
    clock.claim_offset(model::channel(topic, 7), 42);
    let untagged = model::Record {
        offset: 5,
        timestamp: 1000,
        tag: None,
        clock: Clock::default(),
        key: None,
        value: Some(Vec::new()),
        headers: Vec::new(),
    };
    let tagged = model::Record {
        offset: 6,
        timestamp: 1001,
        tag: Some((sender, 3)),
        clock,
        key: Some(b"k".to_vec()),
        value: Some(b"v".to_vec()),
        headers: Vec::new(),
    };
    [untagged, tagged]
}
