//! The state that user interfaces draw: history, marks, target and messages.

use std::path::PathBuf;

use super::history::History;
use plimsoll_report::analysis::frame::Machine;

/// Most messages; older ones are dropped.
const MESSAGES: usize = 200;

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
            revision: 0,
        }
    }

    /// Inserts a mark in order of time.
    pub fn mark(&mut self, mark: Mark) {
        let at = self.marks.partition_point(|other| other.t_ns <= mark.t_ns);
        self.marks.insert(at, mark);
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
