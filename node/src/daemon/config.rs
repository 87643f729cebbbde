//! `node.toml`: who this node is, where its state lies, what it accepts, what its data may cost.

use std::path::PathBuf;

/// Where the API listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiListen {
    /// A TCP address, loopback unless somebody chose otherwise.
    Tcp(std::net::SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// `[api]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where it listens.
    pub listen: ApiListen,
    /// The file with the bearer token; made with mode 0600 when it is absent.
    pub token: PathBuf,
    /// The longest request body, in bytes.
    pub max_body_bytes: u64,
}

/// The complete and checked configuration. All paths are absolute or count from the working directory.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The state directory.
    pub state: PathBuf,
    /// The API.
    pub api: ApiConfig,
}
