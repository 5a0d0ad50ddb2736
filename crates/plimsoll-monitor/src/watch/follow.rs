//! Keeps the sampler at what is watched: about once a second, on a thread that is not the sampler's.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::options::TargetChoice;
use super::shared::{Shared, lock};
use super::state::{Level, MarkKind, TargetState};
use super::storms::StormWatch;
use super::target::{Followed, Look, READ_ON_TICKS, busiest_zram, unreadable};
use plimsoll_model::columns::col;
use plimsoll_sample::{Sampler, Target};

/// Time between two looks at a target, and at the machine alone, whose swap devices seldom change.
const PERIOD: Duration = Duration::from_secs(1);
const IDLE_PERIOD: Duration = Duration::from_secs(5);

/// Keeps the sampler at what is watched.
pub(super) struct Follower {
    shared: Arc<Shared>,
    sampler: Arc<Sampler>,
    followed: Followed,
    /// What the sampler was last told.
    told: Target,
    /// Processes that could be read, of how many, after files were opened anew: as long as it stays so, opening them
    /// again is of no use.
    opened_in_vain: Option<(i64, usize)>,
    storms: StormWatch,
}

impl Follower {
    /// Follows `followed`; looks at it at once.
    pub(super) fn new(shared: Arc<Shared>, sampler: Arc<Sampler>, followed: Followed) -> Follower {
        let mut follower = Follower {
            shared,
            sampler,
            followed: Followed::Nothing,
            told: Target::default(),
            opened_in_vain: None,
            storms: StormWatch::default(),
        };
        follower.change(followed);
        follower
    }

    /// Goes on until nobody can choose another target any more.
    pub(super) fn run(mut self, choices: &Receiver<TargetChoice>) {
        // The first tick is there soon, and with it the names of the swap devices.
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
            ..TargetState::default()
        }));
        self.look();
    }

    fn look(&mut self) {
        let look = self.followed.look();
        if self.followed.is_ours() {
            lock(&self.shared.account).look_at_delays(self.followed.identities());
        }
        self.shared.set_trimmable(self.followed.trimmable());
        let read = look.pids.len().min(READ_ON_TICKS);
        let target = Target {
            workers: look.pids[..read].to_vec(),
            cgroup: self.followed.cgroup().cloned(),
            zram: busiest_zram(),
        };
        // Files of a process that ended cannot be read, and a later one of its number has other files.
        let latest = self.sampler.latest();
        let seen = latest.get(col::TARGET_PROCESSES).unwrap_or(0);
        let stale = usize::try_from(seen) != Ok(read);
        // Some cannot be opened at all: once is enough to find out.
        if target != self.told || (stale && self.opened_in_vain != Some((seen, read))) {
            self.sampler.set_target(Some(&target));
            self.opened_in_vain = stale.then_some((seen, read));
        }
        self.storms.look(&target.workers, &latest, &self.shared);
        let grown = target.workers != self.told.workers;
        self.told = target;
        self.tell(look, grown);
    }

    /// Brings the state up to date with what was seen.
    fn tell(&self, look: Look, grown: bool) {
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
                target.trouble = match (look.trouble, grown) {
                    (Some(trouble), _) => Some(trouble),
                    (None, true) => target.pids.iter().find_map(|pid| unreadable(*pid)),
                    (None, false) => target.trouble.take(),
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
                "the target has {processes} processes: {READ_ON_TICKS} of them are read, the others are not in its figures"
            );
            self.shared.warn(text);
        }
    }
}
