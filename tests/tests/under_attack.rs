//! A daemon serves its operator and takes part in runs while strangers do what strangers can: open
//! connections to its API and to its ports, and abandon them or fall silent.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use socket2::SockRef;
use undertone_tests::daemon::Daemon;
use undertone_tests::ports::Ports;
use undertone_tests::{Ended, Parties, alone, assert_mean_of, read_npy, run_in, undertone};

/// What an answer may take. (Before strangers were kept apart, it took 37 s after 10 s of abandoned
/// requests.)
const ANSWER: Duration = Duration::from_secs(1);

/// Answers of which most must come within that, and none may take five times as long: the machine
/// does other things meanwhile.
const ASKED: usize = 5;

/// Files that a process may open on most systems unless it asks for more: fewer than an attacked
/// daemon has places for strangers.
const FILES: u32 = 1024;

/// Silent connections that one attacker keeps: more than a port has places for newcomers.
const SILENT: usize = 800;

/// Something that a stranger does again and again, until it is told to stop.
struct Attack {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Attack {
    fn begin(mut once: impl FnMut() + Send + 'static) -> Self {
        let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, counted) = (stop.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                once();
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Attack {
            stop,
            done,
            thread: Some(thread),
        }
    }

    /// Requests without a token whose senders are gone before an answer.
    fn of_abandoned_requests(api: SocketAddr) -> Self {
        Attack::begin(move || {
            let Ok(mut socket) = TcpStream::connect(api) else {
                return;
            };
            // Closing it resets it.
            let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
            let _ = socket.write_all(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n\r\n");
        })
    }

    /// Connections on which `word` is said and nothing else, so many at a time; those that the
    /// other side closes are opened again.
    fn of_silence(address: SocketAddr, word: &'static [u8]) -> Self {
        let mut silent: Vec<Option<TcpStream>> = (0..SILENT).map(|_| None).collect();
        // Nobody sends: it only paces the attack, which is not on the processor's time.
        let (sender, pace) = channel::<()>();
        Attack::begin(move || {
            let _nobody = &sender;
            for place in &mut silent {
                if !place.as_mut().is_some_and(is_open) {
                    *place = open(address, word);
                }
            }
            let _ = pace.recv_timeout(Duration::from_millis(250));
        })
    }

    fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }
}

impl Drop for Attack {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(
            ended.is_some_and(|ended| ended.is_ok()),
            "the attack ended by itself"
        );
    }
}

fn open(address: SocketAddr, word: &[u8]) -> Option<TcpStream> {
    let mut socket = TcpStream::connect(address).ok()?;
    socket.write_all(word).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}

fn is_open(socket: &mut TcpStream) -> bool {
    match socket.read(&mut [0; 64]) {
        Ok(read) => read > 0,
        Err(e) => e.kind() == std::io::ErrorKind::WouldBlock,
    }
}

struct Cluster {
    parties: Parties,
    apis: Vec<SocketAddr>,
    daemons: Vec<Daemon>,
    _held: Ports,
}

impl Cluster {
    /// Five daemons, each with an API on a TCP port.
    fn start() -> Self {
        let parties = Parties::new(5);
        let ports = Ports::hold(5);
        let apis: Vec<SocketAddr> = ports.iter().map(|port| local(*port)).collect();
        let start = |(party, api): (usize, &SocketAddr)| {
            let mut few_files = Command::new("sh");
            few_files
                .args(["-c", &format!("ulimit -Sn {FILES}; exec \"$0\" \"$@\"")])
                .arg(undertone());
            Daemon::start_at(few_files, &parties, party, *api)
        };
        let daemons = apis.iter().enumerate().map(start).collect();
        Cluster {
            parties,
            apis,
            daemons,
            _held: ports,
        }
    }

    fn answers_soon(&self) {
        for daemon in &self.daemons {
            for path in ["/readyz", "/v1/status"] {
                let mut took = [(); ASKED].map(|()| {
                    let begun = Instant::now();
                    // A connection may be closed in the crowd: its owner asks again, and that
                    // counts.
                    let ask = || daemon.http.try_ask("GET", path, &[], &[]);
                    let answer = ask().or_else(|_| ask()).expect("an answer");
                    assert_eq!(answer.status, 200, "{path} of {}", daemon.name);
                    begun.elapsed()
                });
                took.sort_unstable();
                let (most, all) = (took[ASKED / 2] < ANSWER, took[ASKED - 1] < 5 * ANSWER);
                assert!(most && all, "{path} of {} took {took:?}", daemon.name);
            }
        }
    }

    /// All take part in a run, of which everybody has the mean.
    fn run_is_done(&self, name: &str) {
        let run = "version = 1\n[data]\nnoise_ok = true\nshape = [100]\n[run]\njoin_ms = 120000\nround_ms = 60000\nsettle_ms = 60000\n";
        let digest = self.parties.plan(name, &format!("name = \"{name}\"\n{run}"));
        let inputs = self.parties.write_inputs(&[100]);
        for daemon in &self.daemons {
            let vector = format!("{}.npy", daemon.name);
            daemon
                .client(["submit", &format!("{name}.json"), "--input", &vector])
                .json_of(0);
        }
        for daemon in &self.daemons {
            let ended = daemon.client(["watch", &digest]).json_of(0);
            assert_eq!(ended["outcome"], "done", "{}: {ended}", daemon.name);
            let to = format!("{name}-{}.npy", daemon.name);
            let fetched = daemon.client(["result", &digest, "--output", &to]);
            fetched.json_of(0);
            let (_, _, mean) = read_npy(&self.parties.path(&to));
            let error = ended["standard_error"].as_f64().expect("a standard error");
            assert_mean_of(&mean, &inputs, error);
        }
    }
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

#[test]
fn five_daemons_end_a_run_and_answer_while_strangers_attack() {
    let _alone = alone();
    let cluster = Cluster::start();
    let alice = 0;
    let mut attacks = vec![Attack::of_abandoned_requests(cluster.apis[alice])];
    // So many that, each at its turn, they would keep others out for longer than that.
    while attacks[0].count() < 3_000 {
        std::thread::yield_now();
    }
    cluster.answers_soon();
    attacks.push(Attack::of_silence(
        cluster.apis[alice],
        b"GET /v1/status HTTP/1.1\r\nX-",
    ));
    let [private, public] = cluster.parties.ports(alice).map(local);
    attacks.push(Attack::of_silence(private, b""));
    attacks.push(Attack::of_silence(public, b""));
    while attacks[1..].iter().any(|attack| attack.count() < 2) {
        std::thread::yield_now();
    }
    cluster.answers_soon();
    cluster.run_is_done("attacked");
    cluster.answers_soon();
    drop(attacks);
    for daemon in cluster.daemons {
        assert_eq!(daemon.end().0.code, 0);
    }
}

/// What a daemon of `parties` with another peer list says to a plan for the real one.
fn submitted(parties: &Parties, daemon: &Daemon, plan: &str) -> Ended {
    let file = format!("{}.node.toml", daemon.name);
    let vector = format!("{}.npy", daemon.name);
    run_in(
        parties.folder(),
        ["submit", plan, "--input", &vector, "--config", &file, "--json"],
    )
}

#[test]
fn a_plan_does_not_move_the_peers_of_a_daemon() {
    let _alone = alone();
    let parties = Parties::new(3);
    parties.write_inputs(&[4]);
    // The plan has carol's private address somewhere else, where somebody waits.
    let [private, _] = parties.ports(2).map(|port| format!("/tcp/{port}"));
    let elsewhere = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = elsewhere.local_addr().expect("bound").port();
    let moved = parties.peer_list().replace(&private, &format!("/tcp/{port}"));
    parties.write("peers.toml", &moved);
    let digest = parties.plan(
        "moved",
        "version = 1\nname = \"moved\"\n[data]\nnoise_ok = true\nshape = [4]\n",
    );
    parties.write("peers.toml", &parties.peer_list());
    let daemons: Vec<Daemon> = (0..3).map(|party| Daemon::start(&parties, party, "")).collect();
    for daemon in &daemons {
        submitted(&parties, daemon, "moved.json").json_of(0);
    }
    for daemon in &daemons {
        let run = daemon.client(["watch", &digest]).json_of(0);
        assert_eq!(run["outcome"], "done", "{run}");
    }
    elsewhere.set_nonblocking(true).expect("a socket");
    let came = elsewhere.accept().expect_err("nobody is led there");
    assert_eq!(came.kind(), ErrorKind::WouldBlock);
}
