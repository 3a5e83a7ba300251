//! An oracle that shared code with what it judges would share its mistakes.

use std::process::Command;

#[test]
fn the_crate_depends_on_no_crate_of_the_workspace() {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let names: Vec<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    assert!(
        names.contains(&"parsley-core"),
        "the workspace's own packages are listed: {names:?}"
    );

    let oracle = packages
        .iter()
        .find(|package| package["name"] == "parsley-oracle")
        .expect("it is one of them");
    let dependencies = oracle["dependencies"]
        .as_array()
        .expect("a list of dependencies");
    assert!(!dependencies.is_empty(), "the list is read");
    for dependency in dependencies {
        let name = dependency["name"]
            .as_str()
            .expect("a dependency has a name");
        assert!(!names.contains(&name), "{name} is of this workspace");
        assert!(
            dependency
                .get("path")
                .is_none_or(serde_json::Value::is_null),
            "{name} is a local crate"
        );
    }
    let normal: Vec<&serde_json::Value> = dependencies
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| &dependency["name"])
        .collect();
    assert_eq!(normal, ["thiserror"]);
}
