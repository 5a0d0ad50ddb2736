//! The decisions of a guard, as data and as one line of text each.

use std::fmt;
use std::time::Duration;

use plimsoll_model::quantity::{bytes, counted, significant};
use plimsoll_model::scenario::GuardPolicy;
use serde::Serialize;

use super::order::{Order, Outcome, Reason};

/// A decision with its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    /// Seconds since the guard began.
    pub t_s: f64,
    pub event: Event,
    /// The line for people.
    pub text: String,
}

impl Decision {
    /// The document of `--json`: the values of the event, `t_s` and `text`.
    pub fn json(&self) -> serde_json::Value {
        let mut document = serde_json::to_value(&self.event).unwrap_or_default();
        document["t_s"] = self.t_s.into();
        document["text"] = self.text.as_str().into();
        document
    }

    pub(super) fn now(at: Duration, event: Event) -> Decision {
        Decision {
            t_s: at.as_secs_f64(),
            text: event.to_string(),
            event,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "decision", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Event {
    Begun {
        scope: String,
        #[serde(serialize_with = "policy_name")]
        policy: GuardPolicy,
    },
    /// A protected cgroup does not exist.
    Unprotected {
        cgroup: String,
    },
    /// A stop that a killed guard left was undone.
    Recovered {
        what: String,
    },
    Thrashing {
        /// Share of time in which tasks stall for memory, 0 to 1.
        stalled: f64,
        refaults_per_s: f64,
    },
    /// The work before a policy acts.
    Measured {
        useful: f64,
    },
    /// No policy can help.
    Unfit {
        candidates: usize,
        needed: u64,
        room: u64,
    },
    Stopped {
        pid: u32,
        name: String,
        reason: Reason,
    },
    Continued {
        pid: u32,
        name: String,
        reason: Reason,
    },
    Trimmed {
        pid: u32,
        name: String,
        bytes: u64,
        reason: Reason,
    },
    Killed {
        pid: u32,
        name: String,
        reason: Reason,
    },
    /// An order that `--dry-run` does not carry out.
    Would {
        order: &'static str,
        pid: u32,
        name: String,
        reason: Reason,
    },
    /// An order that was not carried out.
    Failed {
        order: &'static str,
        pid: u32,
        name: String,
        error: String,
    },
    Judged {
        /// CPUs of user time before the policy, and with it.
        before: f64,
        with: f64,
        helps: bool,
    },
    /// The guard waits before it tries again.
    Resting {
        seconds: f64,
    },
    Calm,
    Ended {
        continued: usize,
        /// Processes that cannot be continued.
        left: usize,
    },
}

fn policy_name<S: serde::Serializer>(policy: &GuardPolicy, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(policy.name())
}

impl Event {
    /// The event of an order with its outcome; `None` if its process has ended.
    pub(super) fn of_order(order: &Order, name: String, outcome: Outcome) -> Option<Event> {
        let (pid, reason) = (order.process().pid, order.reason());
        Some(match (outcome, order) {
            (Outcome::Void, _) => return None,
            (Outcome::Refused { error, .. }, _) => Event::Failed {
                order: order.verb(),
                pid,
                name,
                error,
            },
            (Outcome::Dry, _) => Event::Would {
                order: order.verb(),
                pid,
                name,
                reason,
            },
            (Outcome::Done(_), Order::Stop { .. }) => Event::Stopped { pid, name, reason },
            (Outcome::Done(_), Order::Continue { .. }) => Event::Continued { pid, name, reason },
            (Outcome::Done(bytes), Order::Trim { .. }) => Event::Trimmed {
                pid,
                name,
                bytes,
                reason,
            },
            (Outcome::Done(_), Order::Kill { .. }) => Event::Killed { pid, name, reason },
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Begun { scope, policy } => write!(f, "guarding {scope}, policy {}", policy.name()),
            Event::Unprotected { cgroup } => {
                write!(f, "no cgroup {cgroup} to protect; it is protected once it exists")
            }
            Event::Recovered { what } => write!(f, "undid the {what}, which a killed guard left"),
            Event::Thrashing {
                stalled,
                refaults_per_s,
            } => write!(
                f,
                "thrashing: tasks stall for memory {}% of the time, {} refaults per second",
                significant(100.0 * stalled),
                significant(*refaults_per_s)
            ),
            Event::Measured { useful } => {
                write!(
                    f,
                    "measured {} CPUs of user time before acting",
                    significant(*useful)
                )
            }
            Event::Unfit {
                candidates,
                needed,
                room,
            } => write!(
                f,
                "not acting: {candidates} candidates need {}, and there is room for {}",
                bytes(*needed as f64),
                bytes(*room as f64)
            ),
            Event::Stopped { pid, name, reason } => write!(f, "stopped {name} ({pid}): {reason}"),
            Event::Continued { pid, name, reason } => write!(f, "continued {name} ({pid}): {reason}"),
            Event::Trimmed {
                pid,
                name,
                bytes: trimmed,
                reason,
            } => write!(
                f,
                "trimmed {} of {name} ({pid}): {reason}",
                bytes(*trimmed as f64)
            ),
            Event::Killed { pid, name, reason } => write!(f, "killed {name} ({pid}): {reason}"),
            Event::Would {
                order,
                pid,
                name,
                reason,
            } => write!(f, "would {order} {name} ({pid}): {reason}"),
            Event::Failed {
                order,
                pid,
                name,
                error,
            } => write!(f, "cannot {order} {name} ({pid}): {error}"),
            Event::Judged { before, with, helps } => write!(
                f,
                "{}: {} CPUs of user time, {} before",
                if *helps {
                    "the policy helps"
                } else {
                    "the policy does not help"
                },
                significant(*with),
                significant(*before)
            ),
            Event::Resting { seconds } => {
                write!(f, "waiting {} s before the next try", significant(*seconds))
            }
            Event::Calm => f.write_str("calm"),
            Event::Ended { continued, left: 0 } => {
                write!(f, "ended; continued {}", counted(*continued, "process"))
            }
            Event::Ended { continued, left } => write!(
                f,
                "ended; continued {}, and {} cannot be continued",
                counted(*continued, "process"),
                counted(*left, "process")
            ),
        }
    }
}
