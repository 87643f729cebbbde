//! The configuration as written: the file, then the environment, then flags; each beats what is
//! before it.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use undertone_protocol::plan::defaults::Setting;
use undertone_protocol::plan::lines::{Lines, line_at};
use undertone_protocol::plan::peers::ID;
use undertone_protocol::plan::run_file::limits::MOST_RECORDS;
use undertone_protocol::plan::run_file::settings::Unit;
use undertone_protocol::plan::values::{CHANCE, POSITIVE, Values};

use crate::planning::policy::AcceptClaims;
use crate::reporting::failure::Failure;
use crate::reporting::screen::{hanging, page_width};

/// The most runs at once: a hub carries no more (`network::hub`).
pub(super) const MOST_RUNS: usize = 24;

const FOLDER: Values = Values::Text("^.+$", "a folder");
const FILE: Values = Values::Text("^.+$", "a file");
/// A file's name, without a folder.
const FILE_NAME: Values = Values::Text("^[^/]+$", "a file name");
const LISTENER: Values = Values::Text(
    "^/(ip4|ip6|dns|dns4|dns6)/[^/]+/tcp/[0-9]+$",
    "/ip4/ADDR/tcp/PORT",
);
const LISTEN: Values = Values::Text("^(unix:.+|.+:[0-9]+)$", "ADDR:PORT or unix:FILE");
const NAME: Values = Values::Text("^[a-z0-9-]{1,32}$", "[a-z0-9-], 1 to 32");
const DELTA: Values = Values::Number(Bound::Excluded(0.0), Bound::Included(1.0));

/// Every key of `node.toml`, in the order of the file.
#[rustfmt::skip] // a table: one line a row
pub const KEYS: &[Setting] = &[
    Setting::of_file(("", "version"), Some("1"), (Values::Whole(1, 1), ""),
        "version of this format"),
    Setting::of_file(("", "identity"), Some(r#""identity.key""#), (FILE, ""),
        "this party's key (from `undertone identity new`)"),
    Setting::of_file(("", "state"), Some(r#""state""#), (FOLDER, ""),
        "ledger, spent plans, runs and offers; one daemon at a time; keep it"),
    Setting::of_file(("", "data"), Some(r#""data""#), (FOLDER, ""),
        "vectors that `submit` may name"),
    Setting::of_file(("", "peers"), Some(r#""peers.toml""#), (FILE, ""),
        "the peer list; this party's own entry gives both listeners"),
    Setting::of_file(("", "output"), None, (FOLDER, ""),
        "means and receipts are written there, too: DIGEST/mean.EXT, receipt.json, receipt.json.sig").such_as(r#""results""#),
    Setting::of_file(("", "keep_days"), None, (Values::Whole(1, u32::MAX as u64), "days"),
        "runs that ended longer ago are deleted with their means; receipts and what was spent stay; default: never").such_as("400"),
    Setting::of_file(("listen", "private"), None, (LISTENER, ""),
        "where to listen for private neighbours, if not as the peer list says").such_as(r#""/ip4/0.0.0.0/tcp/7001""#),
    Setting::of_file(("listen", "public"), None, (LISTENER, ""),
        "where to listen for everybody, if not as the peer list says").such_as(r#""/ip4/0.0.0.0/tcp/7002""#),
    Setting::of_file(("api", "listen"), None, (LISTEN, ""),
        "where the API listens; default: unix:api.sock in the state folder").such_as(r#""127.0.0.1:7300""#),
    Setting::of_file(("api", "allow_remote"), Some("false"), (Values::Flag, ""),
        "let it listen on an address that other machines reach, in the clear"),
    Setting::of_file(("api", "token"), None, (FILE, ""),
        "bearer token of the API, made with mode 0600 when absent; default: api.token in the state folder").such_as(r#""api.token""#),
    Setting::of_file(("api", "read_token"), None, (FILE, ""),
        "a second token that reads metrics, status, plans and receipts, and nothing else; made with mode 0600 when absent; default: there is none").such_as(r#""read.token""#),
    Setting::of_file(("api", "max_body_bytes"), Some("268435456"), (Values::Whole(1, u64::MAX), "bytes"),
        "longest request body of the API"),
    Setting::of_file(("policy", "max_epsilon"), None, (POSITIVE, ""),
        "refuse plans that claim more than this ε; needed for auto_accept").such_as("1.0"),
    Setting::of_file(("policy", "max_delta"), None, (DELTA, ""),
        "refuse plans whose δ is larger; default: 1e-4, or 1/(10 · records) where that is smaller").such_as("1e-6"),
    Setting::of_file(("policy", "min_colluders"), Some("1"), (Values::Whole(0, u64::MAX), "parties"),
        "refuse plans that cover smaller coalitions"),
    Setting::of_file(("policy", "accept_claims"), None, (Values::Words(&["exact", "sampled"]), ""),
        "ignored: earlier plans could rest on a sample, and none does now").such_as(r#""exact""#),
    Setting::of_file(("policy", "vouched"), None, (Values::List(&ID, 0), "peer ids"),
        "members that you vouch for: the loss against all others together must be within max_epsilon, too").such_as(r#"["12D3KooWQYhTNQdmr3ArTeUHRYzFg94BKyTkoWBDWez9kSCVe2Xo"]"#),
    Setting::of_file(("policy", "max_runs"), Some("8"), (Values::Whole(1, MOST_RUNS as u64), "runs"),
        "runs at once; others wait"),
    Setting::of_file(("data_set", "name"), None, (NAME, ""),
        "[[data_set]]: what submissions call it").such_as(r#""patients""#),
    Setting::of_file(("data_set", "unit"), Some(r#""party""#), (Values::Words(&["party", "record"]), ""),
        "[[data_set]]: whose change its budget counts"),
    Setting::of_file(("data_set", "file"), None, (FILE_NAME, ""),
        "[[data_set]]: its vector in the data folder").such_as(r#""patients.csv""#),
    Setting::of_file(("data_set", "epsilon"), None, (POSITIVE, ""),
        "[[data_set]]: ε of all its runs together").such_as("4.0"),
    Setting::of_file(("data_set", "delta"), None, (CHANCE, ""),
        "[[data_set]]: δ of all its runs together").such_as("1e-5"),
    Setting::of_file(("auto_accept", "proposer"), None, (NAME, ""),
        "[[auto_accept]]: whose plans are accepted unasked if they are within the policy").such_as(r#""bergen""#),
    Setting::of_file(("auto_accept", "data_set"), None, (NAME, ""),
        "[[auto_accept]]: with which data set").such_as(r#""patients""#),
    Setting::of_file(("schedule", "name"), None, (NAME, ""),
        "[[schedule]]: what this node calls it").such_as(r#""weekly""#),
    Setting::of_file(("schedule", "run"), None, (FILE, ""),
        "[[schedule]]: the run file, the same bytes at all members, as the peer list").such_as(r#""weekly.toml""#),
    Setting::of_file(("schedule", "every"), None, (EVERY, "UTC"),
        "[[schedule]]: when it is due").such_as(r#""Mon 03:00""#),
    Setting::of_file(("schedule", "window"), Some(r#""30min""#), (DURATION, ""),
        "[[schedule]]: how long it is tried, a proposer after another, each for 90 s; what is missed is missed"),
    Setting::of_file(("schedule", "data_set"), None, (NAME, ""),
        "[[schedule]]: with which data set, whose budget pays").such_as(r#""patients""#),
    Setting::of_file(("schedule", "fresh"), None, (DURATION, ""),
        "[[schedule]]: how old its file may be; else this node sits it out; default: any age").such_as(r#""20h""#),
    Setting::of_file(("schedule", "records_at_most"), None, (Values::Whole(1, MOST_RECORDS), "rows"),
        "[[schedule]]: refuse a member with more rows, where each says its own; default: no bound").such_as("5000"),
];

const EVERY: Values = Values::Text(
    "^(daily|Mon|Tue|Wed|Thu|Fri|Sat|Sun|1st|2nd|3rd|2[0-8]th|[4-9]th|1[0-9]th|21st|22nd|23rd) [0-2][0-9]:[0-5][0-9]$",
    "daily, Mon … Sun or 1st … 28th, and HH:MM",
);
const DURATION: Values = Values::Text("^[0-9]+ ?(d|h|min|s)$", "30min, 20h");

/// The settings in `node.toml`, the environment or the flags.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawConfig {
    pub(super) version: Option<u32>,
    pub(super) identity: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) data: Option<PathBuf>,
    pub(super) peers: Option<PathBuf>,
    pub(super) output: Option<PathBuf>,
    pub(super) keep_days: Option<u32>,
    pub(super) listen: RawListen,
    pub(super) api: RawApi,
    pub(super) policy: RawPolicy,
    pub(super) data_set: Option<Vec<RawDataSet>>,
    pub(super) auto_accept: Option<Vec<RawAutoAccept>>,
    pub(super) schedule: Option<Vec<RawSchedule>>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawListen {
    pub(super) private: Option<String>,
    pub(super) public: Option<String>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawApi {
    pub(super) listen: Option<String>,
    pub(super) allow_remote: Option<bool>,
    pub(super) token: Option<PathBuf>,
    pub(super) read_token: Option<PathBuf>,
    pub(super) max_body_bytes: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawPolicy {
    pub(super) max_epsilon: Option<f64>,
    pub(super) max_delta: Option<f64>,
    pub(super) min_colluders: Option<usize>,
    pub(super) accept_claims: Option<AcceptClaims>,
    pub(super) vouched: Option<Vec<String>>,
    pub(super) max_runs: Option<usize>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawDataSet {
    pub(super) name: String,
    #[serde(default = "whole_parties")]
    pub(super) unit: Unit,
    pub(super) file: Option<String>,
    pub(super) epsilon: f64,
    pub(super) delta: f64,
}

fn whole_parties() -> Unit {
    Unit::Party
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawAutoAccept {
    pub(super) proposer: String,
    pub(super) data_set: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSchedule {
    pub(super) name: String,
    pub(super) run: PathBuf,
    pub(super) every: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<String>,
    pub(super) data_set: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fresh: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records_at_most: Option<u64>,
}

/// Where a value was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Default,
    File(Option<usize>),
    Environment(String),
    Flag(&'static str),
}

impl Source {
    /// In front of a message about the value.
    pub(super) fn place(&self, file: &str) -> String {
        match self {
            Source::Default => "default".into(),
            Source::File(Some(line)) => format!("{file}, line {line}"),
            Source::File(None) => file.into(),
            Source::Environment(name) => format!("environment variable {name}"),
            Source::Flag(flag) => (*flag).into(),
        }
    }
}

/// Values that a flag or a variable gives: (dotted key, text, where it stands).
pub(super) type Given = (String, String, Source);

/// All layers, one over the other.
#[derive(Debug)]
pub(super) struct Layers {
    pub(super) raw: RawConfig,
    /// The file's path as messages show it.
    pub(super) file: String,
    lines: Lines,
    given: Vec<Given>,
}

/// The environment variable of a key: `UNDERTONE_POLICY_MAX_EPSILON`.
pub(super) fn variable(field: &str) -> String {
    format!("UNDERTONE_{}", field.replace('.', "_").to_uppercase())
}

impl Layers {
    /// Reads the file's text (its relative paths count from `folder`) and lays `given` over it, in
    /// order.
    pub(super) fn read(text: &str, file: &Path, folder: &Path, given: Vec<Given>) -> Result<Self, Failure> {
        let lines = Lines::of(text);
        let file = file.display().to_string();
        let mut raw: RawConfig = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_at(text, span.start));
            let place = Source::File(line).place(&file);
            let failure = Failure::usage(format!("{place}: {}", error.message().trim_end()))
                .hint("`undertone node --help` lists the keys");
            match line.and_then(|line| lines.key_at(line)) {
                Some(key) => failure.field(key),
                None => failure,
            }
        })?;
        raw.paths_from(folder);
        for (field, text, source) in &given {
            let layer = layer(field, text).map_err(|e| {
                Failure::usage(format!(
                    "{}: {text:?} is no value for it: {}",
                    source.place(&file),
                    e.message().trim_end()
                ))
                .field(field)
            })?;
            raw.lay_over(layer);
        }
        Ok(Layers {
            raw,
            file,
            lines,
            given,
        })
    }

    /// Where the value of a key was written.
    pub(super) fn source(&self, field: &str) -> Source {
        let given = self.given.iter().rev().find(|(key, ..)| key == field);
        let in_file = || {
            self.lines
                .line(field)
                .map_or(Source::Default, |line| Source::File(Some(line)))
        };
        given.map_or_else(in_file, |(_, _, source)| source.clone())
    }

    /// A value that makes no sense, with its place.
    pub(super) fn refuse(&self, field: &str, problem: impl std::fmt::Display) -> Failure {
        Failure::usage(format!(
            "{}: {field} {problem}",
            self.source(field).place(&self.file)
        ))
        .field(field)
    }
}

/// One key's value as a configuration of its own: TOML, or else a plain text.
fn layer(field: &str, text: &str) -> Result<RawConfig, toml::de::Error> {
    let document = |value: &str| toml::from_str::<RawConfig>(&format!("{field} = {value}\n"));
    // A JSON string is a TOML string.
    let quoted = serde_json::Value::from(text).to_string();
    document(text).or_else(|first| document(&quoted).map_err(|_| first))
}

impl RawConfig {
    /// Relative paths count from `folder`.
    fn paths_from(&mut self, folder: &Path) {
        let paths = [
            &mut self.identity,
            &mut self.state,
            &mut self.data,
            &mut self.peers,
            &mut self.output,
            &mut self.api.token,
            &mut self.api.read_token,
        ];
        let runs = self
            .schedule
            .iter_mut()
            .flatten()
            .map(|schedule| &mut schedule.run);
        for path in paths.into_iter().flatten().chain(runs) {
            *path = folder.join(&*path);
        }
        if let Some(socket) = self.api.listen.as_mut()
            && let Some(path) = socket.strip_prefix("unix:")
        {
            *socket = format!("unix:{}", folder.join(path).display());
        }
    }

    fn lay_over(&mut self, layer: RawConfig) {
        macro_rules! beat {
            ($($field:ident).+) => {
                if layer.$($field).+.is_some() {
                    self.$($field).+ = layer.$($field).+;
                }
            };
        }
        beat!(version);
        beat!(identity);
        beat!(state);
        beat!(data);
        beat!(peers);
        beat!(output);
        beat!(keep_days);
        beat!(listen.private);
        beat!(listen.public);
        beat!(api.listen);
        beat!(api.allow_remote);
        beat!(api.token);
        beat!(api.read_token);
        beat!(api.max_body_bytes);
        beat!(policy.max_epsilon);
        beat!(policy.max_delta);
        beat!(policy.min_colluders);
        beat!(policy.accept_claims);
        beat!(policy.vouched);
        beat!(policy.max_runs);
        beat!(data_set);
        beat!(auto_accept);
        beat!(schedule);
    }
}

/// The keys with their defaults, for `undertone node --help`.
pub fn help() -> String {
    let mut text = String::from("Keys of NODE.toml (default); `undertone help KEY` has more:\n");
    let longest = KEYS.iter().map(|key| key.field().len()).max().unwrap_or(0);
    for key in KEYS {
        let default = key.default.unwrap_or("none");
        let values = format!("{} {}", key.values, key.unit);
        let values = values.trim_end();
        let first = format!("  {:<longest$} ", key.field());
        text += &hanging(
            &first,
            &format!("{}; {values} ({default})", key.explanation),
            page_width(),
        );
    }
    text += "Relative paths count from the file's folder. UNDERTONE_ and a key in upper case, dots as _, beats the file \
             (UNDERTONE_POLICY_MAX_EPSILON=0.5); flags beat both.\n\
             SIGHUP reads peers, policy, keep_days and budgets again, which are only raised while it runs.";
    text
}

/// The refusal of a text as a configuration, for tests of what it takes.
#[cfg(test)]
pub(crate) fn refusal_of(text: &str) -> String {
    toml::from_str::<RawConfig>(text)
        .expect_err(text)
        .message()
        .to_owned()
}
