//! Lists the processes of the machine, or of the target cgroup, at a slow pace on a thread of its own.
//!
//! The thread reads only while a user interface shows the list. A list of 80 processes takes less than 10 ms of CPU.
//! [`pause`] bounds the cost: a list of many processes comes less often.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use plimsoll_os::{UsageScope, resource_usage};

use super::shared::Shared;
use super::state::{Level, TargetState};
use super::top::{PERIOD, Top};
use crate::processes::{Depth, Listing, Observer, Snapshot, Users};

/// Interval to the second list, which is the first one with rates.
const FIRST_PERIOD: Duration = Duration::from_secs(1);
/// A reading thread rests this many times as long as it ran: at most 1% of a core.
const REST: u32 = 100;

/// Time until the next list of processes or cgroups, for one that took `cost`.
pub(super) fn pause(cost: Duration) -> Duration {
    PERIOD.max(cost.saturating_mul(REST))
}

pub(super) struct Lister {
    shared: Arc<Shared>,
    reader: Option<Reader>,
    /// Reported reasons for missing processes, without their numbers.
    said: Vec<String>,
}

/// Reads the lists, with the snapshot before for the rates.
struct Reader {
    observer: Observer,
    before: Option<Snapshot>,
}

impl Lister {
    pub(super) fn new(shared: Arc<Shared>) -> Lister {
        Lister {
            shared,
            reader: None,
            said: Vec::new(),
        }
    }

    /// Lists while the last message of `wanted` is true; each such message asks for a list at once. Runs until all
    /// senders are dropped.
    pub(super) fn run(mut self, wanted: &Receiver<bool>) {
        let mut next = None;
        loop {
            let message = match next {
                None => wanted.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(at) => wanted.recv_timeout(at_least_now(at)),
            };
            match message {
                Ok(true) | Err(RecvTimeoutError::Timeout) => next = Some(Instant::now() + self.list()),
                Ok(false) => {
                    next = None;
                    // An old snapshot would give the mean rates of a long time.
                    self.reader = None;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Publishes a list. Returns the time until the next one.
    fn list(&mut self) -> Duration {
        let began = own_cpu();
        let scope = self
            .shared
            .state()
            .target
            .as_ref()
            .and_then(TargetState::scope)
            .map(Path::to_owned);
        let reader = match &mut self.reader {
            Some(reader) => Ok(reader),
            None => Reader::new().map(|reader| self.reader.insert(reader)),
        };
        let listed = reader.and_then(|reader| reader.read(scope));
        let (top, notes) = listed.unwrap_or_else(|error| {
            let note = format!("cannot list processes: {error}; check that /proc is mounted");
            (Top::default(), vec![note])
        });
        self.say(notes);
        let first = top.interval.is_none();
        {
            let mut state = self.shared.state();
            state.top = Some(Arc::new(top));
            state.revision += 1;
        }
        let pause = pause(own_cpu().saturating_sub(began));
        match first && pause == PERIOD {
            true => FIRST_PERIOD,
            false => pause,
        }
    }
}

impl Lister {
    /// Reports the reasons for missing processes, each once.
    fn say(&mut self, notes: Vec<String>) {
        for note in notes {
            // A number in the text may change with every list.
            let words = note.replace(|c: char| c.is_ascii_digit(), "");
            if !self.said.contains(&words) {
                self.said.push(words);
                self.shared.say(Level::Warning, note);
            }
        }
    }
}

impl Reader {
    fn new() -> std::io::Result<Reader> {
        Ok(Reader {
            observer: Observer::new()?,
            before: None,
        })
    }

    /// The list, and the reasons for missing processes.
    fn read(&mut self, scope: Option<PathBuf>) -> std::io::Result<(Top, Vec<String>)> {
        let now = match &scope {
            None => self.observer.snapshot(Depth::Sizes)?,
            Some(folder) => {
                let pids = plimsoll_proc::cgroup::members(folder).unwrap_or_default();
                self.observer.snapshot_of(&pids, Depth::Sizes)
            }
        };
        // Two equal snapshots give a list without rates.
        let listing = Listing::between(self.before.as_ref().unwrap_or(&now), &now, &Users::default());
        let interval = self.before.is_some().then_some(listing.interval_s);
        self.before = Some(now);
        let top = Top {
            interval: interval.map(Duration::from_secs_f64),
            processes: listing.processes,
        };
        Ok((top, listing.notes))
    }
}

fn own_cpu() -> Duration {
    let usage = resource_usage(UsageScope::Thread);
    Duration::from_micros(usage.user_us + usage.system_us)
}

fn at_least_now(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests {
    use plimsoll_proc::cgroup::Hierarchy;
    use plimsoll_report::analysis::frame::Machine;
    use plimsoll_testkit::capability;

    use super::*;
    use crate::watch::state::{Facts, State};

    /// A machine with many processes pays no more for its list than one with few.
    #[test]
    fn a_list_takes_at_most_a_hundredth_of_a_core() {
        assert_eq!(pause(Duration::from_millis(2)), PERIOD);
        for cost_ms in [20, 50, 1000, 60_000] {
            let cost = Duration::from_millis(cost_ms);
            assert!(pause(cost) >= cost * 99, "{cost_ms} ms");
        }
        assert_eq!(pause(Duration::MAX), Duration::MAX);
    }

    #[test]
    fn the_second_list_has_the_rates_of_this_process() {
        let mut reader = Reader::new().unwrap();
        let own = |top: &Top| {
            let mut processes = top.processes.iter();
            processes
                .find(|entry| entry.identity.pid == std::process::id())
                .cloned()
                .expect("this process is listed")
        };
        let (first, _) = reader.read(None).unwrap();
        assert_eq!((first.interval, own(&first).rates), (None, None));
        assert!(own(&first).swap.is_some(), "status is read");
        let (second, _) = reader.read(None).unwrap();
        assert!(second.interval.is_some() && own(&second).rates.is_some());
    }

    #[test]
    fn the_list_of_a_cgroup_has_its_processes_alone() {
        let hierarchy = Hierarchy::of_this_process();
        if !capability("cgroup", hierarchy.is_ok(), "needs a memory cgroup hierarchy") {
            return;
        }
        let own = hierarchy.unwrap().own;
        let mut reader = Reader::new().unwrap();
        let (top, _) = reader.read(Some(own.clone())).unwrap();
        let pids: Vec<u32> = top.processes.iter().map(|entry| entry.identity.pid).collect();
        assert!(pids.contains(&std::process::id()));
        assert!(top.processes.iter().all(|entry| {
            entry
                .cgroup
                .as_ref()
                .is_some_and(|cgroup| cgroup.starts_with(&own))
        }));
    }

    fn facts() -> Facts {
        Facts {
            hostname: String::new(),
            kernel: String::new(),
            machine: Machine {
                page_size: 4096,
                cpus: 1,
            },
            mem_total: 1 << 30,
            started: String::new(),
            hz: 10,
        }
    }

    /// A hidden list costs nothing: the thread reads none before the first request, or after the list was hidden.
    #[test]
    fn lists_are_read_only_while_they_are_wanted() {
        let shared = Arc::new(Shared::new(State::new(facts()), 0));
        let (wanted, requests) = std::sync::mpsc::channel();
        wanted.send(false).unwrap();
        drop(wanted);
        Lister::new(Arc::clone(&shared)).run(&requests);
        assert_eq!(shared.state().top, None);
        let (wanted, requests) = std::sync::mpsc::channel();
        for message in [true, true, false] {
            wanted.send(message).unwrap();
        }
        drop(wanted);
        Lister::new(Arc::clone(&shared)).run(&requests);
        let state = shared.state();
        let top = state.top.as_ref().expect("two lists were asked for");
        assert!(top.interval.is_some(), "the second one has rates");
        assert_eq!(state.revision - state.messages.len() as u64, 2, "two lists");
    }
}
