//! What a face asks for and what takes time: done on a thread of its own, one after the other.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::options::TargetChoice;
use super::state::{Level, State};

/// Something that a face asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Trim the target.
    Trim,
    /// Release standby memory and page cache.
    Release,
    /// Count page flags.
    PageFlags,
    /// Watch another target.
    Target(TargetChoice),
    /// Record into a folder from now on, or stop.
    Record(Option<PathBuf>),
}

impl Request {
    /// What goes on while it is carried out.
    fn title(&self) -> String {
        match self {
            Request::Trim => "trimming".to_owned(),
            Request::Release => "releasing standby memory and page cache".to_owned(),
            Request::PageFlags => "counting page flags".to_owned(),
            Request::Target(_) => "changing the target".to_owned(),
            Request::Record(Some(folder)) => format!("starting to record into {}", folder.display()),
            Request::Record(None) => "ending the recording".to_owned(),
        }
    }
}

/// Carries out requests until nobody can make one any more.
pub(super) fn carry_out(requests: &Receiver<Request>, state: &Arc<Mutex<State>>, now_ns: impl Fn() -> u64) {
    for request in requests {
        lock(state).status.busy = Some(request.title());
        lock(state).revision += 1;
        let outcome = format!("cannot go on with {}: not built yet", request.title());
        let mut state = lock(state);
        state.status.busy = None;
        state.say(now_ns(), Level::Error, outcome);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
