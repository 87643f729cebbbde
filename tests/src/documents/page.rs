//! Pages of the guide in the order of its summary.

use std::fs;

use crate::composition::top;

/// The folder of the guide, seen from the top of the repository.
pub const GUIDE: &str = "node/guide";

/// A document in Markdown.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its path, seen from the top of the repository.
    pub path: String,
    /// Its Markdown.
    pub text: String,
}

/// An entry of the guide's summary.
#[derive(Debug, PartialEq)]
pub enum Entry {
    /// The heading of a part.
    Part(String),
    /// A link to a page.
    Page {
        /// The link's text.
        title: String,
        /// The file, in the guide's folder.
        file: String,
    },
}

impl Page {
    /// Reads a document of the repository.
    pub fn read(path: &str) -> Self {
        let text = fs::read_to_string(top().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        Page {
            path: path.to_owned(),
            text,
        }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The page whose commands are run before those of this one, in the same folder: its first line
    /// says `<!-- continues: OTHER.md -->`.
    pub fn continues(&self) -> Option<&str> {
        let first = self.text.lines().next()?;
        Some(first.strip_prefix("<!-- continues:")?.strip_suffix("-->")?.trim())
    }
}

/// The entries of a summary: headings of parts, and links to pages.
pub fn entries(summary: &str) -> Vec<Entry> {
    let lines = summary.lines().map(str::trim).filter(|line| *line != "# Summary");
    let entry = |line: &str| {
        if let Some(part) = line.strip_prefix("# ") {
            return Some(Entry::Part(part.to_owned()));
        }
        let (title, rest) = line.split_once('[')?.1.split_once("](")?;
        let file = rest.strip_suffix(')')?;
        Some(Entry::Page {
            title: title.to_owned(),
            file: file.to_owned(),
        })
    };
    lines.filter_map(entry).collect()
}

/// All pages of the guide, in the order of its summary.
pub fn guide() -> Vec<Page> {
    let summary = Page::read(&format!("{GUIDE}/SUMMARY.md")).text;
    let file = |entry: Entry| match entry {
        Entry::Page { file, .. } => Some(file),
        Entry::Part(_) => None,
    };
    let files = entries(&summary).into_iter().filter_map(file);
    files.map(|file| Page::read(&format!("{GUIDE}/{file}"))).collect()
}

/// The pages of design and proofs, which are part of the API's documentation.
pub fn design() -> Vec<Page> {
    let mut paths = vec![];
    for folder in ["protocol/docs", "accountant/docs"] {
        let files = fs::read_dir(top().join(folder))
            .expect("a folder of pages")
            .flatten();
        paths.extend(files.map(|file| format!("{folder}/{}", file.file_name().to_string_lossy())));
    }
    paths.sort();
    paths.iter().map(|path| Page::read(path)).collect()
}

/// Every document that people read: the README, the guide, the design, and what stands in hidden
/// folders.
pub fn documents() -> Vec<Page> {
    let others = [
        "README.md",
        "node/CHANGELOG.md",
        ".github/CONTRIBUTING.md",
        ".github/DEPENDENCIES.md",
        ".github/SECURITY.md",
    ];
    others
        .map(Page::read)
        .into_iter()
        .chain(guide())
        .chain(design())
        .collect()
}
