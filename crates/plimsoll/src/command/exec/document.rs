//! `--json`: documents on standard error, one a line, as standard output is the program's.

use plimsoll_lab::confined::Usage;
use plimsoll_monitor::watch::{ProgramSummary, Summary};
use plimsoll_os::Ended;
use serde::Serialize;

use crate::command::print_error_json;
use crate::exec::Counters;

/// Schema version of the documents.
const SCHEMA: u32 = 1;

/// The manager of the program's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum EngineName {
    Kernel,
    Pager,
    /// The program runs without a limit (`--allow-unmanaged`).
    #[serde(rename = "none")]
    Unmanaged,
}

impl EngineName {
    pub(super) fn name(self) -> &'static str {
        match self {
            EngineName::Kernel => "kernel",
            EngineName::Pager => "pager",
            EngineName::Unmanaged => "none",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Event<'a> {
    /// The program starts next.
    Engine {
        engine: EngineName,
        /// Limit or budget. None without one.
        ram_bytes: Option<u64>,
        /// The code of the reason for the choice.
        reason: &'static str,
        text: String,
    },
    /// The engine cannot run the program, and no other is tried.
    Refused {
        engine: EngineName,
        /// The code of the reason.
        reason: &'static str,
        text: String,
    },
    End(End<'a>),
}

/// The values at the end of the program.
#[derive(Debug, Serialize)]
pub(super) struct End<'a> {
    pub(super) engine: EngineName,
    /// Limit or budget. None without one.
    pub(super) ram_bytes: Option<u64>,
    /// None if the monitor did not see its end.
    pub(super) program: Option<ProgramEnd>,
    /// Whether the OOM killer ended the program itself. None if unknown: without a cgroup, or if the kernel does not count.
    pub(super) oom_killed: Option<bool>,
    /// The memory of the cgroup, of the engine kernel.
    pub(super) cgroup: Option<Usage>,
    /// Sums over the processes that left counters, of the engine pager. None if none left any.
    pub(super) counters: Option<&'a Counters>,
    /// The summary of the monitor, with `--report` or `--watch`.
    pub(super) monitor: Option<&'a Summary>,
}

/// The end of the program, and the resources of it and of the children that it waited for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct ProgramEnd {
    /// None if a signal ended it.
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) major_faults: u64,
    pub(super) cpu_user_s: f64,
    pub(super) cpu_system_s: f64,
}

impl From<&Ended> for ProgramEnd {
    fn from(ended: &Ended) -> ProgramEnd {
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        ProgramEnd {
            exit_code: ended.code,
            signal: ended.signal,
            major_faults: ended.usage.major_faults,
            cpu_user_s: seconds(ended.usage.user_us),
            cpu_system_s: seconds(ended.usage.system_us),
        }
    }
}

impl From<&ProgramSummary> for ProgramEnd {
    fn from(program: &ProgramSummary) -> ProgramEnd {
        ProgramEnd {
            exit_code: program.exit_code,
            signal: program.signal,
            major_faults: program.major_faults,
            cpu_user_s: program.cpu_user_s,
            cpu_system_s: program.cpu_system_s,
        }
    }
}

pub(super) fn print(event: &Event<'_>) {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: u32,
        #[serde(flatten)]
        event: &'a Event<'a>,
    }
    // The last line of the program may have no end.
    let lead = match event {
        Event::End(_) => "\n",
        Event::Engine { .. } | Event::Refused { .. } => "",
    };
    let schema = SCHEMA;
    print_error_json(lead, &Document { schema, event });
}
