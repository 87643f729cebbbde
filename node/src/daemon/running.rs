//! `undertone node`: from the start of the process to its end.

use std::time::{Duration, Instant};

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};

use crate::daemon::api::server::Server;
use crate::daemon::config::{Config, NodeArgs};
use crate::daemon::service::Service;
use crate::daemon::travel;
use crate::party::reaching::shown;
use crate::reporting::failure::Failure;
use crate::reporting::process;
use crate::reporting::report::Report;
use crate::reporting::table::bytes;

/// How long heavy work that nobody waits for any more may hold up the end.
const WIND_UP: Duration = Duration::from_millis(500);

/// Runs the daemon until it is asked to end (SIGTERM or SIGINT).
pub fn run(arguments: NodeArgs) -> Result<Report, Failure> {
    let begun = Instant::now();
    process::write_no_cores();
    let config = Config::load(&arguments)?;
    for (field, value, place) in config.shown() {
        tracing::info!("{field} = {value}  # {place}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let result = runtime.block_on(serve(config, &arguments));
    runtime.shutdown_timeout(WIND_UP);
    result?;
    let (cpu_s, peak) = (process::cpu_s(), process::peak_memory_bytes());
    let uptime_s = begun.elapsed().as_secs_f64();
    let json = json!({ "outcome": "stopped", "uptime_s": uptime_s, "cpu_s": cpu_s, "peak_memory_bytes": peak, "exit_code": 0 });
    let text = format!(
        "Stopped after {uptime_s:.1} s: {:.2} s of processor time, at most {} of memory.\n",
        cpu_s.unwrap_or(0.0),
        bytes(peak.unwrap_or(0))
    );
    Ok(Report::done(json, text))
}

async fn serve(config: Config, arguments: &NodeArgs) -> Result<(), Failure> {
    let no_signals = |e: std::io::Error| Failure::usage(format!("signals cannot be waited for: {e}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(no_signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(no_signals)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(no_signals)?;
    let service = Service::start(config).await?;
    travel::answer(&service);
    service.keep_keys();
    service.keep_runs();
    service.keep_schedules();
    service.read_results_back();
    let accepted = service.clone();
    service.in_background(async move { accepted.take_up_again().await });
    let server = match Server::bind(&service.config().api, service.clone()).await {
        Ok(server) => server,
        Err(failure) => {
            service.shutdown().await;
            return Err(failure);
        }
    };
    let config = service.config();
    tracing::info!(
        party = config.identity.name,
        id = %config.identity.peer_id(),
        private = shown(&config.private),
        public = shown(config.public.as_slice()),
        api = %server.address(),
        "ready"
    );
    if config.data_sets.is_empty() {
        tracing::warn!("no [[data_set]] has a budget: what runs cost is written down, and nothing limits it");
    }
    let ending = service.clone();
    let stop = async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => reload(&ending, arguments).await,
            }
        }
        tracing::info!("told to end");
        ending.shutdown().await;
    };
    server.serve(stop).await;
    Ok(())
}

/// Reads the configuration again. Settings that cannot be put in force are reported, and change
/// nothing.
async fn reload(service: &Service, arguments: &NodeArgs) {
    let fresh = match Config::load(arguments) {
        Ok(fresh) => service.reload(fresh).await,
        Err(failure) => Err(failure),
    };
    service.shared.counters.reloaded(fresh.is_ok());
    match fresh {
        Ok(()) => {
            tracing::info!("the configuration was read again and is in force");
            service.delete_old_runs().await;
        }
        Err(failure) => tracing::error!("the configuration stays as it was: {failure}"),
    }
}
