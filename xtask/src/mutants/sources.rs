//! What the mutated files said when their mutants were tried. `cargo mutants` leaves out what it has caught by the places and changes alone, whatever
//! stands there now.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use crate::command::Failure;
use crate::page::unmet;

/// The lists in which `cargo mutants` looks for what it need not try again.
const LISTS: [&str; 4] = [
    "caught.txt",
    "previously_caught.txt",
    "timeout.txt",
    "unviable.txt",
];

/// The files of these mutants that have changed since an earlier run in `folder`. They are taken off the lists there, and noted as they are now.
pub fn changed(folder: &Path, names: &[String]) -> Result<Vec<String>, Failure> {
    changed_in(folder, crate::root(), names)
}

fn changed_in(folder: &Path, root: &Path, names: &[String]) -> Result<Vec<String>, Failure> {
    let noted = folder.join("sources.json");
    let before: BTreeMap<String, u64> = match fs::read(&noted) {
        Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => BTreeMap::new(),
    };
    let files: BTreeSet<&str> = names.iter().map(|name| file_of(name)).collect();
    let mut now = BTreeMap::new();
    for file in files {
        let path = root.join(file);
        let mut digest = DefaultHasher::new();
        digest.write(&fs::read(&path).map_err(|error| unmet(&path, &error))?);
        now.insert(file.to_owned(), digest.finish());
    }
    // Of what is not noted, it is not known.
    let changed: Vec<String> = now
        .iter()
        .filter(|(file, digest)| before.get(*file) != Some(digest))
        .map(|(file, _)| file.clone())
        .collect();
    for list in LISTS {
        let path = folder.join("mutants.out").join(list);
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let is_kept = |line: &&str| !changed.iter().any(|file| file_of(line) == file);
        let kept: String = text
            .lines()
            .filter(is_kept)
            .map(|line| format!("{line}\n"))
            .collect();
        fs::write(&path, kept).map_err(|error| unmet(&path, &error))?;
    }
    let text = serde_json::to_string_pretty(&now).map_err(std::io::Error::other);
    text.and_then(|text| fs::write(&noted, text + "\n"))
        .map_err(|error| unmet(&noted, &error))?;
    Ok(changed)
}

/// The file of a mutant that is named `file:line:column: change`.
fn file_of(name: &str) -> &str {
    name.split(':').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change that made a caught mutant survive was not seen without `--fresh`: the mutant had its place and its name as before.
    #[test]
    fn mutants_of_a_file_that_has_changed_are_tried_again() {
        let folder = crate::stages::target().join("mutants-test/sources");
        let out = folder.join("mutants.out");
        fs::create_dir_all(&out).unwrap();
        let _ = fs::remove_file(folder.join("sources.json"));
        let put = |file: &str, text: &str| fs::write(folder.join(file), text).unwrap();
        put("a.rs", "a");
        put("b.rs", "b");
        let names = ["a.rs:1:1: x", "a.rs:2:1: x", "b.rs:1:1: y"].map(str::to_owned);
        let changed = || changed_in(&folder, &folder, &names).unwrap();
        let list = |list: &str| fs::read_to_string(out.join(list)).unwrap();
        let fill = || {
            for list in LISTS {
                fs::write(out.join(list), names.join("\n") + "\n").unwrap();
            }
        };
        fill();
        assert_eq!(changed(), ["a.rs", "b.rs"], "nothing is known of either");
        assert_eq!(list("caught.txt"), "");
        fill();
        assert_eq!(changed(), Vec::<String>::new());
        assert_eq!(list("caught.txt"), names.join("\n") + "\n");
        put("a.rs", "another");
        assert_eq!(changed(), ["a.rs"]);
        for name in LISTS {
            assert_eq!(list(name), "b.rs:1:1: y\n", "{name}");
        }
    }
}
