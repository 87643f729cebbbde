//! Links of documents, and the anchors of their headings.

use std::path::Path;

use crate::documents::page::Page;

/// The addresses of a Markdown text's links, code apart.
pub fn links(text: &str) -> Vec<String> {
    let mut links = vec![];
    for line in prose(text) {
        let mut rest = line;
        while let Some((_, after)) = rest.split_once("](") {
            let Some((address, further)) = after.split_once(')') else {
                break;
            };
            links.push(address.to_owned());
            rest = further;
        }
    }
    links
}

/// The lines of a Markdown text that are no code.
pub fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut code = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    })
}

/// The anchor of a heading, as GitHub and mdBook make it: lower case, hyphens for blanks, nothing
/// but letters, digits, hyphens and underscores.
pub fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower
        .chars()
        .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The anchors of a Markdown text's headings.
pub fn anchors(text: &str) -> Vec<String> {
    let heading = |line: &str| {
        let title = line.trim_start_matches('#');
        (title.len() < line.len() && title.starts_with(' ')).then(|| anchor(title.trim()))
    };
    prose(text).filter_map(heading).collect()
}

/// The links of a document to files or headings that are not there.
pub fn broken(page: &Page, top: &Path) -> Vec<String> {
    let folder = Path::new(&page.path).parent().unwrap_or(Path::new(""));
    let is_broken = |link: &String| {
        if link.contains("://") {
            return false;
        }
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let text = if file.is_empty() {
            page.text.clone()
        } else {
            let path = top.join(folder).join(file);
            if heading.is_empty() {
                return !path.exists();
            }
            std::fs::read_to_string(path).unwrap_or_default()
        };
        !heading.is_empty() && !anchors(&text).iter().any(|it| it == heading)
    };
    links(&page.text).into_iter().filter(is_broken).collect()
}
