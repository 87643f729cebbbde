//! The command line: flags, `--help` that teaches, and the mapping from outcomes to exit codes.

use std::ffi::OsString;

use clap::{Args, Parser, Subcommand, ValueEnum};
use serde::{Deserialize, Serialize};
use undertone_protocol::defaults::{self, Defaults};

use crate::failure::{Exit, Failure};
use crate::{
    account_command, audit_command, benchmark, client, daemon, doctor, identity_command, join, local,
    logging, plan_command, simulate, testnet,
};

/// Average real vectors across machines, with no server, under differential privacy.
///
/// Parties that do not trust each other mix their vectors with noise that cancels in the sum. What a coalition can learn is computed before the run
/// (`plan`), checked by every party (`verify`), and stated again, as it turned out, in a signed receipt.
#[derive(Debug, Parser)]
#[command(name = "undertone", version, propagate_version = true, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    shared: Shared,
}

const AFTER_HELP: &str = "\
Try it:     undertone local --nodes 8 --dimension 1000 --epsilon 1 --delta 1e-6
Together:   undertone identity new --out me.key --name alice --private /ip4/…/tcp/7001 --public /ip4/…/tcp/7002
            undertone plan run.toml --peers peers.toml --out plan.json     (one of you; send plan.json to all)
            undertone verify plan.json
            undertone join plan.json --identity me.key --input vector.npy --output mean.npy
A daemon:   undertone node --config node.toml                          (stays up, keeps a budget, answers an HTTP API)
            undertone submit plan.json --input vector.npy · status · watch DIGEST · result DIGEST --output mean.npy

Exit codes: 0 done · 2 usage · 3 plan refused · 4 aborted, nothing private has left · 5 finished degraded ·
            6 privacy refused (budget, plan spent, final withheld) · 7 input unusable · 70 our bug";

/// Flags of every command.
#[derive(Args, Clone, Debug)]
pub struct Shared {
    /// Print exactly one JSON object on standard output, also when it fails
    #[arg(long, global = true)]
    pub json: bool,
    /// Format of the log on standard error
    #[arg(long, global = true, value_enum, default_value_t = LogFormat::Text)]
    pub log: LogFormat,
    /// Log more (-v debug, -vv trace); private values are never logged
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs, one object a line.
    Json,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make or show the key that a party signs with
    #[command(subcommand)]
    Identity(identity_command::IdentityCommand),
    /// Calibrate a run and print its quote: claims, noise, predicted error
    #[command(after_help = run_file_help())]
    Plan(plan_command::PlanArgs),
    /// Recompute a plan's claims and check them against your policy
    Verify(plan_command::VerifyArgs),
    /// Ask every neighbour of a plan whether the run could work, and say what to fix
    Doctor(doctor::DoctorArgs),
    /// Take part in a planned run with one private vector
    ///
    /// Ctrl-C or SIGTERM makes the node leave: exit 4 if nothing private has left it, 6 if shares have and its final is withheld, 5 if its final is
    /// out. The others find it gone at once and go on without it. A second one ends the process as it is.
    Join(join::JoinArgs),
    /// Run a daemon that takes runs, keeps to a policy and a budget, and answers a local API
    #[command(after_help = daemon::config::help())]
    Node(daemon::config::NodeArgs),
    /// Be one of several daemons that make what they need and meet in a shared folder (docker-compose.yml)
    Testnet(testnet::TestnetArgs),
    /// Launch a cluster of real nodes on this machine and average over it
    #[command(after_help = run_file_help())]
    Local(local::LocalArgs),
    /// Drive the same machines in one process, over a simulated network
    #[command(after_help = run_file_help())]
    Simulate(simulate::SimulateArgs),
    /// Hand a plan and a private vector to this machine's daemon, or let it propose a run
    Submit(client::SubmitArgs),
    /// Take part in a plan that somebody offered to the daemon
    Accept(client::AcceptArgs),
    /// Show the daemon: peers, runs, offers, budgets; or one run
    Status(client::StatusArgs),
    /// Follow a run of the daemon to its end
    Watch(client::WatchArgs),
    /// Write a run's mean and receipt to files
    Result(client::ResultArgs),
    /// Take a run of the daemon back, before anything private has left
    Withdraw(client::WithdrawArgs),
    /// Compute what an adversary learns from an explicit execution
    #[command(subcommand)]
    Account(account_command::AccountCommand),
    /// Attack a plan: simulated runs bound ε from below, whatever the accountant says
    Audit(audit_command::AuditArgs),
    /// Measure a local run beside what its bytes take over the same transport
    Benchmark(benchmark::BenchmarkArgs),
}

/// Every key of the run file with its default, from the one table of defaults.
fn run_file_help() -> String {
    let mut text = String::from("Keys of RUN.toml (default; `local`'s where it differs):\n");
    for setting in defaults::SETTINGS {
        let default = setting.value(Defaults::File).unwrap_or("none");
        let local = match setting.local {
            Some(local) => format!("; local: {local}"),
            None => String::new(),
        };
        text += &format!(
            "  {:<28} {} ({default}{local})\n",
            setting.field(),
            setting.explanation
        );
    }
    text += "Clipping bounds are public: take them from what you know of the quantity, never from the data.";
    text
}

/// Policy that a node checks a plan against.
#[derive(Args, Clone, Debug)]
pub struct Policy {
    /// Refuse a plan whose file has another SHA-256 (hex)
    #[arg(long, value_name = "HEX")]
    pub digest: Option<String>,
    /// Refuse a plan that claims more than this ε
    #[arg(long, value_name = "E", allow_negative_numbers = true)]
    pub max_epsilon: Option<f64>,
    /// Refuse a plan that covers smaller coalitions than this
    #[arg(long, value_name = "C", default_value_t = 1)]
    pub min_colluders: usize,
    /// The weakest way in which a headline claim may be established
    #[arg(long, value_enum, default_value_t = AcceptClaims::Exact)]
    pub accept_claims: AcceptClaims,
}

/// How claims must be established.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AcceptClaims {
    /// Exact, exhaustive or by theorem.
    Exact,
    /// Sampled claims will do.
    Sampled,
}

/// What a command ends with: an object for `--json`, a text for people, and an exit code.
#[derive(Debug)]
pub struct Report {
    /// One JSON object.
    pub json: serde_json::Value,
    /// The same for people.
    pub text: String,
    /// The process's exit code.
    pub exit: i32,
}

impl Report {
    /// A report of a command that did what it was asked.
    pub fn done(json: serde_json::Value, text: String) -> Self {
        Report {
            json,
            text,
            exit: Exit::Done.code(),
        }
    }
}

/// Runs the command line and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error, arguments.iter().any(|a| a == "--json")),
    };
    let shared = cli.shared.clone();
    logging::start(&shared);
    let result = match cli.command {
        Command::Identity(command) => identity_command::run(command),
        Command::Plan(arguments) => plan_command::plan(arguments),
        Command::Verify(arguments) => plan_command::verify(arguments),
        Command::Doctor(arguments) => doctor::run(arguments),
        Command::Join(arguments) => join::run(arguments),
        Command::Node(arguments) => daemon::run(arguments),
        Command::Testnet(arguments) => testnet::run(arguments),
        Command::Local(arguments) => local::run(arguments, &shared),
        Command::Simulate(arguments) => simulate::run(arguments),
        Command::Submit(arguments) => client::submit(arguments, shared.json),
        Command::Accept(arguments) => client::accept(arguments, shared.json),
        Command::Status(arguments) => client::status(arguments),
        Command::Watch(arguments) => client::watch(arguments, shared.json),
        Command::Result(arguments) => client::result(arguments),
        Command::Withdraw(arguments) => client::withdraw(arguments),
        Command::Account(command) => account_command::run(command),
        Command::Audit(arguments) => audit_command::run(&arguments),
        Command::Benchmark(arguments) => benchmark::run(arguments),
    };
    match result {
        Ok(report) => {
            if shared.json {
                println!("{}", report.json)
            } else {
                print!("{}", report.text)
            }
            report.exit
        }
        Err(failure) => {
            if shared.json {
                println!("{}", failure.to_json())
            } else {
                eprintln!("undertone: {failure}")
            }
            failure.exit.code()
        }
    }
}

fn refuse_arguments(error: &clap::Error, json: bool) -> i32 {
    use clap::error::ErrorKind;
    if json && !matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        let text = error.to_string();
        // Its first paragraph: the sentence, and the arguments that it is about.
        let message: Vec<&str> = text
            .lines()
            .take_while(|line| !line.is_empty())
            .map(str::trim)
            .collect();
        println!(
            "{}",
            Failure::usage(message.join(" ").trim_start_matches("error: "))
                .hint("see `undertone --help`")
                .to_json()
        );
    } else {
        let _ = error.print();
    }
    error.exit_code()
}
