//! A forwarder on a host: what passes through a connection arrives later, in order.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, setns};

/// Pieces of at most 64 KiB that may be on their way in one direction: beyond that the sender
/// waits, as with a real window.
const ON_THE_WAY: usize = 256;

/// Stops listening when dropped; connections end with their ends.
#[derive(Debug)]
pub(super) struct Forwarder {
    namespace: PathBuf,
    port: u16,
    stopping: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Forwarder {
    /// Listens on a port of a namespace's host and forwards to an address there.
    pub(super) fn start(namespace: &str, port: u16, to: SocketAddr, delay: Duration) -> Self {
        let namespace = Path::new(super::NAMESPACES).join(namespace);
        let stopping = Arc::new(AtomicBool::new(false));
        let (sender, ready) = sync_channel(1);
        let (inside, stop) = (namespace.clone(), stopping.clone());
        let accepting = spawn(move || {
            enter(&inside);
            let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
            sender.send(()).expect("the test waits for it");
            while let Ok((stream, _)) = listener.accept() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                // Refused while nobody listens: what came in is closed again.
                if let Ok(onward) = TcpStream::connect(to) {
                    forward(&stream, &onward, delay);
                    forward(&onward, &stream, delay);
                }
            }
        });
        ready.recv().expect("the forwarder listens");
        Forwarder {
            namespace,
            port,
            stopping,
            accepting: Some(accepting),
        }
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Relaxed);
        let (namespace, port) = (self.namespace.clone(), self.port);
        // One last connection lets it go that waits for one.
        let knock = spawn(move || {
            enter(&namespace);
            let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
        });
        let _ = knock.join();
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// A thread belongs to a namespace by itself, and so do the threads that it starts and their
/// sockets.
pub(super) fn enter(namespace: &Path) {
    let file = File::open(namespace).unwrap_or_else(|e| panic!("{}: {e}", namespace.display()));
    setns(file, CloneFlags::CLONE_NEWNET).expect("root may enter a namespace");
}

fn forward(from: &TcpStream, to: &TcpStream, delay: Duration) {
    let clone = |stream: &TcpStream| stream.try_clone().expect("a second handle");
    let (from, to) = (clone(from), clone(to));
    let _ = to.set_nodelay(true);
    let (sender, due) = sync_channel(ON_THE_WAY);
    spawn(move || take_in(from, &sender, delay));
    spawn(move || hand_on(&due, to));
}

fn take_in(mut from: TcpStream, sender: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if sender
            .send((Instant::now() + delay, buffer[..length].to_vec()))
            .is_err()
        {
            break;
        }
    }
}

fn hand_on(due: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream) {
    for (at, bytes) in due {
        sleep(at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            // The other direction ends too: its reader finds the connection closed.
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
