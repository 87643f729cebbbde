//! The house: which crate may depend on which, and what stands at the top level.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--locked",
            "--offline",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// Our crates, each with those of ours that it builds upon (dev-dependencies apart).
fn arrows(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let packages = metadata["packages"].as_array().expect("packages");
    let ours = |name: &str| packages.iter().any(|p| p["name"] == name);
    let arrow = |package: &Value| {
        let dependencies = package["dependencies"].as_array().expect("dependencies").iter();
        let mut names: Vec<String> = dependencies
            .filter(|d| d["kind"].is_null())
            .filter_map(|d| d["name"].as_str())
            .filter(|name| ours(name))
            .map(String::from)
            .collect();
        names.sort();
        (package["name"].as_str().expect("a name").to_owned(), names)
    };
    packages.iter().map(arrow).collect()
}

#[test]
fn arrows_run_one_way() {
    let arrows = arrows(&metadata());
    let may = |name: &str| -> &[&str] {
        match name {
            "undertone-protocol" => &[],
            "undertone-accountant" => &["undertone-protocol"],
            "undertone" => &["undertone-accountant", "undertone-protocol"],
            "undertone-tests" => &["undertone", "undertone-accountant", "undertone-protocol"],
            other => panic!("a crate that the layout does not know: {other}"),
        }
    };
    assert_eq!(arrows.len(), 4);
    for (name, upon) in &arrows {
        for dependency in upon {
            assert!(
                may(name).contains(&dependency.as_str()),
                "{name} may not depend on {dependency}"
            );
        }
    }
}

#[test]
fn the_pure_crates_have_no_transport_and_no_runtime() {
    let metadata = metadata();
    for package in metadata["packages"].as_array().expect("packages") {
        let pure = ["undertone-protocol", "undertone-accountant"]
            .iter()
            .any(|name| package["name"] == *name);
        if pure {
            for dependency in package["dependencies"].as_array().expect("dependencies") {
                let name = dependency["name"].as_str().expect("a name");
                assert!(
                    !["tokio", "libp2p", "libp2p-stream", "futures", "axum"].contains(&name),
                    "{} uses {name}",
                    package["name"]
                );
            }
        }
    }
}

#[test]
fn nothing_else_stands_at_the_top() {
    let top = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let known = [
        "Cargo.toml",
        "Cargo.lock",
        "LICENSE",
        "README.md",
        "accountant",
        "deploy",
        "docker-compose.yml",
        "node",
        "protocol",
        "target",
        "tests",
    ];
    for entry in std::fs::read_dir(top).expect("readable") {
        let name = entry
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned();
        assert!(
            name.starts_with('.') || known.contains(&name.as_str()),
            "{name} does not belong at the top level"
        );
    }
}
