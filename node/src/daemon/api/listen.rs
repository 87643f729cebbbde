//! Where the API listens: a Unix socket that only its owner can open, or a TCP address.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{Instant, Sleep};

use crate::daemon::config::{ApiConfig, ApiListen};
use crate::reporting::failure::Failure;

/// A listener that is bound.
#[derive(Debug)]
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Binds. Fails (exit 2) if the address is taken, or reaches other machines without
    /// `allow_remote`.
    pub(super) async fn bind(config: &ApiConfig) -> Result<Self, Failure> {
        match &config.listen {
            ApiListen::Tcp(address) => {
                if !address.ip().is_loopback() {
                    remote(config.allow_remote, &address.to_string())?;
                }
                let listener = TcpListener::bind(address)
                    .await
                    .map_err(|e| unbound(&address.to_string(), &e))?;
                Ok(Listener::Tcp(listener))
            }
            ApiListen::Unix(path) => {
                clear(path).await?;
                let at = |e: std::io::Error| unbound(&format!("unix:{}", path.display()), &e);
                let listener = UnixListener::bind(path).map_err(at)?;
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).map_err(at)?;
                Ok(Listener::Unix(listener, path.clone()))
            }
        }
    }

    /// As a client writes it; the port is the real one.
    pub(super) fn address(&self) -> String {
        match self {
            Listener::Tcp(listener) => listener
                .local_addr()
                .map_or_else(|e| e.to_string(), |address| address.to_string()),
            Listener::Unix(_, path) => format!("unix:{}", path.display()),
        }
    }

    /// Waits for the next connection; with the address that it comes from, unless it is a Unix
    /// socket.
    pub(super) async fn accept(&self) -> std::io::Result<(Stream, Option<IpAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, from) = listener.accept().await?;
                // Answers are written whole; events are small and late ones are useless.
                let _ = stream.set_nodelay(true);
                Ok((Stream::new(Socket::Tcp(stream)), Some(from.ip())))
            }
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                Ok((Stream::new(Socket::Unix(stream)), None))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listener::Unix(_, path) = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// HTTP carries token and vectors in the clear: an operator has to say that this is meant.
fn remote(allowed: bool, address: &str) -> Result<(), Failure> {
    if allowed {
        tracing::warn!(
            "the API listens on {address}, which other machines may reach: token and vectors cross that network unencrypted"
        );
        return Ok(());
    }
    Err(Failure::usage(format!("{address} can be reached from other machines, and the API speaks plain HTTP"))
        .field("api.listen")
        .hint("listen on 127.0.0.1 or a unix socket; or set `[api] allow_remote = true` on a network of your own, such as that of containers"))
}

fn unbound(address: &str, e: &std::io::Error) -> Failure {
    let failure = Failure::storage(e, format!("the API cannot listen on {address}: {e}")).field("api.listen");
    match e.kind() {
        ErrorKind::AddrInUse => failure.hint("another program uses this port; choose another one"),
        // A socket's path has at most 107 bytes (sockaddr_un).
        ErrorKind::InvalidInput => failure.hint("a socket's path has at most 107 bytes; set `[api] listen` to a shorter one"),
        _ => failure.hint("choose an address of this machine, or a socket in a folder that exists and that you can write to"),
    }
}

/// Removes a socket that nobody listens on any more: that of a daemon that was killed.
async fn clear(path: &Path) -> Result<(), Failure> {
    let Ok(found) = std::fs::symlink_metadata(path) else {
        return Ok(());
    };
    let at = |what: &str, hint: &str| {
        Err(Failure::usage(format!(
            "the API cannot listen on unix:{}: {what}",
            path.display()
        ))
        .field("api.listen")
        .hint(hint))
    };
    if !found.file_type().is_socket() {
        return at(
            "there is another file",
            "choose another path, or move that file away",
        );
    }
    if UnixStream::connect(path).await.is_ok() {
        return at("another daemon listens there", "stop it, or choose another path");
    }
    std::fs::remove_file(path).map_err(|e| unbound(&format!("unix:{}", path.display()), &e))
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// How long a client may take nothing of an answer that waits for it.
const UNREAD: Duration = Duration::from_secs(30);

/// A connection that is given up when its client stops reading.
#[derive(Debug)]
pub(super) struct Stream {
    socket: Socket,
    /// Runs while a write waits.
    unread: Option<Pin<Box<Sleep>>>,
}

impl Stream {
    fn new(socket: Socket) -> Self {
        Stream { socket, unread: None }
    }

    fn socket(&mut self) -> Pin<&mut dyn ReadWrite> {
        let socket: &mut dyn ReadWrite = match &mut self.socket {
            Socket::Tcp(stream) => stream,
            Socket::Unix(stream) => stream,
        };
        Pin::new(socket)
    }

    fn patient<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<std::io::Result<T>>,
    ) -> Poll<std::io::Result<T>> {
        if written.is_ready() {
            self.unread = None;
            return written;
        }
        let unread = self
            .unread
            .get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + UNREAD)));
        unread.as_mut().poll(cx).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

trait ReadWrite: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> ReadWrite for T {}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        self.socket().poll_read(cx, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let written = self.socket().poll_write(cx, bytes);
        self.patient(cx, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let flushed = self.socket().poll_flush(cx);
        self.patient(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.socket().poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = self.socket().poll_write_vectored(cx, slices);
        self.patient(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: ApiListen, allow_remote: bool) -> ApiConfig {
        ApiConfig {
            listen,
            allow_remote,
            token: PathBuf::new(),
            read_token: None,
            max_body_bytes: 1,
        }
    }

    #[tokio::test]
    async fn another_machine_reaches_it_only_if_that_is_meant() {
        let everywhere = ApiListen::Tcp("0.0.0.0:0".parse().unwrap());
        let failure = Listener::bind(&at(everywhere.clone(), false)).await.unwrap_err();
        assert!(failure.hint.unwrap().contains("allow_remote"));
        assert!(Listener::bind(&at(everywhere, true)).await.is_ok());
        for loopback in ["127.0.0.1:0", "127.9.9.9:0"] {
            let listener = Listener::bind(&at(ApiListen::Tcp(loopback.parse().unwrap()), false))
                .await
                .unwrap();
            assert!(!listener.address().ends_with(":0"), "the port is the real one");
            let taken = at(ApiListen::Tcp(listener.address().parse().unwrap()), false);
            assert!(
                Listener::bind(&taken)
                    .await
                    .unwrap_err()
                    .hint
                    .unwrap()
                    .contains("another program")
            );
        }
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_and_takes_the_place_of_a_dead_one_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("api.sock");
        let here = at(ApiListen::Unix(path.clone()), false);
        let listener = Listener::bind(&here).await.unwrap();
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(
            Listener::bind(&here)
                .await
                .unwrap_err()
                .message
                .contains("another daemon")
        );
        drop(listener);
        assert!(!path.exists());
        // As a killed daemon leaves it.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(Listener::bind(&here).await.unwrap());
        std::fs::write(&path, "precious").unwrap();
        assert!(
            Listener::bind(&here)
                .await
                .unwrap_err()
                .message
                .contains("another file")
        );
        assert_eq!(std::fs::read(&path).unwrap(), b"precious");
        let long = folder.path().join("x".repeat(120));
        assert!(
            Listener::bind(&at(ApiListen::Unix(long), false))
                .await
                .unwrap_err()
                .hint
                .unwrap()
                .contains("107")
        );
    }
}
