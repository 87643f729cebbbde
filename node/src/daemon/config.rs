//! `node.toml`: who this node is, where its state lies, what it accepts, what its data may cost.

pub mod data_sets;
pub mod layers;
pub mod schedules;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use libp2p::PeerId;
use sha2::{Digest, Sha256};
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::plan::peers::{Peer, Peers};
use undertone_protocol::plan::run_file::settings::Unit;

use crate::daemon::config::data_sets::{AutoAccept, DataSet, auto_accept, data_sets};
use crate::daemon::config::layers::{Given, KEYS, Layers, MOST_RUNS, Source};
use crate::daemon::config::schedules::{Schedule, schedules};
use crate::party::identity::Identity;
use crate::party::reaching;
use crate::planning::files::read_text;
use crate::planning::make;
use crate::planning::policy::Policy;
use crate::reporting::failure::Failure;

/// Flags of `node`.
#[derive(Args, Clone, Debug, Default)]
pub struct NodeArgs {
    /// The configuration; every key can also be given in the environment
    #[arg(long, value_name = "NODE.toml")]
    pub config: Option<PathBuf>,
    /// This party's key
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// Folder that remembers the ledger, spent plans and runs
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// Folder of vectors that submissions may name
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// The peer list
    #[arg(long, value_name = "PEERS.toml")]
    pub peers: Option<PathBuf>,
    /// Folder that means and receipts are written to
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Where the API listens: ADDR:PORT or unix:FILE
    #[arg(long, value_name = "WHERE")]
    pub api: Option<String>,
    /// Refuse plans that claim more than this ε
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub max_epsilon: Option<f64>,
}

impl NodeArgs {
    fn given(&self) -> Vec<Given> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
        let flags = [
            ("identity", "--identity", path(&self.identity)),
            ("state", "--state", path(&self.state)),
            ("data", "--data", path(&self.data)),
            ("peers", "--peers", path(&self.peers)),
            ("output", "--output", path(&self.output)),
            ("api.listen", "--api", self.api.clone()),
            (
                "policy.max_epsilon",
                "--max-epsilon",
                self.max_epsilon.map(|e| e.to_string()),
            ),
        ];
        let given = |(field, flag, value): (&str, &'static str, Option<String>)| {
            value.map(|value| (field.to_owned(), value, Source::Flag(flag)))
        };
        flags.into_iter().filter_map(given).collect()
    }
}

/// Where the API listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiListen {
    /// On a TCP address.
    Tcp(SocketAddr),
    /// On a unix socket at this path.
    Unix(PathBuf),
}

impl fmt::Display for ApiListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApiListen::Tcp(address) => write!(f, "{address}"),
            ApiListen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// The section `[api]`: where and how the API is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where the API listens.
    pub listen: ApiListen,
    /// Whether it may listen on an address that other machines reach.
    pub allow_remote: bool,
    /// The file with the bearer token; made with mode 0600 when it is absent.
    pub token: PathBuf,
    /// The file with the token that may only read, if there is one.
    pub read_token: Option<PathBuf>,
    /// The longest request body, in bytes.
    pub max_body_bytes: u64,
}

/// The complete and checked configuration. Its paths count from the working directory.
#[derive(Clone, Debug)]
pub struct Config {
    /// This party's key, name and id.
    pub identity: Identity,
    /// The file that the key is in: beside it stands the registry of the plans that it was used
    /// for.
    pub identity_file: PathBuf,
    /// The folder that keeps the daemon's state.
    pub state: PathBuf,
    /// The folder of vectors that submissions may name.
    pub data: PathBuf,
    /// Where means and receipts are also written.
    pub output: Option<PathBuf>,
    /// Days after a run for which its folder is kept, with its mean; None: for ever.
    pub keep_days: Option<u32>,
    /// The parties that may take part, from the peer list.
    pub peers: Peers,
    /// SHA-256 of the peer list's bytes.
    pub list_digest: [u8; 32],
    /// Where it listens for encrypted connections.
    pub private: Vec<Address>,
    /// Where it listens for plain ones.
    pub public: Option<Address>,
    /// How the API is served.
    pub api: ApiConfig,
    /// The policy that every plan must keep to.
    pub policy: Policy,
    /// Members that are vouched for; None: there is no such list.
    pub vouched: Option<BTreeSet<PeerId>>,
    /// How many runs may take place at once.
    pub max_runs: usize,
    /// The data sets that runs may be charged to.
    pub data_sets: Vec<DataSet>,
    /// The proposers whose plans are accepted without asking.
    pub auto_accept: Vec<AutoAccept>,
    /// The runs that this node's group makes by itself.
    pub schedules: Vec<Schedule>,
    /// Every key with its value as TOML and where that stands.
    shown: Vec<(String, String, String)>,
}

impl Config {
    /// The file, the environment, the flags; and the files that they name.
    pub fn load(arguments: &NodeArgs) -> Result<Self, Failure> {
        Config::from_parts(arguments, std::env::vars())
    }

    pub(super) fn from_parts(
        arguments: &NodeArgs,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Failure> {
        let (layers, folder) = read(arguments, environment)?;
        resolve(&layers, &folder)
    }

    /// The effective configuration, a line a key. Secrets lie in files whose names are all that is
    /// said.
    pub fn shown(&self) -> impl Iterator<Item = &(String, String, String)> {
        self.shown.iter()
    }

    /// The data set of a name and a unit.
    pub fn data_set(&self, name: &str, unit: Unit) -> Option<&DataSet> {
        self.data_sets
            .iter()
            .find(|set| set.name == name && set.unit == unit)
    }
}

impl ApiConfig {
    /// Where a daemon with this configuration answers, for its clients: neither its key nor its
    /// peer list is read.
    pub fn load(arguments: &NodeArgs) -> Result<Self, Failure> {
        let (layers, folder) = read(arguments, std::env::vars())?;
        api(&layers, &state_folder(&layers, &folder))
    }
}

/// All layers, and the folder that the file's paths count from.
fn read(
    arguments: &NodeArgs,
    environment: impl IntoIterator<Item = (String, String)>,
) -> Result<(Layers, PathBuf), Failure> {
    let (text, file) = match &arguments.config {
        Some(path) => (read_text(path, "--config")?, path.clone()),
        None => (String::new(), PathBuf::from("no configuration file")),
    };
    let folder = arguments
        .config
        .as_ref()
        .and_then(|path| path.parent())
        .unwrap_or(Path::new(""))
        .to_owned();
    let mut given = from_environment(environment);
    given.extend(arguments.given());
    Ok((Layers::read(&text, &file, &folder, given)?, folder))
}

/// The place of the key, which need not be there yet; refused (exit 2) as the configuration is.
pub fn identity_file(arguments: &NodeArgs) -> Result<PathBuf, Failure> {
    let (Layers { raw, .. }, folder) = read(arguments, std::env::vars())?;
    Ok(raw.identity.unwrap_or_else(|| folder.join(default("identity"))))
}

fn state_folder(layers: &Layers, folder: &Path) -> PathBuf {
    let said = layers.raw.state.clone();
    said.unwrap_or_else(|| folder.join(default("state")))
}

/// Variables that belong to other parts of the program, or to those who start it.
const OTHER_VARIABLES: [&str; 2] = ["UNDERTONE_LOG", "UNDERTONE_NODES"];

/// Keys that are lists of tables.
const LISTS: [&str; 3] = ["data_set", "auto_accept", "schedule"];

fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Vec<Given> {
    let single = KEYS
        .iter()
        .filter(|key| !LISTS.contains(&key.section))
        .map(|key| key.field());
    let fields: Vec<String> = single.chain(LISTS.map(String::from)).collect();
    let mut given = vec![];
    for (name, value) in variables {
        if !name.starts_with("UNDERTONE_") || OTHER_VARIABLES.contains(&name.as_str()) {
            continue;
        }
        match fields.iter().find(|field| layers::variable(field) == name) {
            Some(field) => given.push((field.clone(), value, Source::Environment(name))),
            None => tracing::warn!(
                "environment variable {name} is no key of the configuration; see `undertone node --help`"
            ),
        }
    }
    given
}

fn resolve(layers: &Layers, folder: &Path) -> Result<Config, Failure> {
    let raw = &layers.raw;
    if let Some(version) = raw.version.filter(|&version| version != 1) {
        return Err(layers.refuse(
            "version",
            format!("is {version}, which this program does not read; write version = 1"),
        ));
    }
    // Files: this party's key, and the peers that it must be one of.
    let path =
        |given: &Option<PathBuf>, field: &str| given.clone().unwrap_or_else(|| folder.join(default(field)));
    let state = state_folder(layers, folder);
    let identity_file = path(&raw.identity, "identity");
    let mut identity = Identity::load(&identity_file).map_err(|failure| failure.field("identity"))?;
    let peers_file = path(&raw.peers, "peers");
    let list = read_text(&peers_file, "peers")?;
    let peers = Peers::parse(&list).map_err(|e| make::peers_failure(&peers_file, &e))?;
    let listed = listed(&peers, &peers_file, &identity)?;
    identity.name.clone_from(&listed.name);
    if raw.keep_days == Some(0) {
        return Err(layers.refuse("keep_days", "is 0, so that no mean could be read"));
    }
    // Addresses: as the peer list has them, unless the configuration says otherwise.
    let listener = |given: &Option<String>, field: &str| {
        let given = given.as_ref().map(|text| text.parse::<Address>());
        given
            .transpose()
            .map_err(|e| layers.refuse(field, format!("is no listener: {e}")))
    };
    let private = listener(&raw.listen.private, "listen.private")?;
    let private = private.map_or_else(|| listed.contact.at.clone(), |address| vec![address]);
    let public = listener(&raw.listen.public, "listen.public")?.or_else(|| listed.contact.public.clone());
    if public.as_ref().is_some_and(|public| private.contains(public)) {
        return Err(layers.refuse(
            "listen.public",
            "is the same address as listen.private; each graph needs its own port",
        ));
    }
    // The API, and what may be contributed and accepted.
    let api = api(layers, &state)?;
    let data = path(&raw.data, "data");
    if raw.data.is_some() && !data.is_dir() {
        return Err(layers.refuse(
            "data",
            format!("is {}, which is no folder; make it", data.display()),
        ));
    }
    let data_sets = data_sets(layers)?;
    let auto_accept = auto_accept(layers, &peers, &data_sets)?;
    let schedules = schedules(layers, &peers, &data_sets)?;
    let (policy, vouched, max_runs) = policy(layers)?;
    let mut config = Config {
        identity,
        identity_file,
        state,
        data,
        output: raw.output.clone(),
        keep_days: raw.keep_days,
        list_digest: Sha256::digest(list.as_bytes()).into(),
        peers,
        private,
        public,
        api,
        policy,
        vouched,
        max_runs,
        data_sets,
        auto_accept,
        schedules,
        shown: vec![],
    };
    config.shown = shown(layers, &config);
    Ok(config)
}

/// This node's own entry in the peer list.
fn listed<'a>(peers: &'a Peers, file: &Path, identity: &Identity) -> Result<&'a Peer, Failure> {
    let listed = peers.as_slice().iter().find(|peer| peer.id == identity.peer_id());
    listed.ok_or_else(|| {
        Failure::usage(format!(
            "{}: this node's id {} is not in the list",
            file.display(),
            identity.peer_id()
        ))
        .field("peers")
        .hint("paste the lines that `undertone identity show` prints into everybody's peer list")
    })
}

/// A default of the table, without its quotes.
fn default(field: &str) -> &'static str {
    let key = KEYS.iter().find(|key| key.field() == field);
    key.and_then(|key| key.default)
        .map_or("", |text| text.trim_matches('"'))
}

fn default_number(field: &str) -> usize {
    default(field)
        .parse()
        .expect("the table's defaults are numbers where a number is asked for")
}

fn api(layers: &Layers, state: &Path) -> Result<ApiConfig, Failure> {
    let raw = &layers.raw.api;
    let listen = match raw.listen.as_deref() {
        None => ApiListen::Unix(state.join("api.sock")),
        Some(text) => match text.strip_prefix("unix:") {
            Some("") => {
                return Err(layers.refuse("api.listen", "names no socket; write it like unix:api.sock"));
            }
            Some(socket) => ApiListen::Unix(socket.into()),
            None => ApiListen::Tcp(text.parse().map_err(|_| {
                layers.refuse(
                    "api.listen",
                    format!("is {text:?}; write it like 127.0.0.1:7300, [::1]:7300 or unix:api.sock"),
                )
            })?),
        },
    };
    let max_body_bytes = raw
        .max_body_bytes
        .unwrap_or(default_number("api.max_body_bytes") as u64);
    if max_body_bytes == 0 {
        return Err(layers.refuse("api.max_body_bytes", "is 0, so that nothing could be submitted"));
    }
    let allow_remote = raw.allow_remote.unwrap_or(false);
    Ok(ApiConfig {
        listen,
        allow_remote,
        token: raw.token.clone().unwrap_or_else(|| state.join("api.token")),
        read_token: raw.read_token.clone(),
        max_body_bytes,
    })
}

fn policy(layers: &Layers) -> Result<(Policy, Option<BTreeSet<PeerId>>, usize), Failure> {
    let raw = &layers.raw.policy;
    if let Some(found) = raw.max_epsilon.filter(|e| !(*e > 0.0 && e.is_finite())) {
        return Err(layers.refuse(
            "policy.max_epsilon",
            format!("is {found}; it must be a number above 0"),
        ));
    }
    if let Some(found) = raw.max_delta.filter(|d| !(*d > 0.0 && *d <= 1.0)) {
        return Err(layers.refuse(
            "policy.max_delta",
            format!("is {found}; it must be a number above 0, and at most 1"),
        ));
    }
    let max_runs = raw.max_runs.unwrap_or(default_number("policy.max_runs"));
    if !(1..=MOST_RUNS).contains(&max_runs) {
        return Err(layers.refuse(
            "policy.max_runs",
            format!("is {max_runs}; choose a number from 1 to {MOST_RUNS}"),
        ));
    }
    let id = |(index, text): (usize, &String)| {
        let field = format!("policy.vouched.{index}");
        text.parse::<PeerId>()
            .map_err(|_| layers.refuse(&field, format!("is {text:?}, which is no peer id")))
    };
    let vouched = raw
        .vouched
        .as_ref()
        .map(|ids| ids.iter().enumerate().map(id).collect::<Result<_, _>>())
        .transpose()?;
    if vouched.is_some() && raw.max_epsilon.is_none() {
        return Err(layers.refuse(
            "policy.vouched",
            "needs policy.max_epsilon: what the others together may learn at most",
        ));
    }
    let policy = Policy {
        digest: None,
        max_epsilon: raw.max_epsilon,
        max_delta: raw.max_delta,
        min_colluders: raw
            .min_colluders
            .unwrap_or(default_number("policy.min_colluders")),
        accept_claims: raw.accept_claims,
    };
    Ok((policy, vouched, max_runs))
}

fn shown(layers: &Layers, config: &Config) -> Vec<(String, String, String)> {
    let written = serde_json::to_value(&layers.raw).unwrap_or_default();
    let line = |field: String, value: String, written: bool| {
        let source = if written {
            layers.source(&field)
        } else {
            Source::Default
        };
        (field, value, source.place(&layers.file))
    };
    let mut lines = vec![];
    for key in KEYS.iter().filter(|key| !LISTS.contains(&key.section)) {
        let value = written
            .pointer(&format!("/{}", key.field().replace('.', "/")))
            .filter(|value| !value.is_null());
        let derived = || match key.field().as_str() {
            "listen.private" => format!("{:?}", reaching::shown(&config.private)),
            "listen.public" => format!("{:?}", reaching::shown(config.public.as_slice())),
            "api.token" => format!("{:?}", config.api.token),
            "api.listen" => format!("{:?}", config.api.listen.to_string()),
            _ => key.default.unwrap_or("none").to_owned(),
        };
        lines.push(line(
            key.field(),
            value.map_or_else(derived, ToString::to_string),
            value.is_some(),
        ));
    }
    for section in LISTS {
        for (index, entry) in written[section].as_array().into_iter().flatten().enumerate() {
            lines.push(line(format!("{section}.{index}"), entry.to_string(), true));
        }
    }
    lines
}

#[cfg(test)]
mod tests;
