//! The signals with which a person or a supervisor stops a node.

use std::future::pending;

use nix::sys::signal::Signal;
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};

use crate::reporting::output_file;

/// The signal with which `local` asks its nodes to leave. A SIGTERM to the whole group has reached
/// them already; beside it, this one does not count as a second.
pub const LEAVE: Signal = Signal::SIGUSR1;

/// SIGINT (Ctrl-C) and SIGTERM, as they come; neither ends this process any more.
#[derive(Debug)]
pub struct StopSignals(Option<[Stream; 2]>);

impl StopSignals {
    /// Listens from now on. Where that is impossible, the first signal ends the process.
    ///
    /// # Panics
    /// Outside of a runtime.
    pub fn listen() -> Self {
        let streams = signal(SignalKind::interrupt())
            .and_then(|interrupt| Ok([interrupt, signal(SignalKind::terminate())?]));
        StopSignals(streams.ok())
    }

    /// The next one.
    pub async fn next(&mut self) -> Signal {
        let Some([interrupt, terminate]) = &mut self.0 else {
            return pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Signal::SIGINT,
            _ = terminate.recv() => Signal::SIGTERM,
        }
    }
}

/// Listens from now on; comes with the first SIGINT, SIGTERM or [`LEAVE`]. The second SIGINT or
/// SIGTERM, or the second [`LEAVE`], ends the process at once, with the code that a shell shows for
/// one that it killed; nothing is left half written.
///
/// # Panics
/// Outside of a runtime.
pub fn leave() -> impl Future<Output = ()> {
    let mut stops = StopSignals::listen();
    let user_signal = signal(SignalKind::user_defined1());
    async move {
        let mut user_signal = user_signal.ok();
        let first = next(&mut stops, &mut user_signal).await;
        tracing::warn!(
            signal = first.as_str(),
            "leaving; a second SIGINT or SIGTERM ends this process at once"
        );
        tokio::spawn(async move {
            let mut counts = [0, 0];
            let mut last = first;
            loop {
                let count = &mut counts[usize::from(last == LEAVE)];
                *count += 1;
                if *count > 1 {
                    break;
                }
                last = next(&mut stops, &mut user_signal).await;
            }
            let shown = if last == LEAVE { Signal::SIGTERM } else { last };
            output_file::exit_at_once(128 + shown as i32);
        });
    }
}

/// The next signal of either kind.
async fn next(stops: &mut StopSignals, user_signal: &mut Option<Stream>) -> Signal {
    let leave = async {
        match user_signal {
            Some(user_signal) => user_signal.recv().await,
            None => pending().await,
        }
    };
    tokio::select! {
        stop = stops.next() => stop,
        _ = leave => LEAVE,
    }
}

/// Whether a process of ours that exited with this code was ended by a second signal.
pub fn ended_by_signal(code: i32) -> bool {
    [Signal::SIGINT, Signal::SIGTERM]
        .map(|signal| 128 + signal as i32)
        .contains(&code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_codes_of_two_signals_say_that_a_signal_ended_it() {
        let ended: Vec<i32> = (0..256).filter(|code| ended_by_signal(*code)).collect();
        // 128 + SIGINT, 128 + SIGTERM.
        assert_eq!(ended, [130, 143]);
        assert_eq!(LEAVE as i32, 10, "none of them");
    }

    /// A process of its own: a signal goes to all of it.
    #[tokio::test]
    async fn a_listener_hears_and_the_process_goes_on() {
        let mut stops = StopSignals::listen();
        nix::sys::signal::raise(Signal::SIGTERM).expect("to ourselves");
        assert_eq!(stops.next().await, Signal::SIGTERM);
        let leave = leave();
        nix::sys::signal::raise(LEAVE).expect("to ourselves");
        leave.await;
    }
}
