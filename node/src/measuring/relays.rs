//! The processes of the baseline: each moves bytes to the next one around a ring, all at once.

use std::convert::Infallible;
use std::process::Stdio;
use std::time::{Duration, Instant};

use libp2p::Multiaddr;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::measuring::baseline::{BaselineClient, BaselineServer};
use crate::measuring::failed::failed;
use crate::reporting::failure::Failure;
use crate::reporting::output;

/// Returns the seed of the keys of the pair whose server is process `index`.
fn seed(index: u64) -> [u8; 31] {
    let digest = Sha256::digest(format!("undertone benchmark {index}: no secret, loopback only"));
    let mut seed = [0; 31];
    seed.copy_from_slice(&digest[..31]);
    seed
}

/// Runs one of the baseline's processes: it serves the one before it and sends to the one after it.
/// It reports where it listens, receives the address of the next one, and reports that it is
/// connected. It is then asked to begin, and reports when its bytes have arrived.
pub(crate) async fn relay(numbers: &[u64]) -> Result<Infallible, Failure> {
    let &[index, processes, frame, private_bytes, public_bytes] = numbers else {
        return Err(failed("five numbers"));
    };
    let server = BaselineServer::start(seed(index), frame as usize)
        .await
        .map_err(failed)?;
    let [private, public] = server.addresses();
    output::print(format_args!("{private} {public}\n"))?;
    tokio::spawn(server.run());
    let next = addresses(&order().await?)?;
    let client = BaselineClient::connect(seed((index + 1) % processes), next, frame as usize)
        .await
        .map_err(failed)?;
    output::print("connected\n")?;
    order().await?;
    client
        .transfer(private_bytes, public_bytes)
        .await
        .map_err(failed)?;
    output::print("arrived\n")?;
    // Until nobody needs it any more: it may still be receiving.
    order().await?;
    std::process::exit(0)
}

/// The next line from the parent; empty once it is gone.
async fn order() -> Result<String, Failure> {
    let read = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(read)
        .await
        .map_err(failed)?
        .map_err(failed)?
        .unwrap_or_default())
}

fn addresses(line: &str) -> Result<[Multiaddr; 2], Failure> {
    let mut addresses = line.trim().split(' ').map(str::parse::<Multiaddr>);
    match (addresses.next(), addresses.next()) {
        (Some(Ok(private)), Some(Ok(public))) => Ok([private, public]),
        _ => Err(failed("a process of the baseline has no addresses")),
    }
}

/// A process of the baseline, as its parent sees it.
struct Relay {
    /// Killed when this is dropped.
    _child: Child,
    order: ChildStdin,
    says: Lines<BufReader<ChildStdout>>,
}

impl Relay {
    fn spawn(numbers: [u64; 5]) -> Result<Relay, Failure> {
        let mut command = tokio::process::Command::new(std::env::current_exe().map_err(failed)?);
        command
            .args(["benchmark", "--relay"])
            .args(numbers.map(|number| number.to_string()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let (Some(order), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("no pipes"));
        };
        Ok(Relay {
            _child: child,
            order,
            says: BufReader::new(stdout).lines(),
        })
    }

    async fn tell(&mut self, line: &str) -> Result<(), Failure> {
        self.order
            .write_all(format!("{line}\n").as_bytes())
            .await
            .map_err(failed)
    }

    async fn expect(&mut self, line: &str) -> Result<(), Failure> {
        let said = self.says.next_line().await.map_err(failed)?;
        if said.as_deref() == Some(line) {
            Ok(())
        } else {
            Err(failed(format!("a process of the baseline said {said:?}")))
        }
    }
}

/// From the word to begin until the last process has said that its bytes arrived. `bytes`: private
/// and public, of all together.
pub(crate) async fn baseline(processes: u64, bytes: [u64; 2], frame: usize) -> Result<Duration, Failure> {
    // Each an equal part; the first ones carry the remainder.
    let part = |bytes: u64, index: u64| bytes / processes + u64::from(index < bytes % processes);
    let numbers = |index| {
        [
            index,
            processes,
            frame.max(8) as u64,
            part(bytes[0], index),
            part(bytes[1], index),
        ]
    };
    let mut relays = (0..processes)
        .map(|index| Relay::spawn(numbers(index)))
        .collect::<Result<Vec<_>, _>>()?;
    let mut listening = Vec::new();
    for relay in &mut relays {
        let line = relay.says.next_line().await.map_err(failed)?.unwrap_or_default();
        listening.push(addresses(&line)?);
    }
    for (index, relay) in relays.iter_mut().enumerate() {
        let [private, public] = &listening[(index + 1) % listening.len()];
        relay.tell(&format!("{private} {public}")).await?;
    }
    for relay in &mut relays {
        relay.expect("connected").await?;
    }
    let begun = Instant::now();
    for relay in &mut relays {
        relay.tell("begin").await?;
    }
    for relay in &mut relays {
        relay.expect("arrived").await?;
    }
    Ok(begun.elapsed())
}
