//! What else went on that may have moved the numbers, and which trials it spoils.
//!
//! Each confounder has a threshold from which it spoils a trial; below it is told when it was seen at all. A trial that is
//! spoiled is not ok, however it looks: its numbers stay, marked untrustworthy.

use crate::recording::model::{Confounder, Manifest, Phase, Trial, TrialStatus};
use crate::recording::{ColumnView, Samples};
use crate::scenario::{Settings, Subject, ThpMode};

/// CPU time that a hypervisor took, in percent of all CPU time of the trial. A trial holds about two busy CPUs' worth
/// of measured work; repeats of a quiet machine spread by 2-5%, so what takes more shows in the numbers.
pub const STEAL_SPOILS_PERCENT: f64 = 5.0;
/// CPU time used by others during the timed phases, in percent of all CPUs, from which it is told.
pub const OTHER_LOAD_TOLD_PERCENT: f64 = 10.0;
/// The same from which it spoils. With a quarter of the CPUs gone, a worker beside kernel threads that compress no longer
/// has a CPU for each, and memory bandwidth is shared.
pub const OTHER_LOAD_SPOILS_PERCENT: f64 = 25.0;
/// Bytes that DAMON's schemes acted on or that zswap took, in percent of the trial's memory. Below a percent it is lost in
/// the spread of stored bytes.
pub const FOREIGN_PAGING_SPOILS_PERCENT: f64 = 1.0;
/// Swap that others hold or gained, in percent of the trial's memory. The cgroup's own swap counter, which it is measured
/// against, lags by a batch of pages a CPU.
pub const OTHER_SWAP_SPOILS_PERCENT: f64 = 5.0;
/// Samples that a phase must hold to be judged by them: the edges of a shorter one weigh more than what lies between.
const MIN_SAMPLES: usize = 3;

/// What was seen: the samples of a run, its machine and its trials.
struct Seen<'a> {
    samples: &'a Samples,
    manifest: &'a Manifest,
    trials: &'a [Trial],
}

/// Names every confounder that shows in the samples or the settings of the machine.
pub fn confounders(samples: &Samples, manifest: &Manifest, trials: &[Trial]) -> Vec<Confounder> {
    let seen = Seen {
        samples,
        manifest,
        trials,
    };
    let found = [
        damon(&seen),
        steal(&seen),
        other_load(&seen),
        other_swap(&seen),
        zswap(&seen),
        thp(&seen),
        page_reporting(&seen),
        cpu_frequency(&seen),
    ];
    found.into_iter().flatten().collect()
}

/// Marks a trial that a confounder spoils as untrustworthy, with the reason. A failed trial stays failed. Judging twice
/// changes nothing.
pub fn judge(trial: &mut Trial, confounders: &[Confounder]) {
    if trial.status == TrialStatus::Failed {
        return;
    }
    for confounder in confounders
        .iter()
        .filter(|confounder| confounder.spoils.contains(&trial.id))
    {
        let reason = format!("{}: {}", confounder.name, confounder.evidence);
        if !trial.reasons.contains(&reason) {
            trial.reasons.push(reason);
        }
        trial.status = TrialStatus::Untrustworthy;
    }
}

impl<'a> Seen<'a> {
    fn column(&self, name: &str) -> Option<ColumnView<'a>> {
        self.samples.column(name)
    }

    /// The first and the last sample within a span of time.
    fn within(&self, span_ns: (u64, u64)) -> Option<(usize, usize)> {
        let first = self.samples.at_or_after(span_ns.0)?;
        let last = self.samples.at_or_before(span_ns.1)?;
        (first < last).then_some((first, last))
    }

    /// Growth of a counter over a trial.
    fn growth(&self, name: &str, trial: &Trial) -> Option<i64> {
        let (first, last) = self.within(trial.span_ns)?;
        self.column(name)?.growth(first, last)
    }

    /// What was asked of a trial.
    fn settings(&self, trial: &Trial) -> Option<&'a Settings> {
        let planned = self
            .manifest
            .plan
            .trials
            .iter()
            .find(|planned| planned.id == trial.id)?;
        Some(&planned.settings)
    }

    /// `bytes` in percent of the memory that a trial fills.
    fn percent_of_size(&self, trial: &Trial, bytes: i64) -> Option<f64> {
        super::ratio(100.0 * bytes as f64, self.settings(trial)?.size as f64)
    }

    /// Settings of the machine whose path contains `part`.
    fn machine(&self, part: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let settings = self.manifest.host.settings.iter();
        settings
            .filter(move |(path, _)| path.contains(part))
            .map(|(path, value)| (path.as_str(), value.trim()))
    }

    /// The trials in which a figure exceeds `threshold`, with the largest figure of any trial.
    fn spoiled(&self, threshold: f64, figure: impl Fn(&Trial) -> Option<f64>) -> (Vec<String>, f64) {
        let mut spoiled = Vec::new();
        let mut worst = 0.0;
        for trial in self.trials {
            let value = figure(trial).unwrap_or(0.0);
            worst = f64::max(worst, value);
            if value > threshold {
                spoiled.push(trial.id.clone());
            }
        }
        (spoiled, worst)
    }
}

fn confounder(name: &str, evidence: String, spoils: Vec<String>, advice: &str) -> Confounder {
    Confounder {
        name: name.to_owned(),
        evidence,
        spoils,
        advice: advice.to_owned(),
    }
}

fn damon(seen: &Seen<'_>) -> Option<Confounder> {
    let pages_out = seen.machine("damon").any(|(_, value)| value == "pageout");
    let (spoils, worst) = seen.spoiled(FOREIGN_PAGING_SPOILS_PERCENT, |trial| {
        seen.percent_of_size(trial, seen.growth("damon_sz_applied", trial)?)
    });
    if !pages_out && worst == 0.0 {
        return None;
    }
    let scheme = if pages_out {
        "a DAMON scheme pages idle memory out"
    } else {
        "DAMON schemes are active"
    };
    let evidence = format!("{scheme}; in the worst trial they acted on {worst:.1}% of the trial's size");
    let advice =
        "Switch the scheme off for the run: `echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state`";
    Some(confounder("damon", evidence, spoils, advice))
}

/// Every kind of CPU time in /proc/stat; guest time is in user and nice already.
const CPU_TIMES: [&str; 8] = [
    "cpu_user_us",
    "cpu_nice_us",
    "cpu_system_us",
    "cpu_irq_us",
    "cpu_softirq_us",
    "cpu_steal_us",
    "cpu_idle_us",
    "cpu_iowait_us",
];
/// How many of [`CPU_TIMES`] are work that was done here.
const BUSY: usize = 5;

fn steal(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, worst) = seen.spoiled(STEAL_SPOILS_PERCENT, |trial| {
        let steal = seen.growth("cpu_steal_us", trial)?;
        let all: i64 = CPU_TIMES.iter().filter_map(|name| seen.growth(name, trial)).sum();
        super::ratio(100.0 * steal as f64, all as f64)
    });
    if worst < 0.5 {
        return None;
    }
    let evidence = format!("the hypervisor took {worst:.1}% of the CPU time of the worst trial for others");
    let advice = "Run on a dedicated machine or at a quieter time, with more repeats";
    Some(confounder("steal", evidence, spoils, advice))
}

fn other_load(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, worst) = seen.spoiled(OTHER_LOAD_SPOILS_PERCENT, |trial| other_load_percent(seen, trial));
    if worst < OTHER_LOAD_TOLD_PERCENT {
        return None;
    }
    let evidence =
        format!("in the worst trial other programs used {worst:.0}% of all CPUs during the timed phases");
    let advice = "Stop what else runs, or pin it elsewhere; see `top`";
    Some(confounder("other-load", evidence, spoils, advice))
}

/// CPU time during the timed phases that neither the worker nor kernel threads used, in percent of all CPUs.
fn other_load_percent(seen: &Seen<'_>, trial: &Trial) -> Option<f64> {
    let (mut others_s, mut all_s) = (0.0, 0.0);
    for phase in &trial.phases {
        let Some((first, last)) = seen.within(phase.span_ns) else {
            continue;
        };
        if last - first + 1 < MIN_SAMPLES {
            continue;
        }
        let growth = |name: &&str| seen.column(name)?.growth(first, last);
        let busy_s = CPU_TIMES[..BUSY].iter().filter_map(growth).sum::<i64>() as f64 / 1e6;
        let window_s = seconds(seen.samples.t_ns()[first], seen.samples.t_ns()[last]);
        others_s += busy_s - own_cpu_s(phase) * share_of_phase(phase, window_s);
        all_s += window_s * f64::from(seen.manifest.host.cpus);
    }
    super::ratio(100.0 * others_s.max(0.0), all_s)
}

/// CPU seconds that the experiment itself spent in a phase.
fn own_cpu_s(phase: &Phase) -> f64 {
    phase.cpu_user_s + phase.cpu_system_s + phase.cpu_kernel_threads_s
}

/// Share of a phase that its samples span; its work is taken to be even.
fn share_of_phase(phase: &Phase, window_s: f64) -> f64 {
    super::ratio(window_s, seconds(phase.span_ns.0, phase.span_ns.1)).map_or(1.0, |share| share.min(1.0))
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

fn other_swap(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, worst) = seen.spoiled(OTHER_SWAP_SPOILS_PERCENT, |trial| {
        seen.percent_of_size(trial, others_swap_growth(seen, trial)?)
    });
    let before: u64 = seen.manifest.host.swap_before.iter().map(|(_, size)| size).sum();
    if before == 0 && worst < OTHER_SWAP_SPOILS_PERCENT {
        return None;
    }
    let evidence = format!(
        "{} other swap devices of {} MiB are on; in the worst trial pages of others came into swap as {worst:.1}% of \
         the trial's size",
        seen.manifest.host.swap_before.len(),
        before >> 20
    );
    let advice =
        "Switch other swap off for the run (`swapoff`), or stop the programs that are being swapped out";
    Some(confounder("other-swap", evidence, spoils, advice))
}

/// Bytes of others that came into swap during a trial: the greatest growth of all swap in use less that of the
/// trial's cgroup.
fn others_swap_growth(seen: &Seen<'_>, trial: &Trial) -> Option<i64> {
    let (first, last) = seen.within(trial.span_ns)?;
    let (total, free) = (seen.column("swap_total")?, seen.column("swap_free")?);
    let own = seen.column("cgroup_swap")?;
    let others = |sample: usize| -> Option<i64> {
        let used = total.get(sample)?.checked_sub(free.get(sample)?)?;
        used.checked_sub(own.get(sample)?)
    };
    let start = others(first)?;
    // The last sample decides, not the greatest: during a trim the cgroup's counter trails the device's.
    let settled = (first..=last).rev().find_map(others)?;
    settled.checked_sub(start)
}

fn zswap(seen: &Seen<'_>) -> Option<Confounder> {
    let page = i64::try_from(seen.manifest.host.page_size).ok()?;
    let not_asked = |trial: &Trial| !matches!(trial.subject.parse(), Ok(Subject::Zswap(_)));
    let (spoils, worst) = seen.spoiled(FOREIGN_PAGING_SPOILS_PERCENT, |trial| {
        let pages = seen.growth("zswpout", trial).filter(|_| not_asked(trial))?;
        seen.percent_of_size(trial, pages.checked_mul(page)?)
    });
    let on = seen
        .machine("zswap/parameters/enabled")
        .any(|(_, value)| matches!(value, "Y" | "1"));
    if worst == 0.0 && !(on && seen.trials.iter().any(not_asked)) {
        return None;
    }
    let evidence = format!(
        "zswap {} and is not the subject; in the worst trial it took {worst:.1}% of the trial's size",
        if on { "is on" } else { "was used" }
    );
    let advice = "Switch it off for the run: `echo N > /sys/module/zswap/parameters/enabled`";
    Some(confounder("zswap", evidence, spoils, advice))
}

fn thp(seen: &Seen<'_>) -> Option<Confounder> {
    let always = seen
        .machine("transparent_hugepage/enabled")
        .any(|(_, value)| value.contains("[always]"));
    let left_alone = |trial: &Trial| {
        seen.settings(trial)
            .is_some_and(|settings| settings.thp == ThpMode::System)
    };
    if !always || !seen.trials.iter().any(left_alone) {
        return None;
    }
    let evidence =
        "transparent huge pages are `always` on: fills fault in 2 MiB at a time and trims split them"
            .to_owned();
    let advice =
        "Set `thp = \"never\"` (or `\"always\"`) in the scenario to compare with machines that differ";
    Some(confounder("thp", evidence, Vec::new(), advice))
}

fn page_reporting(seen: &Seen<'_>) -> Option<Confounder> {
    // The parameter is the order of the blocks that are reported; one above any block's switches reporting off.
    const LARGEST_ORDER: u64 = 20;
    let (path, order) = seen
        .machine("page_reporting")
        .find_map(|(path, value)| Some((path, value.parse::<u64>().ok()?)))
        .filter(|&(_, order)| order <= LARGEST_ORDER)?;
    let evidence = format!(
        "free memory is reported to the hypervisor, which may take it back (`{path}` is {order}): first touches then \
         fault in the hypervisor too"
    );
    let advice = "Compare fill speeds within this run only, by their ratio to the calibration";
    Some(confounder("page-reporting", evidence, Vec::new(), advice))
}

fn cpu_frequency(seen: &Seen<'_>) -> Option<Confounder> {
    let (path, governor) = seen
        .machine("scaling_governor")
        .find(|(_, governor)| *governor != "performance")?;
    let evidence = format!("the CPU frequency changes with the load (`{path}` is {governor})");
    let advice = "Fix it for the run: `cpupower frequency-set -g performance`";
    Some(confounder("cpu-frequency", evidence, Vec::new(), advice))
}
