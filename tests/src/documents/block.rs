//! The commands of a document: its blocks fenced as `sh`.

/// The reasons why a block may not be run by a test of its document.
const REASONS: [&str; 8] = [
    "needs another machine",
    "needs the network",
    "it is the test command itself",
    "tests/tests/waiting/compose.rs runs it",
    "tests/tests/waiting/labs.rs runs it",
    "tests/tests/waiting/monitored.rs runs it",
    "tests/tests/waiting/notebook.rs runs it",
    "tests/tests/deploy.rs checks what it adds",
];

/// A block of commands.
#[derive(Debug, PartialEq)]
pub struct Block {
    /// The line where it stands, from 1.
    pub line: usize,
    /// Its lines.
    pub commands: String,
    /// The comment above it, if it has one.
    pub mark: Option<Mark>,
}

/// A comment on the line above a block.
#[derive(Debug, PartialEq, Clone)]
pub enum Mark {
    /// `<!-- not run: REASON -->`: some other test runs it, or none can.
    NotRun(String),
    /// `<!-- slow: HOW SLOW -->`: run by the ignored test alone.
    Slow,
}

impl Mark {
    fn of(line: &str) -> Option<Self> {
        let comment = line.trim().strip_prefix("<!--")?.strip_suffix("-->")?.trim();
        if let Some(reason) = comment.strip_prefix("not run:") {
            return Some(Mark::NotRun(reason.trim().to_owned()));
        }
        comment.starts_with("slow:").then_some(Mark::Slow)
    }
}

impl Block {
    /// Whether a test runs the block, where `slow` ones are asked for or not. Panics where a block
    /// is left out for a reason that is not known.
    pub fn is_run(&self, slow: bool) -> bool {
        match &self.mark {
            None => true,
            Some(Mark::Slow) => slow,
            Some(Mark::NotRun(reason)) => {
                let known = REASONS.iter().any(|known| reason.contains(known));
                assert!(known, "line {}: not run for no good reason: {reason}", self.line);
                false
            }
        }
    }
}

/// The `sh` blocks of a Markdown text.
pub fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = vec![];
    let mut lines = text.lines().enumerate();
    let mut mark = None;
    while let Some((index, line)) = lines.next() {
        let Some(language) = line.trim().strip_prefix("```") else {
            mark = Mark::of(line);
            continue;
        };
        let body: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| line.trim() != "```")
            .collect();
        assert!(
            language.trim() != "console" && language.trim() != "bash",
            "line {}: write commands in blocks fenced as sh",
            index + 1
        );
        if language.trim() == "sh" {
            blocks.push(Block {
                line: index + 1,
                commands: body.join("\n"),
                mark: mark.take(),
            });
        }
        mark = None;
    }
    blocks
}
