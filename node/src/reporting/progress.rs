//! One live line for long work, on a terminal; elsewhere what stays of it.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, WeakProgressBar};
use terminal_size::{Width, terminal_size_of};

use crate::reporting::escaped::escaped;
use crate::reporting::output;
use crate::reporting::screen::columns_of;

/// Columns for the time that stands behind a sentence. Our choice: what an hour takes, and more.
const TIME: usize = 12;

/// How often the time on the line moves.
const TICK: Duration = Duration::from_millis(500);

/// The template of the line while nobody knows how long the work is: a sentence, and the time so
/// far.
const SENTENCE: &str = "{msg}  {elapsed}";

/// The template of the line where the work is counted.
const COUNTED: &str = "{msg}  [{bar:30}] {pos} of {len}, {eta} left";

/// The lines that stand on the terminal now, the latest last.
static SHOWN: Mutex<Vec<WeakProgressBar>> = Mutex::new(Vec::new());

/// Writes to standard error above the line that stands there, if one does: what would be written
/// over it otherwise is drawn again below.
pub fn above<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let line = shown.iter().rev().find_map(WeakProgressBar::upgrade);
    drop(shown);
    match line.filter(|line| !line.is_finished()) {
        Some(line) => line.suspend(write),
        None => write(),
    }
}

/// The line. Nothing is shown if standard error is not a terminal, except what
/// [`Progress::milestone`] says.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    line: ProgressBar,
    counted: bool,
}

impl Progress {
    /// A line that is empty yet; looks whether standard error is a terminal.
    pub fn start() -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = match terminal {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let line = ProgressBar::with_draw_target(None, target).with_style(style(SENTENCE));
        if terminal {
            line.enable_steady_tick(TICK);
            let mut shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner);
            shown.retain(|earlier| earlier.upgrade().is_some());
            shown.push(line.downgrade());
        }
        Progress {
            terminal,
            line,
            counted: false,
        }
    }

    /// Shows this instead of what the line said, and how long the work has taken.
    pub fn show(&mut self, line: &str) {
        if std::mem::take(&mut self.counted) {
            self.line.set_style(style(SENTENCE));
        }
        let columns = match self.terminal {
            true => terminal_size_of(std::io::stderr()).map(|(Width(columns), _)| usize::from(columns)),
            false => None,
        };
        let room = columns.unwrap_or(usize::MAX).saturating_sub(TIME);
        self.line
            .set_message(cut(&escaped(line), room.max(TIME)).into_owned());
    }

    /// Shows a bar: so many of all are done, and how long the rest will take.
    pub fn count(&mut self, what: &str, done: u64, all: u64) {
        // Before the style that shows them: each of these may draw.
        self.line.set_length(all);
        self.line.set_position(done);
        if !std::mem::replace(&mut self.counted, true) {
            self.line.set_style(style(COUNTED));
            self.line.reset_eta();
        }
        self.line.set_message(escaped(what).into_owned());
    }

    /// A line that stays, on a terminal and elsewhere.
    pub fn milestone(&mut self, line: &str) {
        match self.terminal {
            true => self.line.println(escaped(line)),
            false => output::tell(line),
        }
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        self.line.finish_and_clear();
    }
}

/// A text that fits into so many columns: its beginning, if it is too long. A line that wraps moves
/// the screen each time it changes.
fn cut(text: &str, room: usize) -> Cow<'_, str> {
    if columns_of(text) <= room {
        return text.into();
    }
    let mut kept = String::new();
    for letter in text.chars() {
        if columns_of(&kept) + columns_of(letter.encode_utf8(&mut [0; 4])) >= room {
            break;
        }
        kept.push(letter);
    }
    format!("{kept}…").into()
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("a template of this file")
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_is_too_long_for_the_window_is_cut() {
        assert_eq!(cut("waiting for bergen", 18), "waiting for bergen");
        assert_eq!(cut("waiting for bergen", 17), "waiting for berg…");
        // Two columns each.
        assert_eq!(cut("年齢年齢", 7), "年齢年…");
        assert_eq!(cut("年齢年齢", 6), "年齢…");
    }
}
