//! JSON as other programs write it, with `NaN`, `Infinity` or `1e400` where a number should be:
//! such a cell is missing, and no error of the file.

use std::io::{BufRead, Read, Result};

use undertone_protocol::describe::cells::number_of;

/// Bytes of a word beyond which it is handed on as it stands. Our choice: no number has as many.
const LONGEST_WORD: usize = 4096;

/// Where in a text of JSON a byte stands.
enum JsonPlace {
    Outside,
    Quoted,
    Escaped,
}

/// A reader of JSON that puts words into quotation marks which a program meant as numbers and which
/// are no finite ones of JSON. All else is handed on as it is.
pub(super) struct QuotedWords<R> {
    inner: R,
    ready: Vec<u8>,
    /// How much of `ready` was handed on.
    handed_on: usize,
    place: JsonPlace,
    word: Vec<u8>,
}

impl<R: BufRead> QuotedWords<R> {
    pub(super) fn new(inner: R) -> Self {
        QuotedWords {
            inner,
            ready: vec![],
            handed_on: 0,
            place: JsonPlace::Outside,
            word: vec![],
        }
    }

    /// Reads what comes next; nothing at the end.
    fn refill(&mut self) -> Result<()> {
        self.ready.clear();
        self.handed_on = 0;
        while self.ready.is_empty() {
            let read = self.inner.fill_buf()?;
            let count = read.len();
            for &byte in read {
                match self.place {
                    JsonPlace::Quoted => {
                        self.ready.push(byte);
                        self.place = match byte {
                            b'\\' => JsonPlace::Escaped,
                            b'"' => JsonPlace::Outside,
                            _ => JsonPlace::Quoted,
                        };
                    }
                    JsonPlace::Escaped => {
                        self.ready.push(byte);
                        self.place = JsonPlace::Quoted;
                    }
                    JsonPlace::Outside if is_of_a_word(byte) && self.word.len() < LONGEST_WORD => {
                        self.word.push(byte);
                    }
                    JsonPlace::Outside => {
                        end_word(&mut self.word, &mut self.ready);
                        self.ready.push(byte);
                        if byte == b'"' {
                            self.place = JsonPlace::Quoted;
                        }
                    }
                }
            }
            self.inner.consume(count);
            if count == 0 {
                end_word(&mut self.word, &mut self.ready);
                return Ok(());
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for QuotedWords<R> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        if self.handed_on == self.ready.len() {
            self.refill()?;
        }
        let count = buffer.len().min(self.ready.len() - self.handed_on);
        buffer[..count].copy_from_slice(&self.ready[self.handed_on..self.handed_on + count]);
        self.handed_on += count;
        Ok(count)
    }
}

fn is_of_a_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

fn end_word(word: &mut Vec<u8>, ready: &mut Vec<u8>) {
    let quoted = is_meant_as_a_number(word);
    ready.extend(quoted.then_some(b'"'));
    ready.append(word);
    ready.extend(quoted.then_some(b'"'));
}

/// Whether a word is a number that JSON's grammar has not, or that no f64 holds.
fn is_meant_as_a_number(word: &[u8]) -> bool {
    match word {
        b"NaN" | b"Infinity" | b"-Infinity" => true,
        // Most words are short plain numbers: only these can be beyond f64.
        [b'+', ..] => text_number(word).is_some(),
        _ if word.len() > 300 || word.iter().any(|byte| matches!(byte, b'e' | b'E')) => {
            text_number(word).is_some_and(|number| !number.is_finite())
        }
        _ => false,
    }
}

fn text_number(word: &[u8]) -> Option<f64> {
    number_of(std::str::from_utf8(word).ok()?)
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn quoted(text: &str, room: usize) -> String {
        let mut found = String::new();
        let reader = BufReader::with_capacity(room, text.as_bytes());
        QuotedWords::new(reader)
            .read_to_string(&mut found)
            .expect("a text");
        found
    }

    #[test]
    fn words_that_are_no_finite_numbers_are_quoted_and_nothing_else() {
        let text = r#"[{"a NaN": NaN, "b\"1e400": -Infinity, "c": [1e400,-1e999, +5, 1e3]}, true, null, "NaN", nan]"#;
        let expected = r#"[{"a NaN": "NaN", "b\"1e400": "-Infinity", "c": ["1e400","-1e999", "+5", 1e3]}, true, null, "NaN", nan]"#;
        for room in [1, 2, 7, 8192] {
            assert_eq!(quoted(text, room), expected, "{room}");
        }
        assert_eq!(
            (quoted("NaN", 2), quoted("", 2)),
            ("\"NaN\"".into(), String::new())
        );
        let long = "1".repeat(400);
        assert_eq!(quoted(&long, 64), format!("\"{long}\""));
        let longer = "1".repeat(LONGEST_WORD * 2);
        assert_eq!(quoted(&longer, 64).replace('"', "").len(), longer.len());
    }
}
