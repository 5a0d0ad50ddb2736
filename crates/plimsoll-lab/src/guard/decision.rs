//! The decisions of a guard, as data and as one line of text each.

use std::fmt;
use std::time::Duration;

use plimsoll_model::quantity::{bytes, counted, significant};
use plimsoll_model::scenario::GuardPolicy;
use serde::Serialize;

use super::order::{Order, Outcome, Reason, Target};

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

/// A process, or a cgroup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Named {
    Process { pid: u32, name: String },
    Cgroup { cgroup: String },
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Named::Process { pid, name } => write!(f, "{name} ({pid})"),
            Named::Cgroup { cgroup } => write!(f, "the cgroup {cgroup}"),
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
        /// The user whose processes alone the guard may stop; none for a guard of root.
        #[serde(skip_serializing_if = "Option::is_none")]
        only_user: Option<u32>,
    },
    /// A protected cgroup does not exist.
    Unprotected {
        cgroup: String,
    },
    /// A stop or throttle that a killed guard left was undone.
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
        /// Cgroups that may be throttled; only of the policy `throttle`.
        #[serde(skip_serializing_if = "Option::is_none")]
        cgroups: Option<usize>,
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
    Throttled {
        cgroup: String,
        reason: Reason,
    },
    Unthrottled {
        cgroup: String,
        reason: Reason,
    },
    /// An order that `--dry-run` does not carry out.
    Would {
        order: &'static str,
        #[serde(flatten)]
        target: Named,
        reason: Reason,
    },
    /// An order that was not carried out.
    Failed {
        order: &'static str,
        #[serde(flatten)]
        target: Named,
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
    /// The event of an order with its outcome; `None` if the process has ended, or a retry failed again. `name` is the
    /// name of the process or cgroup.
    pub(super) fn of_order(order: &Order, name: String, outcome: Outcome) -> Option<Event> {
        let reason = order.reason();
        let target = match order.target() {
            Target::Process(process) => Named::Process {
                pid: process.pid,
                name,
            },
            Target::Group(_) => Named::Cgroup { cgroup: name },
        };
        let bytes = match outcome {
            Outcome::Void => return None,
            Outcome::Refused { lasting: true, .. } if reason == Reason::Retry => return None,
            Outcome::Refused { error, .. } => {
                let order = order.verb();
                return Some(Event::Failed { order, target, error });
            }
            Outcome::Dry => {
                let order = order.verb();
                return Some(Event::Would {
                    order,
                    target,
                    reason,
                });
            }
            Outcome::Done(bytes) => bytes,
        };
        Some(match (order, target) {
            (Order::Stop { .. }, Named::Process { pid, name }) => Event::Stopped { pid, name, reason },
            (Order::Continue { .. }, Named::Process { pid, name }) => Event::Continued { pid, name, reason },
            (Order::Trim { .. }, Named::Process { pid, name }) => Event::Trimmed {
                pid,
                name,
                bytes,
                reason,
            },
            (_, Named::Process { pid, name }) => Event::Killed { pid, name, reason },
            (Order::Throttle { .. }, Named::Cgroup { cgroup }) => Event::Throttled { cgroup, reason },
            (_, Named::Cgroup { cgroup }) => Event::Unthrottled { cgroup, reason },
        })
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Begun {
                scope,
                policy,
                only_user,
            } => {
                write!(f, "guarding {scope}, policy {}", policy.name())?;
                match only_user {
                    Some(user) => write!(f, "; not root, so only the processes of user {user}"),
                    None => Ok(()),
                }
            }
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
                cgroups,
                needed,
                room,
            } => {
                let (needed, room) = (bytes(*needed as f64), bytes(*room as f64));
                let candidates = counted(*candidates, "candidate");
                write!(
                    f,
                    "not acting: {candidates} with a demand of {needed}, and room for {room}"
                )?;
                match cgroups {
                    Some(number) => write!(f, "; the policy may throttle {}", counted(*number, "cgroup")),
                    None => Ok(()),
                }
            }
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
            Event::Throttled { cgroup, reason } => write!(f, "throttled the cgroup {cgroup}: {reason}"),
            Event::Unthrottled { cgroup, reason } => write!(f, "unthrottled the cgroup {cgroup}: {reason}"),
            Event::Would {
                order,
                target,
                reason,
            } => write!(f, "would {order} {target}: {reason}"),
            Event::Failed { order, target, error } => write!(f, "cannot {order} {target}: {error}"),
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

#[cfg(test)]
mod tests {
    use plimsoll_proc::ProcessId;

    use super::*;

    #[test]
    fn only_the_first_failure_of_sigcont_is_reported() {
        let process = ProcessId {
            pid: 7,
            start_ticks: 1,
        };
        let event = |reason, outcome| {
            let order = Order::Continue { process, reason };
            Event::of_order(&order, "a".to_owned(), outcome)
        };
        let refused = || Outcome::Refused {
            error: "no".to_owned(),
            lasting: true,
        };
        let first = event(Reason::Turn, refused());
        assert!(
            matches!(
                first,
                Some(Event::Failed {
                    order: "continue",
                    ..
                })
            ),
            "{first:?}"
        );
        assert_eq!(event(Reason::Retry, refused()), None);
        // The journal cannot be written, for example: not the failure that was reported before.
        let other = event(
            Reason::Retry,
            Outcome::Refused {
                error: "full".to_owned(),
                lasting: false,
            },
        );
        assert!(matches!(other, Some(Event::Failed { .. })), "{other:?}");
        let continued = Event::Continued {
            pid: 7,
            name: "a".to_owned(),
            reason: Reason::Retry,
        };
        assert_eq!(event(Reason::Retry, Outcome::Done(0)), Some(continued));
    }
}
