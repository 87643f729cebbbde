//! `undertone result`: a run's mean and receipt as files.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use hyper::Method;
use hyper::header::{self, HeaderValue};
use serde_json::Value;

use crate::commands::client::connection::{Answer, Sent};
use crate::commands::client::daemon::{ApiArgs, run};
use crate::commands::client::show;
use crate::daemon::status::RunStatus;
use crate::telling::failure::Failure;
use crate::telling::report::Report;

/// Flags of `result`.
#[derive(Args, Debug)]
#[group(id = "files", required = true, multiple = true, args = ["output", "receipt"])]
pub struct ResultArgs {
    /// The run's digest; its first digits will do
    #[arg(value_name = "DIGEST")]
    digest: String,
    /// Where to write the mean: .npy or .json; .csv or .safetensors if the input was one
    #[arg(long, value_name = "MEAN")]
    output: Option<PathBuf>,
    /// Where to write the receipt; its signature goes to FILE.sig
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    #[command(flatten)]
    api: ApiArgs,
}

/// Writes what a run gave.
pub fn result(arguments: ResultArgs) -> Result<Report, Failure> {
    let daemon = arguments.api.daemon()?;
    let media_type = arguments.output.as_deref().map(media_type).transpose()?;
    run(async {
        let digest = daemon.digest(&arguments.digest, "runs").await?;
        let at = |what: &str| format!("/v1/runs/{digest}{what}");
        let run: RunStatus = daemon.get(&at("")).await?;
        // The receipt first: there is one even where there is no mean.
        if let Some(path) = &arguments.receipt {
            write(path, "--receipt", daemon.ask(Method::GET, &at("/receipt")).await?).await?;
            let mut signed = path.as_os_str().to_owned();
            signed.push(".sig");
            write(
                Path::new(&signed),
                "--receipt",
                daemon.ask(Method::GET, &at("/receipt.sig")).await?,
            )
            .await?;
        }
        if let (Some(path), Some(media_type)) = (&arguments.output, media_type) {
            let headers = vec![(header::ACCEPT, HeaderValue::from_static(media_type))];
            let mean = daemon
                .send(Method::GET, &at("/result"), Sent { headers, body: None })
                .await?;
            write(path, "--output", mean).await?;
        }
        Ok(report(&arguments, &run))
    })
}

fn report(arguments: &ResultArgs, run: &RunStatus) -> Report {
    let mut text = String::new();
    let mut object = show::object(run);
    for (name, path) in [("output", &arguments.output), ("receipt", &arguments.receipt)] {
        object[name] = path
            .as_ref()
            .map_or(Value::Null, |path| path.display().to_string().into());
    }
    if let Some(path) = &arguments.output {
        text += &format!(
            "The mean of {} of {} parties is in {}.\n",
            run.included.len(),
            run.parties,
            path.display()
        );
    }
    if let Some(path) = &arguments.receipt {
        text += &format!(
            "The receipt is in {}, its signature in {}.sig.\n",
            path.display(),
            path.display()
        );
    }
    Report::done(object, text + "\n" + &show::run(run))
}

fn media_type(path: &Path) -> Result<&'static str, Failure> {
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .map(str::to_ascii_lowercase);
    match extension.as_deref() {
        Some("npy") => Ok("application/x-npy"),
        Some("json") => Ok("application/json"),
        Some("csv") => Ok("text/csv"),
        Some("safetensors") => Ok("application/x-safetensors"),
        _ => Err(Failure::usage(format!(
            "{}: its extension is no format of a mean",
            path.display()
        ))
        .field("--output")
        .hint("end it in .npy, .json, .csv or .safetensors")),
    }
}

/// The file appears whole or not at all.
async fn write(path: &Path, flag: &str, mut answer: Answer) -> Result<(), Failure> {
    let refused = |e: std::io::Error| {
        Failure::storage(&e, format!("{}: cannot be written: {e}", path.display()))
            .field(flag)
            .hint("name a file in a folder that exists and that you can write to")
    };
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(public())
        .tempfile_in(folder)
        .map_err(refused)?;
    while let Some(piece) = answer.piece().await? {
        file.write_all(&piece).map_err(refused)?;
    }
    file.as_file().sync_all().map_err(refused)?;
    file.persist(path).map_err(|e| refused(e.error))?;
    Ok(())
}

/// Results are public; the umask still counts.
fn public() -> std::fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(0o644)
}
