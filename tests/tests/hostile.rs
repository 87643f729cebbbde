//! Real nodes under attack from the network: connections that say nothing, garbage at full speed,
//! and somebody who opens streams without end, or connects and says nothing, in the name of a
//! member. The run goes on, and memory stays bounded.
//!
//! By what: a connection that has not proved itself is open for 3 s at most; 256 at a time may
//! stand before their handshake, eight in the name of each member after it, of whose streams four
//! are examined at once, eight may be negotiating and four wait; newer ones push out the oldest. A
//! proved one has a Yamux window of 28 MiB and 64 streams at most; frames are read only as far as
//! a budget of two longest frames a peer and run; and the machine keeps one notice a slot.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use libp2p_identity::PeerId;
use undertone_protocol::plan::peers::public_key;
use undertone_tests::{Parties, alone, follow_in};

/// Rounds of a second, so that the attack has time; deadlines of a minute, for the attackers take
/// the nodes' processor time, too.
const RUN: &str = "version = 1\nname = \"attacked\"\n[data]\nnoise_ok = true\nshape = [1000]\n[mechanism]\nrounds = 4\n[run]\njoin_ms = 60000\nround_ms = 60000\nsettle_ms = 60000\npace_ms = 1000\n";
/// Resident memory at its peak; 13 MiB when nobody attacks.
const MOST_MIB: u64 = 64;

/// Before a connection that was refused is tried again: a loop without a pause would keep a
/// processor from the nodes.
const PAUSE: Duration = Duration::from_millis(10);

/// Connects, or waits a moment.
fn connect(port: u16) -> Option<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port)).ok();
    if socket.is_none() {
        // Nobody sends: it only paces the trying.
        let (_sender, pace) = channel::<()>();
        let _ = pace.recv_timeout(PAUSE);
    }
    socket
}

/// Attackers at work until they are dropped.
struct Attack {
    over: Arc<AtomicBool>,
    bytes: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Attack {
    fn new() -> Self {
        Attack {
            over: Arc::default(),
            bytes: Arc::default(),
            threads: vec![],
            held: Arc::default(),
        }
    }

    /// Connections that say nothing, so many of them, for as long as the attack lasts.
    fn say_nothing(&mut self, port: u16, count: usize) {
        let connections = (0..count).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok());
        self.held.lock().expect("no panic").extend(connections);
    }

    /// Opens a connection, says `opening`, and repeats `flood` at full speed; again when it is
    /// closed.
    fn flood(&mut self, port: u16, opening: Vec<u8>, flood: Vec<u8>) {
        let (over, bytes) = (self.over.clone(), self.bytes.clone());
        self.threads.push(std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let Some(mut socket) = connect(port) else { continue };
                // What is not read must not hold us up for ever, nor must a victim that does not
                // read.
                let patience = Some(Duration::from_millis(500));
                let _ = socket
                    .set_write_timeout(patience)
                    .and_then(|()| socket.set_read_timeout(Some(Duration::from_millis(20))));
                let mut ignored = [0; 4096];
                if socket.write_all(&opening).is_err() {
                    continue;
                }
                let _ = socket.read(&mut ignored);
                while !over.load(Ordering::Relaxed) && socket.write_all(&flood).is_ok() {
                    bytes.fetch_add(flood.len() as u64, Ordering::Relaxed);
                }
            }
        }));
    }

    /// Opens a connection, says `opening` and then nothing; again when it is closed. So many at the
    /// same time.
    fn fall_silent(&mut self, port: u16, opening: &[u8], count: usize) {
        for _ in 0..count {
            let (over, bytes, opening) = (self.over.clone(), self.bytes.clone(), opening.to_vec());
            self.threads.push(std::thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let Some(mut socket) = connect(port) else { continue };
                    let _ = socket.set_read_timeout(Some(Duration::from_millis(100)));
                    if socket.write_all(&opening).is_err() {
                        continue;
                    }
                    bytes.fetch_add(opening.len() as u64, Ordering::Relaxed);
                    let closed = |read: std::io::Result<usize>| match read {
                        Ok(bytes) => bytes == 0,
                        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
                    };
                    while !over.load(Ordering::Relaxed) && !closed(socket.read(&mut [0; 4096])) {}
                }
            }));
        }
    }

    fn end(mut self) -> u64 {
        self.over.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .for_each(|thread| thread.join().expect("an attacker does not panic"));
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Plaintext's handshake in the name of a member, of whom only the public key is known, up to
/// Yamux.
fn opening_as(id: &PeerId) -> Vec<u8> {
    let framed = |bytes: &[u8]| [&[bytes.len() as u8][..], bytes].concat();
    let key = public_key(id)
        .expect("an ed25519 id holds its key")
        .encode_protobuf();
    let exchange = [&[0x0a][..], &framed(&id.to_bytes()), &[0x12], &framed(&key)].concat();
    let line = |text: &str| framed(format!("{text}\n").as_bytes());
    let (select, yamux) = (line("/multistream/1.0.0"), line("/yamux/1.0.0"));
    [
        &select[..],
        &line("/plaintext/2.0.0"),
        &framed(&exchange),
        &select,
        &yamux,
    ]
    .concat()
}

/// Yamux's way to open ten thousand streams.
fn streams() -> Vec<u8> {
    let open = |id: u32| [&[0, 1, 0, 1][..], &(2 * id + 1).to_be_bytes(), &[0; 4]].concat();
    (0..10_000).flat_map(open).collect()
}

fn garbage() -> Vec<u8> {
    (0..1u32 << 16)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Peak resident memory of each process, looked at until it is gone.
fn watch(pids: Vec<i32>) -> JoinHandle<Vec<u64>> {
    std::thread::spawn(move || {
        let mut peaks = vec![0; pids.len()];
        // Nobody sends: it only paces the looking.
        let (_sender, pace) = channel::<()>();
        loop {
            let mut alive = false;
            for (pid, peak) in pids.iter().zip(&mut peaks) {
                let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
                let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
                if let Some(kib) =
                    line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok())
                {
                    (alive, *peak) = (true, kib / 1024);
                }
            }
            if !alive {
                return peaks;
            }
            let _ = pace.recv_timeout(Duration::from_millis(20));
        }
    })
}

/// Three of four parties are up when the attack begins; the fourth joins under it. All end with one
/// result.
fn attacked(attack: impl FnOnce(&Parties, &mut Attack)) {
    let _alone = alone();
    let parties = Parties::new(4);
    parties.write_inputs(&[1000]);
    parties.plan("plan", RUN);
    let mut nodes = vec![];
    let mut under_attack = Attack::new();
    let mut attack = Some(attack);
    for party in 0..4 {
        let (running, mut events) = follow_in(parties.folder(), parties.join("plan", party));
        events.until("gathering", |e| {
            e["event"] == "phase" && e["phase"] == "gathering"
        });
        nodes.push((running, events));
        if party == 2 {
            attack.take().expect("once")(&parties, &mut under_attack);
        }
    }
    let peaks = watch(nodes.iter().map(|(running, _)| running.pid()).collect());
    let mut faults = 0;
    let mut took: f64 = 0.0;
    for (running, events) in nodes {
        faults += events
            .rest()
            .iter()
            .filter(|event| event["event"] == "fault")
            .count();
        let object = running.wait().json_of(0);
        took = took.max(object["total_wall_s"].as_f64().expect("seconds"));
    }
    let peaks = peaks.join().expect("it does not panic");
    let sent = under_attack.end();
    println!(
        "{} MB of attack, {took:.1} s, peaks {peaks:?} MiB, {faults} faults told",
        sent >> 20
    );
    let means: Vec<_> = parties
        .names()
        .iter()
        .map(|name| std::fs::read(parties.path(&format!("plan-{name}.npy"))).expect("a mean"))
        .collect();
    assert!(means.iter().all(|mean| *mean == means[0]), "one result");
    assert!(
        peaks.iter().all(|&mib| mib > 0 && mib < MOST_MIB),
        "{peaks:?} MiB"
    );
    assert!(faults < 400, "a flood of bytes is no flood of words: {faults}");
}

#[test]
fn connections_that_say_nothing_do_not_stop_a_run() {
    attacked(|parties, attack| {
        (0..3)
            .flat_map(|party| parties.ports(party))
            .for_each(|port| attack.say_nothing(port, 400))
    });
}

#[test]
fn garbage_at_full_speed_does_not_stop_a_run() {
    attacked(|parties, attack| {
        parties
            .ports(1)
            .into_iter()
            .for_each(|port| attack.flood(port, vec![], garbage()))
    });
}

fn member(parties: &Parties, party: usize) -> PeerId {
    let id = parties.lines()[party]
        .lines()
        .find_map(|line| line.strip_prefix("id = "))
        .expect("an id");
    id.trim_matches('"').parse().expect("a peer id")
}

#[test]
fn streams_without_end_in_a_members_name_do_not_stop_a_run() {
    attacked(|parties, attack| {
        // To alice: as bob, who is connected already, and as dave, who will come.
        let port = parties.ports(0)[1];
        [1, 3]
            .into_iter()
            .for_each(|party| attack.flood(port, opening_as(&member(parties, party)), streams()));
    });
}

#[test]
fn silence_in_a_members_name_does_not_stop_a_run() {
    attacked(|parties, attack| {
        // To alice: as dave, who will come. Twice as many connections as anybody may have before a
        // hello: the others wait for their turn.
        let port = parties.ports(0)[1];
        attack.fall_silent(port, &opening_as(&member(parties, 3)), 16);
    });
}
