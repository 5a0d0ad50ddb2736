//! CPU time of all programs between two looks, by name: for the load of others on the machine.

use std::collections::{BTreeMap, BTreeSet};

use plimsoll_model::sanitize::sanitize;
use plimsoll_proc::{PidStat, pids};

use super::kernel_threads;

/// The CPU time of every process at one time.
#[derive(Debug, Clone, Default)]
pub struct Programs(BTreeMap<u32, Process>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Process {
    name: String,
    parent: u32,
    /// Tells a process from a later one with its number.
    start_ticks: u64,
    /// A kernel thread that works for the experiment: it reclaims or compresses.
    reclaims: bool,
    own_us: u64,
    /// CPU time of the children that it has waited for.
    reaped_us: u64,
}

impl Programs {
    /// Looks at every process of the machine: some microseconds each.
    pub fn now() -> Programs {
        let mut buffer = Vec::with_capacity(1024);
        let numbers = pids::all().unwrap_or_default().into_iter();
        let all = numbers.filter_map(|pid| Some((pid, Process::of(&PidStat::read(pid, &mut buffer).ok()?))));
        Programs(all.collect())
    }

    /// CPU microseconds since an earlier look by program, most first, without the process `own`, its descendants, and the
    /// kernel threads that reclaim. A program has the time of the children that started and ended in between.
    pub fn others_since(&self, before: &Programs, own: u32) -> Vec<(String, u64)> {
        let family = self.family(own);
        let ended = self.ended_since(before);
        let mut by_name: BTreeMap<&str, u64> = BTreeMap::new();
        for (pid, process) in &self.0 {
            if family.contains(pid) || process.reclaims {
                continue;
            }
            *by_name.entry(&process.name).or_default() += self.spent(*pid, process, before, &ended);
        }
        let mut spent: Vec<(String, u64)> = by_name
            .into_iter()
            .filter(|(_, us)| *us > 0)
            .map(|(name, us)| (name.to_owned(), us))
            .collect();
        spent.sort_by_key(|(_, us)| std::cmp::Reverse(*us));
        spent
    }

    fn spent(&self, pid: u32, process: &Process, before: &Programs, ended: &BTreeMap<u32, u64>) -> u64 {
        let earlier = before.of(pid, process);
        let own = process
            .own_us
            .saturating_sub(earlier.map_or(0, |earlier| earlier.own_us));
        let reaped = process
            .reaped_us
            .saturating_sub(earlier.map_or(0, |earlier| earlier.reaped_us));
        own + reaped.saturating_sub(ended.get(&pid).copied().unwrap_or(0))
    }

    /// By parent, the earlier time of children that have ended since: the parent's sum contains it once it has waited.
    fn ended_since(&self, before: &Programs) -> BTreeMap<u32, u64> {
        let mut ended: BTreeMap<u32, u64> = BTreeMap::new();
        for (pid, child) in &before.0 {
            if self.of(*pid, child).is_none() {
                *ended.entry(child.parent).or_default() += child.own_us + child.reaped_us;
            }
        }
        ended
    }

    /// The same process in this look.
    fn of(&self, pid: u32, process: &Process) -> Option<&Process> {
        let found = self.0.get(&pid)?;
        (found.start_ticks == process.start_ticks).then_some(found)
    }

    /// A process and its descendants.
    fn family(&self, own: u32) -> BTreeSet<u32> {
        let mut family = BTreeSet::from([own]);
        loop {
            let children = self
                .0
                .iter()
                .filter(|(pid, process)| family.contains(&process.parent) && !family.contains(pid));
            let children: Vec<u32> = children.map(|(pid, _)| *pid).collect();
            if children.is_empty() {
                return family;
            }
            family.extend(children);
        }
    }
}

impl Process {
    fn of(stat: &PidStat<'_>) -> Process {
        let name = stat.name_text();
        // Workers of the kernel are numbered: `kworker/0:1-events`.
        let name = match name.split_once('/') {
            Some((kind, _)) if stat.kernel_thread => kind,
            _ => &name,
        };
        Process {
            name: sanitize(name).into_owned(),
            parent: stat.parent,
            start_ticks: stat.start_ticks,
            reclaims: stat.kernel_thread && kernel_threads::reclaims(stat),
            own_us: stat.user_us + stat.system_us,
            reaped_us: stat.reaped_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(name: &str, parent: u32, own_us: u64, reaped_us: u64) -> Process {
        Process {
            name: name.to_owned(),
            parent,
            start_ticks: 1,
            reclaims: name == "kswapd0",
            own_us,
            reaped_us,
        }
    }

    fn programs(processes: &[(u32, Process)]) -> Programs {
        Programs(processes.iter().cloned().collect())
    }

    #[test]
    fn the_run_and_its_kernel_threads_are_no_others() {
        let before = programs(&[
            (1, process("init", 0, 5, 0)),
            (10, process("plimsoll", 1, 100, 0)),
        ]);
        let after = programs(&[
            (1, process("init", 0, 5, 0)),
            (10, process("plimsoll", 1, 900, 50)),
            (11, process("worker", 10, 700, 0)),
            (12, process("helper", 11, 70, 0)),
            (20, process("kswapd0", 2, 800, 0)),
            (30, process("cc1", 1, 300, 0)),
            (31, process("cc1", 1, 200, 0)),
            (32, process("sshd", 1, 600, 0)),
        ]);
        let others = after.others_since(&before, 10);
        assert_eq!(others, [("sshd".to_owned(), 600), ("cc1".to_owned(), 500)]);
    }

    #[test]
    fn children_that_came_and_went_count_for_the_program_that_waited_for_them() {
        let before = programs(&[
            (5, process("make", 1, 10, 1000)),
            (6, process("cc1", 5, 400, 100)),
        ]);
        // The compiler that was there before has spent 200 since, and others have spent 3000 and gone.
        let after = programs(&[(5, process("make", 1, 10, 1000 + 700 + 3000))]);
        assert_eq!(after.others_since(&before, 99), [("make".to_owned(), 3200)]);
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let before = programs(&[(7, process("old", 1, 5000, 0))]);
        let newer = Process {
            start_ticks: 2,
            ..process("new", 1, 40, 0)
        };
        assert_eq!(
            programs(&[(7, newer)]).others_since(&before, 99),
            [("new".to_owned(), 40)]
        );
    }
}
