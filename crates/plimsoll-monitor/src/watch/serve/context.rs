//! The state that all requests share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::guard::Guard;
use super::page::Page;
use crate::watch::Monitor;

/// The reason for which the server ends, once it does.
pub(super) type End = Option<String>;

pub(super) struct Context {
    pub(super) monitor: Arc<Monitor>,
    pub(super) guard: Guard,
    pub(super) allow_actions: bool,
    /// Permits for clients of the event stream.
    pub(super) clients: Arc<Semaphore>,
    /// Wakes the event streams to send new entries.
    pub(super) beats: watch::Receiver<End>,
    pub(super) page: Page,
}
