//! The HTML document of the live page. It is self-contained; all data comes as events.

use askama::Template;
use axum::http::HeaderValue;

use plimsoll_report::html::parts;

const SCRIPT: &str = include_str!("../../../assets/watch/page.js");
const STYLE: &str = include_str!("../../../assets/watch/page.css");

/// The HTML document and its content security policy.
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
        // Rendering into a String fails only if a Display implementation fails, and std's do not.
        html: view
            .render()
            .unwrap_or_else(|error| format!("<!doctype html><p>cannot render the page: {error}")),
        // The policy is visible ASCII, which a header may hold. The fallback policy allows nothing and is safe.
        policy: HeaderValue::from_str(&policy).unwrap_or(HeaderValue::from_static("default-src 'none'")),
    }
}
