//! The monitor as a live page in a browser: one page, one stream of events, and actions where they are allowed.
//!
//! ```text
//! browser -> guard (Host, Origin, token) -> page
//!                                        -> events  <- State
//!                                        -> actions -> Monitor
//! ```
//!
//! Nothing is pushed to clients: each has a cursor, and when there is room on its connection it takes what is new from
//! the state. So a slow client costs no memory and holds up nobody; it is told less often.
//!
//! The protocol is described in the book (`docs/src/serve.md`).

mod actions;
mod context;
mod document;
mod events;
mod guard;
mod listener;
mod page;
mod router;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, watch};

use super::Monitor;
use context::{Context, End};
use guard::Guard;
use plimsoll_sample::stop::Stop;

/// Most clients that get events at the same time.
pub const MAX_CLIENTS: usize = 16;
/// Most connections at the same time, idle ones included; further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 64;
/// Time between two looks at what is new: frames are sent in batches, at most four times a second.
const BEAT: Duration = Duration::from_millis(250);
/// Time that clients have to take the last events before the server is gone.
const FAREWELL: Duration = Duration::from_secs(1);

/// How to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServeOptions {
    /// Where to listen: an address of this machine's own, port 0 for any that is free.
    pub address: SocketAddr,
    /// Whether the page may mark, trim and release.
    pub allow_actions: bool,
}

/// Why the page cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The address is reachable from other machines.
    #[error(
        "cannot serve at {address}: the page is served to this machine alone; use 127.0.0.1:{port}, and from elsewhere \
         `ssh -L {port}:127.0.0.1:{port} HOST`",
        port = address.port()
    )]
    NotLoopback {
        /// What was asked.
        address: SocketAddr,
    },
    /// Something else listens there.
    #[error("cannot serve at {address}: the port is in use; choose another, or 0 for any that is free")]
    InUse {
        /// What was asked.
        address: SocketAddr,
    },
    /// The port needs a privilege.
    #[error(
        "cannot serve at {address}: ports below 1024 need a privilege; choose a higher one, or 0 for any that is free"
    )]
    Privileged {
        /// What was asked.
        address: SocketAddr,
    },
    /// The address cannot be listened at for another reason.
    #[error("cannot serve at {address}; choose another address, such as 127.0.0.1:0")]
    Listen {
        /// What was asked.
        address: SocketAddr,
        /// What the system said.
        #[source]
        error: io::Error,
    },
    /// The system gives no random numbers, so there is no token.
    #[error("cannot make a token for the page: the system gives no random numbers")]
    Token(#[source] io::Error),
    /// The server's own works failed.
    #[error("cannot go on serving the page")]
    Server(#[source] io::Error),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: std::net::TcpListener,
    address: SocketAddr,
    guard: Guard,
    allow_actions: bool,
}

impl Server {
    /// Listens, with a token of its own.
    ///
    /// # Errors
    /// When the address is not this machine's own, or cannot be listened at, or there are no random numbers.
    pub fn bind(options: &ServeOptions) -> Result<Server, ServeError> {
        if !options.address.ip().is_loopback() {
            return Err(ServeError::NotLoopback {
                address: options.address,
            });
        }
        let listener = listener::listen(options.address).map_err(|error| explain(options.address, error))?;
        let address = listener.local_addr().map_err(ServeError::Server)?;
        let guard = Guard::new(address).map_err(ServeError::Token)?;
        Ok(Server {
            listener,
            address,
            guard,
            allow_actions: options.allow_actions,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address to open in a browser. It holds the token: who has it can see the page.
    pub fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.guard.token())
    }

    /// Serves until a stop is asked for, the monitor has ended, or it is `until`; clients are told why.
    ///
    /// # Errors
    /// When the server's own works fail; trouble with a client is none.
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
        let listener =
            listener::Connections::new(self.listener, MAX_CONNECTIONS).map_err(ServeError::Server)?;
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
                // The sender lives until this is over.
                let _ = beats.wait_for(Option::is_some).await;
            }
        };
        let server = axum::serve(listener, router::router(context)).with_graceful_shutdown(ended);
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
            // Clients that take nothing are not waited for.
            tokio::time::sleep(FAREWELL).await;
        };
        tokio::select! {
            result = server => result,
            () = clock => Ok(()),
        }
    }
}

/// A stop, the time, or the end of what was watched live. The end of a recording is no reason: it is there to be looked at.
fn reason_to_end(monitor: &Monitor, stop: &Stop, until: Option<Instant>) -> Option<String> {
    if let Some(cause) = stop.cause() {
        return Some(cause.to_string());
    }
    if until.is_some_and(|until| Instant::now() >= until) {
        return Some("the time is over".to_owned());
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
