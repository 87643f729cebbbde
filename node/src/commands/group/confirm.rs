//! `undertone group confirm`: a list that went by mail takes the place of the old one.

use std::path::{Path, PathBuf};

use clap::Args;
use undertone_protocol::lobby::confirmed::{Confirmed, sign_list};
use undertone_protocol::plan::peers::Peers;
use undertone_protocol::plan::peers::number::list_number;

use crate::commands::group::files::{ListPlace, nothing, read};
use crate::party::identity::Identity;
use crate::planning::{make, revoked};
use crate::reporting::failure::Failure;
use crate::reporting::output::tell;
use crate::reporting::report::Report;

/// Flags of `group confirm`.
#[derive(Args, Debug)]
pub struct ConfirmArgs {
    /// The new list; its signatures are beside it (.sig)
    file: PathBuf,
    /// This party's key
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The list of now, which it takes the place of
    #[arg(long, value_name = "FILE")]
    peers: PathBuf,
    /// Refuse a list that names a key revoked in this file of statements, one a line
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
    /// Say yes without being asked, if this is the list's number (undertone peers number)
    #[arg(long, value_name = "DIGITS")]
    number: Option<String>,
}

/// Shows what is new, asks, and puts the list into its place.
///
/// # Errors
/// A bad file or flag (exit 2); the list names a revoked key (exit 3); somebody new has not signed,
/// or the operator says no (exit 4).
pub(super) fn run(arguments: &ConfirmArgs) -> Result<Report, Failure> {
    let identity = Identity::load(&arguments.identity)?;
    let same = |path: &Path| path.canonicalize().ok();
    if same(&arguments.file).is_some_and(|file| same(&arguments.peers) == Some(file)) {
        return Err(Failure::usage("the new list is the list of now")
            .field("--peers")
            .hint("save the new one under another name: what differs is found beside the list of now"));
    }
    let text = read(&arguments.file, "FILE")?;
    let list = Peers::parse(&text).map_err(|e| make::peers_failure(&arguments.file, &e))?;
    let beside = arguments.file.with_extension("sig");
    let signatures = read(&beside, "FILE").map_err(|failure| {
        failure.hint("its .sig has to be beside it; both are written by `undertone group open` and `join`")
    })?;
    let mut confirmed = Confirmed::parse(&signatures, text.as_bytes(), &list)
        .map_err(|e| Failure::usage(e.to_string()).in_file(&beside).field("FILE"))?;
    let place = ListPlace::at(&arguments.peers)?;
    if let Some(keys) = &arguments.keys {
        let lists: Vec<&Peers> = place.old.iter().chain([&list]).collect();
        revoked::refuse_list(&revoked::read(keys, &lists)?, &list)?;
    }
    let me = identity.peer_id();
    if list.as_slice().iter().all(|peer| peer.id != me) {
        return Err(Failure::usage("this key is not in the list").field("--identity"));
    }
    let number = list_number(text.as_bytes());
    check_order(&list, place.old.as_ref())?;
    show(&list, &confirmed, place.old.as_ref(), &number);
    let missing = confirmed.missing(&list, place.old.as_ref(), &me);
    let missing: Vec<&str> = missing
        .iter()
        .filter(|peer| peer.id != me)
        .map(|peer| &*peer.name)
        .collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        return Err(
            nothing(format!("these are new or changed, and have not signed: {names}"))
                .hint("take both files from a member that was in the lobby"),
        );
    }
    if !says_yes(arguments.number.as_deref(), &number)? {
        return Err(nothing("you did not say yes; nothing was written"));
    }
    let digest = *confirmed.digest();
    if !confirmed.add(me, sign_list(&identity.keypair, &digest)) {
        return Err(nothing("this key's signature does not hold"));
    }
    place.put(&text, &list, &confirmed)?;
    Ok(place.report(&text, &list, &number))
}

/// Whether the list is the next after the list of now. Signatures hold for ever: without this any
/// list that was once in force could be mailed again, with those in it who were removed since.
fn check_order(list: &Peers, old: Option<&Peers>) -> Result<(), Failure> {
    let is_next = |old: &Peers| list == old || list.follows() == Some(old.digest());
    match old {
        Some(old) if !is_next(old) => Err(nothing(
            "this list does not take the place of your list of now, but of another one",
        )
        .field("FILE")
        .hint(
            "it is older, or you have missed one: confirm them in their order; or name a --peers file that is \
             not there, and all who are in the new list must have signed it",
        )),
        _ => Ok(()),
    }
}

/// Four digits at a time.
fn grouped(number: &str) -> String {
    let signs: Vec<char> = number.chars().collect();
    let groups: Vec<String> = signs.chunks(5).map(|group| group.iter().collect()).collect();
    groups.join(" ")
}

fn show(list: &Peers, confirmed: &Confirmed, old: Option<&Peers>, number: &str) {
    match old {
        None => tell("There is no list of now; all of the new one have to have signed."),
        Some(old) => {
            let changes = list.changes_since(old);
            tell("Beside the list of now:");
            changes.iter().for_each(|change| tell(format_args!("  {change}")));
            if changes.is_empty() {
                tell("  nothing differs");
            }
        }
    }
    let signed = list
        .as_slice()
        .iter()
        .filter(|peer| confirmed.of(&peer.id).is_some());
    let signed: Vec<&str> = signed.map(|peer| &*peer.name).collect();
    tell(format_args!("Signed by: {}", signed.join(", ")));
    tell(format_args!(
        "Number: {}\nIf you know who is new, and another member has the same number, type yes. Else: no",
        grouped(number)
    ));
}

fn says_yes(given: Option<&str>, number: &str) -> Result<bool, Failure> {
    if let Some(given) = given {
        let digits: String = given.chars().filter(|sign| !sign.is_whitespace()).collect();
        return match digits == number {
            true => Ok(true),
            false => Err(
                nothing("the list's number is another one; it is not the list that you mean")
                    .field("--number"),
            ),
        };
    }
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|e| nothing(format!("no answer can be read: {e}")))?;
    Ok(line.trim() == "yes")
}
