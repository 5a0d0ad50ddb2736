//! The state that all requests share.

use std::sync::Arc;

use tokio::sync::{Semaphore, watch};

use super::guard::Guard;
use super::page::Page;
use crate::watch::Monitor;

/// The reason for which the server ends, once it does.
pub(super) type End = Option<String>;

/// What every request may need.
pub(super) struct Context {
    pub(super) monitor: Arc<Monitor>,
    pub(super) guard: Guard,
    pub(super) allow_actions: bool,
    /// Places for clients that get events.
    pub(super) clients: Arc<Semaphore>,
    /// Beats when it is time to look for what is new.
    pub(super) beats: watch::Receiver<End>,
    pub(super) page: Page,
}
