//! The JSON Schemas of the files that people write: what the guide shows is valid by them, and a
//! wrong value is not.

use boon::{Compiler, Schemas};
use serde_json::Value;
use undertone_tests::composition::top;
use undertone_tests::documents::page::guide;
use undertone_tests::run_in;

/// Returns the file that a text is of, by its tables.
fn kind_of(text: &str) -> &'static str {
    let has = |table: &str| text.lines().any(|line| line.trim() == table);
    if has("[[peer]]") {
        "peers"
    } else if has("[api]") || has("[policy]") || has("[[data_set]]") {
        "node"
    } else {
        "run-file"
    }
}

/// Returns the TOML of a page: its blocks, and the files that its commands write.
fn toml_of(page: &str) -> Vec<String> {
    let mut found = vec![];
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let end = match line.trim() {
            "```toml" => "```",
            writes if writes.starts_with("cat > ") && writes.contains(".toml <<") => "END",
            _ => continue,
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| line.trim() != end).collect();
        found.push(block.join("\n") + "\n");
    }
    found
}

/// Returns the texts that a block stands for: one with a key several times shows alternatives.
fn alternatives(block: &str) -> Vec<String> {
    let key = |line: &str| line.split_once(" = ").map(|(key, _)| key.to_owned());
    let lines: Vec<&str> = block.lines().collect();
    let of = |wanted: &str| {
        lines
            .iter()
            .filter(|line| key(line).as_deref() == Some(wanted))
            .count()
    };
    let several = lines
        .iter()
        .find_map(|line| key(line).filter(|key| of(key) > 1 && !block.contains("[[")));
    let Some(several) = several else {
        return vec![block.to_owned()];
    };
    let (same, rest): (Vec<&str>, Vec<&str>) = lines
        .iter()
        .partition(|line| key(line).as_deref() == Some(several.as_str()));
    let with = |line: &&str| format!("{}\n{line}\n", rest.join("\n"));
    same.iter().map(with).collect()
}

/// Returns the objection of a file's schema, as `undertone schema` prints it, to a text.
fn objection(kind: &str, text: &str) -> Option<String> {
    let printed = run_in(top(), ["schema", kind]);
    assert_eq!(printed.code, 0, "{}", printed.stderr);
    let schema: Value = serde_json::from_str(&printed.stdout).expect("JSON");
    let place = format!("file:///{kind}.json");
    let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
    compiler.add_resource(&place, schema).expect("one document");
    let index = compiler.compile(&place, &mut schemas).expect("a schema");
    let document: toml::Table = toml::from_str(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let document = serde_json::to_value(document).expect("no dates");
    let judged = schemas.validate(&document, index);
    judged.err().map(|error| format!("{error:#}"))
}

#[test]
fn files_of_the_guide_are_valid_by_the_schemas_and_wrong_values_are_not() {
    let id = "12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo";
    let mut right: Vec<(&str, String)> = vec![];
    for page in guide() {
        for block in toml_of(&page.text).iter().flat_map(|block| alternatives(block)) {
            let text = block
                .replace("12D3KooW…", id)
                .replace("$port", "7300")
                .replace("sha256 = \"…\"", "");
            let bare = !text.lines().any(|line| line.starts_with('['));
            let is_described = text.contains("[[describe.") && !text.contains("task = ");
            let text = match (bare, is_described) {
                // Keys without a table are those of a model's tensors, in rounds.
                (true, _) => format!("task = \"rounds\"\n[data]\n{text}"),
                (_, true) => format!("task = \"describe\"\n{text}"),
                (false, false) => text,
            };
            right.push((kind_of(&text), text));
        }
    }
    assert!(right.len() > 12, "{} files in the guide", right.len());
    for (kind, file) in [
        ("run-file", "deploy/hospitals.toml"),
        ("run-file", "deploy/testnet/run.toml"),
        ("node", "deploy/testnet/node.toml"),
        ("peers", "deploy/testnet/peers.toml"),
    ] {
        let text = std::fs::read_to_string(top().join(file)).expect(file);
        right.push((kind, text));
    }
    for (kind, text) in right {
        assert_eq!(objection(kind, &text), None, "{kind}\n{text}");
    }
    let wrong = [
        ("run-file", "[privacy]\nepsilon = 0\n", "epsilon"),
        ("run-file", "[privacy]\ndelta = 1\n", "delta"),
        ("run-file", "[privacy]\nepsilon = \"1\"\n", "epsilon"),
        ("run-file", "[privacy]\nepsilom = 1\n", "epsilom"),
        ("run-file", "task = \"median\"\n", "task"),
        ("run-file", "name = \"Study\"\n", "name"),
        ("run-file", "[data]\nclip = { kind = \"l2\" }\n", "clip"),
        ("run-file", "[data]\nrecords = { at_most = 0 }\n", "records"),
        ("run-file", "[mechanism]\nfanout = 17\n", "fanout"),
        ("run-file", "[run]\njoin_ms = 1.5\n", "join_ms"),
        // Keys of other tasks: releases are of rounds and streams, a mean's edges of streams.
        ("run-file", "[data]\nreleases = 20\n", "releases"),
        (
            "run-file",
            "task = \"rounds\"\n[mechanism]\nedges = \"all\"\n",
            "edges",
        ),
        (
            "run-file",
            "task = \"mean\"\n[model]\nloss = \"logistic\"\n",
            "model",
        ),
        ("node", "keep_days = 0\n", "keep_days"),
        ("node", "[api]\nport = 7300\n", "port"),
        ("node", "[[data_set]]\nname = \"ward\"\nepsilon = 1.0\n", "delta"),
        ("peers", "version = 2\n", "version"),
        (
            "peers",
            "version = 1\n[[peer]]\nname = \"a\"\nid = \"b\"\nprivate = \"c\"\npublic = \"d\"\n",
            "peer",
        ),
    ];
    for (kind, text, named) in wrong {
        let said = objection(kind, text).unwrap_or_else(|| panic!("{kind}: {text} is valid"));
        assert!(said.contains(named), "{text}: {said}");
    }
}
