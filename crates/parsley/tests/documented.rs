//! What operators and users are owed in writing: every code has its heading, and no public item is without a description.

use std::fs;
use std::path::{Path, PathBuf};

use parsley::core::{HoldCode, RefusalCode};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The headings of a section of docs/operations.md one level below it, each with the text that follows.
fn entries(section: &str) -> Vec<(String, String)> {
    let page = read(&root().join("docs/operations.md"));
    let (_, rest) = page
        .split_once(&format!("\n## {section}\n"))
        .unwrap_or_else(|| panic!("the page has no section {section}"));
    let body = rest.split("\n## ").next().unwrap_or(rest);
    let entries = body.split("\n### ").skip(1);
    entries
        .map(|entry| {
            let (heading, text) = entry.split_once('\n').unwrap_or((entry, ""));
            (heading.to_owned(), text.trim().to_owned())
        })
        .collect()
}

fn assert_describes(section: &str, codes: &[&str]) {
    let entries = entries(section);
    let headings: Vec<&str> = entries
        .iter()
        .map(|(heading, _)| heading.as_str())
        .collect();
    assert_eq!(headings, codes, "the headings of {section}");
    for (heading, text) in &entries {
        assert!(text.len() > 40, "{heading} says only: {text}");
    }
}

#[test]
fn every_refusal_code_has_its_heading_in_the_order_of_the_guards() {
    assert_describes("Refusals", &RefusalCode::ALL.map(RefusalCode::as_str));
}

#[test]
fn every_hold_code_has_its_heading() {
    assert_describes("Holds", &HoldCode::ALL.map(HoldCode::as_str));
}

/// The gate denies the warnings of `cargo clippy` and `cargo doc`, so an item without a description fails it, as long as the lint is on in every crate.
#[test]
fn the_lint_that_finds_undescribed_items_is_on_everywhere() {
    let manifest = |path: &Path| -> toml::Table {
        let text = read(path);
        text.parse()
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let workspace = manifest(&root().join("Cargo.toml"));
    assert_eq!(
        workspace["workspace"]["lints"]["rust"]["missing_docs"].as_str(),
        Some("warn")
    );
    let mut crates = 0;
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = manifest(&folder.join("Cargo.toml"));
        assert_eq!(
            manifest["lints"]["workspace"].as_bool(),
            Some(true),
            "{}",
            folder.display()
        );
        assert_allows_none(&folder.join("src"));
        crates += 1;
    }
    assert!(crates > 10, "{crates} crates were looked at");
}

fn assert_allows_none(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_allows_none(&path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = read(&path);
            for word in ["allow(missing_docs", "expect(missing_docs"] {
                assert!(!text.contains(word), "{}: {word}", path.display());
            }
        }
    }
}
