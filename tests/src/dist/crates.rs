//! The crates that are in the program: their notices, and the list of them (SBOM).
//!
//! `cargo-cyclonedx` would make such a list as well. It is no part of a Rust toolchain and would
//! have to be compiled from the registry first, so the list is written here, from what
//! `cargo metadata` says.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::tools::{output, read_text};

/// One crate of the program.
#[derive(Debug)]
pub struct LinkedCrate {
    name: String,
    version: String,
    licence: String,
    authors: Vec<String>,
    folder: PathBuf,
    checksum: Option<String>,
    /// The crates that it uses, by their [`LinkedCrate::reference`].
    uses: BTreeSet<String>,
}

impl LinkedCrate {
    /// The crate's address of the form that package lists use (purl).
    fn reference(&self) -> String {
        reference(&self.name, &self.version)
    }

    fn component(&self) -> Value {
        let mut component = json!({
            "type": "library",
            "bom-ref": self.reference(),
            "name": self.name,
            "version": self.version,
            "purl": self.reference(),
            "licenses": [{ "expression": self.licence }],
        });
        if let Some(checksum) = &self.checksum {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
        }
        component
    }

    /// Licence texts in the crate's folder, by file name.
    fn texts(&self) -> io::Result<BTreeMap<String, String>> {
        let mut texts = BTreeMap::new();
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let upper = name.to_uppercase();
            let is_text = [
                "LICENSE",
                "LICENCE",
                "COPYING",
                "NOTICE",
                "UNLICENSE",
                "COPYRIGHT",
            ]
            .iter()
            .any(|start| upper.starts_with(start));
            if is_text && path.is_file() && !upper.ends_with(".RS") {
                texts.insert(name, String::from_utf8_lossy(&std::fs::read(&path)?).into_owned());
            }
        }
        Ok(texts)
    }
}

fn reference(name: &str, version: &str) -> String {
    format!("pkg:cargo/{name}@{version}")
}

/// Asks cargo for the crates that `undertone` is linked from on Linux, in the order of their names.
/// The first is `undertone` itself.
pub fn linked(top: &Path) -> io::Result<Vec<LinkedCrate>> {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(top);
    let metadata: Value = serde_json::from_slice(&output(&mut command)?)?;
    let checksums = checksums(&read_text(&top.join("Cargo.lock"))?);
    from_metadata(&metadata, &checksums)
        .ok_or_else(|| io::Error::other("cargo metadata is not of the form that is known"))
}

/// Checksums of crates by name and version, from a lock file.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut checksums = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let mut lines = package.lines();
            let line = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
            line.map(|text| text.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) =
            (value("name"), value("version"), value("checksum"))
        {
            checksums.insert((name, version), checksum);
        }
    }
    checksums
}

fn from_metadata(
    metadata: &Value,
    checksums: &BTreeMap<(String, String), String>,
) -> Option<Vec<LinkedCrate>> {
    let packages = metadata["packages"].as_array()?.iter();
    let packages: BTreeMap<&str, &Value> = packages.filter_map(|p| Some((p["id"].as_str()?, p))).collect();
    let nodes = metadata["resolve"]["nodes"].as_array()?.iter();
    let uses: BTreeMap<&str, Vec<&str>> = nodes
        .filter_map(|node| Some((node["id"].as_str()?, linked_by(node)?)))
        .collect();
    let first = packages
        .iter()
        .find(|(_, package)| package["name"] == "undertone")?;
    let (mut reached, mut open) = (BTreeSet::new(), vec![*first.0]);
    while let Some(id) = open.pop() {
        if reached.insert(id) {
            open.extend(uses.get(id)?);
        }
    }
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let name_of = |id: &&str| reference(&text(packages[*id], "name"), &text(packages[*id], "version"));
    let of = |id: &&str| {
        let package = packages[*id];
        let (name, version) = (text(package, "name"), text(package, "version"));
        LinkedCrate {
            // Before SPDX's words, a slash said "or".
            licence: text(package, "license").replace('/', " OR "),
            authors: serde_json::from_value(package["authors"].clone()).unwrap_or_default(),
            folder: Path::new(&text(package, "manifest_path"))
                .parent()
                .map(Path::to_owned)
                .unwrap_or_default(),
            checksum: checksums.get(&(name.clone(), version.clone())).cloned(),
            uses: uses[*id].iter().map(name_of).collect(),
            name,
            version,
        }
    };
    let mut crates: Vec<LinkedCrate> = reached.iter().map(of).collect();
    crates.sort_by_key(|it| (it.name != "undertone", it.name.clone(), it.version.clone()));
    Some(crates)
}

/// The packages that a node of the graph is linked with: no tests' and no build scripts'.
fn linked_by(node: &Value) -> Option<Vec<&str>> {
    let is_linked = |dependency: &&Value| {
        let kinds = dependency["dep_kinds"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
    };
    let dependencies = node["deps"].as_array()?.iter().filter(is_linked);
    Some(
        dependencies
            .filter_map(|dependency| dependency["pkg"].as_str())
            .collect(),
    )
}

/// Names, versions, licences and licence texts of all crates but ours. A text that several crates
/// have stands there once.
pub fn notices(crates: &[LinkedCrate]) -> io::Result<String> {
    let others = || crates.iter().filter(|it| !it.name.starts_with("undertone"));
    let mut notices = String::from(
        "Undertone is linked from the following packages of others.\n\
         Each has the licence that stands beside it; their texts follow.\n\n",
    );
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for it in others() {
        let name = format!("{} {}", it.name, it.version);
        notices += &format!("{name}: {}\n", it.licence);
        let found = it.texts()?;
        if found.is_empty() {
            // Ours has both texts that such packages name.
            notices += "    no text in its package: that in LICENSE holds\n";
            if !it.authors.is_empty() {
                notices += &format!("    by {}\n", it.authors.join(", "));
            }
        }
        for (file, text) in found {
            texts
                .entry(text.trim_end().to_owned())
                .or_default()
                .push(format!("{name} ({file})"));
        }
    }
    let mut texts: Vec<(Vec<String>, String)> = texts
        .into_iter()
        .map(|(text, packages)| (packages, text))
        .collect();
    texts.sort();
    for (packages, text) in texts {
        let rule = "-".repeat(78);
        notices += &format!("\n{rule}\n{}\n{rule}\n{text}\n", packages.join("\n"));
    }
    Ok(notices)
}

/// The list of crates as CycloneDX 1.5. `time`: as RFC 3339 writes it.
pub fn bill_of_materials(crates: &[LinkedCrate], time: &str) -> Value {
    let (ours, others) = crates.split_first().expect("the program is a crate itself");
    let mut program = ours.component();
    program["type"] = "application".into();
    let components: Vec<Value> = others.iter().map(LinkedCrate::component).collect();
    let dependencies: Vec<Value> = crates
        .iter()
        .map(|it| json!({ "ref": it.reference(), "dependsOn": it.uses }))
        .collect();
    let mut bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "timestamp": time, "component": program },
        "components": components,
        "dependencies": dependencies,
    });
    // A serial number is a UUID; of its contents, so that the same list has the same one.
    let digest = Sha256::digest(bill.to_string());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    bill["serialNumber"] = format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..]
    )
    .into();
    bill
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composition::top;

    #[test]
    fn crates_of_tests_and_build_scripts_are_not_in_the_program() {
        let package =
            |name: &str| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT/ISC" });
        let edge = |pkg: &str, kind: Value| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] });
        let uses = [
            edge("linked", Value::Null),
            edge("tester", "dev".into()),
            edge("builder", "build".into()),
        ];
        let none = |name: &str| json!({ "id": name, "deps": [] });
        let packages = ["undertone", "linked", "tester", "builder"].map(package);
        let metadata = json!({
            "packages": packages,
            "resolve": { "nodes": [
                { "id": "undertone", "deps": uses }, none("linked"), none("tester"), none("builder"),
            ] },
        });
        let lock = "[[package]]\nname = \"linked\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let crates = from_metadata(&metadata, &checksums(lock)).expect("it is of the known form");
        let bill = bill_of_materials(&crates, "2026-01-01T00:00:00Z");
        let linked = &bill["components"][0];
        assert_eq!(bill["components"].as_array().map(Vec::len), Some(1), "{bill}");
        assert_eq!(linked["purl"], "pkg:cargo/linked@1.0.0");
        assert_eq!(linked["licenses"][0]["expression"], "MIT OR ISC");
        assert_eq!(linked["hashes"][0]["content"], "ab");
        assert_eq!(bill["metadata"]["component"]["name"], "undertone");
        assert_eq!(
            bill["dependencies"][0]["dependsOn"],
            json!(["pkg:cargo/linked@1.0.0"])
        );
    }

    #[test]
    fn every_crate_of_the_program_has_a_licence_and_nearly_all_a_text() {
        let crates = linked(top()).expect("cargo knows them");
        assert_eq!(crates[0].name, "undertone");
        let others = || crates.iter().filter(|it| !it.name.starts_with("undertone"));
        assert!(others().count() > 100, "{}", others().count());
        assert!(others().all(|it| !it.licence.is_empty() && it.checksum.is_some()));
        let notices = notices(&crates).expect("their folders are there");
        assert!(notices.contains("\nlibp2p 0."), "{notices}");
        let without = || others().filter(|it| it.texts().expect("readable").is_empty());
        let has_ours = |it: &LinkedCrate| it.licence.contains("MIT") || it.licence.contains("Apache-2.0");
        assert!(without().all(has_ours), "a licence has no text");
        assert!(without().count() * 8 < others().count(), "{}", without().count());
        let bill = bill_of_materials(&crates, "2026-01-01T00:00:00Z");
        let names: BTreeSet<&str> = crates.iter().map(|it| it.name.as_str()).collect();
        assert!(!names.contains("proptest") && names.contains("snow"));
        let serial = bill["serialNumber"].as_str().expect("a text");
        assert_eq!(serial.len(), "urn:uuid:".len() + 36, "{serial}");
    }
}
