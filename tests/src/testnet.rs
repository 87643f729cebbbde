//! A network of hosts in the kernel of this one: a network namespace each, on one switch, with
//! weather.
//!
//! There is no shaping qdisc to be had everywhere, so packets are lost by nftables at each host's
//! interface and delay is added by a forwarder in user space that stands in front of the host's
//! listeners. Nothing outside the namespaces is touched.

mod delay;

use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use serde_json::Value;

use self::delay::{Forwarder, enter};

/// Where every host listens: private, public.
pub const PORTS: [u16; 2] = [7001, 7002];
/// Where the forwarders listen: this much higher.
const FORWARDED: u16 = 10_000;
/// Where `ip netns` keeps them.
const NAMESPACES: &str = "/run/netns";

/// The loss and the delay of packets between hosts.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// How many of a hundred packets that reach a host are lost.
    pub loss_percent: u32,
    /// The additional delay of bytes over a connection to one of [`PORTS`], either way.
    pub delay: Duration,
}

/// The hosts and the switch between them; removed when dropped.
#[derive(Debug)]
pub struct Testnet {
    hosts: Vec<String>,
    switch: String,
    /// Between hosts that are behind address translation and the switch.
    routers: Vec<String>,
    forwarders: Vec<Forwarder>,
}

/// Checks that the machine has what a testnet needs, or names what is missing.
pub fn possible() -> Result<(), String> {
    if !nix::unistd::geteuid().is_root() {
        return Err("making network namespaces takes root".into());
    }
    for (program, arguments) in [("ip", ["netns", "list"]), ("nft", ["list", "tables"])] {
        let output = Command::new(program)
            .args(arguments)
            .output()
            .map_err(|e| format!("{program}: {e}"))?;
        if !output.status.success() {
            return Err(format!(
                "{program}: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            ));
        }
    }
    Ok(())
}

impl Testnet {
    /// This many hosts, up and connected.
    pub fn new(count: usize, weather: Weather) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        clear_abandoned();
        let (process, made) = (std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let own = |what: &str| format!("undertone-{process}-{made}-{what}");
        let mut net = Testnet {
            hosts: vec![],
            switch: own("switch"),
            routers: vec![],
            forwarders: vec![],
        };
        ip(["netns", "add", &net.switch]);
        in_namespace(&net.switch, "ip", ["link", "add", "switch", "type", "bridge"]);
        in_namespace(&net.switch, "ip", ["link", "set", "switch", "up"]);
        for host in 0..count {
            let name = own(&host.to_string());
            ip(["netns", "add", &name]);
            net.hosts.push(name.clone());
            net.plug_in(&name, host);
            let rules = rules(weather);
            in_namespace(&name, "nft", [&rules]);
            if !weather.delay.is_zero() {
                let to = |port| (port + FORWARDED, (net.address(host), port).into());
                net.forwarders.extend(
                    PORTS
                        .map(to)
                        .map(|(from, to)| Forwarder::start(&name, from, to, weather.delay)),
                );
            }
        }
        net
    }

    /// Gives a namespace a host's address on the switch.
    fn plug_in(&self, name: &str, host: usize) {
        let port = format!("port-{host}");
        ip([
            "link",
            "add",
            &port,
            "netns",
            &self.switch,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            name,
        ]);
        in_namespace(
            &self.switch,
            "ip",
            ["link", "set", &port, "master", "switch", "up"],
        );
        in_namespace(
            name,
            "ip",
            [
                "address",
                "add",
                &format!("{}/24", self.address(host)),
                "dev",
                "eth0",
            ],
        );
        in_namespace(name, "ip", ["link", "set", "lo", "up"]);
        in_namespace(name, "ip", ["link", "set", "eth0", "up"]);
    }

    /// Puts a host behind a router with the host's address, which translates addresses and refuses
    /// what comes from outside; it forgets connections that are silent for so many seconds.
    pub fn put_behind_router(&mut self, host: usize, forgets_s: u64) {
        let name = &self.hosts[host];
        let router = format!("{name}-router");
        in_namespace(name, "ip", ["link", "del", "eth0"]);
        ip(["netns", "add", &router]);
        self.routers.push(router.clone());
        self.plug_in(&router, host);
        let inside = ["link", "add", "inside", "netns", &router, "type", "veth"];
        ip([&inside[..], &["peer", "name", "eth0", "netns", name]].concat());
        for (namespace, device, address) in [
            (&*router, "inside", "192.168.213.1/24"),
            (name, "eth0", "192.168.213.2/24"),
        ] {
            in_namespace(namespace, "ip", ["address", "add", address, "dev", device]);
            in_namespace(namespace, "ip", ["link", "set", device, "up"]);
        }
        in_namespace(name, "ip", ["route", "add", "default", "via", "192.168.213.1"]);
        let rules = "table ip nat { chain out { type nat hook postrouting priority srcnat; oifname \"eth0\" masquerade; }; \
             chain through { type filter hook forward priority filter; ct state invalid drop; }; }";
        in_namespace(&router, "nft", [rules]);
        for (key, value) in [
            ("ipv4/ip_forward", 1),
            ("netfilter/nf_conntrack_tcp_timeout_established", forgets_s),
            // What was forgotten is not taken up in the middle.
            ("netfilter/nf_conntrack_tcp_loose", 0),
        ] {
            let set = format!("echo {value} > /proc/sys/net/{key}");
            in_namespace(&router, "sh", ["-c", &set]);
        }
    }

    /// A host's address. One past the last host is an address that nobody has.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 213, 0, 1 + u8::try_from(host).expect("a small network"))
    }

    /// Where a host's private and public listeners are reached.
    pub fn listeners(&self, host: usize) -> [String; 2] {
        PORTS.map(|port| format!("/ip4/{}/tcp/{port}", self.address(host)))
    }

    /// A program to be run on a host.
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host]]).arg(program);
        command
    }

    /// Does something on a host, in a thread of its own.
    pub fn on<T: Send + 'static>(
        &self,
        host: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = Path::new(NAMESPACES).join(&self.hosts[host]);
        spawn(move || {
            enter(&namespace);
            work()
        })
    }

    /// Lets nothing pass between these hosts and the others, until [`Testnet::heal`].
    pub fn part(&self, side: &[usize]) {
        self.drop_between(side, &[""]);
    }

    /// Lets nothing pass to or from private listeners between these hosts and the others, until
    /// [`Testnet::heal`]. There must be no delay, for which listeners have other ports.
    pub fn part_in_private(&self, side: &[usize]) {
        let private = ["dport", "sport"].map(|end| format!("tcp {end} {}", PORTS[0]));
        self.drop_between(side, &private.each_ref().map(String::as_str));
    }

    /// Lets nothing pass between two hosts, on either graph, until [`Testnet::heal`]; nothing
    /// closes.
    pub fn darken(&self, (one, other): (usize, usize)) {
        for (host, peer) in [(one, other), (other, one)] {
            let peer = self.address(peer);
            let rule = format!("add rule inet weather border ip saddr {peer} drop");
            in_namespace(&self.hosts[host], "nft", [&rule]);
        }
    }

    /// This many of a hundred packets more that reach a host are lost, until [`Testnet::heal`].
    pub fn lose(&self, host: usize, percent: u32) {
        let loss = format!("numgen random mod 100 < {percent} drop");
        let rule = format!("add rule inet weather border iifname \"eth0\" {loss}");
        in_namespace(&self.hosts[host], "nft", [&rule]);
    }

    /// Drops packets of any of these kinds that come from the other side.
    fn drop_between(&self, side: &[usize], kinds: &[&str]) {
        for host in 0..self.hosts.len() {
            let other = |peer: &usize| side.contains(peer) != side.contains(&host);
            let others: Vec<String> = (0..self.hosts.len())
                .filter(other)
                .map(|peer| self.address(peer).to_string())
                .collect();
            for kind in kinds {
                let from = others.join(", ");
                let rule = format!("add rule inet weather border ip saddr {{ {from} }} {kind} drop");
                in_namespace(&self.hosts[host], "nft", [&rule]);
            }
        }
    }

    /// Ends what [`Testnet::part`], [`Testnet::part_in_private`], [`Testnet::darken`] and
    /// [`Testnet::lose`] began.
    pub fn heal(&self) {
        for host in &self.hosts {
            in_namespace(host, "nft", ["flush chain inet weather border"]);
        }
    }

    /// Packets that were lost on their way to any host.
    pub fn lost(&self) -> u64 {
        let count = |host: &String| {
            let rules = in_namespace(host, "nft", ["-j", "list", "chain", "inet", "weather", "loss"]);
            let rules: Value = serde_json::from_str(&rules).expect("nft prints JSON");
            let expressions = rules["nftables"]
                .as_array()
                .expect("a list")
                .iter()
                .filter_map(|o| o["rule"]["expr"].as_array());
            expressions
                .flatten()
                .find_map(|e| e["counter"]["packets"].as_u64())
                .expect("a counter")
        };
        self.hosts.iter().map(count).sum()
    }
}

impl Drop for Testnet {
    fn drop(&mut self) {
        // While the namespaces still have names.
        self.forwarders.clear();
        for namespace in self.hosts.iter().chain(&self.routers).chain([&self.switch]) {
            let _ = Command::new("ip").args(["netns", "del", namespace]).output();
        }
    }
}

fn rules(weather: Weather) -> String {
    let loss = format!(
        "iifname \"eth0\" numgen random mod 100 < {} counter drop",
        weather.loss_percent
    );
    let redirect = |port| {
        format!(
            "iifname \"eth0\" tcp dport {port} redirect to :{}",
            port + FORWARDED
        )
    };
    let redirects = if weather.delay.is_zero() {
        String::new()
    } else {
        PORTS.map(redirect).join("; ")
    };
    format!(
        "table inet weather {{ chain loss {{ type filter hook input priority filter; {loss}; }}; \
         chain border {{ type filter hook input priority -1; }}; \
         chain delay {{ type nat hook prerouting priority dstnat; {redirects}; }}; }}"
    )
}

/// Namespaces of tests that were killed before they could remove them.
fn clear_abandoned() {
    for line in ip(["netns", "list"]).lines() {
        let name = line.split_whitespace().next().unwrap_or_default();
        let owner = name
            .strip_prefix("undertone-")
            .and_then(|rest| rest.split('-').next())
            .and_then(|pid| pid.parse::<i32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn ip<'a>(arguments: impl AsRef<[&'a str]>) -> String {
    done(Command::new("ip").args(arguments.as_ref()))
}

fn in_namespace<const N: usize>(namespace: &str, program: &str, arguments: [&str; N]) -> String {
    done(
        Command::new("ip")
            .args(["netns", "exec", namespace, program])
            .args(arguments),
    )
}

/// Runs a command that must not fail and returns its output.
fn done(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_message_takes_its_time_and_packets_are_lost() {
        if let Err(missing) = possible() {
            return crate::left_out("the testnet's weather", &missing);
        }
        let weather = Weather {
            loss_percent: 5,
            delay: Duration::from_millis(10),
        };
        let net = Testnet::new(2, weather);
        let server = net.address(1);
        let (sender, listening) = std::sync::mpsc::channel();
        let echo = net.on(1, move || {
            let listener = TcpListener::bind((server, PORTS[0])).expect("free");
            sender.send(()).expect("awaited");
            let (mut stream, _) = listener.accept().expect("somebody comes");
            std::io::copy(&mut stream.try_clone().expect("a second handle"), &mut stream).expect("echoed")
        });
        listening.recv().expect("it listens");
        let fastest = net.on(0, move || {
            let mut stream = TcpStream::connect((server, PORTS[0])).expect("reachable");
            stream.set_nodelay(true).expect("TCP");
            let mut times = vec![];
            for _ in 0..100 {
                let begun = Instant::now();
                stream
                    .write_all(&[7])
                    .and_then(|()| stream.read_exact(&mut [0]))
                    .expect("echoed");
                times.push(begun.elapsed());
            }
            times.into_iter().min().expect("a hundred")
        });
        let fastest = fastest.join().expect("a client");
        assert!(fastest >= weather.delay * 2, "{fastest:?} for a round trip");
        assert_eq!(echo.join().expect("a server"), 100);
        assert!(net.lost() > 0, "of some four hundred packets none was lost");
    }
}
