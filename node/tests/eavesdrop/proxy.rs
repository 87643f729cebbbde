//! Proxies that keep every byte that they carry.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};

use rand::RngExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, tcp};

/// Everything that went over one connection to a proxy.
#[derive(Default)]
pub(crate) struct Capture {
    pub(crate) to_listener: Vec<u8>,
    pub(crate) from_listener: Vec<u8>,
}

pub(crate) type Captures = Arc<Mutex<Vec<Arc<Mutex<Capture>>>>>;

/// Carries one connection and keeps what it carried.
async fn carry(client: TcpStream, target: u16, capture: Arc<Mutex<Capture>>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", target)).await else {
        return;
    };
    let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
    let keep = |capture: &Arc<Mutex<Capture>>, listener: bool| {
        let capture = capture.clone();
        move |bytes: &[u8]| {
            let mut capture = capture.lock().expect("no panic");
            let side = if listener {
                &mut capture.to_listener
            } else {
                &mut capture.from_listener
            };
            side.extend_from_slice(bytes);
        }
    };
    tokio::join!(
        pump(from_client, to_server, keep(&capture, true)),
        pump(from_server, to_client, keep(&capture, false))
    );
}

async fn pump(mut from: tcp::OwnedReadHalf, mut to: tcp::OwnedWriteHalf, keep: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length) = from.read(&mut buffer).await {
        keep(&buffer[..length]);
        if length == 0 || to.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _ = to.shutdown().await;
}

/// Ports that nobody has, below the range from which the system gives ports to the connections that
/// are made here, and what holds each: nobody else takes it, and it can be listened on.
pub(crate) fn free_ports() -> impl Iterator<Item = (u16, TcpSocket)> {
    let start = rand::rng().random_range(10_240..31_000);
    (start..32_000).filter_map(|port| {
        let holding = TcpSocket::new_v4().ok()?;
        // First without SO_REUSEADDR, which would share the port with others who hold it; then
        // with it, so that the listener shares the port with us.
        holding.bind((Ipv4Addr::LOCALHOST, port).into()).ok()?;
        holding.set_reuseaddr(true).ok()?;
        Some((port, holding))
    })
}

/// A proxy in front of `target`; returns its port.
pub(crate) fn proxy(target: u16, captures: &Captures) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let port = listener.local_addr().expect("bound").port();
    let (listener, captures) = (
        tokio::net::TcpListener::from_std(listener).expect("in a runtime"),
        captures.clone(),
    );
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let capture = Arc::default();
            captures.lock().expect("no panic").push(Arc::clone(&capture));
            tokio::spawn(carry(client, target, capture));
        }
    });
    port
}
