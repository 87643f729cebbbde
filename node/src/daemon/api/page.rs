//! The page for a browser: one file that is the same for everybody, and that shows what the API
//! answers to whoever has the token.
//!
//! Invariants:
//! - The daemon sends it without asking who wants it, since nothing of the daemon is in it. The
//!   token stands in the address after `#`, which browsers do not send.
//! - Its policy lets the browser run this very script, use this very style, and ask this daemon:
//!   nothing else, from nowhere else.
//! - The script only reads, and writes what it reads as text, never as markup: names are strangers'
//!   words.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{self, HeaderName};
use sha2::{Digest, Sha256};

const PAGE: &str = include_str!("page.html");

/// The page's permissions in a browser (Content Security Policy, level 3).
static POLICY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        hash_of("script"),
        hash_of("style"),
    )
});

/// The hash by which a policy knows the contents of the page's only element of this name.
fn hash_of(element: &str) -> String {
    let (begin, end) = (format!("<{element}>"), format!("</{element}>"));
    let contents = PAGE
        .split_once(&begin)
        .and_then(|(_, rest)| rest.split_once(&end))
        .map_or("", |(contents, _)| contents);
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(contents)))
}

/// Shows what this API says as a page for a browser, which is the same for everybody.
///
/// The token is in the address, after `#`.
#[utoipa::path(
    get,
    path = "/",
    security(()),
    responses((status = 200, body = String, content_type = "text/html")),
)]
pub(super) async fn page() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY.as_str()),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
    ];
    (headers, PAGE).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_names_the_only_script_and_the_only_style() {
        for element in ["script", "style"] {
            assert_eq!(PAGE.matches(&format!("<{element}")).count(), 1, "{element}");
            assert_ne!(hash_of(element), hash_of("no such element"));
            assert!(POLICY.contains(&hash_of(element)));
        }
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("http"));
    }

    #[test]
    fn the_page_asks_nobody_else_and_writes_no_markup() {
        for word in [
            "http:",
            "https:",
            "//cdn",
            "src=",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "onclick=",
            "style=",
        ] {
            // The one address is the name of SVG, which nobody looks up.
            let text = PAGE.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(word), "{word}");
        }
    }
}
