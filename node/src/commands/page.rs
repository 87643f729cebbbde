//! How pages of help are laid out.

/// Columns of a help page. Our choice: a window of that many is common, and text stays readable.
pub(super) const WIDTH: usize = 98;

/// A first column and a text beside it, which stays in its column.
pub(super) fn hanging(first: &str, text: &str) -> String {
    let (indent, mut lines) = (first.chars().count(), vec![String::new()]);
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if indent + line.chars().count() + 1 + word.chars().count() <= WIDTH {
            *line += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    let rest = format!("\n{}", " ".repeat(indent));
    format!("{first}{}\n", lines.join(&rest))
}
