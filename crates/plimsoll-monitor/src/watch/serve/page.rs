//! The page: one document without a word from outside; all that is shown comes as events.

use askama::Template;
use axum::http::HeaderValue;

use plimsoll_report::html::parts;

const SCRIPT: &str = include_str!("../../../assets/watch/page.js");
const STYLE: &str = include_str!("../../../assets/watch/page.css");

/// The page and the content policy it is served with.
pub(super) struct Page {
    pub(super) html: String,
    pub(super) policy: HeaderValue,
}

#[derive(Template)]
#[template(path = "watch.html")]
struct View {
    style: String,
    script: String,
    license: &'static str,
}

/// Makes the page.
pub(super) fn render() -> Page {
    let view = View {
        style: parts::style(STYLE),
        script: parts::script(SCRIPT),
        license: parts::LICENSE.trim(),
    };
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; connect-src 'self'; img-src data:; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'none'",
        parts::source(&view.script),
        parts::source(&view.style),
    );
    Page {
        // Rendering into a String fails only where a Display implementation does, and all that are used are std's.
        html: view
            .render()
            .unwrap_or_else(|error| format!("<!doctype html><p>The page could not be drawn: {error}")),
        // Words and base64 are visible ASCII, which a header may hold; a policy that allows nothing is safe.
        policy: HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'")),
    }
}
