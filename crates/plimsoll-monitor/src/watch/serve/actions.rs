//! What the page may ask the monitor for.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

use crate::watch::Monitor;
use plimsoll_model::sanitize::sanitize;

/// Carries out the action `name`; `body` is its argument as plain text.
///
/// What takes long is only begun: its outcome comes as a mark or a message, to every client.
pub(super) fn answer(monitor: &Monitor, name: &str, body: &str) -> Response {
    match name {
        "mark" => match body.trim().parse() {
            Ok(number @ 1..=4) => monitor.mark(number),
            _ => return (StatusCode::BAD_REQUEST, "A mark is a number from 1 to 4.\n").into_response(),
        },
        "note" => match body.trim() {
            "" => return (StatusCode::BAD_REQUEST, "A note needs words.\n").into_response(),
            text => monitor.note(text),
        },
        "trim" => {
            let title = monitor
                .state()
                .target
                .as_ref()
                .map(|target| sanitize(&target.title).into_owned());
            if title.as_deref() != Some(body.trim()) {
                return (
                    StatusCode::CONFLICT,
                    "The target is another one now: look again.\n",
                )
                    .into_response();
            }
            monitor.trim();
        }
        "release-plan" => return axum::Json(monitor.release_plan()).into_response(),
        "release" => monitor.release(),
        "page-flags" => monitor.count_page_flags(),
        _ => return (StatusCode::NOT_FOUND, "There is no such action.\n").into_response(),
    }
    StatusCode::NO_CONTENT.into_response()
}
