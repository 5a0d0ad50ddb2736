//! The live page: the monitor in a browser, as one HTML document, one event stream, and actions if allowed; and metrics
//! for a scraper.
//!
//! ```text
//! browser, scraper -> guard (Host, Origin, token) -> page
//!                                                 -> events  <- State
//!                                                 -> metrics <- latest sample
//!                                                 -> actions -> Monitor
//! ```
//!
//! Connections that have not shown the token have a deadline and places of their own (`places`).
//!
//! The server pushes nothing. Each client has a cursor, and fetches new entries from the state when its connection has
//! room. A slow client costs no memory and blocks no other client; it receives fewer updates.
//!
//! The book describes the protocol (`docs/src/serve.md`).

mod actions;
mod context;
mod document;
mod events;
mod guard;
mod listener;
mod metrics;
mod page;
mod places;
mod router;
mod token;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use super::Monitor;
use context::{Context, End};
use guard::Guard;
use plimsoll_sample::stop::Stop;

pub use token::{Token, TokenError};

/// Most concurrent clients of the event stream.
pub const MAX_CLIENTS: usize = 16;
/// Interval of updates: frames are sent in batches, at most four times a second.
const BEAT: Duration = Duration::from_millis(250);
/// Time for clients to receive the last events.
const FAREWELL: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeOptions {
    /// Listening address: a loopback address; port 0 for any free port.
    pub address: SocketAddr,
    /// Whether the live page may mark, trim and release.
    pub allow_actions: bool,
    /// The token that requests must show; None for a new one.
    pub token: Option<Token>,
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is reachable from other machines.
    #[error(
        "cannot serve at {address}: the live page is for this machine only; use 127.0.0.1:{port}, and on other machines \
         `ssh -L {port}:127.0.0.1:{port} HOST`",
        port = address.port()
    )]
    NotLoopback { address: SocketAddr },
    #[error("cannot serve at {address}: the port is in use; choose another, or 0 for any free port")]
    InUse { address: SocketAddr },
    #[error(
        "cannot serve at {address}: ports below 1024 need a privilege; choose a higher one, or 0 for any free port"
    )]
    Privileged { address: SocketAddr },
    #[error("cannot serve at {address}: {error}; choose another address, such as 127.0.0.1:0")]
    Listen {
        address: SocketAddr,
        #[source]
        error: io::Error,
    },
    #[error("cannot create a token for the live page: no random numbers from the kernel")]
    Token(#[source] io::Error),
    /// The asynchronous runtime or the listening socket failed.
    #[error("cannot continue to serve the live page")]
    Server(#[source] io::Error),
}

/// A server that listens but does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    guard: Guard,
    allow_actions: bool,
    /// Whether the token is that of the options, which the user knows.
    known_token: bool,
}

impl Server {
    /// Listens.
    ///
    /// # Errors
    ///
    /// If the address is no loopback address or cannot be listened at, or if there are no random numbers.
    pub fn bind(options: &ServeOptions) -> Result<Server, ServeError> {
        if !options.address.ip().is_loopback() {
            return Err(ServeError::NotLoopback {
                address: options.address,
            });
        }
        let listener = listener::listen(options.address).map_err(|error| explain(options.address, error))?;
        let address = listener.local_addr().map_err(ServeError::Server)?;
        let token = match &options.token {
            Some(token) => token.clone(),
            None => Token::random().map_err(ServeError::Token)?,
        };
        Ok(Server {
            listener,
            address,
            guard: Guard::new(address, token),
            allow_actions: options.allow_actions,
            known_token: options.token.is_some(),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for a browser. It holds the token, which gives access to the live page, unless the options had it: the
    /// address may go into a log.
    pub fn url(&self) -> String {
        match self.known_token {
            true => format!("http://{}/?token=", self.address),
            false => format!("http://{}/?token={}", self.address, self.guard.token().text()),
        }
    }

    /// Serves until `stop`, the end of the monitor, or `until`. Clients receive the reason.
    ///
    /// # Errors
    ///
    /// If the runtime or the listening socket fails. A failing client is no error.
    pub fn run(self, monitor: &Arc<Monitor>, stop: &Stop, until: Option<Instant>) -> Result<(), ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServeError::Server)?;
        runtime.block_on(self.answer(monitor, stop, until))
    }

    async fn answer(
        self,
        monitor: &Arc<Monitor>,
        stop: &Stop,
        until: Option<Instant>,
    ) -> Result<(), ServeError> {
        let (beat, beats) = watch::channel(End::None);
        let listener = listener::Connections::new(self.listener).map_err(ServeError::Server)?;
        let context = Arc::new(Context {
            monitor: Arc::clone(monitor),
            guard: self.guard,
            allow_actions: self.allow_actions,
            clients: Arc::new(Semaphore::new(MAX_CLIENTS)),
            beats: beats.clone(),
            page: page::render(),
        });
        let ended = {
            let mut beats = beats;
            async move {
                // The sender lives until the server has ended.
                let _ = beats.wait_for(Option::is_some).await;
            }
        };
        let service = router::router(context).into_make_service_with_connect_info::<listener::Caller>();
        let server = axum::serve(listener, service).with_graceful_shutdown(ended);
        let server = async { server.await.map_err(ServeError::Server) };
        let clock = async {
            let mut ticks = tokio::time::interval(BEAT);
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let why = loop {
                ticks.tick().await;
                if let Some(why) = reason_to_end(monitor, stop, until) {
                    break why;
                }
                beat.send_replace(None);
            };
            beat.send_replace(Some(why));
            // The server does not wait longer for clients that do not read.
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            result = server => result,
            () = clock => Ok(()),
        }
    }
}

/// A stop, the time limit, or the end of a live target. A finished recording stays open for inspection.
fn reason_to_end(monitor: &Monitor, stop: &Stop, until: Option<Instant>) -> Option<String> {
    if let Some(cause) = stop.cause() {
        return Some(cause.to_string());
    }
    if until.is_some_and(|until| Instant::now() >= until) {
        return Some("the time limit is reached".to_owned());
    }
    let state = monitor.state();
    state.status.ended.clone().filter(|_| !state.status.replay)
}

fn explain(address: SocketAddr, error: io::Error) -> ServeError {
    match error.kind() {
        io::ErrorKind::AddrInUse => ServeError::InUse { address },
        io::ErrorKind::PermissionDenied => ServeError::Privileged { address },
        _ => ServeError::Listen { address, error },
    }
}
