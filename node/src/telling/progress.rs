//! One live line for long work, on a terminal; elsewhere the last state of each phase.

use std::io::{IsTerminal, Write};

use crate::telling::output;

/// The line. Nothing is shown if standard error is not a terminal, except what
/// [`Progress::milestone`] says.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    shown: usize,
    last: String,
}

impl Progress {
    /// A line that is empty yet; looks whether standard error is a terminal.
    pub fn start() -> Self {
        Progress {
            terminal: std::io::stderr().is_terminal(),
            shown: 0,
            last: String::new(),
        }
    }

    /// Shows this instead of what the line said.
    pub fn show(&mut self, line: &str) {
        if !self.terminal || line == self.last {
            return;
        }
        let width = line.chars().count();
        let padding = " ".repeat(self.shown.saturating_sub(width));
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r{line}{padding}").and_then(|()| out.flush());
        self.shown = width;
        self.last = line.to_owned();
    }

    /// A line that stays, on a terminal and elsewhere.
    pub fn milestone(&mut self, line: &str) {
        if self.terminal {
            self.show(line);
            self.shown = 0;
            self.last.clear();
        }
        output::tell(if self.terminal { "" } else { line });
    }

    /// Takes the line away.
    pub fn end(&mut self) {
        if self.terminal && self.shown > 0 {
            let _ = write!(std::io::stderr(), "\r{}\r", " ".repeat(self.shown));
            self.shown = 0;
        }
    }
}
