//! Actions that the live page can request.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::watch::{Monitor, NOTE_LETTERS};
use plimsoll_model::sanitize::sanitize;

/// Executes the action `name` with the plain-text argument `body`.
///
/// A slow action is only started here: its result reaches all clients as a mark or a message.
pub(super) fn answer(monitor: &Monitor, name: &str, body: &str) -> Response {
    let marked = match name {
        "mark" => match body.trim().parse() {
            Ok(number @ 1..=4) => monitor.mark(number),
            _ => return (StatusCode::BAD_REQUEST, "A mark is a number from 1 to 4.\n").into_response(),
        },
        "note" => match body.trim() {
            "" => return (StatusCode::BAD_REQUEST, "A note needs text.\n").into_response(),
            text if text.chars().count() > NOTE_LETTERS => {
                let words = format!("A note has at most {NOTE_LETTERS} letters.\n");
                return (StatusCode::BAD_REQUEST, words).into_response();
            }
            text => monitor.note(text),
        },
        "trim" => {
            let title = monitor
                .state()
                .target
                .as_ref()
                .map(|target| sanitize(&target.title).into_owned());
            if title.as_deref() != Some(body.trim()) {
                return (StatusCode::CONFLICT, "The target has changed: reload the page.\n").into_response();
            }
            monitor.trim();
            true
        }
        "release-plan" => return axum::Json(monitor.release_plan()).into_response(),
        "release" => {
            monitor.release();
            true
        }
        "page-flags" => {
            monitor.count_page_flags();
            true
        }
        _ => return (StatusCode::NOT_FOUND, "No such action.\n").into_response(),
    };
    match marked {
        true => StatusCode::NO_CONTENT.into_response(),
        false => (StatusCode::CONFLICT, "No mark was set: see the messages.\n").into_response(),
    }
}
