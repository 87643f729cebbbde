//! How documents are written: short sentences, and words that a reader can search for.

use crate::documents::links::prose;

/// Half of the sentences of a page have fewer words.
pub const MEDIAN_WORDS: usize = 18;

/// Our own coinages, and constructions that native readers stumble over.
const COINAGES: [&str; 14] = [
    "whoever",
    "so many",
    "told",
    "telling",
    "spoilt",
    "deed",
    "outset",
    "onset",
    "vestibule",
    "roster",
    "lookout",
    "outlook",
    "commons",
    "succeeding",
];

/// The coinages in a Markdown text, code apart.
pub fn coinages(text: &str) -> Vec<&'static str> {
    let joined = prose(text).collect::<Vec<_>>().join(" ").to_lowercase();
    let plain: String = joined
        .split('`')
        .step_by(2)
        .flat_map(|part| part.chars().chain([' ']))
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .collect();
    let words = format!(" {} ", plain.split_whitespace().collect::<Vec<_>>().join(" "));
    let stands = |coinage: &&str| words.contains(&format!(" {coinage} "));
    COINAGES.into_iter().filter(stands).collect()
}

/// The number of words of each sentence, tables, headings and code apart.
pub fn sentences(text: &str) -> Vec<usize> {
    let mut paragraphs = vec![String::new()];
    for line in prose(text).map(str::trim) {
        let apart = line.is_empty() || line.starts_with(['|', '#', '<']);
        if apart || line.starts_with("- ") || line.starts_with(|c: char| c.is_ascii_digit()) {
            paragraphs.push(String::new());
        }
        if let (false, Some(last)) = (apart, paragraphs.last_mut()) {
            *last += line;
            last.push(' ');
        }
    }
    let ends = |c: char| ".?!:".contains(c);
    let sentences = paragraphs.iter().flat_map(|paragraph| {
        let words: Vec<&str> = paragraph.split_whitespace().filter(|word| *word != "-").collect();
        words
            .split_inclusive(|word| word.ends_with(ends))
            .map(<[&str]>::len)
            .collect::<Vec<_>>()
    });
    sentences.filter(|count| *count > 2).collect()
}

/// The median of the sentences' lengths; 0 of none.
pub fn median(text: &str) -> usize {
    let mut counts = sentences(text);
    counts.sort_unstable();
    counts.get(counts.len() / 2).copied().unwrap_or(0)
}
