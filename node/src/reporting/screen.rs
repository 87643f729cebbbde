//! How wide text for people may be, and how it is wrapped to that width.

use terminal_size::{Width, terminal_size_of};
use unicode_width::UnicodeWidthStr;

/// The width where nobody says how wide the reader's window is. Our choice: pages, mail and most
/// windows show it.
const USUAL: usize = 100;

/// The widest text on a terminal. Our choice: the eye loses longer lines.
const WIDEST: usize = 120;

/// The narrowest text. Our choice: a digest's prefix beside a name.
const NARROWEST: usize = 40;

/// Columns that a line may take: COLUMNS says it, else the terminal, else it is [`USUAL`].
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok();
    let asked = asked.and_then(|columns| columns.trim().parse::<usize>().ok());
    let shown = || {
        let (Width(columns), _) = terminal_size_of(std::io::stdout())?;
        Some(usize::from(columns).min(WIDEST))
    };
    let columns = asked.filter(|columns| *columns > 0).or_else(shown);
    columns.unwrap_or(USUAL).max(NARROWEST)
}

/// Columns of a page of help at most. Our choice: a window of that many is common, and text stays
/// readable.
pub const PAGE: usize = 98;

/// Columns that a line of a page of help may take.
pub fn page_width() -> usize {
    width().min(PAGE)
}

/// Columns that a text takes on one line.
pub fn columns_of(text: &str) -> usize {
    text.width()
}

/// Wraps each line that is too long at its blanks. What follows is indented as the line is; a word
/// is never broken.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut wrapped = String::with_capacity(text.len() + text.len() / 50);
    for line in text.split_inclusive('\n') {
        let (content, end) = match line.strip_suffix('\n') {
            Some(content) => (content, "\n"),
            None => (line, ""),
        };
        if columns_of(content) <= width {
            wrapped += line;
            continue;
        }
        let words = content.trim_start_matches(' ');
        let indent = " ".repeat(content.len() - words.len());
        let room = width.saturating_sub(indent.len());
        let lines = lines_of(words, room.max(1));
        let lines: Vec<String> = lines.iter().map(|line| format!("{indent}{line}")).collect();
        wrapped += &lines.join("\n");
        wrapped += end;
    }
    wrapped
}

/// A text in lines of at most `room` columns, except where one word is longer.
pub fn lines_of(text: &str, room: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        let needed = columns_of(line) + 1 + columns_of(word);
        if line.is_empty() {
            line.push_str(word);
        } else if needed <= room {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A first column, and beside it a text that stays in its column.
pub fn hanging(first: &str, text: &str, width: usize) -> String {
    let indent = columns_of(first);
    let lines = lines_of(text, width.saturating_sub(indent).max(1));
    let rest = format!("\n{}", " ".repeat(indent));
    format!("{first}{}\n", lines.join(&rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_at_blanks_and_keep_their_indent() {
        let text = "short\n  one two three four\n\nlast";
        assert_eq!(wrapped(text, 12), "short\n  one two\n  three four\n\nlast");
        assert_eq!(wrapped(text, 80), text);
    }

    #[test]
    fn words_are_never_broken() {
        let digest = "a".repeat(64);
        let text = format!("Plan {digest} is new");
        assert_eq!(wrapped(&text, 40), format!("Plan\n{digest}\nis new"));
    }

    #[test]
    fn a_hanging_text_stays_in_its_column() {
        assert_eq!(hanging("  key  ", "one two", 10), "  key  one\n       two\n");
    }

    #[test]
    fn wide_letters_count_as_they_are_shown() {
        assert_eq!((columns_of("σ* = 1"), columns_of("年齢")), (6, 4));
    }
}
