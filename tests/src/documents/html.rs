//! The guide as HTML: one file per page, a list of all pages beside it, and a search that needs
//! neither a server nor a network.
//!
//! mdBook reads the same folder (`book.toml`, `SUMMARY.md`), and takes long to compile on two
//! cores. This renderer takes seconds, and what it writes has no script but its own search.

use std::fmt::Write;
use std::io;
use std::path::Path;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};
use serde_json::{Value, json};

use crate::documents::links::anchor;
use crate::documents::page::{Entry, GUIDE, Page, entries};

const STYLE: &str = include_str!("style.css");
const SEARCH: &str = include_str!("search.js");

/// A page as HTML, with what a search finds in it.
#[derive(Debug)]
pub struct Rendered {
    /// The article.
    pub body: String,
    /// Sections: anchor, heading, text.
    pub sections: Vec<(String, String, String)>,
}

/// Renders the Markdown of a page.
pub fn render(text: &str) -> Rendered {
    let options = Options::ENABLE_TABLES;
    let mut events: Vec<Event> = Parser::new_ext(text, options).collect();
    let mut sections = vec![];
    let mut heading: Option<usize> = None;
    for index in 0..events.len() {
        match &events[index] {
            Event::Start(Tag::Heading { .. }) => {
                heading = Some(index);
                sections.push((String::new(), String::new(), String::new()));
            }
            Event::End(TagEnd::Heading(_)) => {
                let title = sections.last().map(|it: &(String, String, String)| anchor(&it.1));
                if let (Some(start), Some(title)) = (heading.take(), title) {
                    name_section(&mut events[start], &title);
                    sections.last_mut().expect("pushed at its start").0 = title;
                }
            }
            Event::Text(found) | Event::Code(found) => {
                if let Some((_, title, body)) = sections.last_mut() {
                    let place = if heading.is_some() { title } else { body };
                    place.push_str(found);
                }
            }
            Event::SoftBreak | Event::End(_) => {
                if let (Some((_, _, body)), None) = (sections.last_mut(), heading) {
                    body.push(' ');
                }
            }
            _ => {}
        }
    }
    let mut body = String::new();
    html::push_html(&mut body, events.into_iter().flat_map(adapted));
    Rendered { body, sections }
}

fn name_section(event: &mut Event, title: &str) {
    if let Event::Start(Tag::Heading { id, .. }) = event {
        *id = Some(title.to_owned().into());
    }
}

/// Tables in a frame that scrolls by itself, and links between pages as they are in HTML.
fn adapted(event: Event) -> Vec<Event> {
    match event {
        Event::Start(Tag::Table(columns)) => vec![
            Event::Html("<div class=\"table\">".into()),
            Event::Start(Tag::Table(columns)),
        ],
        Event::End(TagEnd::Table) => vec![Event::End(TagEnd::Table), Event::Html("</div>".into())],
        Event::Start(Tag::Link {
            link_type,
            dest_url,
            title,
            id,
        }) => {
            let dest_url = dest_url.replace(".md#", ".html#");
            let dest_url = match dest_url.strip_suffix(".md") {
                Some(page) => format!("{page}.html"),
                None => dest_url,
            };
            let dest_url = dest_url.into();
            vec![Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            })]
        }
        Event::Html(comment) if comment.trim_start().starts_with("<!--") => vec![],
        other => vec![other],
    }
}

/// The list of all pages, with `here` marked.
fn contents(entries: &[Entry], here: &str) -> String {
    let mut list = String::new();
    for entry in entries {
        let _ = match entry {
            Entry::Part(part) => writeln!(list, "<h2>{part}</h2>"),
            Entry::Page { title, file } => {
                let mark = if file == here {
                    " aria-current=\"page\""
                } else {
                    ""
                };
                let page = file.replace(".md", ".html");
                writeln!(list, "<a href=\"{page}\"{mark}>{title}</a>")
            }
        };
    }
    list
}

fn whole(title: &str, contents: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title} – Undertone</title>\n<link rel=\"stylesheet\" href=\"style.css\">\n</head>\n<body>\n\
         <nav>\n<details><summary>Undertone</summary>\n{contents}</details>\n</nav>\n\
         <main>\n<input id=\"search\" type=\"search\" placeholder=\"Search the guide\" aria-label=\"Search\">\n\
         <ol id=\"found\" hidden></ol>\n<article>\n{body}</article>\n</main>\n\
         <script src=\"index.js\"></script>\n<script src=\"search.js\"></script>\n</body>\n</html>\n"
    )
}

/// Writes the guide into a folder, which is made; returns how many pages it has.
pub fn build(folder: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let entries = entries(&Page::read(&format!("{GUIDE}/SUMMARY.md")).text);
    let mut index: Vec<Value> = vec![];
    let mut pages = 0;
    for entry in &entries {
        let Entry::Page { title, file } = entry else {
            continue;
        };
        let rendered = render(&Page::read(&format!("{GUIDE}/{file}")).text);
        let name = file.replace(".md", ".html");
        let text = whole(title, &contents(&entries, file), &rendered.body);
        if pages == 0 {
            std::fs::write(folder.join("index.html"), &text)?;
        }
        std::fs::write(folder.join(&name), text)?;
        pages += 1;
        index.extend(rendered.sections.into_iter().map(|(anchor, heading, text)| {
            let at = format!("{name}#{anchor}");
            json!({ "page": title, "at": at, "heading": heading, "text": text })
        }));
    }
    let index = Value::Array(index).to_string().replace("</", "<\\/");
    std::fs::write(folder.join("index.js"), format!("const SECTIONS = {index};\n"))?;
    std::fs::write(folder.join("style.css"), STYLE)?;
    std::fs::write(folder.join("search.js"), SEARCH)?;
    Ok(pages)
}
