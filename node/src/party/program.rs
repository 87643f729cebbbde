//! A program that hands over a party's part of every round, as a child of its own: its memory and
//! its crash are not the node's.
//!
//! Frames go both ways over its standard streams: a round's number (4 bytes, little-endian), a
//! length (8 bytes), and so many bytes of `.npy`, or of `.safetensors` where the plan names
//! tensors: the node writes what the program wrote last. The node sends round k with the mean of
//! round k − 1, empty before the first; the program answers with the same number and what it hands
//! over. After the last round comes the number 0 with the last mean, and its standard input ends.
//! What it writes to its standard error is shown as it is.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use undertone_protocol::plan::checked::Plan;
use undertone_protocol::topology::party::Party;

use crate::party::contributor::PartSource;
use crate::party::input;
use crate::reporting::failure::Failure;
use crate::vector_file::formats;
use crate::vector_file::layout::{Dtype, Format, Layout};
use crate::vector_file::vector::VectorFile;

/// Bytes of an answer that are no numbers, at most, and as many for each tensor; our choice, far
/// above what numpy and safetensors write.
const MOST_HEADER: u64 = 1 << 16;
const OF_A_TENSOR: u64 = 1 << 10;

/// A question that mostly has the answer yes where bytes look like text.
const PRINTS: &str =
    "did the program print to its standard output? What it prints belongs on its standard error";

/// The time that a program that answered in the last round may take once it has the last mean. Our
/// choice.
const FAREWELL: Duration = Duration::from_secs(10);

/// How long after its last byte a program that ends is waited for. Our choice.
const REAPING: Duration = Duration::from_millis(200);

/// The limits of a plan's frames.
#[derive(Clone, Copy)]
struct FrameLimits {
    /// The number of the last round.
    rounds: u64,
    /// Bytes of a body, at most.
    longest: u64,
}

struct ProgramFrame {
    round: u32,
    body: Vec<u8>,
}

/// The reasons why nothing more is read of a program.
enum Silent {
    Ended,
    /// Bytes that begin like text, where a frame should begin.
    Text,
    /// A frame of this round is announced with so many bytes.
    TooLong(u32, u64),
    Unreadable(io::Error),
}

/// A program that runs.
pub struct Program {
    child: Child,
    means: Option<SyncSender<ProgramFrame>>,
    answers: Receiver<Result<ProgramFrame, Silent>>,
    /// The layouts of a mean in a `.npy`, and as tensors if the plan has them.
    numbers: Layout,
    tensors: Option<Layout>,
    /// Whether its latest answer was a `.safetensors`: it receives means as one, too.
    speaks_tensors: bool,
    /// Whether it answered in the latest round.
    answered: bool,
    /// The reason why it is of no use any more.
    over: Option<String>,
}

impl Program {
    /// Starts it; `input`, where there is one, is its only argument.
    ///
    /// # Errors
    /// It cannot be started (exit 2).
    pub fn start(program: &Path, input: Option<&Path>, plan: &Plan, me: Party) -> Result<Self, Failure> {
        let draft = plan.draft();
        let mut child = Command::new(program)
            .args(input)
            .env("UNDERTONE_PARTY", &draft.members[me].name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| {
                Failure::usage(format!("{}: cannot be started: {e}", program.display()))
                    .field("--program")
                    .hint("name a file that can be executed: for a script chmod +x, and #! in its first line")
            })?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Failure::usage("a program without standard streams").field("--program"));
        };
        let rows = plan.records(me).unwrap_or(1);
        let tensors = draft.data.tensors.as_ref().map_or(0, |tensors| tensors.len());
        let longest = rows
            .saturating_mul(draft.dimension() as u64)
            .saturating_mul(8)
            .saturating_add(MOST_HEADER)
            .saturating_add(OF_A_TENSOR.saturating_mul(tensors as u64));
        let (means, to_write) = sync_channel(1);
        let (to_ask, answers) = sync_channel(1);
        thread::spawn(move || write_frames(stdin, to_write));
        let limits = FrameLimits {
            rounds: draft.releases(),
            longest,
        };
        thread::spawn(move || read_frames(stdout, to_ask, limits));
        Ok(Program {
            child,
            means: Some(means),
            answers,
            numbers: Layout::npy(draft.data.shape.clone(), Dtype::F64),
            tensors: input::layout_of_tensors(plan, Dtype::F64),
            speaks_tensors: false,
            answered: false,
            over: None,
        })
    }

    fn tell(&self, round: u32, mean: &[f64]) -> Result<(), String> {
        let mut body = Vec::new();
        if !mean.is_empty() {
            let layout = if self.speaks_tensors { &self.tensors } else { &None };
            let layout = layout.as_ref().unwrap_or(&self.numbers);
            formats::write_to(&mut body, layout, mean).map_err(|e| format!("a mean is not written: {e}"))?;
        }
        let means = self.means.as_ref().ok_or("the rounds are over")?;
        means.try_send(ProgramFrame { round, body }).map_err(|e| match e {
            TrySendError::Full(_) => "the program does not read what it is sent".to_owned(),
            TrySendError::Disconnected(_) => "the program takes nothing any more".to_owned(),
        })
    }

    fn answer(&mut self, round: u32, until: Instant) -> Result<VectorFile, String> {
        let mut another = None;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let frame = match self.answers.recv_timeout(left) {
                Ok(Ok(frame)) => frame,
                Ok(Err(silent)) => {
                    let why = self.why(silent, round);
                    return Err(self.over.insert(why).clone());
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(match another {
                        // An earlier round's answer may be late; a later one's is none.
                        Some(another) if another > round && begins_like_text(another) => {
                            format!("the program answered for round {another}: {PRINTS}")
                        }
                        Some(another) => format!("the program answered for round {another}"),
                        None => "the program did not answer in time".to_owned(),
                    });
                }
                Err(RecvTimeoutError::Disconnected) => return Err("the program has ended".to_owned()),
            };
            if frame.round == round {
                let answer = formats::rows_of_bytes(frame.body);
                let answer = answer.map_err(|e| format!("the program's answer: {e}"))?;
                self.speaks_tensors = matches!(answer.layout.format, Format::Safetensors { .. });
                return Ok(answer);
            }
            // A late one of an earlier round, or nonsense: the right one may follow.
            another = Some(frame.round);
        }
    }

    /// How it ended, if it does within this time.
    fn ended_within(&mut self, patience: Duration) -> Option<ExitStatus> {
        let until = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < until => {}
                _ => return None,
            }
            // What it still says is of no use, and must not keep it from ending.
            let _ = self.answers.try_recv();
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn why(&mut self, silent: Silent, asked: u32) -> String {
        match silent {
            Silent::Text => format!("the program's answer is text and no frame: {PRINTS}"),
            // A short text, and then a frame in the wrong place.
            Silent::TooLong(round, _) if round != asked && begins_like_text(round) => {
                format!("the program's answer begins with text: {PRINTS}")
            }
            Silent::TooLong(_, bytes) => {
                format!("the program announced {bytes} bytes, more than a contribution has")
            }
            Silent::Unreadable(error) => format!("the program's answers cannot be read: {error}"),
            Silent::Ended => match self.ended_within(REAPING) {
                Some(status) => format!("the program has ended ({status})"),
                None => "the program has closed its standard output".to_owned(),
            },
        }
    }
}

impl PartSource for Program {
    fn ask(&mut self, round: u32, mean: &[f64], until: Instant) -> Result<VectorFile, String> {
        if let Some(over) = &self.over {
            return Err(over.clone());
        }
        // Where it takes no mean it may still answer for an earlier one: of another round.
        self.answered = false;
        self.tell(round, mean)?;
        let answer = self.answer(round, until);
        self.answered = answer.is_ok();
        answer
    }

    fn conclude(&mut self, mean: Option<&[f64]>) {
        // With whom nobody can talk any more nobody talks.
        if self.over.is_none() && self.tell(0, mean.unwrap_or_default()).is_err() {
            tracing::warn!("the program was not told the last mean");
        }
        // Its standard input ends.
        self.means = None;
        if self.answered {
            self.ended_within(FAREWELL);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write_frames(mut stdin: ChildStdin, frames: Receiver<ProgramFrame>) {
    for ProgramFrame { round, body } in frames {
        let mut head = [0; 12];
        head[..4].copy_from_slice(&round.to_le_bytes());
        head[4..].copy_from_slice(&(body.len() as u64).to_le_bytes());
        let written = stdin.write_all(&head).and_then(|()| stdin.write_all(&body));
        if written.and_then(|()| stdin.flush()).is_err() {
            return;
        }
    }
}

fn read_frames(
    mut stdout: ChildStdout,
    frames: SyncSender<Result<ProgramFrame, Silent>>,
    limits: FrameLimits,
) {
    loop {
        let frame = read_frame(&mut stdout, limits);
        let last = frame.is_err();
        if frames.send(frame).is_err() || last {
            return;
        }
    }
}

/// How many bytes at the start are of text in UTF-8: printable or white space. A character that the
/// end cuts off counts.
fn text_at_start(bytes: &[u8]) -> usize {
    let (valid, is_cut) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => {
            let valid = &bytes[..error.valid_up_to()];
            (
                std::str::from_utf8(valid).unwrap_or_default(),
                error.error_len().is_none(),
            )
        }
    };
    let is_text = |letter: &char| !letter.is_control() || "\t\r\n\u{1b}".contains(*letter);
    let length: usize = valid.chars().take_while(is_text).map(char::len_utf8).sum();
    match is_cut && length == valid.len() {
        true => bytes.len(),
        false => length,
    }
}

fn begins_like_text(round: u32) -> bool {
    text_at_start(&round.to_le_bytes()) > 0
}

fn read_frame(stdout: &mut impl Read, limits: FrameLimits) -> Result<ProgramFrame, Silent> {
    let cut = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Silent::Ended,
        _ => Silent::Unreadable(error),
    };
    let (mut round, mut length) = (vec![], [0; 8]);
    stdout.take(4).read_to_end(&mut round).map_err(cut)?;
    // No plan has as many rounds as four bytes of text come to.
    if !round.is_empty() && text_at_start(&round) == round.len() {
        return Err(Silent::Text);
    }
    let round: [u8; 4] = round.try_into().map_err(|_| Silent::Ended)?;
    let round = u32::from_le_bytes(round);
    // A single dot of progress puts a frame in the wrong place: its length would be nonsense, and
    // its body never complete.
    if u64::from(round) > limits.rounds && begins_like_text(round) {
        return Err(Silent::Text);
    }
    stdout.read_exact(&mut length).map_err(cut)?;
    let length = u64::from_le_bytes(length);
    if length > limits.longest {
        return Err(Silent::TooLong(round, length));
    }
    // Grows with what is really there.
    let mut body = Vec::new();
    stdout.take(length).read_to_end(&mut body).map_err(cut)?;
    if (body.len() as u64) < length {
        return Err(Silent::Ended);
    }
    Ok(ProgramFrame { round, body })
}

#[cfg(test)]
mod tests;
