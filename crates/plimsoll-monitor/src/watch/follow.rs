//! Keeps the sampler's target up to date, about once a second, on a thread of its own.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::options::TargetChoice;
use super::shared::{Shared, lock};
use super::state::{Level, MarkKind, TargetState};
use super::storms::StormWatch;
use super::target::{Followed, Look, READ_ON_TICKS, busiest_zram, unreadable};
use plimsoll_model::columns::col;
use plimsoll_model::recording::{Warning, WarningCode};
use plimsoll_sample::{Sampler, Target, pagers};

/// Interval between two checks of a target, and of the machine alone, whose swap devices seldom change.
const PERIOD: Duration = Duration::from_secs(1);
const IDLE_PERIOD: Duration = Duration::from_secs(5);
/// Checks of a target from one look for its pagers to the next.
const CHECKS_BETWEEN_PAGERS: u32 = 5;

/// Keeps the sampler's target up to date.
pub(super) struct Follower {
    shared: Arc<Shared>,
    sampler: Arc<Sampler>,
    followed: Followed,
    /// The sampler's current target.
    sent: Target,
    /// (readable processes, all processes) after the sampler's last reopening of their files. While both stay the same,
    /// another reopening is useless.
    unreadable_when_opened: Option<(i64, usize)>,
    storms: StormWatch,
    /// The pagers of the target's processes when they were last looked for, and checks since its processes changed.
    pagers: Vec<(u32, usize)>,
    checks: u32,
}

impl Follower {
    /// Follows `followed` and checks it at once.
    pub(super) fn new(shared: Arc<Shared>, sampler: Arc<Sampler>, followed: Followed) -> Follower {
        let mut follower = Follower {
            shared,
            sampler,
            followed: Followed::Nothing,
            sent: Target::default(),
            unreadable_when_opened: None,
            storms: StormWatch::default(),
            pagers: Vec::new(),
            checks: 0,
        };
        follower.change(followed);
        follower
    }

    /// Runs until all senders of `choices` are dropped.
    pub(super) fn run(mut self, choices: &Receiver<TargetChoice>) {
        // The first tick comes soon and brings the names of the swap devices.
        let mut next = Instant::now() + PERIOD;
        loop {
            match choices.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(choice) => {
                    self.choose(&choice);
                    next = Instant::now() + PERIOD;
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.look();
                    let period = match self.followed {
                        Followed::Nothing => IDLE_PERIOD,
                        _ => PERIOD,
                    };
                    next = (next + period).max(Instant::now());
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn choose(&mut self, choice: &TargetChoice) {
        match Followed::choose(choice) {
            Ok(followed) => {
                self.change(followed);
                let text = self.followed.title().unwrap_or("the machine alone").to_owned();
                self.shared.mark(MarkKind::Target, format!("watching {text}"));
            }
            Err(error) => self.shared.say(Level::Error, error.to_string()),
        }
    }

    fn change(&mut self, followed: Followed) {
        self.followed = followed;
        let title = self.followed.title().map(str::to_owned);
        self.shared.change_target(title.map(|title| TargetState {
            title,
            cgroup: self.followed.folder(),
            ..TargetState::default()
        }));
        self.look();
    }

    fn look(&mut self) {
        let look = self.followed.look();
        if self.followed.is_ours() {
            lock(&self.shared.account).read_delays(self.followed.identities());
        }
        self.shared.set_trimmable(self.followed.trimmable());
        let read = look.pids.len().min(READ_ON_TICKS);
        let target = Target {
            workers: look.pids[..read].to_vec(),
            cgroup: self.followed.cgroup().cloned(),
            zram: busiest_zram(),
            swap_device: None,
            held: None,
        };
        // The sampler's open files of an ended process are dead, and a later process with its pid has other files.
        let latest = self.sampler.latest();
        let seen = latest.get(col::TARGET_PROCESSES).unwrap_or(0);
        let stale = usize::try_from(seen) != Ok(read);
        let has_new_pagers = self.look_for_pagers(&target.workers);
        // Some processes stay unreadable: one attempt is enough.
        if target != self.sent
            || has_new_pagers
            || (stale && self.unreadable_when_opened != Some((seen, read)))
        {
            self.sampler.set_target(Some(&target));
            self.unreadable_when_opened = stale.then_some((seen, read));
        }
        self.storms.look(&target.workers, &latest, &self.shared);
        let grown = target.workers != self.sent.workers;
        self.sent = target;
        self.publish(look, grown);
    }

    /// Looks for pagers at every fifth check, at the check that finds other processes, and at the next one: a new process may not
    /// have its pager before. The kernel lists all mappings of a process for it. Returns whether the pagers differ from those
    /// before.
    fn look_for_pagers(&mut self, processes: &[u32]) -> bool {
        self.checks = match processes == self.sent.workers {
            true => self.checks.wrapping_add(1),
            false => 0,
        };
        if self.checks > 1 && !self.checks.is_multiple_of(CHECKS_BETWEEN_PAGERS) {
            return false;
        }
        let found = pagers::of_processes(processes);
        let is_new = found != self.pagers;
        self.pagers = found;
        is_new
    }

    /// Copies the result of a check into the state.
    fn publish(&self, look: Look, grown: bool) {
        if let Some(news) = &look.news {
            self.shared.mark(MarkKind::Target, news.clone());
        }
        let unread = u32::try_from(look.pids.len().saturating_sub(READ_ON_TICKS)).unwrap_or(u32::MAX);
        let slots = self.sampler.swap_slots();
        let mut too_many = None;
        {
            let mut state = self.shared.state();
            let mut changed = state.swap_devices != slots;
            state.swap_devices = slots;
            if let Some(target) = &mut state.target {
                let before = target.clone();
                target.title = self.followed.title().unwrap_or_default().to_owned();
                target.pids = look.pids;
                target.ended = look.ended.or(target.ended.take());
                target.error = match (look.error, grown) {
                    (Some(error), _) => Some(error),
                    (None, true) => target.pids.iter().find_map(|pid| unreadable(*pid)),
                    (None, false) => target.error.take(),
                };
                target.unread = unread;
                if unread > 0 && before.unread == 0 {
                    too_many = Some(target.pids.len());
                }
                changed |= before != *target;
            }
            if changed {
                state.revision += 1;
            }
        }
        if let Some(processes) = too_many {
            let text = format!(
                "the target has {processes} processes: the samples include only {READ_ON_TICKS} of them"
            );
            self.shared
                .warn(Warning::new(WarningCode::ProcessesOmitted, text));
        }
    }
}
