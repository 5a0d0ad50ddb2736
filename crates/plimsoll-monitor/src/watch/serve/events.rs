//! Event stream of a client.

use std::convert::Infallible;
use std::fmt::Write;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::stream::{self, Stream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::context::{Context, End};
use super::document::{self, PARTS};
use crate::watch::{History, Monitor};
use plimsoll_report::analysis::Frame;

/// Most rows in one event. A client that has missed more receives a new, thinned history.
pub(super) const MOST_ROWS: usize = 2000;
/// Rows per lock of the state, which blocks the feed.
const ROWS_AT_ONCE: usize = 100;
/// Beats without an event before a comment is sent to detect a vanished client: 4 s.
const QUIET_BEATS: u32 = 16;

/// A client and the state that it has received.
struct Client {
    context: Arc<Context>,
    beats: watch::Receiver<End>,
    /// Time of the last frame sent; None before the first.
    seen: Option<u64>,
    /// Revision of the state whose parts were sent last.
    revision: Option<u64>,
    parts: [String; PARTS.len()],
    quiet: u32,
    greeted: bool,
    done: bool,
    _place: OwnedSemaphorePermit,
}

/// Events until the client disconnects or the server ends. `last_seen` is the time of the client's last frame from an
/// earlier connection.
pub(super) fn stream(
    context: &Arc<Context>,
    place: OwnedSemaphorePermit,
    last_seen: Option<u64>,
) -> impl Stream<Item = Result<Bytes, Infallible>> + use<> {
    let client = Client {
        context: Arc::clone(context),
        beats: context.beats.clone(),
        seen: last_seen,
        revision: None,
        parts: Default::default(),
        quiet: 0,
        greeted: false,
        done: false,
        _place: place,
    };
    stream::unfold(client, |mut client| async move {
        let text = client.next().await?;
        Some((Ok(Bytes::from(text)), client))
    })
}

impl Client {
    /// Waits for new events and returns their text; None after the end.
    async fn next(&mut self) -> Option<String> {
        let mut text = String::new();
        while !self.done {
            if self.greeted {
                // An error means that the server has ended.
                self.beats.changed().await.ok()?;
            } else {
                self.greet(&mut text);
            }
            self.push_parts(&mut text);
            self.push_frames(&mut text);
            let end = self.beats.borrow_and_update().clone();
            if let Some(why) = end {
                self.event(&mut text, "end", &document::end(&why));
                self.done = true;
            }
            self.quiet = if text.is_empty() { self.quiet + 1 } else { 0 };
            if self.quiet == QUIET_BEATS {
                self.quiet = 0;
                text.push_str(": nothing new\n\n");
            }
            if !text.is_empty() {
                return Some(text);
            }
        }
        None
    }

    fn greet(&mut self, text: &mut String) {
        self.greeted = true;
        let hello = document::hello(&self.context.monitor.state().facts, self.context.allow_actions);
        self.event(text, "hello", &hello);
    }

    fn push_parts(&mut self, text: &mut String) {
        let parts = {
            let state = self.context.monitor.state();
            if self.revision == Some(state.revision) {
                return;
            }
            self.revision = Some(state.revision);
            document::parts(&state)
        };
        for ((name, part), index) in PARTS.iter().zip(parts).zip(0..) {
            if self.parts[index] != part {
                self.event(text, name, &part);
                self.parts[index] = part;
            }
        }
    }

    fn push_frames(&mut self, text: &mut String) {
        let monitor = &self.context.monitor;
        let (name, length_ns, rows) = match self.seen.and_then(|seen| missed(&monitor.state().history, seen))
        {
            Some(rows) => ("frames", None, rows),
            None => {
                let (length_ns, rows) = thinned(monitor);
                ("history", Some(length_ns), rows)
            }
        };
        let Some(last) = rows.last() else {
            return;
        };
        self.seen = Some(last.t_ns);
        self.event(text, name, &document::rows(length_ns, &rows));
    }

    fn event(&self, text: &mut String, name: &str, data: &str) {
        // Writing to a String cannot fail. The data holds no line ends: JSON escapes them.
        let _ = writeln!(text, "event: {name}");
        if let Some(seen) = self.seen {
            let _ = writeln!(text, "id: {seen}");
        }
        let _ = write!(text, "data: {data}\n\n");
    }
}

/// Frames after `seen`; None if they are too many, or if `seen` lies beyond the newest frame.
fn missed(history: &History, seen: u64) -> Option<Vec<Frame>> {
    if history.latest().is_none_or(|latest| latest.t_ns < seen) {
        return None;
    }
    let rows: Vec<Frame> = history.after(seen).take(MOST_ROWS + 1).copied().collect();
    (rows.len() <= MOST_ROWS).then_some(rows)
}

/// The whole history in at most [`MOST_ROWS`] rows, and the duration of a row in nanoseconds.
fn thinned(monitor: &Monitor) -> (u64, Vec<Frame>) {
    let (first, last, period) = {
        let state = monitor.state();
        let Some((first, last)) = state.history.span() else {
            return (state.history.period_ns(), Vec::new());
        };
        let few: Vec<Frame> = first
            .checked_sub(1)
            .and_then(|before| missed(&state.history, before))
            .unwrap_or_default();
        if !few.is_empty() {
            return (state.history.period_ns(), few);
        }
        (first, last, state.history.period_ns())
    };
    let length = ((last - first) / MOST_ROWS as u64 + 1).max(period);
    let mut rows = Vec::new();
    let mut from = first;
    while from <= last {
        let to = from.saturating_add(length.saturating_mul(ROWS_AT_ONCE as u64));
        let buckets = monitor.state().history.buckets(from..to, ROWS_AT_ONCE);
        rows.extend(buckets.into_iter().flatten().map(|bucket| bucket.mean));
        if to <= from {
            break;
        }
        from = to;
    }
    (length, rows)
}
