//! Frames on an established edge: one task writes on the stream that we opened, one reads from the
//! stream that the peer opened.
//!
//! A frame is its length (4 bytes, big endian) and that many bytes. Nothing is allocated ahead of
//! what arrived. After the last frame the writer closes its half; the reader
//! closes its own when it has passed everything on. So a writer that sees the end of its stream
//! knows that all was read.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use libp2p::StreamProtocol;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::trace;
use undertone_protocol::plan::hex::hex;

use crate::network::event::NetworkEvent;
use crate::network::line::Line;
use crate::network::offence::Offence;
use crate::network::received::Received;
use crate::network::reports::Reports;

/// The frames' protocol. Its number is that of the hello's layout, which never changes; the hello
/// distinguishes versions, so that both sides can name them.
pub(super) const STREAM: StreamProtocol = StreamProtocol::new("/undertone/stream/1");
/// The protocol of frames of the public graph that take an encrypted connection.
pub(super) const PUBLIC_STREAM: StreamProtocol = StreamProtocol::new("/undertone/public/1");
/// Bytes of a frame's length.
pub(super) const HEADER: usize = 4;
/// The number of bytes written under one deadline, and the most that a reader's buffer grows beyond
/// the bytes that arrived. A peer must take or send this much within the stall time-out.
const PIECE: usize = 64 << 10;
/// Frames of one edge that may wait for the driver, however short they are.
pub(super) const FRAMES_IN_FLIGHT: usize = 64;

/// How one of the two tasks ended.
#[derive(Debug)]
pub(super) enum End {
    /// The peer closed the stream, or we did and the peer has read everything.
    Closed,
    /// The connection under the stream broke.
    Broken(io::Error),
    /// The peer did what it must not.
    Offence(Offence),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => End::Closed,
            _ => End::Broken(error),
        }
    }
}

/// Writes what the queue holds until the stream ends or the network shuts down.
pub(super) async fn write_frames<S>(mut stream: S, line: &Line, reports: &Reports) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    write_all_frames(&mut stream, line, reports)
        .await
        .unwrap_or_else(|end| end)
}

async fn write_all_frames<S>(stream: &mut S, line: &Line, reports: &Reports) -> Result<End, End>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        if let Some(frame) = line.queue.pop() {
            if let Some(ticket) = &frame.ticket {
                if !ticket.take() {
                    continue;
                }
                reports
                    .tell(NetworkEvent::Left {
                        graph: line.graph,
                        peer: line.peer,
                        token: frame.token,
                    })
                    .await;
            }
            write_frame(stream, &frame.bytes, line).await?;
            continue;
        }
        in_time(line.stall, stream.flush()).await?;
        if reports.shutting_down() {
            in_time(line.stall, stream.close()).await?;
            return match stream.read(&mut [0]).await? {
                0 => Ok(End::Closed),
                _ => Err(End::Offence(Offence::OutOfTurn)),
            };
        }
        let mut byte = [0];
        tokio::select! {
            () = line.queue.arrived() => {}
            () = reports.shutdown() => {}
            read = stream.read(&mut byte) => return match read? {
                0 => Ok(End::Closed),
                _ => Err(End::Offence(Offence::OutOfTurn)),
            },
        }
    }
}

/// Length and the first piece go out in one write: plaintext sends each write as a packet of its
/// own.
async fn write_frame<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8], line: &Line) -> Result<(), End> {
    let Line {
        graph, peer, digest, ..
    } = line;
    trace!(digest = hex(digest), %graph, %peer, bytes = bytes.len(), "frame sent");
    // The handle refused what is above `max_frame`, which fits 32 bits.
    let length = bytes.len() as u32;
    let (first, rest) = bytes.split_at(bytes.len().min(PIECE - HEADER));
    let mut start = Vec::with_capacity(HEADER + first.len());
    start.extend_from_slice(&length.to_be_bytes());
    start.extend_from_slice(first);
    in_time(line.stall, stream.write_all(&start)).await?;
    line.count_sent(start.len());
    for piece in rest.chunks(PIECE) {
        in_time(line.stall, stream.write_all(piece)).await?;
        line.count_sent(piece.len());
    }
    Ok(())
}

/// Reads frames and hands them to the driver until the stream ends. While the network shuts down
/// they are dropped.
pub(super) async fn read_frames<S>(mut stream: S, line: &Line, reports: &Reports) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let budget = Arc::new(Semaphore::new(line.inbound_bytes));
    loop {
        match read_frame(&mut stream, line, &budget).await {
            Ok(Some(bytes)) => {
                reports
                    .tell(NetworkEvent::Frame {
                        graph: line.graph,
                        peer: line.peer,
                        bytes,
                    })
                    .await;
            }
            Ok(None) => {
                let _ = timeout(line.stall, stream.close()).await;
                return End::Closed;
            }
            Err(end) => return end,
        }
    }
}

/// The next frame, or `None` at the end of the stream.
async fn read_frame<S: AsyncRead + Unpin>(
    stream: &mut S,
    line: &Line,
    budget: &Arc<Semaphore>,
) -> Result<Option<Received>, End> {
    let mut header = [0; HEADER];
    // Between frames a peer may be silent for as long as it likes.
    let begun = stream.read(&mut header).await?;
    if begun == 0 {
        return Ok(None);
    }
    in_time(line.stall, stream.read_exact(&mut header[begun..])).await?;
    let length = u32::from_be_bytes(header) as usize;
    if length > line.max_frame {
        return Err(End::Offence(Offence::FrameTooLong {
            length,
            limit: line.max_frame,
        }));
    }
    let cost = (length + line.inbound_bytes / FRAMES_IN_FLIGHT).min(line.inbound_bytes);
    let permit = Arc::clone(budget).acquire_many_owned(cost as u32).await;
    let permit = permit.expect("the semaphore is never closed");

    let mut bytes = Vec::new();
    while bytes.len() < length {
        if bytes.len() == bytes.capacity() {
            // Once a piece is there, all of it is reserved: memory is used as bytes arrive, and
            // growing step by step would copy them.
            let whole = if bytes.is_empty() {
                PIECE.min(length)
            } else {
                length
            };
            bytes.reserve_exact(whole - bytes.len());
        }
        let filled = bytes.len();
        bytes.resize(bytes.capacity().min(filled + PIECE).min(length), 0);
        let read = in_time(line.stall, stream.read(&mut bytes[filled..])).await?;
        if read == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        bytes.truncate(filled + read);
    }
    Ok(Some(Received { bytes, permit }))
}

/// A step that must not take longer than `stall`.
async fn in_time<T>(stall: Duration, step: impl Future<Output = io::Result<T>>) -> Result<T, End> {
    match timeout(stall, step).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(End::Offence(Offence::Stalled {
            after_ms: stall.as_millis() as u64,
        })),
    }
}
