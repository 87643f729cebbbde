//! Parties on hosts of their own, with a network between them that loses packets and takes its
//! time.

use std::time::Duration;

use undertone_tests::daemon::Daemon;
use undertone_tests::testnet::{Testnet, Weather, possible};
use undertone_tests::{Parties, Running, left_out, read_json, read_npy, receipt, undertone};

const HOSTS: usize = 6;
/// One way; a round trip is twice that.
const DELAY: Duration = Duration::from_millis(20);
const WEATHER: Weather = Weather {
    loss_percent: 5,
    delay: DELAY,
};

/// A lost packet is sent again after 0.2 s, 0.4 s, …: a round has time for four losses in a row.
fn run_file() -> String {
    String::from(
        "version = 1\nname = \"testnet\"\n[data]\nnoise_ok = true\nshape = [1000]\n[mechanism]\nrounds = 4\n\
         [run]\njoin_ms = 60000\nround_ms = 4000\nsettle_ms = 8000\n",
    )
}

/// Runs `undertone` for a party on its host.
fn start(net: &Testnet, parties: &Parties, party: usize, arguments: &[String]) -> Running {
    let mut command = net.command(party, undertone());
    command.args(arguments).current_dir(parties.folder());
    Running::start(command, None)
}

#[test]
fn six_hosts_join_over_a_network_with_loss_and_delay() {
    if let Err(missing) = possible() {
        return left_out("six hosts on a testnet", &missing);
    }
    let net = Testnet::new(HOSTS, WEATHER);
    let parties = Parties::at(HOSTS, |host| net.listeners(host));
    let inputs = parties.write_inputs(&[1000]);
    parties.plan("plan", &run_file());
    let running: Vec<Running> = (0..HOSTS)
        .map(|party| start(&net, &parties, party, &parties.join("plan", party)))
        .collect();
    for (party, running) in running.into_iter().enumerate() {
        let name = &parties.names()[party];
        let object = running.wait().json_of(0);
        assert_eq!(
            (&object["outcome"], &object["agreed"]),
            (&"done".into(), &true.into()),
            "{name}: {object}"
        );
        let receipt = read_json(&parties.path(&format!("plan-{name}.receipt.json")));
        receipt::assert_complete(&receipt);
        receipt::assert_mu_follows(&receipt);
        check_mean(
            &parties,
            name,
            &inputs,
            receipt["standard_error"].as_f64().expect("accounted"),
        );
    }
    let lost = net.lost();
    println!("{lost} packets were lost");
    assert!(lost > 0, "no packet was lost: the network is too good");
}

#[test]
fn six_daemons_run_over_a_network_with_loss_and_delay() {
    if let Err(missing) = possible() {
        return left_out("six daemons on a testnet", &missing);
    }
    let net = Testnet::new(HOSTS, WEATHER);
    let parties = Parties::at(HOSTS, |host| net.listeners(host));
    let inputs = parties.write_inputs(&[1000]);
    let digest = parties.plan("plan", &run_file());
    let daemons: Vec<Daemon> = (0..HOSTS)
        .map(|host| Daemon::start_by(net.command(host, undertone()), &parties, host, ""))
        .collect();
    for daemon in &daemons {
        daemon
            .client(["submit", "plan.json", "--input", &format!("{}.npy", daemon.name)])
            .json_of(0);
    }
    for daemon in &daemons {
        let name = &daemon.name;
        let run = daemon.client(["watch", &digest]).json_of(0);
        assert_eq!(
            (&run["outcome"], &run["included"]),
            (&"done".into(), &serde_json::json!(parties.names())),
            "{name}: {run}"
        );
        let mean = format!("plan-{name}.npy");
        daemon.client(["result", &digest, "--output", &mean]).json_of(0);
        check_mean(
            &parties,
            name,
            &inputs,
            run["standard_error"].as_f64().expect("accounted"),
        );
    }
    for daemon in daemons {
        let (ended, took) = daemon.end();
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(took < Duration::from_secs(30), "{took:?} from SIGTERM to its end");
    }
}

/// Within the accounted error of the true mean: six standard errors of the root mean square over
/// 1,000 coordinates.
fn check_mean(parties: &Parties, name: &str, inputs: &[Vec<f64>], standard_error: f64) {
    let (_, _, mean) = read_npy(&parties.path(&format!("plan-{name}.npy")));
    let true_mean = |i: usize| inputs.iter().map(|input| input[i]).sum::<f64>() / inputs.len() as f64;
    let squares: f64 = mean
        .iter()
        .enumerate()
        .map(|(i, value)| (value - true_mean(i)).powi(2))
        .sum();
    let ratio = (squares / mean.len() as f64).sqrt() / standard_error;
    let spread = 6.0 / (2.0 * mean.len() as f64).sqrt();
    assert!(
        (ratio - 1.0).abs() < spread,
        "{name}: the error is {ratio} times what the receipt says"
    );
}
