//! Documents: their links and paths lead somewhere, their lines are wrapped, and their words are
//! those that a reader can search for.

use std::collections::BTreeSet;

use undertone_tests::browser::Browser;
use undertone_tests::composition::top;
use undertone_tests::documents::citations::{absent, cited, files, resolves, tests};
use undertone_tests::documents::html::{build, render};
use undertone_tests::documents::links::{anchors, broken, links};
use undertone_tests::documents::page::{GUIDE, Page, design, documents, guide};
use undertone_tests::documents::wording::{MEDIAN_WORDS, coinages, median, sentences};
use undertone_tests::house::prose::wide_prose;
use undertone_tests::house::sources::{below, workspace};
use undertone_tests::left_out;

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut found = 0;
    for page in documents() {
        let broken = broken(&page, top());
        assert!(broken.is_empty(), "{}: {broken:?}", page.path);
        found += links(&page.text).len();
    }
    assert!(found > 50, "{found} links");
}

#[test]
fn broken_links_are_found() {
    let page = |text: &str| Page {
        path: "node/guide/x.md".into(),
        text: text.into(),
    };
    let text = "# One thing, two\n[a](daemon.md) [b](nowhere.md) [c](#one-thing-two) [d](#other)\n\
                ```\n[e](code.md)\n```\n[f](budgets.md#backup-and-restore) [g](budgets.md#none)";
    assert_eq!(
        broken(&page(text), top()),
        ["nowhere.md", "#other", "budgets.md#none"]
    );
    assert_eq!(anchors(text), ["one-thing-two"]);
}

#[test]
fn every_page_of_the_guide_stands_in_its_summary() {
    let listed: Vec<String> = guide().iter().map(|page| page.name().to_owned()).collect();
    let files = std::fs::read_dir(top().join(GUIDE)).expect("the guide").flatten();
    for file in files.map(|file| file.file_name().to_string_lossy().into_owned()) {
        let known = ["SUMMARY.md", "book.toml"].contains(&file.as_str());
        assert!(known || listed.contains(&file), "{file} is not in SUMMARY.md");
    }
}

#[test]
fn the_readme_is_short_and_documents_are_wrapped() {
    let lines = Page::read("README.md").text.lines().count();
    assert!(lines <= 200, "README.md has {lines} lines");
    for page in documents() {
        let wide = wide_prose(&page.text);
        assert!(wide.is_empty(), "{}: lines {wide:?} are too wide", page.path);
    }
}

#[test]
fn documents_are_in_plain_english() {
    for page in documents() {
        let coinages = coinages(&page.text);
        assert!(coinages.is_empty(), "{}: {coinages:?}", page.path);
        let median = median(&page.text);
        assert!(
            median < MEDIAN_WORDS,
            "{}: half of the sentences have {median} words or more",
            page.path
        );
    }
}

#[test]
fn coinages_and_long_sentences_are_found() {
    let text = "# Told\nWhoever is there, `told`.\n```\nso many\n```\nIt has so\nmany untold parts.\n";
    assert_eq!(coinages(text), ["whoever", "so many", "told"]);
    assert_eq!(coinages("Untold. `told`"), [""; 0]);
    let text = "# Not this one\nOne two three. Four five six seven:\n- eight nine ten\n\n| a b c d |\n";
    assert_eq!(sentences(text), [3, 4, 3]);
    assert_eq!(median(text), 3);
}

/// Every source of the repository, by its path.
fn sources() -> Vec<(String, String)> {
    let folders = ["protocol", "accountant", "node", "tests"];
    let of = |folder: &str| {
        let files = below(&workspace().join(folder)).into_iter();
        files
            .map(|(path, source)| (format!("{folder}/{path}"), source))
            .collect::<Vec<_>>()
    };
    folders.into_iter().flat_map(of).collect()
}

#[test]
fn every_citation_leads_to_a_page() {
    let mut found = 0;
    let mut check = |path: &str, text: &str| {
        for citation in cited(text) {
            assert!(resolves(&citation, top()), "{path} cites {citation}");
            found += 1;
        }
    };
    // What this test itself is tried on leads nowhere.
    let own = [
        "tests/tests/documents.rs",
        "tests/tests/readme.rs",
        "tests/src/documents/citations.rs",
    ];
    for (path, source) in sources().iter().filter(|(path, _)| !own.contains(&path.as_str())) {
        check(path, source);
        let absent = absent(source);
        assert!(
            absent.is_empty(),
            "{path}: lines {absent:?} cite pages that are not here"
        );
    }
    documents().iter().for_each(|page| check(&page.path, &page.text));
    assert!(found > 60, "{found} citations");
}

#[test]
fn every_file_and_test_that_the_design_names_is_there() {
    let sources = sources();
    let defined: BTreeSet<&str> = sources
        .iter()
        .flat_map(|(_, source)| source.split("fn ").skip(1))
        .filter_map(|after| after.split(['(', '<']).next())
        .collect();
    let (mut files_found, mut tests_found) = (0, 0);
    for page in design() {
        for file in files(&page.text) {
            assert!(top().join(file).exists(), "{} names {file}", page.path);
            files_found += 1;
        }
        for test in tests(&page.text) {
            assert!(defined.contains(test), "{} names the test {test}", page.path);
            tests_found += 1;
        }
    }
    assert!(
        files_found > 60 && tests_found > 80,
        "{files_found}, {tests_found}"
    );
}

#[test]
fn citations_are_found() {
    let text = "// See (protocol/docs/words.md), node/guide/budgets.md#backup-and-restore.\n";
    let found = cited(text);
    assert!(found.iter().eq([
        "node/guide/budgets.md#backup-and-restore",
        "protocol/docs/words.md"
    ]));
    assert!(found.iter().all(|citation| resolves(citation, top())));
    for broken in ["protocol/docs/nowhere.md", "protocol/docs/words.md#nowhere"] {
        assert!(!resolves(broken, top()), "{broken}");
    }
    assert_eq!(
        absent("a\n// (DESIGN section 3)\nlet DESIGN = 1;\nb // by ERRATA\n"),
        [2, 4]
    );
    let page = "`a_test_of_ours`, `not_one`, `protocol/src/lib.rs` and `x.rs`";
    assert!(tests(page).iter().eq(&["a_test_of_ours"]));
    assert!(files(page).iter().eq(&["protocol/src/lib.rs"]));
}

#[test]
fn the_guide_as_html_has_tables_in_frames_anchors_and_an_index() {
    let text = "# A page\n<!-- slow: no -->\n| a |\n| --- |\n| b |\n\n[x](y.md#z) `code`\n## B, c\n";
    let rendered = render(text);
    for part in [
        "<h1 id=\"a-page\">",
        "<div class=\"table\"><table>",
        "href=\"y.html#z\"",
        "<h2 id=\"b-c\">",
    ] {
        assert!(rendered.body.contains(part), "{part} in {}", rendered.body);
    }
    assert!(!rendered.body.contains("slow"), "{}", rendered.body);
    assert_eq!(rendered.sections[0].1, "A page");
    assert!(rendered.sections[0].2.contains("code"));
    let folder = tempfile::tempdir().expect("a folder");
    let pages = build(folder.path()).expect("writable");
    assert_eq!(pages, guide().len());
    let index = std::fs::read_to_string(folder.path().join("index.js")).expect("an index");
    assert!(index.contains("daemon.html#reload"), "sections are found");
    for file in ["index.html", "daemon.html"] {
        let html = std::fs::read_to_string(folder.path().join(file)).expect("a page");
        assert!(
            !html.contains("http://cdn") && !html.contains("src=\"http"),
            "no network"
        );
    }
}

#[test]
fn the_guide_in_a_browser_finds_words_and_fits_a_telephone() {
    if !Browser::is_there() {
        left_out("documents", "no chromium");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    build(folder.path()).expect("writable");
    let address = |page: &str| format!("file://{}/{page}.html", folder.path().display());
    let mut browser = Browser::start();
    browser.resize(1280, 900);
    browser.open(&address("index"));
    browser.until("document.readyState === 'complete' && document.querySelector('#search')");
    browser.value(
        "document.querySelector('#search').value = 'ledger Adopt', \
         document.querySelector('#search').dispatchEvent(new Event('input'))",
    );
    let hits = "document.querySelectorAll('#found a')";
    browser.until(&format!("{hits}.length > 0"));
    let first = browser.value(&format!("{hits}[0].getAttribute('href')"));
    assert_eq!(first, "budgets.html#backup-and-restore");
    assert_eq!(browser.value("faults"), serde_json::json!([]));
    browser.resize(400, 900);
    for page in guide() {
        browser.open(&address(page.name().trim_end_matches(".md")));
        browser.until("document.readyState === 'complete' && document.querySelector('article h1')");
        let wide = browser.value("document.documentElement.scrollWidth");
        assert!(
            wide.as_u64().is_some_and(|wide| wide <= 400),
            "{}: {wide}",
            page.path
        );
    }
}

/// What stands in a text like a path into the repository: a name at its top, and more behind it.
/// Capitals stand for what is different each time.
fn paths(text: &str, top: &[String]) -> Vec<String> {
    let part = |c: char| !c.is_ascii_alphanumeric() && !"-_./".contains(c);
    let words = text.split(part).map(|word| word.trim_start_matches("./"));
    let is_ours = |word: &&str| {
        let first = word.split('/').next().unwrap_or_default();
        word.contains('/') && top.iter().any(|name| name == first)
    };
    let capitals = |name: &str| name.chars().all(|c| c.is_ascii_uppercase() || c == '-');
    let named = words.filter(is_ours).map(|word| {
        let kept = word
            .split('/')
            .take_while(|name| name.is_empty() || !capitals(name));
        kept.collect::<Vec<_>>()
            .join("/")
            .trim_end_matches(['.', '/'])
            .to_owned()
    });
    named.collect()
}

#[test]
fn every_path_that_documents_name_is_there() {
    let entries = std::fs::read_dir(top()).expect("the repository").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    // What a build and a run make: neither is in a clean clone.
    let names: Vec<String> = names.filter(|name| name != "target" && name != ".git").collect();
    let mut found = 0;
    let composition = Page::read("docker-compose.yml");
    for page in documents().into_iter().chain([composition]) {
        for path in paths(&page.text.replace("deploy/results/", ""), &names) {
            let file = &page.path;
            assert!(
                top().join(&path).exists(),
                "{file} names {path}, which is not there"
            );
            found += 1;
        }
    }
    assert!(found > 12, "{found} paths");
}

#[test]
fn paths_are_found() {
    let top = ["node".to_owned(), "deploy".to_owned()];
    let text = "in `node/src/`, and './node/python[pandas]'; deploy/results/DIGEST/x. Not node or alice/node.toml (deploy/x.yml).";
    assert_eq!(
        paths(text, &top),
        ["node/src", "node/python", "deploy/results", "deploy/x.yml"]
    );
}
