//! State that the monitor's threads share.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::account::Account;
use super::event::event_of;
use super::outcome::Outcome;
use super::recorder::Recorder;
use super::state::{Level, Mark, MarkKind, State, TargetState};
use crate::trim::What;
use plimsoll_model::recording::Warning;
use plimsoll_model::recording::model::{Event, EventKind};
use plimsoll_sample::monotonic_ns;

/// State that the monitor's threads share. Lock order: a thread holds at most one lock, and may take `state` last.
pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) recorder: Mutex<Option<Recorder>>,
    pub(super) account: Mutex<Account>,
    outcome: Mutex<Option<Outcome>>,
    trimmable: Mutex<Option<What>>,
    program_ended: Condvar,
    origin_ns: u64,
}

impl Shared {
    /// Shares `state`. Its times count from `origin_ns` of CLOCK_MONOTONIC.
    pub(super) fn new(state: State, origin_ns: u64) -> Shared {
        Shared {
            state: Mutex::new(state),
            recorder: Mutex::new(None),
            account: Mutex::new(Account::default()),
            outcome: Mutex::new(None),
            trimmable: Mutex::new(None),
            program_ended: Condvar::new(),
            origin_ns,
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Nanoseconds since the start.
    pub(super) fn now_ns(&self) -> u64 {
        monotonic_ns().wrapping_sub(self.origin_ns)
    }

    /// Sets a mark in the state and in the recording.
    pub(super) fn mark(&self, kind: MarkKind, text: impl Into<String>) {
        let mark = Mark {
            t_ns: self.now_ns(),
            kind,
            text: text.into(),
        };
        let event = event_of(&mark);
        self.state().mark(mark);
        self.record(event);
    }

    pub(super) fn say(&self, level: Level, text: impl Into<String>) {
        self.state().say(self.now_ns(), level, text);
    }

    /// Shows a warning and records it.
    pub(super) fn warn(&self, Warning { code, text }: Warning) {
        let t_ns = self.now_ns();
        self.state().say(t_ns, Level::Warning, text.clone());
        self.record(Event {
            code: Some(code),
            ..Event::new(t_ns, EventKind::Warning, text)
        });
    }

    pub(super) fn change_target(&self, target: Option<TargetState>) {
        let mut state = self.state();
        state.target = target;
        state.revision += 1;
    }

    /// Target of a trim; None without a target.
    pub(super) fn trimmable(&self) -> Option<What> {
        lock(&self.trimmable).clone()
    }

    pub(super) fn set_trimmable(&self, what: Option<What>) {
        *lock(&self.trimmable) = what;
    }

    fn record(&self, event: Event) {
        if let Some(recorder) = lock(&self.recorder).as_mut() {
            recorder.event(event);
        }
    }

    /// Publishes the outcome of the started program.
    pub(super) fn end_program(&self, outcome: Outcome) {
        self.state().status.ended = Some(outcome.words());
        *lock(&self.outcome) = Some(outcome);
        self.program_ended.notify_all();
    }

    /// Outcome of the started program, once it has ended.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        lock(&self.outcome).clone()
    }

    /// Waits at most `timeout` for the end of the program. Returns whether it has ended.
    pub(super) fn wait_for_program(&self, timeout: Duration) -> bool {
        let outcome = lock(&self.outcome);
        let (outcome, _) = self
            .program_ended
            .wait_timeout_while(outcome, timeout, |outcome| outcome.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        outcome.is_some()
    }
}

/// Locks, and ignores poisoning: each value behind these locks is consistent at any time.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
