//! The line of each key in a TOML file, so that a value that parses but makes no sense is refused
//! with its line, too.

use std::collections::BTreeMap;

use toml::de::{DeTable, DeValue};

/// Dotted key ("privacy.epsilon", "peer.0.name") → line, from 1.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(BTreeMap<String, usize>);

impl Lines {
    /// The lines of a text; empty if it is not TOML (parsing it properly then gives the error).
    pub fn of(text: &str) -> Self {
        let mut lines = Lines::default();
        if let Ok(table) = DeTable::parse(text) {
            lines.table(text, "", table.get_ref());
        }
        lines
    }

    fn table(&mut self, text: &str, path: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let path = if path.is_empty() {
                key.get_ref().to_string()
            } else {
                format!("{path}.{}", key.get_ref())
            };
            self.0.insert(path.clone(), line_at(text, key.span().start));
            self.value(text, &path, value.get_ref());
        }
    }

    fn value(&mut self, text: &str, path: &str, value: &DeValue<'_>) {
        match value {
            DeValue::Table(table) => self.table(text, path, table),
            DeValue::Array(array) => {
                for (index, item) in array.iter().enumerate() {
                    let path = format!("{path}.{index}");
                    self.0.insert(path.clone(), line_at(text, item.span().start));
                    self.value(text, &path, item.get_ref());
                }
            }
            _ => {}
        }
    }

    /// The line of a key, or of the nearest table above it that is written out.
    pub fn line(&self, field: &str) -> Option<usize> {
        let mut path = field;
        loop {
            if let Some(&line) = self.0.get(path) {
                return Some(line);
            }
            path = &path[..path.rfind('.')?];
        }
    }

    /// All dotted keys with their lines, in the order of the file.
    pub fn fields(&self) -> impl Iterator<Item = (&str, usize)> {
        let mut fields: Vec<(&str, usize)> = self.0.iter().map(|(key, &line)| (key.as_str(), line)).collect();
        fields.sort_by_key(|&(key, line)| (line, key.len()));
        fields.into_iter()
    }

    /// The outermost key that begins on a line.
    pub fn key_at(&self, line: usize) -> Option<&str> {
        let on_line = self.0.iter().filter(|&(_, &at)| at == line);
        on_line.map(|(key, _)| key.as_str()).min_by_key(|key| key.len())
    }
}

/// The line (from 1) of a byte offset.
pub fn line_at(text: &str, offset: usize) -> usize {
    1 + text
        .as_bytes()
        .iter()
        .take(offset)
        .filter(|&&byte| byte == b'\n')
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_lines() {
        let text = "version = 1\n[data]\n\nclip = { kind = \"l2\",\n radius = 1 }\n[[peer]]\nname = \"a\"\n[[peer]]\nname = \"b\"\n";
        let lines = Lines::of(text);
        assert_eq!(lines.line("version"), Some(1));
        assert_eq!(lines.line("data"), Some(2));
        assert_eq!(lines.line("data.clip.radius"), Some(5));
        assert_eq!(lines.line("data.clip.missing"), Some(4));
        assert_eq!(lines.line("peer.1.name"), Some(9));
        assert_eq!(lines.line("nothing"), None);
        assert_eq!(lines.key_at(9), Some("peer.1.name"));
        assert_eq!(Lines::of("a = "), Lines::default());
    }
}
