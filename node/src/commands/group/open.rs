//! `undertone group open`: the host of a lobby.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;
use libp2p::PeerId;
use serde_json::json;
use subtle::ConstantTimeEq;
use tokio::sync::mpsc;
use tokio::time::{sleep_until, timeout};
use undertone_protocol::lobby::host::news::{HostNews, HostOutput};
use undertone_protocol::lobby::host::{Host, LobbyPurpose, Moment};
use undertone_protocol::lobby::invitation::{Invitation, MOST_ADDRESSES};
use undertone_protocol::messages::lobby::{Refusal, TO_HOST_LIMIT, ToGuest, ToHost};
use undertone_protocol::messages::wire::lobbies::{read_to_host, to_guest_frame};
use undertone_protocol::plan::peers::entry::Address;
use undertone_protocol::plan::peers::{Peer, Peers, is_party_name};
use undertone_protocol::plan::run_file::limits::MOST_PARTIES;
use undertone_protocol::time::Time;

use crate::commands::group::files::{ListPlace, list, nothing, own_peer, read};
use crate::commands::group::operator::{Operator, Said};
use crate::commands::group::seated::{Handing, SeatedConnection, start};
use crate::commands::group::strangers::{Asking, Strangers};
use crate::network::group::{LobbyListener, write_frame};
use crate::party::identity::Identity;
use crate::party::reaching;
use crate::party::signals::StopSignals;
use crate::planning::{make, revoked};
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// For how long an invitation lets people in, in minutes.
const INVITED_MIN: u32 = 30;
/// How long the lobby stays after the last close, or after the invitation has expired.
const STAYS: Duration = Duration::from_secs(30 * 60);
/// Seats where nothing else is said: enough for most groups, and little work for the host.
const SEATS: usize = 64;
/// How long a last message to a guest that is sent away may take.
const FAREWELL: Duration = Duration::from_secs(10);

/// Flags of `group open`.
#[derive(Args, Debug)]
pub struct OpenArgs {
    /// This party's key (from `undertone identity new`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// The group's name: [a-z0-9-], at most 32 characters
    #[arg(long)]
    name: String,
    /// Close by itself once so many sit, you among them (else at Enter, and at 64)
    #[arg(long, value_name = "N")]
    seats: Option<usize>,
    /// Where to listen meanwhile (default: the address that guests dial)
    #[arg(long, value_name = "ADDR")]
    listen: Vec<Address>,
    /// The address that guests dial (default: the identity's private address)
    #[arg(long, value_name = "ADDR")]
    announce: Vec<Address>,
    /// Pass on connections of listed parties that nobody can dial
    #[arg(long)]
    relay: bool,
    /// Where the list goes once it is in force; its signatures beside it (.sig)
    #[arg(long, value_name = "FILE")]
    peers: PathBuf,
    /// Change this list: its parties stay, and need not come
    #[arg(long, value_name = "OLD.toml")]
    from: Option<PathBuf>,
    /// A file with the [[relay]]s of the list
    #[arg(long, value_name = "FILE")]
    relays: Option<PathBuf>,
    /// Give no seat to a key revoked in this file of statements, one a line
    #[arg(long, value_name = "FILE", requires = "from", hide_short_help = true)]
    keys: Option<PathBuf>,
    /// Write each event as a line of JSON to this file or pipe
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    events: Option<PathBuf>,
}

/// Something from a guest that sits, by the number of its connection.
enum Heard {
    Message(PeerId, u64, ToHost),
    Gone(PeerId, u64),
}

/// Opens a lobby, and keeps it until its list is in force.
///
/// # Errors
/// A bad file or flag (exit 2); no list came into force (exit 4).
pub(super) fn run(arguments: &OpenArgs) -> Result<Report, Failure> {
    let identity = Identity::load(&arguments.identity)?;
    let place = ListPlace::at(&arguments.peers)?;
    if place.old.is_some() && arguments.from.is_none() {
        return Err(
            Failure::usage(format!("{}: there is a list already", arguments.peers.display()))
                .field("--peers")
                .hint("change that group with --from, or name another file"),
        );
    }
    let old = arguments
        .from
        .as_ref()
        .map(|path| list(path, "--from"))
        .transpose()?;
    let own = own_peer(
        &identity,
        None,
        own_addresses(&identity, arguments),
        arguments.relay,
    )?;
    let invitation = invitation(arguments, &own)?;
    let barred = barred(arguments.keys.as_deref(), old.as_ref())?;
    let purpose = LobbyPurpose {
        relays: relays(arguments, old.as_ref())?,
        old,
        seats: arguments.seats.unwrap_or(SEATS).min(MOST_PARTIES),
        barred,
    };
    let old = purpose.old.clone();
    let host = Host::new(identity.keypair.clone(), own, purpose).map_err(|e| {
        Failure::usage(format!("this party does not fit into the list: {e}")).field("--identity")
    })?;
    let operator = Operator::new(&identity.name, arguments.events.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    runtime.block_on(async {
        let listen = match &*arguments.listen {
            [] => &invitation.at,
            listen => listen,
        };
        let listener = LobbyListener::at(&identity.keypair, &reaching::parse_all(listen))
            .await
            .map_err(|e| Failure::usage(e.to_string()).field("--listen"))?;
        let mut lobby = Lobby::new(host, operator, (invitation, old));
        lobby.serve(listener, &place).await
    })
}

/// The keys of the old list that are revoked.
fn barred(keys: Option<&Path>, old: Option<&Peers>) -> Result<BTreeSet<PeerId>, Failure> {
    let (Some(keys), Some(old)) = (keys, old) else {
        return Ok(BTreeSet::new());
    };
    let held = revoked::read(keys, &[old])?;
    Ok(held.iter().map(|revoked| revoked.statement.id).collect())
}

/// The addresses of the host's line, where its identity has none.
fn own_addresses<'a>(identity: &Identity, arguments: &'a OpenArgs) -> &'a [Address] {
    match identity.private {
        Some(_) => &[],
        None => &arguments.announce,
    }
}

fn invitation(arguments: &OpenArgs, own: &Peer) -> Result<Invitation, Failure> {
    let at = match &*arguments.announce {
        [] => own.contact.at.clone(),
        announced => announced.to_vec(),
    };
    let refuse = |flag: &str, message: String| Err(Failure::usage(message).field(flag));
    if !is_party_name(&arguments.name) {
        let name = &arguments.name;
        return refuse(
            "--name",
            format!("{name:?} is not a name: use 1 to 32 of a-z, 0-9 and -"),
        );
    }
    if at.is_empty() || at.len() > MOST_ADDRESSES {
        return refuse(
            "--announce",
            format!(
                "guests need 1 to {MOST_ADDRESSES} addresses to dial; this has {}",
                at.len()
            ),
        );
    }
    for address in &at {
        if let Err(e) = address.check_reachable() {
            return refuse("--announce", format!("it {e}"));
        }
    }
    Ok(Invitation {
        host: own.id,
        token: rand::random(),
        expires_min: minutes_now().saturating_add(INVITED_MIN),
        name: arguments.name.clone(),
        at,
    })
}

/// Minutes since 1970.
pub(super) fn minutes_now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() / 60).unwrap_or(u32::MAX)
}

fn relays(
    arguments: &OpenArgs,
    old: Option<&Peers>,
) -> Result<Vec<undertone_protocol::plan::peers::contact::Relay>, Failure> {
    match &arguments.relays {
        None => Ok(old.map(|old| old.relays().to_vec()).unwrap_or_default()),
        Some(path) => Peers::parse_relays(&read(path, "--relays")?).map_err(|e| {
            make::peers_failure(path, &e).hint("write version = 1 and the [[relay]]s, and no [[peer]]")
        }),
    }
}

/// A lobby with its connections.
struct Lobby {
    host: Host,
    operator: Operator,
    invitation: Invitation,
    old: Option<Peers>,
    begun: Instant,
    ends: Instant,
    /// The connections of those who sit: number and queue.
    seated: BTreeMap<PeerId, (u64, SeatedConnection)>,
    heard: (mpsc::Sender<Heard>, mpsc::Receiver<Heard>),
}

impl Lobby {
    fn new(host: Host, operator: Operator, (invitation, old): (Invitation, Option<Peers>)) -> Self {
        let begun = Instant::now();
        Lobby {
            host,
            operator,
            old,
            begun,
            ends: begun + Duration::from_secs(60 * u64::from(INVITED_MIN)) + STAYS,
            invitation,
            seated: BTreeMap::new(),
            heard: mpsc::channel(64),
        }
    }

    fn now(&self) -> Moment {
        Moment {
            now: Time::from_nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX)),
            drawn: rand::random(),
        }
    }

    async fn serve(&mut self, mut listener: LobbyListener, place: &ListPlace) -> Result<Report, Failure> {
        let (to, mut asking) = mpsc::channel(16);
        let mut strangers = Strangers::new(to);
        let mut stop = StopSignals::listen();
        let mut second = tokio::time::interval(Duration::from_secs(1));
        let text = self.invitation.to_text();
        let words = format!(
            "The lobby of {} is open for {INVITED_MIN} minutes. Send this to the others, by mail or chat:\n\n  \
             undertone group join {text} --identity KEY --peers peers.toml\n\n\
             Who has it can sit down, and is seen. Enter closes the lobby; remove NAME takes somebody out.",
            self.invitation.name
        );
        self.operator.tell("open", json!({ "invitation": text }), &words);
        loop {
            tokio::select! {
                newcomer = listener.next() => strangers.enter(newcomer),
                Some((number, asking)) = asking.recv() => {
                    if let (true, Some(asking)) = (strangers.leave(number), asking) {
                        self.sit(asking, number);
                    }
                }
                Some(heard) = self.heard.1.recv() => self.hear(heard),
                said = self.operator.next() => self.do_as_said(said)?,
                _ = second.tick() => self.host.tick(self.now()),
                _ = stop.next() => self.host.end(),
                () = sleep_until(self.ends.into()) => self.host.end(),
            }
            // The others have their list also where the host's own cannot be written.
            if let Some(ended) = self.carry_out(place).transpose() {
                self.farewell().await;
                return ended;
            }
            if self.host.is_over() {
                self.farewell().await;
                return Err(nothing("the lobby has ended without a list; nothing was written"));
            }
        }
    }

    /// Somebody asks for a seat.
    fn sit(&mut self, asking: Asking, number: u64) {
        let known = bool::from(asking.token.ct_eq(&self.invitation.token));
        let expired = minutes_now() >= self.invitation.expires_min;
        let seat = match (known, expired) {
            (false, _) => Err(Refusal::Token),
            (true, true) if !self.seated.contains_key(&asking.id) => Err(Refusal::Expired),
            _ => self.host.sit(self.now(), asking.id, &asking.lines),
        };
        let mut secured = asking.secured;
        if let Err(refusal) = seat {
            let frame = to_guest_frame(&ToGuest::Refused(refusal));
            tokio::spawn(timeout(FAREWELL, async move {
                use futures::AsyncWriteExt;
                let _ = write_frame(&mut secured, &frame).await;
                let _ = secured.close().await;
            }));
            return;
        }
        let id = asking.id;
        let handing = Handing {
            limit: TO_HOST_LIMIT,
            read: move |frame: &[u8]| Some(Heard::Message(id, number, read_to_host(frame).ok()?)),
            to: self.heard.0.clone(),
            gone: Heard::Gone(id, number),
        };
        let connection = start(secured, to_guest_frame(&ToGuest::Here), handing);
        if let Some((_, before)) = self.seated.insert(id, (number, connection)) {
            before.hear_no_more();
        }
    }

    /// A connection whose seat has a newer one is heard no more.
    fn hear(&mut self, heard: Heard) {
        let now = self.now();
        match heard {
            Heard::Message(id, number, message) if self.has(&id, number) => self.host.hear(now, id, message),
            Heard::Gone(id, number) if self.has(&id, number) => {
                self.seated.remove(&id);
                self.host.left(now, id);
            }
            _ => {}
        }
    }

    fn has(&self, id: &PeerId, number: u64) -> bool {
        self.seated.get(id).is_some_and(|(known, _)| *known == number)
    }

    fn do_as_said(&mut self, said: Said) -> Result<(), Failure> {
        let now = self.now();
        match said {
            Said::Yes(close) => {
                self.operator.forget();
                self.host.yes(close);
            }
            Said::No => self.host.end(),
            Said::Other(line) if line.is_empty() => self.host.close(now),
            Said::Other(line) => match line.strip_prefix("remove ") {
                Some(name) if self.host.remove(now, name.trim()) => {}
                _ => self.operator.tell(
                    "unknown",
                    json!({}),
                    "Enter closes the lobby; remove NAME takes somebody out; Ctrl-C ends it.",
                ),
            },
        }
        Ok(())
    }

    /// Does all that the host wants done; the report, once the list is written.
    fn carry_out(&mut self, place: &ListPlace) -> Result<Option<Report>, Failure> {
        let mut report = None;
        loop {
            let outputs = self.host.drain();
            if outputs.is_empty() {
                return Ok(report);
            }
            for output in outputs {
                match output {
                    HostOutput::Say(ids, message) => {
                        // One frame for all: a list of a thousand has 300 kB.
                        let frame: Arc<[u8]> = to_guest_frame(&message).into();
                        ids.into_iter().for_each(|id| self.say(id, frame.clone()));
                    }
                    HostOutput::Dismiss(id, message) => {
                        self.say(id, to_guest_frame(&message).into());
                        if let Some((_, connection)) = self.seated.remove(&id) {
                            connection.hear_no_more();
                        }
                    }
                    HostOutput::News(HostNews::InForce(numbered, confirmed)) => {
                        place.put(&numbered.text, &numbered.list, &confirmed)?;
                        self.operator.tell("in force", json!({}), "All have said yes.");
                        report = Some(place.report(&numbered.text, &numbered.list, &numbered.number));
                    }
                    HostOutput::News(news) => self.tell(news),
                }
            }
        }
    }

    /// One who does not read what is said to it is not there.
    fn say(&mut self, id: PeerId, frame: Arc<[u8]>) {
        let full = match self.seated.get(&id) {
            Some((_, connection)) => connection.queue.try_send(frame).is_err(),
            None => false,
        };
        if full {
            self.seated.remove(&id);
            let now = self.now();
            self.host.left(now, id);
        }
    }

    fn tell(&mut self, news: HostNews) {
        let operator = &mut self.operator;
        match news {
            HostNews::Sat { name, id, change } => {
                let change = change.map_or_else(String::new, |change| format!(" - {change}"));
                let words = format!("{name} sits down ({id}){change}");
                operator.tell("sat", json!({ "name": name, "id": id.to_string() }), &words);
            }
            HostNews::Left { name, why } => {
                let why = why.map_or_else(|| "it left or said no".to_owned(), |why| why.to_string());
                operator.tell(
                    "left",
                    json!({ "name": name, "why": why }),
                    &format!("{name} is out: {why}"),
                );
            }
            HostNews::Closing(close) => {
                operator.forget();
                self.ends = self.ends.max(Instant::now() + STAYS);
                operator.tell(
                    "closing",
                    json!({ "close": close }),
                    &format!("Closing the lobby ({close})."),
                );
            }
            HostNews::TooFew { found } => operator.tell(
                "too few",
                json!({ "found": found }),
                &format!("A list needs 3 parties or more; there would be {found}. The lobby stays open."),
            ),
            HostNews::Number(numbered) => operator.ask(&numbered, self.old.as_ref()),
            HostNews::Yes { name } => operator.tell("yes", json!({ "name": name }), &format!("{name}: yes")),
            HostNews::Void => {
                operator.forget();
                operator.tell(
                    "void",
                    json!({}),
                    "That number is void. Enter closes the lobby anew.",
                );
            }
            HostNews::InForce(..) | HostNews::Ended => {}
        }
    }

    /// Lets the last messages arrive: each connection is written to its end and closed once its
    /// queue is dropped, and a guest that has read that goes. Frames on the way could be lost to a
    /// host that ends sooner.
    async fn farewell(&mut self) {
        let seated = std::mem::take(&mut self.seated).into_iter();
        let mut seated: BTreeSet<(PeerId, u64)> = seated.map(|(id, (number, _))| (id, number)).collect();
        let all_gone = async {
            while !seated.is_empty()
                && let Some(heard) = self.heard.1.recv().await
            {
                if let Heard::Gone(id, number) = heard {
                    seated.remove(&(id, number));
                }
            }
        };
        // One that hangs keeps nobody here for ever.
        let _ = timeout(FAREWELL, all_gone).await;
    }
}
