//! The state that user interfaces draw: history, marks, target and messages.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::history::History;
use super::top::Top;
use crate::processes::CgroupListing;
use plimsoll_report::analysis::frame::Machine;

/// Most messages; older ones are dropped.
const MESSAGES: usize = 200;
/// Most marks; older ones are dropped.
const MARKS: usize = 20_000;
/// Most letters of a mark's text: the result of a trim has some hundred.
const MARK_LETTERS: usize = 2000;

/// Everything that a user interface can draw.
#[derive(Debug, Clone)]
pub struct State {
    pub facts: Facts,
    pub history: History,
    /// Marks by time.
    pub marks: Vec<Mark>,
    pub target: Option<TargetState>,
    /// Swap devices of the gauges `device0` ... `device3`, by slot.
    pub swap_devices: Vec<String>,
    pub status: Status,
    pub messages: Vec<Message>,
    /// The cgroups, from their first reading for a user interface on. None in a replay.
    pub cgroups: Option<Arc<CgroupListing>>,
    /// The processes, from their first list for a user interface on. None in a replay.
    pub top: Option<Arc<Top>>,
    /// Grows with every change except new frames. A user interface compares it to skip redraws.
    pub revision: u64,
}

/// Description of the watched machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    pub hostname: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    pub machine: Machine,
    pub mem_total: u64,
    /// Start of the recording, or of the monitor: UTC, RFC 3339.
    pub started: String,
    pub hz: u32,
}

/// Source of the frames and current activity.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// True for a recording, false for this machine.
    pub replay: bool,
    /// Reason for the end of the frames, once they have ended.
    pub ended: Option<String>,
    /// Folder of the running recording.
    pub recording: Option<PathBuf>,
    /// Reason for which the sampler's memory is not locked, if it is not.
    pub unlocked: Option<String>,
    /// Running request ("trimming pid 42").
    pub busy: Option<String>,
}

/// Target besides the whole machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetState {
    /// `pid 4242 redis-server`, `cgroup /web`, `4243 make -j2`.
    pub title: String,
    /// Its processes, the first one first.
    pub pids: Vec<u32>,
    /// Number of processes that are not sampled, because there are too many.
    pub unread: u32,
    /// Description of its end, once it has ended.
    pub ended: Option<String>,
    /// Reason for missing values, such as a missing permission.
    pub error: Option<String>,
    /// Folder of a target cgroup.
    pub cgroup: Option<PathBuf>,
}

impl TargetState {
    /// Folder of the cgroup that limits the lists of processes and cgroups.
    pub fn scope(&self) -> Option<&Path> {
        self.cgroup.as_deref().filter(|_| self.ended.is_none())
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    pub kind: MarkKind,
    /// Text of the mark; may be empty for a number.
    pub text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// A key 1-4, or the event number of a run's phase.
    Number(u32),
    Note,
    Trim,
    /// Reclaimable cache was released.
    Release,
    /// The target started, ended, or executed another program.
    Target,
    PageFlags,
    FaultStorm,
    /// The start or end of a trial, or another warning.
    Event,
}

impl MarkKind {
    /// Character on the time axis.
    pub fn symbol(self) -> char {
        match self {
            MarkKind::Number(number) => char::from_digit(number, 10).unwrap_or('#'),
            MarkKind::Note => 'm',
            MarkKind::Trim => 'T',
            MarkKind::Release => 'E',
            MarkKind::Target => '*',
            MarkKind::PageFlags => 'k',
            MarkKind::FaultStorm | MarkKind::Event => '!',
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    pub level: Level,
    pub text: String,
}

impl State {
    /// A state without frames.
    pub fn new(facts: Facts) -> State {
        State {
            history: History::new(1_000_000_000 / u64::from(facts.hz.max(1))),
            facts,
            marks: Vec::new(),
            target: None,
            swap_devices: Vec::new(),
            status: Status::default(),
            messages: Vec::new(),
            cgroups: None,
            top: None,
            revision: 0,
        }
    }

    /// Inserts a mark in order of time. Drops the oldest of too many, and cuts a long text: a recording can hold any.
    pub fn mark(&mut self, mut mark: Mark) {
        if let Some((end, _)) = mark.text.char_indices().nth(MARK_LETTERS) {
            mark.text.truncate(end);
            mark.text.push('\u{2026}');
        }
        let at = self.marks.partition_point(|other| other.t_ns <= mark.t_ns);
        self.marks.insert(at, mark);
        if self.marks.len() > MARKS {
            // Many at once, as each moves all that follow.
            self.marks.drain(..MARKS / 10);
        }
        self.revision += 1;
    }

    pub fn say(&mut self, t_ns: u64, level: Level, text: impl Into<String>) {
        if self.messages.len() == MESSAGES {
            self.messages.remove(0);
        }
        self.messages.push(Message {
            t_ns,
            level,
            text: text.into(),
        });
        self.revision += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of others can hold any number of marks, of any length.
    #[test]
    fn marks_are_bounded_in_number_and_length() {
        let mut state = State::new(Facts {
            hostname: String::new(),
            kernel: String::new(),
            machine: Machine {
                page_size: 4096,
                cpus: 1,
            },
            mem_total: 1 << 30,
            started: String::new(),
            hz: 10,
        });
        for t_ns in 0..3 * MARKS as u64 {
            state.mark(Mark {
                t_ns,
                kind: MarkKind::Note,
                text: "\u{e9}".repeat(if t_ns % 1000 == 0 { 2 * MARK_LETTERS } else { 1 }),
            });
            assert!(state.marks.len() <= MARKS);
        }
        let newest = state.marks.last().expect("a mark");
        assert_eq!(newest.t_ns, 3 * MARKS as u64 - 1, "the newest stay");
        let longest = state.marks.iter().map(|mark| mark.text.chars().count()).max();
        assert_eq!(longest, Some(MARK_LETTERS + 1));
    }
}
