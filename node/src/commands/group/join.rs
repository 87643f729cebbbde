//! `undertone group join`: a guest of a lobby.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use undertone_protocol::lobby::guest::{Cheat, Guest, GuestNews};
use undertone_protocol::lobby::invitation::Invitation;
use undertone_protocol::messages::lobby::{Refusal, TO_GUEST_LIMIT, TO_HOST_LIMIT, ToGuest, ToHost};
use undertone_protocol::messages::wire::lobbies::{read_to_guest, to_host_frame};
use undertone_protocol::plan::peers::Peer;
use undertone_protocol::plan::peers::entry::Address;

use crate::commands::group::files::{ListPlace, nothing, own_peer};
use crate::commands::group::open::minutes_now;
use crate::commands::group::operator::{Operator, Said};
use crate::commands::group::seated::{Handing, start};
use crate::network::group::dial;
use crate::party::identity::Identity;
use crate::party::reaching;
use crate::party::signals::StopSignals;
use crate::reporting::failure::Failure;
use crate::reporting::report::Report;

/// For how long a host that does not answer is tried.
const TRIED: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_secs(1);
/// Clocks may differ by so many minutes before an invitation counts as expired here.
const CLOCKS_MIN: u32 = 5;

/// An invitation as it was sent. Who has it can sit down: it is never printed.
#[derive(Clone)]
pub(super) struct InvitationText(String);

impl FromStr for InvitationText {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(InvitationText(text.to_owned()))
    }
}

impl fmt::Debug for InvitationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InvitationText")
    }
}

/// Flags of `group join`.
#[derive(Args, Debug)]
pub struct JoinLobbyArgs {
    /// The text that the host sent: utn1…
    invitation: InvitationText,
    /// This party's key (from `undertone identity new`)
    #[arg(long, value_name = "FILE")]
    identity: PathBuf,
    /// This party's name in the list (default: the identity's)
    #[arg(long)]
    name: Option<String>,
    /// Where the others reach this party (default: the identity's private address, or nowhere)
    #[arg(long, value_name = "ADDR")]
    announce: Vec<Address>,
    /// Pass on connections of listed parties that nobody can dial
    #[arg(long)]
    relay: bool,
    /// Where the list goes once it is in force; its signatures beside it (.sig)
    #[arg(long, value_name = "FILE")]
    peers: PathBuf,
    /// Write each event as a line of JSON to this file or pipe
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    events: Option<PathBuf>,
}

/// A message as it is queued for the host.
fn frame(message: &ToHost) -> Arc<[u8]> {
    to_host_frame(message).into()
}

/// Sits down, and stays until the list is in force.
///
/// # Errors
/// A bad invitation, file or flag (exit 2); no list came into force (exit 4).
pub(super) fn run(arguments: &JoinLobbyArgs) -> Result<Report, Failure> {
    let refuse = |e: String| Failure::usage(e).field("INVITATION");
    let invitation = Invitation::parse(&arguments.invitation.0).map_err(|e| refuse(e.to_string()))?;
    if minutes_now() > invitation.expires_min.saturating_add(CLOCKS_MIN) {
        return Err(refuse("the invitation has expired".into()).hint("ask the host to open the lobby again"));
    }
    let identity = Identity::load(&arguments.identity)?;
    if identity.peer_id() == invitation.host {
        return Err(refuse("the invitation is this key's own".into()).hint("the host sits already"));
    }
    let place = ListPlace::at(&arguments.peers)?;
    let own = own_peer(
        &identity,
        arguments.name.as_deref(),
        &arguments.announce,
        arguments.relay,
    )?;
    if own.to_toml().len() + 64 > TO_HOST_LIMIT {
        return Err(
            Failure::usage("this party's line is too long: more than 900 bytes")
                .field("--announce")
                .hint("announce fewer or shorter addresses"),
        );
    }
    let operator = Operator::new(&own.name, arguments.events.as_deref())?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| Failure::usage(format!("no runtime can be started: {e}")))?;
    let mut visit = LobbyVisit {
        guest: Guest::new(
            identity.keypair.clone(),
            own.clone(),
            invitation.host,
            place.old.clone(),
        ),
        identity,
        own,
        invitation,
        operator,
        place,
    };
    runtime.block_on(visit.stay())
}

/// A guest with its operator.
struct LobbyVisit {
    identity: Identity,
    own: Peer,
    invitation: Invitation,
    guest: Guest,
    operator: Operator,
    place: ListPlace,
}

impl LobbyVisit {
    /// Connects, again if the connection breaks, until there is an end.
    async fn stay(&mut self) -> Result<Report, Failure> {
        let at = reaching::parse_all(&self.invitation.at);
        let mut stop = StopSignals::listen();
        let mut since = Instant::now();
        loop {
            let dialled = tokio::select! {
                dialled = dial(&self.identity.keypair, self.invitation.host, &at) => dialled,
                _ = stop.next() => return Err(nothing("stopped; nothing was written")),
            };
            match dialled {
                Ok(secured) => {
                    let (to, mut heard) = mpsc::channel(16);
                    let handing = Handing {
                        limit: TO_GUEST_LIMIT,
                        read: |frame: &[u8]| Some(read_to_guest(frame).ok()),
                        to,
                        gone: None,
                    };
                    let connection = start(secured, to_host_frame(&ToHost::Here), handing);
                    let queue = &connection.queue;
                    let _ = queue.try_send(frame(&ToHost::Sit {
                        token: self.invitation.token,
                        lines: self.own.to_toml(),
                    }));
                    self.guest.reconnected();
                    if let Some(report) = self.session(&mut heard, queue, &mut stop).await? {
                        return Ok(report);
                    }
                    self.operator.forget();
                    self.operator.tell(
                        "lost",
                        json!({}),
                        "The connection to the host broke; trying again.",
                    );
                    since = Instant::now();
                }
                Err(_) if since.elapsed() > TRIED && self.guest.has_said_yes() => {
                    return Err(nothing(
                        "the host is not reached any more; you had said yes, and the list may be in force",
                    )
                    .hint(
                        "if it is, take both files from another member, and say yes: undertone group confirm",
                    ));
                }
                Err(e) if since.elapsed() > TRIED => {
                    return Err(nothing(format!("the host is not reached: {e}"))
                        .hint("ask whether its lobby is still open, and whether its address is right"));
                }
                Err(_) => {}
            }
            sleep(PAUSE).await;
        }
    }

    /// One connection; `None`: it broke.
    async fn session(
        &mut self,
        heard: &mut mpsc::Receiver<Option<ToGuest>>,
        queue: &mpsc::Sender<Arc<[u8]>>,
        stop: &mut StopSignals,
    ) -> Result<Option<Report>, Failure> {
        loop {
            tokio::select! {
                message = heard.recv() => {
                    let Some(Some(message)) = message else { return Ok(None) };
                    let heard = self.guest.hear(message, rand::random());
                    let (said, news) = heard.map_err(|cheat| self.refused(&cheat))?;
                    if let Some(said) = said
                        && queue.send(frame(&said)).await.is_err()
                    {
                        return Ok(None);
                    }
                    if let Some(report) = news.map(|news| self.tell(news)).transpose()?.flatten() {
                        return Ok(Some(report));
                    }
                }
                said = self.operator.next() => match said {
                    Said::Yes(close) => {
                        self.operator.forget();
                        if let Some(yes) = self.guest.yes(close) {
                            self.operator.tell("yes", json!({}), "You said yes; waiting for the others.");
                            let _ = queue.send(frame(&yes)).await;
                        }
                    }
                    Said::No => {
                        let _ = queue.send(frame(&ToHost::No)).await;
                        // So that the host hears it rather than a broken connection.
                        let rest = async { while heard.recv().await.flatten().is_some() {} };
                        let _ = timeout(PAUSE, rest).await;
                        return Err(nothing("you said no; nothing was written"));
                    }
                    Said::Other(_) => {}
                },
                _ = stop.next() => return Err(nothing("stopped; nothing was written")),
            }
        }
    }

    /// The host has done what none may do, or this guest has no list of now.
    fn refused(&self, cheat: &Cheat) -> Failure {
        match (cheat, &self.place.old) {
            (Cheat::Absent(name), None) => nothing(format!(
                "the list has {name}, who is not here, and you have no list of now; nothing was written"
            ))
            .field("--peers")
            .hint(
                "take the list of now from a member that is not the host, save it as --peers, and join again",
            ),
            _ => nothing(format!(
                "the host cannot be trusted: {cheat}; nothing was written"
            ))
            .hint("tell the others, and do not go on with this host"),
        }
    }

    fn tell(&mut self, news: GuestNews) -> Result<Option<Report>, Failure> {
        match news {
            GuestNews::Sitting(names) => {
                let words = format!(
                    "{} sit in the lobby of {}: {}",
                    names.len(),
                    self.invitation.name,
                    names.join(", ")
                );
                self.operator.tell("sitting", json!({ "names": names }), &words);
            }
            GuestNews::Closing(close) => {
                self.operator.forget();
                let words = format!("The host closes the lobby ({close}).");
                self.operator.tell("closing", json!({ "close": close }), &words);
            }
            GuestNews::Number(numbered) => self.operator.ask(&numbered, self.place.old.as_ref()),
            GuestNews::InForce(numbered, confirmed) => {
                self.place.put(&numbered.text, &numbered.list, &confirmed)?;
                self.operator.tell("in force", json!({}), "All have said yes.");
                return Ok(Some(self.place.report(
                    &numbered.text,
                    &numbered.list,
                    &numbered.number,
                )));
            }
            GuestNews::Missed => {
                return Err(nothing("the list that you had said yes to is in force")
                    .hint("take both files from another member, and say yes: undertone group confirm"));
            }
            GuestNews::Refused(why) => {
                let field = match why {
                    Refusal::Name(_) => "--name",
                    Refusal::Lines(_) => "--identity",
                    _ => "INVITATION",
                };
                // On one line: it is the host's text.
                let why = why.to_string().replace(['\n', '\t'], " ");
                return Err(nothing(why).field(field));
            }
            GuestNews::Ended => {
                return Err(nothing("the lobby has ended without a list; nothing was written"));
            }
        }
        Ok(None)
    }
}
