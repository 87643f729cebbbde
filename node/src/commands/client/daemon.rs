//! A daemon that can be asked: where it is, how it knows us, and how it refuses.

use std::future::Future;
use std::path::PathBuf;

use clap::Args;
use hyper::StatusCode;
use hyper::header::HeaderValue;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::commands::client::endpoint::Endpoint;
use crate::daemon::api::problem::Problem;
use crate::daemon::api::token::Token;
use crate::daemon::config::{ApiConfig, NodeArgs};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output;

/// Where the daemon is and how it knows us.
#[derive(Args, Clone, Debug)]
pub(super) struct ApiArgs {
    /// The daemon's API: HOST:PORT or unix:PATH
    ///
    /// Or http://HOST:PORT. Default: as --config or UNDERTONE_API_LISTEN says, else
    /// unix:state/api.sock.
    #[arg(long, value_name = "URL")]
    api: Option<String>,
    /// The daemon's token file
    ///
    /// Default: as --config or UNDERTONE_API_TOKEN says, else api.token beside the socket of
    /// --api, else state/api.token.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// The daemon's configuration
    ///
    /// Of it only the API's address and token file are used.
    #[arg(long, value_name = "NODE.toml")]
    config: Option<PathBuf>,
}

/// A daemon that can be asked.
#[derive(Debug)]
pub(super) struct Daemon {
    pub(super) endpoint: Endpoint,
    pub(super) token: HeaderValue,
}

impl ApiArgs {
    /// Fails (exit 2) if there is no such address or token.
    pub(super) fn daemon(&self) -> Result<Daemon, Failure> {
        let endpoint = self
            .api
            .as_deref()
            .map(str::parse::<Endpoint>)
            .transpose()
            .map_err(|failure| failure.field("--api"))?;
        let token_file = self.token_file.clone();
        let token_file = token_file.or_else(|| self.beside(endpoint.as_ref()?));
        let (endpoint, token_file) = match (endpoint, token_file) {
            (Some(endpoint), Some(file)) => (endpoint, file),
            (endpoint, file) => {
                let config = ApiConfig::load(&NodeArgs {
                    config: self.config.clone(),
                    ..NodeArgs::default()
                })?;
                (
                    endpoint.unwrap_or(config.listen.into()),
                    file.unwrap_or(config.token),
                )
            }
        };
        Ok(Daemon {
            endpoint,
            token: Token::load(&token_file)?.header(),
        })
    }
}

impl ApiArgs {
    /// The token file beside a daemon's socket, where nothing else says which one it is.
    fn beside(&self, endpoint: &Endpoint) -> Option<PathBuf> {
        let is_said = self.config.is_some() || std::env::var_os("UNDERTONE_API_TOKEN").is_some();
        match endpoint {
            Endpoint::Unix(socket) if !is_said => Some(socket.with_file_name("api.token")),
            Endpoint::Unix(_) | Endpoint::Tcp(_) => None,
        }
    }
}

impl Daemon {
    /// GET and read an object.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        self.ask(hyper::Method::GET, path).await?.object().await
    }

    /// Tells at a terminal, and nowhere else, what the owner's table of this run has that the plan
    /// does not describe. A daemon that does not say is no failure.
    pub(super) async fn tell_owner(&self, digest: &str) {
        if !output::is_terminal() {
            return;
        }
        let answer: Result<Value, Failure> = self.get(&format!("/v1/runs/{digest}/table")).await;
        let sentences = answer
            .ok()
            .and_then(|answer| answer["sentences"].as_array().cloned());
        let sentences = sentences.into_iter().flatten();
        let told: Vec<String> = sentences
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect();
        output::tell_owner(&told);
    }
}

/// Runs a client to its end. One thread is enough: it waits for the daemon.
pub(super) fn run<T>(client: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?
        .block_on(client)
}

/// The daemon's refusal as this process's failure.
pub(super) fn refusal(status: StatusCode, problem: &[u8]) -> Failure {
    let Ok(problem) = serde_json::from_slice::<Problem>(problem) else {
        return Failure::usage(format!("the daemon answered {status}"))
            .field("--api")
            .hint("is that an undertone daemon?");
    };
    let exit = Exit::of(problem.exit_code)
        .filter(|exit| *exit != Exit::Done)
        .unwrap_or(Exit::Internal);
    Failure {
        exit,
        message: problem.detail,
        field: problem.field,
        hint: problem.hint,
    }
}
