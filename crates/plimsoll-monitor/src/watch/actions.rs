//! What a face asks for and what takes time: done on a thread of its own, one after the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Receiver;

use super::recorder::{Heading, Recorder, ended_early};
use super::shared::{Shared, lock};
use super::state::{Level, MarkKind};
use crate::trim::{What, release, trim};
use plimsoll_model::quantity;
use plimsoll_model::recording::model::SamplerSettings;
use plimsoll_sample::Sampler;
use plimsoll_sample::page_flags::{self, KINDS, PageFlags};

/// Something that a face asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Request {
    /// Trim what was the target when it was agreed to.
    Trim(What),
    /// Release standby memory and page cache.
    Release,
    /// Count page flags.
    PageFlags,
    /// Record into a folder from now on, or stop.
    Record(Option<PathBuf>),
}

impl Request {
    /// What goes on while it is carried out.
    fn title(&self) -> String {
        match self {
            Request::Trim(_) => "trimming".to_owned(),
            Request::Release => "releasing standby memory and page cache".to_owned(),
            Request::PageFlags => "counting page flags".to_owned(),
            Request::Record(Some(folder)) => format!("starting to record into {}", folder.display()),
            Request::Record(None) => "ending the recording".to_owned(),
        }
    }
}

/// Carries out requests.
pub(super) struct Actions {
    pub(super) shared: Arc<Shared>,
    pub(super) sampler: Arc<Sampler>,
    /// Ends what is being done.
    pub(super) stop: Arc<AtomicBool>,
}

impl Actions {
    /// Goes on until nobody can make a request any more.
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

    /// Marks what was done, and says what came of it.
    fn done(&self, kind: MarkKind, text: String) {
        self.shared.mark(kind, text.clone());
        self.shared.say(Level::Info, text);
    }

    fn start_recording(&self, folder: &Path) {
        // Not in the condition, which would hold the lock.
        let recording = self.shared.state().status.recording.clone();
        if let Some(folder) = recording {
            let text = format!("{} is being recorded into already", folder.display());
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
            return self.shared.say(Level::Info, "nothing is being recorded");
        };
        self.shared.state().status.recording = None;
        match recorder.finish(self.sampler.swap_slots(), 0) {
            Ok(recorded) => {
                let text = format!("the recording is in {}", recorded.folder.display());
                self.shared.say(Level::Info, text);
                if let Some(trouble) = recorded.trouble {
                    self.shared.say(Level::Warning, trouble);
                }
            }
            Err(error) => self.shared.say(Level::Error, ended_early(&error)),
        }
    }
}

/// The kinds of pages that there are, the most first.
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

/// Starts to record what is watched just now.
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
    let locked = sampler.locked().map_err(ToString::to_string);
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
    shared.state().status.recording = Some(recorder.folder().to_owned());
    Ok(recorder)
}
