//! `undertone join`: one party's part in a planned run.

mod live;
pub mod result;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use libp2p::identity::Keypair;
use tokio::runtime::Runtime;
use undertone_protocol::plan::checked::Plan;
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::plan::run_file::settings::{TaskName, Unit};
use undertone_protocol::topology::party::Party;

use crate::commands::join::live::LiveLine;
use crate::commands::join::result::{Delivery, Owners};
use crate::party::driver::{self, Finish, Part};
use crate::party::events::Events;
use crate::party::identity::Identity;
use crate::party::model_file::{self, ModelFile};
use crate::party::part::{OwnData, Private};
use crate::party::program::Program;
use crate::party::receipt::{self, Account};
use crate::party::room::{self, Room};
use crate::party::silence::Silence;
use crate::party::spent::{KeyLock, Spent, User};
use crate::party::{clipping, coefficients, input, part, randomness, reaching, shelf, signals};
use crate::planning::policy::{self, Policy};
use crate::planning::revoked::KnownKeys;
use crate::planning::{files, template, utility};
use crate::reporting::failure::{Exit, Failure};
use crate::reporting::output;
use crate::reporting::output_file::{self, OutputFile};
use crate::reporting::process;
use crate::reporting::report::Report;
use crate::reporting::table::bytes;
use crate::table_file::reading::MostlyWords;
use crate::vector_file::formats;
use crate::vector_file::layout::Layout;

/// Flags of `join`.
#[derive(Args, Debug)]
pub struct JoinArgs {
    /// The plan, byte for byte the file that everybody has
    #[arg(value_name = "PLAN.json")]
    plan: PathBuf,
    /// This party's key (from `undertone identity new`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The private vector, or a matrix of records
    ///
    /// One record a row: .npy (f32, f64), .csv, .json; .safetensors for a model. The extension says
    /// which. A .csv may have a first row of names, which stay (numbers are names where the plan
    /// has them); of one row or one column it is a plain list, else a matrix. A model's tensors
    /// (F16, BF16, F32, F64) are averaged as one vector in the order of their names, and data.shape
    /// is their number of coordinates. With --program: whatever that program reads.
    #[arg(long, value_name = "X", required_unless_present = "program")]
    input: Option<PathBuf>,
    /// Hands over this party's part of every round
    ///
    /// For task = "rounds", and streams.
    /// Its only argument is the path of --input, if that is given; UNDERTONE_PARTY in its
    /// environment is this party's name. Frames go over its standard streams, both ways: a round's
    /// number (4 bytes, little-endian), a length (8 bytes), so many bytes of .npy, or of
    /// .safetensors where the plan names tensors (rows are their first axis). It is sent round k
    /// with the mean of round k - 1 (of length 0 before the first), and answers with the same
    /// number and its contribution within 0.4 of run.iteration_ms, in the first round within half
    /// of run.join_ms, a minute at most. For what is late, not finite or of another shape the point
    /// of the range nearest to zero counts, and for a row (unit = "record") that is not finite too,
    /// alone; a record that makes the program late or crash is not covered by the claim for
    /// records. This command says at the end to which rounds the party contributed nothing, and
    /// exits with 5. What the program prints belongs on its standard error. At the end comes the
    /// number 0 with the last mean. Of a stream (task = "stream") it hands over a row a round,
    /// within 0.4 of run.round_ms; unless the plan says data.adaptive, or all read the one sum, it
    /// is sent no estimate before the end.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// How many records a program hands over
    ///
    /// Where the plan says at most how many this party contributes. Of a table it is the number of
    /// its rows.
    #[arg(long, value_name = "N", requires = "program")]
    records: Option<u32>,
    /// Where to write the mean, in the input's format
    ///
    /// Also in its shape and dtype (task = "rounds": the last mean, a .npy of f64, or a
    /// .safetensors of f32 where the plan names tensors, with the types and whole numbers of the
    /// plan's template, or else of a .safetensors in --input). Its name ends as that format does,
    /// and what is there is replaced only if it is a file, or a link to one.
    #[arg(long, value_name = "MEAN")]
    output: PathBuf,
    /// The .safetensors that the plan names as template
    ///
    /// The last mean is written with its types and whole numbers, so that it is the same bytes for
    /// all (the run file's key data.template).
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// Where to write the receipt (signature: FILE.sig)
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,
    /// Folder with a copy of the list of spent plans
    ///
    /// IDENTITY.spent, beside the key file, has the list itself. Default: the identity's path +
    /// .state.
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Listen here, not where the plan has this party
    ///
    /// For encrypted connections, behind a forwarded port, say: others still dial the address in
    /// the plan. Several times for several addresses: /ip4/0.0.0.0/tcp/7001, /ip6/::/tcp/7001.
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    listen: Vec<Address>,
    /// Write what happens as JSON lines ("-": stdout)
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Take a table as it is
    ///
    /// Also where most cells of a column of numbers are none, and so missing (task = "describe").
    #[arg(long, hide_short_help = true)]
    anyway: bool,
    /// Show statistics of the private input
    ///
    /// Whether it was clipped, and a model's standard errors, which are computed from it.
    #[arg(long)]
    show_private: bool,
    /// The plan of this digest has been calibrated a moment ago by the process that started this
    /// one, `local`: with many parties it would take minutes if each of them computed every claim
    /// again on the same machine
    #[arg(long, hide = true, requires = "digest")]
    checked: bool,
    #[command(flatten)]
    policy: Policy,
    #[command(flatten)]
    known: KnownKeys,
}

/// How often a result that could not be written is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// Where a mean and its receipt go.
struct ResultFiles<'a> {
    plan: &'a Plan,
    arguments: &'a JoinArgs,
    layout: &'a Layout,
    key: &'a Keypair,
}

impl ResultFiles<'_> {
    /// Drives this party's part to its end. The result is written as soon as it is known, into the
    /// room that was set aside.
    fn drive(&self, runtime: &Runtime, part: Part, room: Room) -> Result<(Finish, Delivery), Failure> {
        let (me, mut room, mut delivery) = (part.me, Some(room), None);
        let deliver = |finish: &Finish| {
            room = None;
            let account = Account::of(self.plan, me, finish)?;
            let mean = account.mean(self.plan, &finish.outcome);
            delivery = Some(self.deliver(account, mean, finish.silence.clone()));
            Ok(())
        };
        let finish = runtime.block_on(async {
            let leave = signals::leave();
            let mut hub = reaching::hub_configuration(&part.plan, part.me, &part.key);
            if !self.arguments.listen.is_empty() {
                hub.private.listen = reaching::parse_all(&self.arguments.listen);
            }
            driver::drive_alone(hub, part, leave, deliver).await
        })?;
        let delivery =
            delivery.ok_or_else(|| Failure::new(Exit::Internal, "the run ended without a result"))?;
        Ok((finish, delivery))
    }

    /// Both are tried, and neither failure ends this node: the others still need it.
    fn deliver(&self, mut account: Account, mean: Option<Vec<f64>>, silence: Silence) -> Delivery {
        if let Some(mean) = &mean {
            account.name_result(formats::sha256_of(|out| self.write_mean_to(&account, mean, out)).ok());
        }
        let mut delivery = Delivery {
            account,
            values: mean,
            silence,
            names: self.layout.columns().map(<[String]>::to_vec),
            mean: None,
            receipt: None,
            places: std::iter::once(&self.arguments.output)
                .chain(&self.arguments.receipt)
                .cloned()
                .collect(),
        };
        self.write(&mut delivery);
        delivery
    }

    fn write(&self, delivery: &mut Delivery) {
        let receipt = self.arguments.receipt.as_ref();
        let receipt = receipt.map(|path| delivery.account.write(path, self.key));
        let mean = delivery.values.as_ref();
        let mean = mean.map(|mean| self.write_mean(&delivery.account, mean));
        delivery.mean = mean.and_then(unwritten);
        delivery.receipt = receipt.and_then(unwritten);
    }

    fn write_mean(&self, account: &Account, mean: &[f64]) -> Result<(), Failure> {
        let (path, iterations) = (&self.arguments.output, account.iterations_run());
        if let Some(figures) = account.figures(self.plan, mean) {
            return figures.write(path);
        }
        match ModelFile::of(self.plan, mean, account.epsilon(), iterations) {
            Some(model) => model.write(path),
            // A stream may have ended early.
            None => formats::write(path, &self.layout.of_so_many(mean.len()), mean),
        }
    }

    /// Writes what [`Self::write_mean`] writes to the output's file.
    fn write_mean_to(&self, account: &Account, mean: &[f64], out: &mut dyn Write) -> std::io::Result<()> {
        let iterations = account.iterations_run();
        if let Some(figures) = account.figures(self.plan, mean) {
            return figures.write_to(&self.arguments.output, out);
        }
        match ModelFile::of(self.plan, mean, account.epsilon(), iterations) {
            Some(model) => model.write_to(&self.arguments.output, out),
            None => formats::write_to(out, &self.layout.of_so_many(mean.len()), mean),
        }
    }

    /// Keeps a result while the disk is full, unless somebody ends this process.
    async fn until_written(&self, delivery: &mut Delivery) {
        let mut stops = signals::StopSignals::listen();
        let mut given_up = false;
        let full = || {
            let places = std::iter::once(&self.arguments.output).chain(&self.arguments.receipt);
            let mut places = places.filter_map(|path| OutputFile::at(path).ok());
            places.any(|place| room::is_full(place.folder()))
        };
        while delivery.is_unwritten() && !given_up && full() {
            tracing::warn!(
                "the disk is full: the result is kept and will be written again; Ctrl-C discards it"
            );
            given_up = tokio::select! {
                _ = stops.next() => true,
                () = tokio::time::sleep(AGAIN) => false,
            };
            self.write(delivery);
        }
    }
}

/// The source of a party's contribution.
enum OwnInput {
    /// Its vector or rows, and where they were read.
    File(OwnData, PathBuf),
    /// A program that hands over its part of every round.
    Program(PathBuf),
}

impl OwnInput {
    /// Returns the source that the flags name, checked against the plan.
    fn of(arguments: &JoinArgs, plan: &Plan, me: Party) -> Result<Self, Failure> {
        let rounds = plan.draft().computation.task() == TaskName::Rounds;
        if let (Some(program), true) = (&arguments.program, part::streams(plan)) {
            return Ok(OwnInput::Program(program.clone()));
        }
        match (&arguments.program, &arguments.input) {
            (Some(program), _) if rounds => Ok(OwnInput::Program(program.clone())),
            (None, Some(path)) if !rounds => {
                let data = part::own_data(plan, me, path, MostlyWords::by_flag(arguments.anyway))?;
                Ok(OwnInput::File(data, path.clone()))
            }
            (Some(_), _) => Err(
                Failure::usage("this plan has no rounds that a program could hand over")
                    .field("--program")
                    .hint("leave it out, or ask for a plan with task = \"rounds\""),
            ),
            (None, _) => Err(
                Failure::usage("this plan has many rounds, and nothing hands over their parts")
                    .field("--program")
                    .hint(
                        "name a program: --program ./step (undertone join --help says how it is talked to)",
                    ),
            ),
        }
    }
}

impl OwnInput {
    /// Returns the layout of its file, where it is one.
    fn layout(&self) -> Option<&Layout> {
        match self {
            OwnInput::File(data, _) => Some(data.layout()),
            OwnInput::Program(_) => None,
        }
    }

    /// Reads the input and adds this party's own noise. A program is started, with `input` for its
    /// argument.
    fn privatise(self, plan: &Arc<Plan>, me: Party, input: Option<&Path>) -> Result<Private, Failure> {
        let rng = randomness::for_noise()?;
        match self {
            OwnInput::File(data, path) => part::privatise(plan, me, data, &path, rng),
            OwnInput::Program(path) => {
                let program = Program::start(&path, input, plan, me)?;
                Ok(part::privatise_handed_over(plan, me, program, rng))
            }
        }
    }
}

/// Everything that is checked before a byte is sent.
struct Prepared {
    plan: Arc<Plan>,
    me: Party,
    identity: Identity,
    spent: Spent,
    /// No daemon takes part with this key meanwhile.
    lock: KeyLock,
    own_input: OwnInput,
    /// The layout of the result.
    layout: Layout,
    /// The state folder.
    state: PathBuf,
    /// For the mean and the receipt.
    room: Room,
    events: Events,
}

/// Takes part. A first SIGINT or SIGTERM makes the node leave the run: exit 4 if nothing private
/// has left, 6 if something has and the final is withheld, 5 if the final is out; the files of such
/// an end are written, too. A second one ends the process at once.
pub fn run(arguments: JoinArgs) -> Result<Report, Failure> {
    let begun = Instant::now();
    process::write_no_cores();
    let prepared = prepare(&arguments, begun)?;
    let Prepared {
        plan,
        me,
        identity,
        spent,
        lock: _lock,
        own_input,
        layout,
        state,
        room,
        events,
    } = prepared;
    let (line, events) = LiveLine::of(&plan, events);
    let private = own_input.privatise(&plan, me, arguments.input.as_deref())?;
    let clipped = private.clipped;
    let part = Part {
        plan: plan.clone(),
        me,
        key: identity.keypair.clone(),
        value: private.value,
        noise: Box::new(private.noise),
        costs: Box::new(spent),
        events: events.clone(),
        shelf: shelf::in_folder(&state),
        contributor: private.contributor,
    };
    let destination = ResultFiles {
        plan: &plan,
        arguments: &arguments,
        layout: &layout,
        key: &identity.keypair,
    };
    // One thread carries the network, this one works on vectors: a second worker made long runs no
    // faster and kept 10 MB more.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let driven = destination.drive(&runtime, part, room);
    drop(line);
    let (finish, mut delivery) = driven?;
    runtime.block_on(destination.until_written(&mut delivery));
    let run = finish.outcome.plan(&plan);
    let owners = Owners {
        errors: model_errors(&run, &arguments, (&finish, &delivery)),
        keeps_back: !shows_private(&arguments),
        clipped: arguments.show_private.then_some(clipped.changed),
        sentence: clipping::sentence(&clipped, &plan.draft().data).filter(|_| output::is_terminal()),
    };
    let name = &plan.draft().members[me].name;
    let outcome = delivery.account.outcome();
    events.emit(
        name,
        "finished",
        serde_json::json!({ "exit_code": delivery.exit().code(), "outcome": outcome }),
    );
    Ok(result::report(&run, &finish, &delivery, owners, begun))
}

/// Whether the owner of the rows reads along, or has asked for what says something of them.
fn shows_private(arguments: &JoinArgs) -> bool {
    arguments.show_private || output::is_terminal()
}

/// The error of each parameter of a model, by the curvature of this party's rows. It says something
/// of these rows: none unless `--show-private` asks for it, or a terminal shows it.
fn model_errors(
    plan: &Plan,
    arguments: &JoinArgs,
    (finish, delivery): (&Finish, &Delivery),
) -> Option<Vec<f64>> {
    let values = delivery.values.as_deref().filter(|_| shows_private(arguments));
    let (settings, model) = plan.draft().computation.fitted(values)?;
    let path = arguments.input.as_ref()?;
    let rows = match plan.draft().data.unit {
        Unit::Record => model_file::rows(settings, path).ok()?,
        // A party's gradients are clipped as one.
        Unit::Party => return None,
    };
    let run = delivery.account.iterations_run();
    let included = &finish.outcome.included;
    let noise = (plan.predicted_over(included).standard_error, run);
    coefficients::noise_errors(settings, model, rows.iter(), noise)
}

/// Refuses (exit 3) a plan of a schedule: it has no addresses, and is its daemons' to carry out.
fn not_scheduled(plan: &Plan) -> Result<(), Failure> {
    match plan.draft().scheduled {
        None => Ok(()),
        Some(_) => Err(Failure::new(
            Exit::PlanRefused,
            "this plan is an attempt of a schedule, which the members' daemons carry out by themselves",
        )
        .field("occurrence")
        .hint("add the [[schedule]] to this node's configuration: `undertone node --help` lists its keys")),
    }
}

fn prepare(arguments: &JoinArgs, begun: Instant) -> Result<Prepared, Failure> {
    let plan = Arc::new(files::load(&arguments.plan)?);
    not_scheduled(&plan)?;
    arguments.known.check(&plan)?;
    let identity = Identity::load(&arguments.identity)?;
    let peer_id = identity.peer_id();
    let state = arguments
        .state
        .clone()
        .unwrap_or_else(|| output_file::with_suffix(&arguments.identity, ".state"));
    let lock = KeyLock::take(&arguments.identity, User::Join)?;
    let mut spent = Spent::open(
        &arguments.identity,
        &state,
        &plan.digest_hex(),
        &peer_id.to_string(),
    )?;
    spent.check()?;
    if arguments.checked {
        policy::check_policy(&plan, &arguments.policy)?;
    } else {
        utility::check(&plan)?;
        policy::check_aloud(&plan, &arguments.policy)?;
    }
    model_file::check_output(&plan, &arguments.output)?;
    let me = part::member(&plan, peer_id)?;
    let own_input = OwnInput::of(arguments, &plan, me)?;
    let plan = input::counted(plan, me, own_input.layout(), arguments.records)?;
    let template = (arguments.template.as_deref(), "--template");
    let template = template::of_plan(&plan, template, &arguments.output)?;
    let layout = match &own_input {
        OwnInput::File(data, _) => {
            tell_owner(arguments, &data.sentences());
            input::layout_of_mean(&plan, data.layout())
        }
        OwnInput::Program(_) => {
            let written_as = (template, arguments.input.as_deref());
            input::layout_of_rounds(&plan, &arguments.output, written_as)?
        }
    };
    check_outputs(arguments, &plan, &layout)?;
    let needed = room::needed(&plan, &layout);
    let room = take_room(&arguments.output, needed)?;
    let events = Events::open(arguments.events.as_deref(), begun)?;
    Ok(Prepared {
        plan,
        me,
        identity,
        spent,
        lock,
        own_input,
        layout,
        state,
        room,
        events,
    })
}

/// Looks at what will be written, before the run starts and not after it: each name is that of its
/// format, each place can be written to, and no two of these files, or of those that are read, are
/// one.
fn check_outputs(arguments: &JoinArgs, plan: &Plan, layout: &Layout) -> Result<(), Failure> {
    let (output, receipt) = (&*arguments.output, arguments.receipt.as_deref());
    let format = layout.format.extension();
    let is_model = plan.draft().computation.model().is_some();
    let is_described = plan.draft().computation.described().is_some();
    if !is_model && !is_described && output_file::extension_of(output).as_deref() != Some(format) {
        let what = "the mean, in the format of what is own_input,";
        return Err(output_file::misnamed(output, "--output", (what, format)));
    }
    if let Some(receipt) = receipt {
        output_file::check_named(receipt, "--receipt", ("the receipt", "json"))?;
    }
    let beside = model_file::beside(output).filter(|_| is_model);
    let signature = receipt.map(receipt::signature_of);
    let results = [Some(output), beside.as_deref()];
    let receipts = [receipt, signature.as_deref()];
    let named = |paths: [Option<&'_ Path>; 2], flag: &'static str| {
        paths
            .into_iter()
            .flatten()
            .map(move |path| (path.to_owned(), flag))
            .collect::<Vec<_>>()
    };
    let written = [named(results, "--output"), named(receipts, "--receipt")].concat();
    for (path, flag) in &written {
        OutputFile::of_flag(path, flag)?;
    }
    let events = arguments.events.as_deref().filter(|path| *path != Path::new("-"));
    let read = [
        (Some(&*arguments.plan), "PLAN.json"),
        (Some(&*arguments.identity), "--identity"),
        (arguments.input.as_deref(), "--input"),
        (arguments.program.as_deref(), "--program"),
        (arguments.template.as_deref(), "--template"),
    ];
    output_file::apart(
        read.into_iter().filter_map(|(path, flag)| Some((path?, flag))),
        written
            .iter()
            .map(|(path, flag)| (&**path, *flag))
            .chain(events.map(|path| (path, "--events"))),
    )
}

/// Says what a table has that the plan does not describe: on this screen alone, before anything is
/// said to others.
fn tell_owner(arguments: &JoinArgs, sentences: &[String]) {
    if shows_private(arguments) {
        output::tell_owner(sentences);
    }
}

const UNWRITTEN: &str =
    "the run itself is over and its plan is spent: ask another party for the mean, which is the same for all";

/// Takes room where the mean goes; refused if there is not enough.
fn take_room(path: &Path, needed: u64) -> Result<Room, Failure> {
    let place = OutputFile::of_flag(path, "--output")?;
    Room::take(place.folder(), needed).map_err(|e| {
        let needed = bytes(needed);
        let message = format!(
            "{}: no room for the mean and its receipt, up to {needed}: {e}",
            path.display()
        );
        Failure::storage(&e, message)
            .field("--output")
            .hint("make room, or name a file on another disk")
    })
}

/// Returns the reason why a file was not written.
fn unwritten(result: Result<(), Failure>) -> Option<Failure> {
    let failure = result.err()?;
    tracing::error!("{}", failure.message);
    Some(failure.hint(UNWRITTEN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_for_the_mean_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mean.npy");
        take_room(&path, 1).unwrap();
        take_room(Path::new("mean.npy"), 1).unwrap();
        let failure = take_room(&path, u64::MAX).unwrap_err();
        assert_eq!(
            (failure.exit, failure.field.as_deref()),
            (Exit::TryAgain, Some("--output")),
            "{failure}"
        );
    }
}
