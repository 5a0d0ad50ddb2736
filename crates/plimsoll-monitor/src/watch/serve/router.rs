//! Routes of the server.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};

use super::actions;
use super::context::Context;
use super::events;
use super::guard::Refusal;
use super::listener::Caller;
use super::metrics;

const MAX_BODY: usize = 4096;

pub(super) fn router(context: Arc<Context>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .route("/metrics", get(latest_sample))
        .route("/actions/{name}", post(action))
        .fallback(|| async { StatusCode::NOT_FOUND })
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&context),
            every_request,
        ))
        .with_state(context)
}

/// Checks each request, and adds headers to each response.
async fn every_request(State(context): State<Arc<Context>>, request: Request, next: Next) -> Response {
    let mut response = match context.guard.check_way(request.headers()) {
        Ok(()) => {
            let token = context.guard.check_token(request.headers(), request.uri());
            if let (Ok(()), Some(ConnectInfo(Caller(place)))) = (token, request.extensions().get()) {
                place.trust();
            }
            next.run(request).await
        }
        Err(refusal) => refuse(refusal),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(
        header::HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    headers.insert(header::CONTENT_SECURITY_POLICY, context.page.policy.clone());
    response
}

fn refuse(refusal: Refusal) -> Response {
    (StatusCode::FORBIDDEN, format!("{refusal}\n")).into_response()
}

async fn page(State(context): State<Arc<Context>>, headers: HeaderMap, uri: Uri) -> Response {
    match context.guard.check_token(&headers, &uri) {
        Ok(()) => (
            [(header::CONTENT_TYPE, "text/html; charset=utf-8")],
            context.page.html.clone(),
        )
            .into_response(),
        Err(refusal) => refuse(refusal),
    }
}

async fn events(State(context): State<Arc<Context>>, headers: HeaderMap, uri: Uri) -> Response {
    if let Err(refusal) = context.guard.check_token(&headers, &uri) {
        return refuse(refusal);
    }
    let Ok(place) = Arc::clone(&context.clients).try_acquire_owned() else {
        let text = "Too many live pages are open: close one.\n";
        return (
            StatusCode::SERVICE_UNAVAILABLE,
            [(header::RETRY_AFTER, "5")],
            text,
        )
            .into_response();
    };
    let last_seen = headers
        .get("last-event-id")
        .and_then(|id| id.to_str().ok()?.parse().ok());
    let stream = events::stream(&context, place, last_seen);
    (
        [(header::CONTENT_TYPE, "text/event-stream")],
        Body::from_stream(stream),
    )
        .into_response()
}

async fn latest_sample(State(context): State<Arc<Context>>, headers: HeaderMap, uri: Uri) -> Response {
    if let Err(refusal) = context.guard.check_token(&headers, &uri) {
        let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"plimsoll\"")];
        return (StatusCode::UNAUTHORIZED, challenge, format!("{refusal}\n")).into_response();
    }
    let format = metrics::format_for(&headers);
    match metrics::document(&context.monitor, format) {
        Some(text) => {
            let kind = [
                (header::CONTENT_TYPE, format.content_type()),
                (header::VARY, "Accept"),
            ];
            (kind, text).into_response()
        }
        None => (StatusCode::NOT_FOUND, "A replay has no metrics.\n").into_response(),
    }
}

async fn action(
    State(context): State<Arc<Context>>,
    Path(name): Path<String>,
    headers: HeaderMap,
    body: String,
) -> Response {
    if let Err(refusal) = context.guard.check_token_header(&headers) {
        return refuse(refusal);
    }
    if !context.allow_actions {
        return refuse("Actions are disabled: start `plimsoll watch` with --allow-actions.");
    }
    actions::answer(&context.monitor, &name, &body)
}
