//! What would be published: which packages, what they say of themselves, and what is in them (decision B6). Nothing is uploaded.

use serde_json::Value;

use crate::command::{Counts, Failure, Run};

/// What every package has beside its code.
const REQUIRED: [&str; 3] = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// What Cargo adds.
const ADDED: [&str; 4] = [
    ".cargo_vcs_info.json",
    "Cargo.lock",
    "Cargo.toml",
    "Cargo.toml.orig",
];

/// Where code is.
const CODE: [&str; 2] = ["src/", "examples/"];

/// Checks all packages and packs them. With `is_verified` Cargo also builds each from what was packed, and every dependency with it.
pub fn run(counts: &mut Counts, is_verified: bool) -> Result<(), Failure> {
    let metadata = Run::cargo("metadata --locked --no-deps --format-version 1");
    let text = metadata.read()?;
    let value: Value = serde_json::from_str(&text).map_err(|error| Failure::Output {
        line: metadata.line(),
        problem: format!("no JSON: {error}"),
    })?;
    let mut faults = Vec::new();
    let mut names = Vec::new();
    for package in value["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        if is_published(package) {
            names.push(name);
            let listed = Run::cargo("package --list --allow-dirty --package").argument(name);
            faults.extend(metadata_faults(name, package));
            faults.extend(content_faults(name, &listed.read()?));
        }
    }
    if !faults.is_empty() {
        return Err(Failure::Unmet(faults.join("; ")));
    }
    println!("{} packages: {}", names.len(), names.join(", "));
    let verify = if is_verified { "" } else { " --no-verify" };
    // What is not committed yet may be packed: nothing leaves this machine.
    let line = format!("publish --workspace --dry-run --locked --allow-dirty{verify}");
    Run::cargo(&line).show(counts)
}

fn is_published(package: &Value) -> bool {
    // An empty list of registries is `publish = false`.
    package["publish"]
        .as_array()
        .is_none_or(|to| !to.is_empty())
}

/// What a package does not say of itself.
fn metadata_faults(name: &str, package: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    for field in ["description", "license", "readme", "rust_version"] {
        if package[field].as_str().is_none_or(str::is_empty) {
            faults.push(format!("{name} has no {field}"));
        }
    }
    for field in ["keywords", "categories"] {
        // As many as crates.io takes.
        let count = package[field].as_array().map_or(0, Vec::len);
        if !(1..=5).contains(&count) {
            faults.push(format!("{name} has {count} {field}"));
        }
    }
    faults
}

/// What a package lacks, and what strays into it.
fn content_faults(name: &str, listed: &str) -> Vec<String> {
    let files: Vec<&str> = listed.lines().collect();
    let lacking = REQUIRED.iter().filter(|file| !files.contains(file));
    let mut faults: Vec<String> = lacking
        .map(|file| format!("the package {name} lacks {file}"))
        .collect();
    let is_meant = |file: &str| {
        REQUIRED.contains(&file)
            || ADDED.contains(&file)
            || CODE.iter().any(|folder| file.starts_with(folder))
    };
    let stray = files.iter().filter(|file| !is_meant(file));
    faults.extend(stray.map(|file| format!("{file} is in the package {name}")));
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_published_is_told_by_its_manifest() {
        assert!(is_published(&json!({"publish": null})));
        assert!(is_published(&json!({"publish": ["crates-io"]})));
        assert!(!is_published(&json!({"publish": []})));
    }

    #[test]
    fn a_package_says_what_it_is() {
        let whole = json!({
            "description": "x", "license": "MIT", "readme": "README.md", "rust_version": "1.95",
            "keywords": ["a"], "categories": ["b"],
        });
        assert_eq!(metadata_faults("p", &whole), Vec::<String>::new());
        let poor =
            json!({"description": "", "license": null, "keywords": ["a", "b", "c", "d", "e", "f"]});
        assert_eq!(
            metadata_faults("p", &poor),
            [
                "p has no description",
                "p has no license",
                "p has no readme",
                "p has no rust_version",
                "p has 6 keywords",
                "p has 0 categories",
            ]
        );
    }

    #[test]
    fn what_is_missing_or_stray_in_a_package_is_named() {
        let whole = "Cargo.toml\nLICENSE-APACHE\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\nexamples/a.rs";
        assert_eq!(content_faults("p", whole), Vec::<String>::new());
        let other = "Cargo.toml\nLICENSE-MIT\nREADME.md\nsrc/lib.rs\ntests/a.rs\nnotes.txt";
        assert_eq!(
            content_faults("p", other),
            [
                "the package p lacks LICENSE-APACHE",
                "tests/a.rs is in the package p",
                "notes.txt is in the package p",
            ]
        );
    }
}
