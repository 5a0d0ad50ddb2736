//! A recording as the source of frames, finished or still growing.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use super::event::mark_of;
use super::shared::Shared;
use super::state::{Facts, Level, State, TargetState};
use plimsoll_model::columns::Row;
use plimsoll_model::recording::{Follow, FollowState, RecordingError, Samples};
use plimsoll_model::sanitize::sanitize;
use plimsoll_report::analysis::frame::{Frame, Machine};

/// Interval between two checks of a growing recording.
const PERIOD: Duration = Duration::from_secs(1);

/// Samples per lock of the state, so that a user interface waits only briefly.
const CHUNK: usize = 1000;

/// A recording that feeds the state.
pub(super) struct Replay {
    follow: Follow,
    machine: Machine,
    before: Option<Row>,
}

impl Replay {
    /// Opens the recording in `folder`, with the initial state.
    pub(super) fn open(folder: &Path) -> Result<(Replay, State), RecordingError> {
        let follow = Follow::open(folder)?;
        let manifest = follow.manifest();
        let host = &manifest.host;
        let machine = Machine {
            page_size: host.page_size,
            cpus: host.cpus,
        };
        let mut state = State::new(Facts {
            hostname: host.hostname.clone(),
            kernel: host.kernel.clone(),
            machine,
            mem_total: host.mem_total,
            started: manifest.started.clone(),
            hz: manifest.sampler.hz,
        });
        state.status.replay = true;
        state.status.unlocked = manifest.sampler.locked.as_ref().err().map(ToString::to_string);
        state.target = Some(TargetState {
            title: sanitize(manifest.target()).into_owned(),
            ..TargetState::default()
        });
        let replay = Replay {
            follow,
            machine,
            before: None,
        };
        Ok((replay, state))
    }

    /// Reads the recording until its end, or until `stop` closes.
    pub(super) fn run(mut self, shared: &Arc<Shared>, stop: &Receiver<()>) {
        loop {
            let goes_on = match self.poll(shared) {
                Ok(goes_on) => goes_on,
                Err(error) => {
                    shared.state().status.ended = Some(error.to_string());
                    shared.say(Level::Error, error.to_string());
                    false
                }
            };
            let wait = match goes_on {
                true => stop.recv_timeout(PERIOD),
                false => stop.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if wait != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    }

    /// Reads new entries. Returns whether more may follow.
    fn poll(&mut self, shared: &Shared) -> Result<bool, RecordingError> {
        let news = self.follow.poll()?;
        self.push(&news.samples, shared);
        let mut state = shared.state();
        for mark in news.events.iter().filter_map(mark_of) {
            state.mark(mark);
        }
        let ended = match &news.state {
            FollowState::Writing => None,
            FollowState::Finished => Some("the recording has ended".to_owned()),
            FollowState::Stopped(cause) => Some(format!("the recording was cut short: {cause}")),
        };
        let slots = &self.follow.manifest().swap_slots;
        if state.status.ended != ended || state.swap_devices != *slots {
            state.status.ended = ended;
            state.swap_devices.clone_from(slots);
            state.revision += 1;
        }
        Ok(news.state != FollowState::Finished)
    }

    fn push(&mut self, samples: &Samples, shared: &Shared) {
        for start in (0..samples.len()).step_by(CHUNK) {
            let mut state = shared.state();
            for index in start..samples.len().min(start + CHUNK) {
                let row = samples.row(index);
                state
                    .history
                    .push(Frame::of(&row, self.before.as_ref(), self.machine));
                self.before = Some(row);
            }
        }
    }
}
