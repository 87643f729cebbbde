//! Tests that start processes, beside tests that listen again where a listener was closed.

use std::io::Read;
use std::sync::{PoisonError, RwLock};

/// From fork to exec a child holds copies of all that its parent has open, listeners included.
static FORKING: RwLock<()> = RwLock::new(());

/// Starts a process; nobody who [waits](until_over) goes on before its program runs.
pub(crate) fn spawn(command: &mut std::process::Command) -> std::io::Result<std::process::Child> {
    let _forking = FORKING.write().unwrap_or_else(PoisonError::into_inner);
    // The parent goes on as soon as the child has another memory, and the copies are closed after
    // that: a pipe's among them, at whose other end that is seen.
    let (mut closed, copied) = std::io::pipe()?;
    let child = command.spawn();
    drop(copied);
    let _ = closed.read(&mut [0])?;
    child
}

/// Waits until nothing that is closed by now is held by a child any more.
pub(crate) fn until_over() {
    drop(FORKING.read().unwrap_or_else(PoisonError::into_inner));
}
