//! What a person or a supervisor sends to stop a node.

use std::future::pending;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

/// Listens from now on; comes with the first SIGINT (Ctrl-C) or SIGTERM. From then on the next one
/// ends the process at once, as if nobody had listened.
///
/// # Panics
/// Outside of a runtime.
pub fn leave() -> impl Future<Output = Signal> {
    let streams = signal(SignalKind::interrupt())
        .and_then(|interrupt| Ok([interrupt, signal(SignalKind::terminate())?]));
    async move {
        // Without handlers the first signal ends the process.
        let Ok(mut streams) = streams else {
            return pending().await;
        };
        let first = next(&mut streams).await;
        tracing::warn!(
            signal = first.as_str(),
            "leaving; the same again ends this process at once"
        );
        tokio::spawn(async move {
            let second = next(&mut streams).await;
            std::process::exit(128 + second as i32);
        });
        first
    }
}

async fn next([interrupt, terminate]: &mut [Stream; 2]) -> Signal {
    tokio::select! {
        _ = interrupt.recv() => Signal::SIGINT,
        _ = terminate.recv() => Signal::SIGTERM,
    }
}
