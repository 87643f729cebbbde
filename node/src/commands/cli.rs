//! The command line: flags, `--help` that teaches, and the mapping from outcomes to exit codes.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fmt::Display;

use clap::{Command, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::commands::{
    account, audit, backup, benchmark, client, doctor, example, figures, from_peers, group, help, identity,
    join, ledger, local, manual, peers, plan, predict, receipt, relay, schema, setup, simulate, testnet,
    version,
};
use crate::daemon::config::{NodeArgs, layers};
use crate::daemon::running;
use crate::reporting::escaped::escaped;
use crate::reporting::failure::Failure;
use crate::reporting::logging::{self, GlobalFlags};
use crate::reporting::output;
use crate::reporting::screen::{self, PAGE};

/// Average real vectors across machines, with no server, under differential privacy.
///
/// Parties that do not trust each other mix their vectors with noise that cancels in the sum. What
/// a coalition can learn is computed before the run (`plan`), checked by every party (`verify`),
/// and stated again, as it turned out, in a signed receipt.
#[derive(Debug, Parser)]
#[command(name = "undertone", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: AnyCommand,
    #[command(flatten)]
    shared: GlobalFlags,
}

/// No line is longer than [`PAGE`]: a command that is broken in two cannot be pasted.
const AFTER_HELP: &str = "\
Try it
  undertone local                               eight hospitals, and what they learn together
  undertone example hospitals                   their tables as files, and a run file
  undertone local --inputs hospitals/tables --run hospitals/run.toml
  undertone help mean                           the keys of a run file; also regression, rounds, ...
Together: each makes an identity, one of you plans and sends plan.json to all
  undertone identity new --out me.key --name alice --private ADDRESS --public ADDRESS
  undertone plan run.toml --peers peers.toml --out plan.json
  undertone verify plan.json
  undertone join plan.json --identity me.key --input table.csv --output mean.csv
A daemon: stays up, keeps a budget, answers an HTTP API
  undertone setup
  undertone node --config node.toml
  undertone submit plan.json --input table.csv
  undertone status
  undertone result DIGEST --output mean.csv

Every command takes
  --json             exactly one JSON object on standard output, also when it fails
  --log text|json    how the log on standard error looks: for people, or an object a line
  -v, --verbose      log more (-v debug, -vv trace); private values are never logged

Exit codes
  0 done
  2 usage
  3 plan refused
  4 aborted, nothing private has left
  5 finished degraded
  6 privacy refused (budget, plan spent, final withheld)
  7 input unusable
  70 our bug
  75 the disk is full: make room and try again";

/// The short page: what is there, by who wants it. All else is on the long one.
const SHORT_PAGE: &str = "\
Average real vectors across machines, with no server, under differential privacy

Usage: undertone <COMMAND>   (undertone COMMAND -h: a page of each)

To try it
  local      a cluster of real nodes on this machine    undertone local
  example    tables and a run file to start from        simulate   many runs
Together, each on its own machine
  identity   make a key         group     make the peer list together
  peers      number, revoke     plan      calibrate, and print the quote
  verify     check a plan       join      take part
  doctor     say what to fix    receipt   check what was signed
  predict    apply a model      audit     attack a plan
  figures    read statistics    relay     join who cannot be dialled
A daemon that keeps a budget: setup, node, testnet (in containers)
  backup, restore, ledger               keep its state, add a backup, mend it
  submit, accept, decline, withdraw     take part in runs of the daemon
  status, schedule, watch, result       see them
Numbers: account (what an adversary learns), benchmark
More: help, schema (for editors), version, completions, manual
  undertone help mean      the keys of a run file; also describe, regression,
                           rounds, stream, linear-equations, optimise
  undertone help node      the keys of a daemon's configuration
  undertone --help         examples, flags of all commands, exit codes
";

/// Where the keys of a run file are explained.
const KEYS_OF_RUNS: &str = "Keys of RUN.toml: undertone help mean (or regression, rounds, stream, …)";

/// Where the keys of a daemon's configuration are explained.
const KEYS_OF_NODE: &str = "Keys of NODE.toml: undertone help node";

/// The line on each command's page about the flags that all commands have.
const EVERY_COMMAND: &str = "Every command takes --json, --log and -v: see undertone --help";

#[derive(Debug, Subcommand)]
enum AnyCommand {
    /// Make or show the key that a party signs with
    #[command(subcommand)]
    Identity(identity::IdentityCommand),
    /// Calibrate a run and print its quote: claims, noise, predicted error
    #[command(
        after_help = KEYS_OF_RUNS,
        after_long_help = help::keys_by_task(),
        override_usage = "undertone plan [OPTIONS] --peers <PEERS.toml> --out <PLAN.json>\n       <RUN.toml>"
    )]
    Plan(plan::PlanArgs),
    /// Recompute a plan's claims and check them against your policy
    Verify(plan::VerifyArgs),
    /// Ask every neighbour of a plan whether the run could work, and say what to fix
    Doctor(doctor::DoctorArgs),
    /// Take part in a planned run with one private vector
    ///
    /// Ctrl-C or SIGTERM makes the node leave: exit 4 if nothing private has left it, 6 if shares
    /// have and its final is withheld, 5 if its final is out. The others find it gone at once and
    /// go on without it. A second one ends the process as it is.
    Join(join::JoinArgs),
    /// Form a group: make its peer list together, with nobody to be trusted
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Print a peer list's number; revoke a key of it that was stolen
    #[command(subcommand)]
    Peers(peers::PeersCommand),
    /// Pass on connections of listed parties that nobody can dial, encrypted end to end
    #[command(
        override_usage = "undertone relay [OPTIONS] --identity <FILE> --listen <ADDR>\n       --for <LIST>..."
    )]
    Relay(relay::RelayArgs),
    /// Ask what a daemon needs to know, and write its key, peer list and node.toml
    #[command(after_help = KEYS_OF_NODE)]
    Setup(setup::flags::SetupArgs),
    /// Run a daemon that takes runs, keeps to a policy and a budget, and answers a local API
    #[command(after_help = KEYS_OF_NODE, after_long_help = layers::help())]
    Node(NodeArgs),
    /// Write what a daemon must not forget to a file: marks, ledger, receipts
    Backup(backup::BackupArgs),
    /// Add what a backup knows and this machine does not; every data set is closed by that
    Restore(backup::RestoreArgs),
    /// Mend the ledger of a daemon whose state folder was restored or lost
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    /// Be one of several daemons that make what they need and meet in a shared folder
    /// (docker-compose.yml)
    #[command(
        override_usage = "undertone testnet [OPTIONS] --node <K> --nodes <N> --folder <DIR>\n       --meet <DIR> --output <DIR>"
    )]
    Testnet(testnet::TestnetArgs),
    /// Launch a cluster of real nodes on this machine and average over it
    #[command(after_help = KEYS_OF_RUNS, after_long_help = help::keys_by_task())]
    Local(local::LocalArgs),
    /// Write the demonstration's hospitals as files, to try the other commands with
    Example(example::ExampleArgs),
    /// Drive the same machines in one process, over a simulated network
    #[command(after_help = KEYS_OF_RUNS, after_long_help = help::keys_by_task())]
    Simulate(simulate::SimulateArgs),
    /// Hand a plan and a private vector to this machine's daemon, or let it propose a run
    Submit(client::submit::SubmitArgs),
    /// Take part in a plan that somebody offered to the daemon
    Accept(client::submit::AcceptArgs),
    /// Say no to a plan that somebody offered to the daemon, or that it offered itself
    Decline(client::status::DeclineArgs),
    /// Show the daemon: peers, runs, offers, budgets; or one run
    Status(client::status::StatusArgs),
    /// Show when the daemon's group meets next, who met last, how long the budget lasts
    Schedule(client::schedule::ScheduleArgs),
    /// Follow a run of the daemon to its end
    Watch(client::stream::WatchArgs),
    /// Write a run's mean and receipt to files
    Result(client::result::ResultArgs),
    /// Take a run of the daemon back, before anything private has left
    Withdraw(client::status::WithdrawArgs),
    /// Compute what an adversary learns from an explicit execution
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Apply a trained model to rows, on this machine alone
    Predict(predict::PredictArgs),
    /// Read statistics of a table again: other quantiles, differences of groups, populations
    Figures(figures::FiguresArgs),
    /// Check a signed receipt, and say in five sentences what it states
    Receipt(receipt::ReceiptArgs),
    /// Attack a plan: simulated runs bound ε from below, whatever the accountant says
    Audit(audit::AuditArgs),
    /// Measure a local run beside what its bytes take over the same transport
    Benchmark(benchmark::BenchmarkArgs),
    /// Print a task's page, with the keys of its run file; or a key's, or a command's
    Help(help::HelpArgs),
    /// Print the JSON Schema of a file, with which an editor completes and checks it
    Schema(schema::SchemaArgs),
    /// Print which program this is, and which versions of messages, files and API it speaks
    Version,
    /// Print a shell's script that completes commands and flags
    Completions(manual::CompletionsArgs),
    /// Write the manual's pages for `man`
    Manual(manual::ManualArgs),
}

/// Returns the command line, whose pages mention the flags of every command once.
fn command() -> Command {
    fn with_flags_of_all(command: Command) -> Command {
        let below = |page: Option<String>, gap: &str| match page {
            Some(page) => format!("{page}{gap}{EVERY_COMMAND}"),
            None => EVERY_COMMAND.to_owned(),
        };
        let short = command.get_after_help().map(ToString::to_string);
        let long = command.get_after_long_help().map(ToString::to_string);
        let long = below(long.or(short.clone()), "\n\n");
        command
            .after_help(below(short, "\n"))
            .after_long_help(long)
            .mut_subcommands(with_flags_of_all)
    }
    Cli::command()
        .max_term_width(PAGE)
        .disable_help_subcommand(true)
        .mut_subcommands(with_flags_of_all)
}

/// Runs the command line and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if arguments.len() == 2 && arguments[1] == "-h" {
        return say(SHORT_PAGE, 0);
    }
    let parsed = command().try_get_matches_from(&arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return refuse_arguments(&error, arguments.iter().any(|a| a == "--json")),
    };
    let shared = cli.shared.clone();
    logging::start(&shared, matches!(cli.command, AnyCommand::Join(_)));
    // A program reads it: no line of it may be broken.
    let verbatim = matches!(
        cli.command,
        AnyCommand::Completions(_)
            | AnyCommand::Figures(_)
            | AnyCommand::Schema(_)
            | AnyCommand::Identity(_)
            | AnyCommand::Peers(_)
    );
    let result = match cli.command {
        AnyCommand::Identity(command) => identity::run(command),
        AnyCommand::Plan(arguments) => plan::plan(arguments),
        AnyCommand::Verify(arguments) => plan::verify(arguments),
        AnyCommand::Doctor(arguments) => doctor::run(arguments),
        AnyCommand::Join(arguments) => join::run(arguments),
        AnyCommand::Group(command) => group::run(command),
        AnyCommand::Peers(command) => peers::run(&command),
        AnyCommand::Relay(arguments) => relay::run(arguments),
        AnyCommand::Setup(arguments) => setup::run(&arguments),
        AnyCommand::Node(arguments) => running::run(arguments),
        AnyCommand::Backup(arguments) => backup::backup(&arguments),
        AnyCommand::Restore(arguments) => backup::restore(&arguments),
        AnyCommand::Ledger(command) => ledger::run(command),
        AnyCommand::Testnet(arguments) => testnet::run(arguments),
        AnyCommand::Local(arguments) => local::run(arguments, &shared),
        AnyCommand::Example(arguments) => example::run(arguments),
        AnyCommand::Simulate(arguments) => simulate::run(arguments),
        AnyCommand::Submit(arguments) => client::submit::submit(arguments, shared.json),
        AnyCommand::Accept(arguments) => client::submit::accept(arguments, shared.json),
        AnyCommand::Decline(arguments) => client::status::decline(arguments),
        AnyCommand::Status(arguments) => client::status::status(arguments),
        AnyCommand::Schedule(arguments) => client::schedule::schedule(arguments),
        AnyCommand::Watch(arguments) => client::stream::watch(arguments, shared.json),
        AnyCommand::Result(arguments) => match arguments.of_peers() {
            Ok(Some(asked)) => from_peers::run(&asked),
            Ok(None) => client::result::result(arguments),
            Err(failure) => Err(failure),
        },
        AnyCommand::Withdraw(arguments) => client::status::withdraw(arguments),
        AnyCommand::Account(command) => account::run(command),
        AnyCommand::Predict(arguments) => predict::run(&arguments),
        AnyCommand::Figures(arguments) => figures::run(&arguments),
        AnyCommand::Receipt(arguments) => receipt::run(&arguments),
        AnyCommand::Audit(arguments) => audit::run(&arguments),
        AnyCommand::Benchmark(arguments) => benchmark::run(arguments),
        AnyCommand::Help(arguments) => help::run(&arguments, command()),
        AnyCommand::Schema(arguments) => Ok(schema::run(&arguments)),
        AnyCommand::Version => Ok(version::run()),
        AnyCommand::Completions(arguments) => Ok(manual::completions(&arguments, command())),
        AnyCommand::Manual(arguments) => manual::manual(&arguments, command()),
    };
    match result {
        Ok(report) if shared.json => say(format_args!("{}\n", report.json), report.exit),
        // Lines of values are for programs, too.
        Ok(report) if verbatim => say(report.text, report.exit),
        Ok(report) => say(screen::wrapped(&report.text, screen::width()), report.exit),
        Err(failure) => refuse(&failure, shared.json),
    }
}

/// Says on standard output what a command ends with; the exit code, which is the command's own
/// unless only the saying failed.
fn say(text: impl Display, exit: i32) -> i32 {
    match output::print(text) {
        Ok(_) => exit,
        Err(failure) => {
            output::tell(format_args!("undertone: {failure}"));
            if exit == 0 { failure.exit.code() } else { exit }
        }
    }
}

fn refuse(failure: &Failure, json: bool) -> i32 {
    let exit = failure.exit.code();
    if json {
        return say(format_args!("{}\n", failure.to_json()), exit);
    }
    output::tell(format_args!("undertone: {failure}"));
    exit
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
        let message = message.join(" ");
        let failure = Failure::usage(message.trim_start_matches("error: ")).hint("see `undertone --help`");
        return refuse(&failure, json);
    }
    // It quotes arguments, which may be the names of anybody's files.
    let text = error.render().to_string();
    match escaped(&text) {
        Cow::Owned(text) => output::tell(text.trim_end()),
        Cow::Borrowed(_) => drop(error.print()),
    }
    error.exit_code()
}
