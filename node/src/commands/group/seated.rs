//! A connection of a lobby once somebody sits: what is read and written on it.

use std::sync::Arc;
use std::time::Duration;

use futures::io::{ReadHalf, WriteHalf};
use futures::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use crate::network::group::{Secured, read_frame, write_frame};

/// How often each end says that it is there: more often than a router forgets a silent connection.
const HERE: Duration = Duration::from_secs(10);
/// After so long a silence the other end is not there any more.
const SILENCE: Duration = Duration::from_secs(35);
/// How long a frame may take to be written.
const WRITING: Duration = Duration::from_secs(30);
/// Frames that may wait for one who does not read.
const QUEUED: usize = 64;
/// The shortest time between two messages of one connection: a close takes three.
const PACE: Duration = Duration::from_millis(10);

/// The way of a connection's frames.
pub(super) struct Handing<T, F> {
    /// Most bytes of a frame.
    pub(super) limit: usize,
    /// Reads a frame; `None` ends the connection.
    pub(super) read: F,
    /// Where it goes.
    pub(super) to: mpsc::Sender<T>,
    /// The last that goes there, once nothing can be read any more.
    pub(super) gone: T,
}

/// A connection of one who sits.
pub(super) struct SeatedConnection {
    /// Frames for the other end.
    pub(super) queue: mpsc::Sender<Arc<[u8]>>,
    reading: AbortHandle,
}

impl SeatedConnection {
    /// Lets what is queued arrive, and hears nothing more: else one key could sit again and again,
    /// and keep a connection each time.
    pub(super) fn hear_no_more(self) {
        self.reading.abort();
    }
}

/// Reads until a frame is none, the connection breaks, or the other end is silent.
async fn reading<T>(mut half: ReadHalf<Secured>, handing: Handing<T, impl Fn(&[u8]) -> Option<T>>) {
    while let Ok(Ok(frame)) = timeout(SILENCE, read_frame(&mut half, handing.limit)).await {
        let Some(message) = (handing.read)(&frame) else {
            break;
        };
        if handing.to.send(message).await.is_err() {
            return;
        }
        sleep(PACE).await;
    }
    let _ = handing.to.send(handing.gone).await;
}

/// Writes what is queued, and now and then `here`. Ends once nobody can queue any more and all is
/// written, or the connection breaks.
async fn writing(mut half: WriteHalf<Secured>, mut queue: mpsc::Receiver<Arc<[u8]>>, here: Arc<[u8]>) {
    loop {
        let frame = match timeout(HERE, queue.recv()).await {
            Ok(Some(frame)) => frame,
            Ok(None) => break,
            Err(_) => here.clone(),
        };
        if !matches!(timeout(WRITING, write_frame(&mut half, &frame)).await, Ok(Ok(()))) {
            return;
        }
    }
    // The last message must arrive before the connection goes.
    let _ = timeout(WRITING, half.close()).await;
}

/// Starts both ways of a connection. What the queue takes is written, and `here` now and then; it
/// is full if the other end does not read.
pub(super) fn start<T: Send + 'static>(
    secured: Secured,
    here: Vec<u8>,
    handing: Handing<T, impl Fn(&[u8]) -> Option<T> + Send + Sync + 'static>,
) -> SeatedConnection {
    let (read, write) = secured.split();
    let (sender, queue) = mpsc::channel(QUEUED);
    tokio::spawn(writing(write, queue, here.into()));
    SeatedConnection {
        queue: sender,
        reading: tokio::spawn(reading(read, handing)).abort_handle(),
    }
}
