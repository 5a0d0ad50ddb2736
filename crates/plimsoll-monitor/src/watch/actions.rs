//! Slow requests of a user interface, executed one by one on a thread of their own.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use super::recorder::{Heading, Recorder, ended_early};
use super::shared::{Shared, lock};
use super::state::{Level, MarkKind};
use crate::trim::{What, release, trim};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::{SamplerSettings, Unlocked};
use plimsoll_sample::Sampler;
use plimsoll_sample::page_flags::{self, KINDS, PageFlags};

/// A slow request of a user interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Trim this target, which the user confirmed.
    Trim(What),
    Release,
    PageFlags,
    /// Start to record into a folder, or stop recording.
    Record(Option<PathBuf>),
}

impl Request {
    /// Progress message.
    fn title(&self) -> String {
        match self {
            Request::Trim(_) => "trimming".to_owned(),
            Request::Release => "releasing reclaimable cache".to_owned(),
            Request::PageFlags => "counting page flags".to_owned(),
            Request::Record(Some(folder)) => format!("starting to record into {}", folder.display()),
            Request::Record(None) => "ending the recording".to_owned(),
        }
    }
}

pub(super) struct Actions {
    pub(super) shared: Arc<Shared>,
    pub(super) sampler: Arc<Sampler>,
    /// Ends the running request early.
    pub(super) stop: Arc<AtomicBool>,
}

impl Actions {
    /// Executes requests until all senders are dropped.
    pub(super) fn run(self, requests: &Receiver<Request>) {
        for request in requests {
            self.busy(Some(request.title()));
            match &request {
                Request::Trim(what) => self.trim(what),
                Request::Release => self.release(),
                Request::PageFlags => self.count_page_flags(),
                Request::Record(Some(folder)) => self.start_recording(folder),
                Request::Record(None) => self.end_recording(),
            }
            self.busy(None);
        }
    }

    fn busy(&self, with: Option<String>) {
        let mut state = self.shared.state();
        state.status.busy = with;
        state.revision += 1;
    }

    fn trim(&self, what: &What) {
        match trim(what, None, &self.stop) {
            Ok(report) => self.done(MarkKind::Trim, report.to_string()),
            Err(error) => self.shared.say(Level::Error, error.to_string()),
        }
    }

    fn release(&self) {
        match release::carry_out(&release::plan(), &self.stop) {
            Ok(report) => self.done(MarkKind::Release, report.to_string()),
            Err(error) => self.shared.say(Level::Error, error.to_string()),
        }
    }

    fn count_page_flags(&self) {
        match page_flags::snapshot() {
            Ok(flags) => self.done(MarkKind::PageFlags, words(&flags)),
            Err(error) => self.shared.say(Level::Error, error.to_string()),
        }
    }

    /// Sets a mark and shows the result.
    fn done(&self, kind: MarkKind, text: String) {
        self.shared.mark(kind, text.clone());
        self.shared.say(Level::Info, text);
    }

    fn start_recording(&self, folder: &Path) {
        // In the `if` condition, the guard would live on and hold the lock.
        let recording = self.shared.state().status.recording.clone();
        if let Some(folder) = recording {
            let text = format!(
                "cannot record: a recording into {} is running; stop it first",
                folder.display()
            );
            return self.shared.say(Level::Error, text);
        }
        match start_recording(folder, &self.shared, &self.sampler) {
            Ok(recorder) => {
                *lock(&self.shared.recorder) = Some(recorder);
                let text = format!("recording into {}", folder.display());
                self.shared.say(Level::Info, text);
            }
            Err(error) => self.shared.say(Level::Error, format!("cannot record: {error}")),
        }
    }

    fn end_recording(&self) {
        let Some(recorder) = lock(&self.shared.recorder).take() else {
            return self.shared.say(Level::Info, "no recording is running");
        };
        self.shared.state().status.recording = None;
        match recorder.finish(self.sampler.swap_slots(), 0) {
            Ok(recorded) => {
                let text = format!("recorded into {}", recorded.folder.display());
                self.shared.say(Level::Info, text);
                if let Some(error) = recorded.error {
                    self.shared.say(Level::Warning, error);
                }
            }
            Err(error) => self.shared.say(Level::Error, ended_early(&error)),
        }
    }
}

/// Bytes by kind of page, the largest first.
fn words(flags: &PageFlags) -> String {
    let mut kinds: Vec<(u64, &str)> = KINDS
        .iter()
        .map(|words| (flags.bytes(words.kind), words.title))
        .filter(|(bytes, _)| *bytes > 0)
        .collect();
    kinds.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
    let kinds: Vec<String> = kinds
        .iter()
        .map(|(bytes, title)| format!("{title} {}", quantity::bytes(*bytes as f64)))
        .collect();
    format!("pages by their flags: {}", kinds.join(", "))
}

pub(super) fn start_recording(
    folder: &Path,
    shared: &Arc<Shared>,
    sampler: &Sampler,
) -> Result<Recorder, super::WatchError> {
    let (title, hz) = {
        let state = shared.state();
        let target = state.target.as_ref();
        let title = target.map_or_else(|| state.facts.hostname.clone(), |target| target.title.clone());
        (title, state.facts.hz)
    };
    let locked = sampler.locked().map_err(Unlocked::of);
    let told = Arc::clone(shared);
    let recorder = Recorder::start(
        folder,
        Heading {
            title,
            sampler: SamplerSettings { hz, locked },
        },
        shared.now_ns(),
        move |error| {
            told.state().status.recording = None;
            told.say(Level::Error, ended_early(error));
        },
    )?;
    shared.state().status.recording = Some(recorder.place().path().to_owned());
    Ok(recorder)
}
