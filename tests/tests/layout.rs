//! The house: which crate may depend on which, under which licences others are, and what stands at
//! the top level.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;
use undertone_tests::composition::top;

/// What `cargo metadata` says, asked so.
fn metadata(how: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(how)
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
    let arrows = arrows(&metadata(&["--no-deps"]));
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
    let metadata = metadata(&["--no-deps"]);
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

/// Packages of the lock file, at most: a dependency that brings many more has to be worth it.
/// `idna_adapter` is held at 1.0.0, which is without tables of Unicode: no host here has a name
/// that needs them, and twenty packages stay out.
const MOST_PACKAGES: usize = 380;

#[test]
fn the_lock_file_stays_short() {
    let lock = std::fs::read_to_string(top().join("Cargo.lock")).expect("there is a lock file");
    let lock: toml::Table = lock.parse().expect("TOML");
    let packages = lock["package"].as_array().expect("packages");
    let held = packages
        .iter()
        .find(|package| package["name"].as_str() == Some("idna_adapter"));
    assert_eq!(
        held.and_then(|package| package["version"].as_str()),
        Some("1.0.0")
    );
    assert!(packages.len() <= MOST_PACKAGES, "{} packages", packages.len());
}

/// Names in the first column of the tables in a text below one heading.
fn listed(text: &str, heading: &str) -> BTreeSet<String> {
    let (_, section) = text.split_once(heading).expect("the heading is there");
    let section = section.split("\n## ").next().expect("a part");
    let names = section.lines().filter_map(|line| line.strip_prefix("| `"));
    names
        .filter_map(|line| line.split_once("` | "))
        .filter(|(_, why)| why.len() > 8)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// Direct dependencies of others' make: those of the program, and those of tests alone.
fn direct(metadata: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut shipped, mut tests) = (BTreeSet::new(), BTreeSet::new());
    for package in metadata["packages"].as_array().expect("packages") {
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let name = dependency["name"].as_str().expect("a name");
            let is_shipped = package["name"] != "undertone-tests" && dependency["kind"].is_null();
            if !name.starts_with("undertone") {
                let into = if is_shipped { &mut shipped } else { &mut tests };
                into.insert(name.to_owned());
            }
        }
    }
    tests.retain(|name| !shipped.contains(name));
    (shipped, tests)
}

#[test]
fn every_direct_dependency_has_a_reason_and_no_reason_is_without_one() {
    let text = std::fs::read_to_string(top().join(".github/DEPENDENCIES.md")).expect("a list");
    let (shipped, tests) = direct(&metadata(&["--no-deps"]));
    assert_eq!(listed(&text, "## In the program\n"), shipped);
    assert_eq!(listed(&text, "## In tests alone\n"), tests);
    let count = format!("\n{} crates are linked into `undertone`", shipped.len());
    assert!(text.contains(&count), "the list says another count than {count}");
    assert!(
        shipped.len() <= 45 || text.contains("could go"),
        "which of {} could go?",
        shipped.len()
    );
}

/// What a reader of a registry sees of a crate, but for where it is kept.
#[test]
fn every_crate_says_what_it_is() {
    let metadata = metadata(&["--no-deps"]);
    for package in metadata["packages"].as_array().expect("packages") {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let list = |key: &str| package[key].as_array().map_or(0, Vec::len);
        assert!(text("description").len() > 30, "{}", package["name"]);
        assert!(
            top().join(text("readme").trim_start_matches("../")).is_file(),
            "{}",
            package["name"]
        );
        assert!((1..=5).contains(&list("keywords")), "{}", package["name"]);
        assert!(list("categories") >= 1, "{}", package["name"]);
        assert!(package["repository"].is_null(), "{}", package["name"]);
    }
}

/// Whether a licence expression has an alternative of which every part is allowed.
fn allows(allowed: &[String], expression: &str) -> bool {
    let plain = expression.replace(['(', ')'], " ").replace('/', " OR ");
    let is_allowed = |part: &str| allowed.iter().any(|it| it == part.trim());
    // `A AND (B OR C)`: each conjunct needs one allowed alternative.
    if expression.contains('(') {
        return plain
            .split(" AND ")
            .all(|conjunct| conjunct.split(" OR ").any(is_allowed));
    }
    plain
        .split(" OR ")
        .any(|alternative| alternative.split(" AND ").all(is_allowed))
}

#[test]
fn dependencies_have_licences_that_the_list_allows() {
    let list = std::fs::read_to_string(top().join(".cargo/deny.toml")).expect("there is a list");
    let list: toml::Table = list.parse().expect("TOML");
    let allowed = list["licenses"]["allow"].as_array().expect("a list").iter();
    let allowed: Vec<String> = allowed.filter_map(|it| it.as_str()).map(String::from).collect();
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--locked", "--offline", "--prefix", "none"])
        .args(["--edges", "normal,build", "--format", "{p}\t{l}"])
        .current_dir(top())
        .output()
        .expect("cargo runs");
    let tree = String::from_utf8(output.stdout).expect("text");
    let dependencies: BTreeSet<&str> = tree.lines().filter(|line| !line.is_empty()).collect();
    assert!(
        dependencies.len() > 100,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for line in dependencies {
        let (package, licence) = line.split_once('\t').expect("a package and its licence");
        let licence = licence.trim_end_matches(" (*)");
        assert!(
            allows(&allowed, licence),
            "{package}: {licence} is not in .cargo/deny.toml"
        );
        let is_ours = package.contains(&*top().to_string_lossy());
        assert!(is_ours || !package.contains("://"), "{package} is from elsewhere");
    }
}

#[test]
fn licence_expressions_are_read() {
    let allowed = ["MIT", "ISC"].map(String::from);
    for sound in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/Apache-2.0",
        "MIT AND ISC",
        "ISC AND (GPL-3.0 OR MIT)",
    ] {
        assert!(allows(&allowed, sound), "{sound}");
    }
    for refused in ["GPL-3.0", "MIT AND GPL-3.0", "none", "(GPL-3.0 OR X) AND MIT"] {
        assert!(!allows(&allowed, refused), "{refused}");
    }
}

#[test]
fn nothing_else_stands_at_the_top() {
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
    for entry in std::fs::read_dir(top()).expect("readable") {
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
