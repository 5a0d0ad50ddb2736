//! Orders about processes and cgroups, their reasons and their outcomes.

use std::fmt;

use plimsoll_proc::ProcessId;
use serde::Serialize;

/// A cgroup: the inode number of its folder, so that a later one of the same name is another.
pub(super) type GroupId = u64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Stop {
        process: ProcessId,
        reason: Reason,
    },
    Continue {
        process: ProcessId,
        reason: Reason,
    },
    /// Page out so many bytes.
    Trim {
        process: ProcessId,
        bytes: u64,
        reason: Reason,
    },
    Kill {
        process: ProcessId,
        reason: Reason,
    },
    /// Give the processes of a cgroup little CPU time and memory. A further order goes on with the reclaim.
    Throttle {
        group: GroupId,
        reason: Reason,
    },
    Unthrottle {
        group: GroupId,
        reason: Reason,
    },
}

/// The object of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Process(ProcessId),
    Group(GroupId),
}

impl Order {
    pub(super) fn target(&self) -> Target {
        match self {
            Order::Stop { process, .. }
            | Order::Continue { process, .. }
            | Order::Trim { process, .. }
            | Order::Kill { process, .. } => Target::Process(*process),
            Order::Throttle { group, .. } | Order::Unthrottle { group, .. } => Target::Group(*group),
        }
    }

    pub(super) fn reason(&self) -> Reason {
        match self {
            Order::Stop { reason, .. }
            | Order::Continue { reason, .. }
            | Order::Trim { reason, .. }
            | Order::Kill { reason, .. }
            | Order::Throttle { reason, .. }
            | Order::Unthrottle { reason, .. } => *reason,
        }
    }

    pub(super) const fn verb(&self) -> &'static str {
        match self {
            Order::Stop { .. } => "stop",
            Order::Continue { .. } => "continue",
            Order::Trim { .. } => "trim",
            Order::Kill { .. } => "kill",
            Order::Throttle { .. } => "throttle",
            Order::Unthrottle { .. } => "unthrottle",
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Carried out; of a trim, with the bytes that left RAM.
    Done(u64),
    Dry,
    /// The process has ended, or is no candidate any more; or the cgroup is throttled already, or was removed.
    Void,
    Refused {
        error: String,
        /// A later attempt would fail too.
        lasting: bool,
    },
}

/// Why a policy orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// The working processes leave no room for it.
    NoRoom,
    /// The working processes have grown above the room.
    Grown,
    /// It has worked for its turn.
    TurnOver,
    /// Its turn begins.
    Turn,
    /// There is room for it beside the working processes.
    Room,
    /// It was the last to be active (FreeBSD).
    LastActive,
    /// It is the largest (Solaris).
    Largest,
    /// The pressure is gone.
    Relieved,
    /// Another process has the token.
    Token,
    /// Its end frees most and loses least.
    BestVictim,
    /// It is no candidate any more.
    Exempt,
    /// An earlier SIGCONT failed.
    Retry,
    /// The processes fit, or thrash no longer.
    Over,
    End,
    /// The work without the policy is measured anew.
    Review,
    /// The policy did not help.
    NoGain,
}

impl Reason {
    const fn words(self) -> &'static str {
        match self {
            Reason::NoRoom => "the working processes leave no room for it",
            Reason::Grown => "the working processes need more than there is",
            Reason::TurnOver => "its turn is over",
            Reason::Turn => "its turn begins",
            Reason::Room => "there is room for it",
            Reason::LastActive => "it was the last to be active",
            Reason::Largest => "it is the largest",
            Reason::Relieved => "the pressure is gone",
            Reason::Token => "another process has the token",
            Reason::BestVictim => "its end frees most and loses least",
            Reason::Exempt => "it is exempt now",
            Reason::Retry => "an earlier SIGCONT failed",
            Reason::Over => "the thrashing is over",
            Reason::End => "the guard ends",
            Reason::Review => "the work without the policy is measured anew",
            Reason::NoGain => "the policy did not help",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}
