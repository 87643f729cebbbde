//! Tests of the binary's own help. Every command lists its flags, the top page the exit codes, and
//! every default of the run file is there.

use std::process::{Command, Output};

use undertone::daemon::config::layers::KEYS;
use undertone_protocol::plan::defaults::{SETTINGS, settings_of};
use undertone_protocol::plan::run_file::settings::TaskName;

fn undertone(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_undertone"))
        .args(arguments)
        .output()
        .expect("the binary starts")
}

fn help(command: &str) -> String {
    let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let output = undertone(&arguments);
    assert_eq!(output.status.code(), Some(0), "{command} --help");
    let text = String::from_utf8(output.stdout).expect("help is text");
    // Lines are wrapped to the terminal's width: read as one.
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

const POLICY: &str = "--digest --max-epsilon --max-delta --min-colluders --accept-claims";

/// Every command with the arguments that the contract gives it.
const COMMANDS: [(&str, &str); 34] = [
    ("identity new", "--out --name --private --public --recovery"),
    ("identity show", "<FILE>"),
    (
        "group open",
        "--identity --name --seats --listen --announce --peers --from --relays --events",
    ),
    (
        "group join",
        "<INVITATION> --identity --name --announce --relay --peers --events",
    ),
    ("group confirm", "<FILE> --identity --peers --number"),
    ("peers number", "<FILE>"),
    ("setup", "[DIR] --name --data --listen --epsilon --service --yes"),
    ("plan", "<RUN.toml> --peers --out"),
    ("verify", "<PLAN.json>"),
    ("doctor", "<PLAN.json> --identity --timeout-ms"),
    (
        "join",
        "<PLAN.json> --identity --input --output --receipt --state --events --show-private",
    ),
    (
        "local",
        "--nodes --inputs --dimension --run --epsilon --delta --output --events --pace-ms --round-ms --seed",
    ),
    ("receipt", "<FILE> --plan --peers --mean"),
    ("example", "<DIR> --hospitals --seed"),
    ("testnet", "--node --nodes --folder --meet --output --meet-ms"),
    (
        "submit",
        "[PLAN.json] --propose --input --data-file --data-set --wait --api --token-file --config",
    ),
    (
        "accept",
        "<DIGEST> --input --data-file --data-set --wait --api --token-file --config",
    ),
    ("decline", "<DIGEST> --api --token-file --config"),
    ("schema", "<FILE>"),
    ("version", ""),
    ("completions", "<SHELL>"),
    ("manual", "<DIR>"),
    ("status", "[DIGEST] --ready --limit --api --token-file --config"),
    ("schedule", "[NAME] --api --token-file --config"),
    (
        "node",
        "--config --identity --state --data --peers --output --api --max-epsilon",
    ),
    ("ledger adopt", "--config --identity --state"),
    ("watch", "<DIGEST> --events --api --token-file --config"),
    (
        "result",
        "<DIGEST> --output --receipt --api --token-file --config",
    ),
    ("withdraw", "<DIGEST> --api --token-file --config"),
    ("account gaussian", "--epsilon --delta --mu"),
    ("account training", "--epsilon --delta --iterations --published"),
    (
        "simulate",
        "[RUN.toml] --parties --inputs --test --runs --seed --kills --kill-phase --direct --plot",
    ),
    (
        "account connectivity",
        "--graph --parties --schedule --seed --at-least --colluding",
    ),
    (
        "account inca",
        "<EXECUTION.json> --independent-std --correlated-std --sensitivity --delta",
    ),
];

#[test]
fn every_command_tells_its_flags() {
    for (command, flags) in COMMANDS {
        let text = help(command);
        let shared = "--json --log -v --help";
        let policy = if ["verify", "join"].contains(&command) {
            POLICY
        } else {
            ""
        };
        for flag in flags
            .split(' ')
            .chain(shared.split(' '))
            .chain(policy.split_whitespace())
        {
            assert!(
                text.contains(flag),
                "`undertone {command} --help` does not tell {flag}:\n{text}"
            );
        }
    }
}

#[test]
fn the_first_page_tells_commands_exit_codes_and_where_to_begin() {
    let text = help("");
    for (command, _) in COMMANDS {
        let first = command.split(' ').next().expect("a word");
        assert!(
            text.contains(&format!(" {first} ")),
            "{first} is missing from\n{text}"
        );
    }
    for code in [
        "0 done",
        "2 usage",
        "3 plan refused",
        "4 aborted",
        "5 finished degraded",
        "6 privacy refused",
        "7 input unusable",
        "70 our bug",
        "75 the disk is full",
    ] {
        assert!(text.contains(code), "{code} is missing from\n{text}");
    }
    assert!(text.contains("undertone local eight hospitals"), "{text}");
}

/// A command that is broken in two cannot be pasted, and what every command takes is explained on
/// the first page alone.
#[test]
fn pages_are_narrow_and_tell_the_flags_of_all_commands_once() {
    for command in COMMANDS.map(|(command, _)| command).into_iter().chain([""]) {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let page = String::from_utf8(undertone(&arguments).stdout).expect("help is text");
        let wide = page.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{command} --help");
        let reported = page.matches("--log ").count();
        assert_eq!(reported, 1, "{command} --help:\n{page}");
    }
    let page = String::from_utf8(undertone(&["--help"]).stdout).expect("help is text");
    let whole = "\n  undertone identity new --out me.key --name alice --private ADDRESS --public ADDRESS\n";
    assert!(page.contains(whole), "{page}");
}

#[test]
fn help_of_a_task_names_each_of_its_keys_in_eighty_lines_of_a_hundred_columns() {
    for task in TaskName::ALL {
        let output = undertone(&["help", task.name()]);
        assert_eq!(output.status.code(), Some(0));
        let page = String::from_utf8(output.stdout).expect("help is text");
        assert!(page.lines().count() <= 80, "{page}");
        assert!(page.lines().all(|line| line.chars().count() <= 100), "{page}");
        for setting in settings_of(task) {
            assert!(
                page.contains(&format!("  {} ", setting.key)),
                "{}: {page}",
                setting.field()
            );
        }
    }
    for command in ["plan", "local", "simulate"] {
        let text = help(command);
        for setting in SETTINGS {
            assert!(
                text.contains(setting.key),
                "{} is missing from `{command} --help`",
                setting.field()
            );
        }
    }
    let unknown = undertone(&["help", "median"]);
    assert_eq!(unknown.status.code(), Some(2));
    let text = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(text.contains("tasks are mean, describe, regression"), "{text}");
    let of_command = undertone(&["help", "ledger", "adopt"]);
    assert_eq!(of_command.status.code(), Some(0));
}

#[test]
fn every_key_of_the_configuration_is_listed_with_its_default() {
    let text = help("node");
    for key in KEYS {
        assert!(
            text.contains(&key.field()),
            "{} is missing from `node --help`",
            key.field()
        );
        assert!(
            text.contains(key.explanation) && text.contains(key.default.unwrap_or("none")),
            "{}",
            key.field()
        );
    }
}

#[test]
fn it_tells_its_version() {
    let output = undertone(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        format!("undertone {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn what_is_no_command_is_a_usage_error() {
    for arguments in [
        &[][..],
        &["average"],
        &["plan"],
        &["local", "--nodes", "many"],
        &["account", "inca"],
    ] {
        assert_eq!(undertone(arguments).status.code(), Some(2), "{arguments:?}");
        let json = undertone(&[arguments, &["--json"]].concat());
        assert_eq!(json.status.code(), Some(2));
        let object: serde_json::Value =
            serde_json::from_slice(&json.stdout).unwrap_or_else(|e| panic!("{arguments:?} --json: {e}"));
        assert_eq!(
            (&object["exit_code"], &object["error"]["kind"]),
            (&2.into(), &"usage".into()),
            "{object}"
        );
        assert!(
            object["error"]["message"].as_str().is_some_and(|m| !m.is_empty()),
            "{object}"
        );
    }
}

#[test]
fn the_program_tells_which_versions_it_speaks() {
    let output = undertone(&["version", "--json"]);
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).expect("an object");
    assert_eq!(object["version"], env!("CARGO_PKG_VERSION"));
    let said = option_env!("BUILT_FROM_COMMIT").filter(|commit| !commit.is_empty());
    if let Some(said) = said {
        assert_eq!(
            (object["commit"].as_str(), &object["commit_is_exact"]),
            (Some(said), &true.into())
        );
    }
    // A checkout of git knows its commit without being told.
    let git = Command::new("git")
        .args(["ls-files", "--error-unmatch", "build.rs"])
        .output();
    if git.is_ok_and(|git| git.status.success()) {
        let commit = object["commit"].as_str().expect("a checkout has a commit");
        assert!(
            commit.len() == 40 && commit.bytes().all(|b| b.is_ascii_hexdigit()),
            "{commit}"
        );
    }
    assert_eq!(object["messages"], undertone::party::reaching::MESSAGES_VERSION);
    assert_eq!((&object["files"], &object["api"]), (&1.into(), &"v1".into()));
    let text = String::from_utf8(undertone(&["version"]).stdout).expect("text");
    assert!(
        text.contains(&format!("messages {}", object["messages"])),
        "{text}"
    );
}

#[test]
fn shells_take_their_scripts() {
    for (shell, word) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef undertone"),
        ("fish", "complete -c undertone"),
    ] {
        let output = undertone(&["completions", shell]);
        let script = String::from_utf8(output.stdout).expect("text");
        for wanted in [word, "submit", "data-set"] {
            assert!(script.contains(wanted), "{shell}: {wanted}");
        }
    }
    let bash = undertone(&["completions", "bash"]).stdout;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("undertone.bash");
    std::fs::write(&path, bash).expect("writable");
    // What bash would offer behind `undertone sub`.
    let asked = format!(
        ". '{}'; COMP_WORDS=(undertone sub); COMP_CWORD=1; _undertone undertone sub undertone; echo \"${{COMPREPLY[*]}}\"",
        path.display()
    );
    let offered = Command::new("bash")
        .args(["-c", &asked])
        .output()
        .expect("bash starts");
    assert_eq!(
        String::from_utf8_lossy(&offered.stdout),
        "submit\n",
        "{offered:?}"
    );
    assert_eq!(undertone(&["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_page_in_the_manual() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("pages");
    let written = undertone(&["manual", pages.to_str().expect("text")]);
    assert_eq!(written.status.code(), Some(0));
    for (command, flags) in COMMANDS {
        let name = format!("undertone-{}.1", command.replace(' ', "-"));
        let page = std::fs::read_to_string(pages.join(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(page.contains(".TH"), "{name}");
        // Hyphens are escaped there.
        for flag in flags.split(' ').filter(|flag| flag.starts_with("--")) {
            assert!(page.contains(&flag.replace('-', "\\-")), "{name}: {flag}");
        }
    }
    let top = std::fs::read_to_string(pages.join("undertone.1")).expect("the first page");
    assert!(top.contains("plan refused"), "{top}");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("writable");
    let refused = undertone(&["manual", file.to_str().expect("text")]);
    assert_eq!(refused.status.code(), Some(2));
}
