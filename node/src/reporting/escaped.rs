//! Text of files, peers and users as a terminal may show it.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, Write};

/// A text in which no character is left that a terminal obeys, or that turns around what it shows:
/// each is written as JSON escapes it (`\u001b`), so that JSON stays the same JSON. Lines and tabs
/// stay.
pub fn escaped(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match is_obeyed(character) {
            // All of them are below 2^16.
            true => write!(shown, "\\u{:04x}", u32::from(character)).expect("a string takes all"),
            false => shown.push(character),
        }
    }
    Cow::Owned(shown)
}

/// Control characters (C0, C1, DEL), line and paragraph separators, and what sets the direction of
/// writing (the Unicode bidirectional algorithm).
fn is_obeyed(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' => true,
        '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        _ => character.is_control(),
    }
}

/// Digits in a row that a message shows: those of a digest. More than any number has that is
/// written without an exponent on purpose.
const DIGITS: usize = 64;

/// A message in which no number is written out with hundreds of digits, as 1e308 would be.
pub fn shortened(message: String) -> String {
    let longest = message
        .split(|character: char| !character.is_ascii_digit())
        .map(str::len)
        .max();
    if longest.is_none_or(|longest| longest <= DIGITS) {
        return message;
    }
    let mut short = String::new();
    let mut rest = message.as_str();
    while let Some(begin) = rest.find(|character: char| character.is_ascii_digit()) {
        let (before, digits) = rest.split_at(begin);
        let length = digits
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(digits.len());
        short += before;
        match length > DIGITS {
            true => short += &format!("{}…({length} digits)", &digits[..12]),
            false => short += &digits[..length],
        }
        rest = &digits[length..];
    }
    short + rest
}

/// A writer whose text is escaped. Each write is of whole characters, as those of a log are; bytes
/// that are no text are shown as U+FFFD.
#[derive(Debug)]
pub struct Escaping<W>(pub W);

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        self.0.write_all(escaped(&text).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        assert_eq!(escaped("é – ε ≤ 1\n\tfine"), "é – ε ≤ 1\n\tfine");
        assert!(matches!(escaped("fine"), Cow::Borrowed(_)));
        assert_eq!(
            escaped("a\x1b[2Jb\u{9b}31m\r\x07\x7f"),
            "a\\u001b[2Jb\\u009b31m\\u000d\\u0007\\u007f"
        );
        assert_eq!(escaped("gnp\u{202e}csv.exe"), "gnp\\u202ecsv.exe");
        for code in 0..=0xffff {
            let Some(character) = char::from_u32(code) else {
                continue;
            };
            let shown = escaped(character.encode_utf8(&mut [0; 4])).into_owned();
            assert!(!shown.contains(is_obeyed), "{code:x}");
            if character.is_control() && !matches!(character, '\n' | '\t') {
                assert_eq!(shown, format!("\\u{code:04x}"));
            }
        }
    }

    #[test]
    fn a_number_of_hundreds_of_digits_is_cut() {
        let cut = |text: String| shortened(text);
        assert_eq!(
            cut("mu 0.25 of 12345678 at 1e-6".into()),
            "mu 0.25 of 12345678 at 1e-6"
        );
        let long = format!("is {} and {}, 3", 1e308, 2e-300);
        assert_eq!(
            cut(long),
            "is 100000000000…(309 digits) and 0.000000000000…(300 digits), 3"
        );
        assert_eq!(cut("7".repeat(64)), "7".repeat(64));
        assert_eq!(cut("7".repeat(65)), "777777777777…(65 digits)");
    }

    #[test]
    fn json_stays_the_same_json() {
        let value = serde_json::json!({ "name": "\u{1b}[31m\u{9b}\u{202e}\u{7f} x \"\\" });
        let text = value.to_string();
        assert_ne!(escaped(&text), text);
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&escaped(&text)).unwrap(),
            value
        );
    }

    #[test]
    fn a_log_is_escaped() {
        let mut out = Escaping(vec![]);
        out.write_all("peer \x1b]0;title\x07 – gone\n".as_bytes())
            .unwrap();
        assert_eq!(out.0, "peer \\u001b]0;title\\u0007 – gone\n".as_bytes());
    }
}
