//! What a face draws: history, marks, target, and what the monitor has to say.

use std::path::PathBuf;

use super::history::History;
use plimsoll_report::analysis::frame::Machine;

/// Messages that are kept; older ones are forgotten.
const MESSAGES: usize = 200;

/// Everything that is known of what is watched.
#[derive(Debug, Clone)]
pub struct State {
    /// The machine.
    pub facts: Facts,
    /// The samples, as frames.
    pub history: History,
    /// Marks by time.
    pub marks: Vec<Mark>,
    /// What is watched besides the whole machine.
    pub target: Option<TargetState>,
    /// Devices behind the gauges `device0` ... `device3`, by slot.
    pub swap_devices: Vec<String>,
    /// Where the frames come from and what goes on.
    pub status: Status,
    /// What was said, oldest first.
    pub messages: Vec<Message>,
    /// Grows with every change but new frames, so that a face knows when to look again.
    pub revision: u64,
}

/// The machine that is watched, or was.
#[derive(Debug, Clone, PartialEq)]
pub struct Facts {
    /// Host name.
    pub hostname: String,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// What frames need to know.
    pub machine: Machine,
    /// MemTotal in bytes.
    pub mem_total: u64,
    /// Start of the recording, or of the monitor, in UTC (RFC 3339).
    pub started: String,
    /// Samples a second asked for.
    pub hz: u32,
}

/// Where the frames come from and what goes on.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Status {
    /// True for a recording, false for this machine.
    pub replay: bool,
    /// Why there will be no more frames, once that is so.
    pub ended: Option<String>,
    /// Folder that is being recorded into.
    pub recording: Option<PathBuf>,
    /// Why the sampler's memory is not locked, if it is not.
    pub unlocked: Option<String>,
    /// What is being done just now ("trimming pid 42"); None when nothing is.
    pub busy: Option<String>,
}

/// What is watched besides the whole machine.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TargetState {
    /// Words for people: `pid 4242 redis-server`, `cgroup /web`, `4243 make -j2`.
    pub title: String,
    /// Its processes, the first one first.
    pub pids: Vec<u32>,
    /// Processes beyond those, which are too many to be read on every tick.
    pub unread: u32,
    /// How it ended, once it has.
    pub ended: Option<String>,
    /// What is wrong with looking at it, such as a missing permission.
    pub trouble: Option<String>,
}

/// A point in time that somebody, or something, has marked.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// What it is.
    pub kind: MarkKind,
    /// Words for people; may be empty for a number.
    pub text: String,
}

/// Kinds of marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkKind {
    /// One of the keys 1-4, or the event number of a run's phase.
    Number(u32),
    /// A note.
    Note,
    /// The target was trimmed.
    Trim,
    /// Standby memory and page cache were released.
    Release,
    /// The target started, ended, or became another program.
    Target,
    /// Page flags were counted.
    PageFlags,
    /// Something to be known: a fault storm, a trial's end, a warning of a run.
    Event,
}

impl MarkKind {
    /// What stands on the time axis for it, one character.
    pub fn symbol(self) -> char {
        match self {
            MarkKind::Number(number) => char::from_digit(number, 10).unwrap_or('#'),
            MarkKind::Note => 'm',
            MarkKind::Trim => 'T',
            MarkKind::Release => 'E',
            MarkKind::Target => '*',
            MarkKind::PageFlags => 'k',
            MarkKind::Event => '!',
        }
    }
}

/// How much a message matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// What was done.
    Info,
    /// What to know.
    Warning,
    /// What failed.
    Error,
}

/// Something the monitor has to say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    /// How much it matters.
    pub level: Level,
    /// Words for people.
    pub text: String,
}

impl State {
    /// A state in which nothing has been seen yet.
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

    /// Adds a mark where it belongs in time.
    pub fn mark(&mut self, mark: Mark) {
        let at = self.marks.partition_point(|other| other.t_ns <= mark.t_ns);
        self.marks.insert(at, mark);
        self.revision += 1;
    }

    /// Says something.
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
