//! Confounders: other activity on the machine that may have affected the results, and the trials that it spoils.
//!
//! Each confounder has a threshold from which it spoils a trial; below the threshold the report mentions it. It spoils only
//! the metrics that its kind can change ([`plimsoll_model::trust`]): their values stay, marked untrustworthy.
//!
//! A missing counter is not 0: a possible but unmeasured confounder is reported as unknown and spoils no trial.

mod swap;

use std::collections::HashMap;

use super::neighbour::{self, HARMLESS_P99_S};
use plimsoll_model::recording::model::{Confounder, Manifest, Phase, Trial};
use plimsoll_model::recording::{ColumnView, Samples};
use plimsoll_model::sanitize::sanitize;
use plimsoll_model::scenario::{Backing, Settings, Subject, ThpMode};
use plimsoll_model::trust::ConfounderKind;

/// CPU time that a hypervisor took, in percent of all CPU time of the trial. A trial holds about two busy CPUs' worth
/// of measured work; repeats of a quiet machine spread by 2-5%, so a larger share affects the results.
pub const STEAL_SPOILS_PERCENT: f64 = 5.0;
/// CPU time used by others during the timed phases, in percent of all CPUs, from which the report mentions it.
pub const OTHER_LOAD_TOLD_PERCENT: f64 = 10.0;
/// The same from which it spoils. With a quarter of the CPUs gone, a worker beside kernel threads that compress no longer
/// has a CPU for each, and memory bandwidth is shared.
pub const OTHER_LOAD_SPOILS_PERCENT: f64 = 25.0;
/// Bytes that DAMON's schemes acted on or that zswap took, in percent of the trial's memory. Below a percent it is lost in
/// the spread of stored bytes.
pub const FOREIGN_PAGING_SPOILS_PERCENT: f64 = 1.0;
/// CPU time of DAMON's threads, in percent of one CPU over a trial, from which the report mentions it though no scheme that pages out
/// is known of. Monitoring alone (`damon_stat`) stays below.
pub const DAMON_TOLD_PERCENT: f64 = 1.0;
/// Samples that a phase must hold to be judged by them: the edges dominate a shorter one.
const MIN_SAMPLES: usize = 3;

/// The samples of a run, its machine and its trials.
struct Seen<'a> {
    samples: &'a Samples,
    manifest: &'a Manifest,
    trials: &'a [Trial],
    /// The settings of the planned trials, by id.
    settings: HashMap<&'a str, &'a Settings>,
}

/// Names every confounder that shows in the samples or the settings of the machine.
pub fn confounders(samples: &Samples, manifest: &Manifest, trials: &[Trial]) -> Vec<Confounder> {
    let planned = manifest.plan.trials.iter();
    let seen = Seen {
        samples,
        manifest,
        trials,
        settings: planned
            .map(|planned| (planned.id.as_str(), &planned.settings))
            .collect(),
    };
    let found = [
        damon(&seen),
        steal(&seen),
        other_load(&seen),
        swap::other_swap(&seen),
        swap::foreign_pages(&seen),
        swap::inconsistent_bytes(&seen),
        zswap(&seen),
        thp(&seen),
        page_reporting(&seen),
        cpu_frequency(&seen),
        harmed_neighbour(&seen),
    ];
    found.into_iter().flatten().collect()
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

    fn settings(&self, trial: &Trial) -> Option<&'a Settings> {
        self.settings.get(trial.id.as_str()).copied()
    }

    /// `bytes` in percent of the memory that a trial works on. If a workload needs more than its limit, the base is the
    /// memory that fits into RAM.
    fn percent_of_size(&self, trial: &Trial, bytes: i64) -> Option<f64> {
        let size = self.settings(trial)?.worked_on();
        super::ratio(100.0 * bytes as f64, size as f64)
    }

    /// Settings of the machine whose path contains `part`.
    fn machine(&self, part: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let settings = self.manifest.host.settings.iter();
        settings
            .filter(move |(path, _)| path.contains(part))
            .map(|(path, value)| (path.as_str(), value.trim()))
    }

    /// The trials in which a value exceeds `threshold`, with the largest value of any trial; none where it is known
    /// of no trial.
    fn spoiled(&self, threshold: f64, metric: impl Fn(&Trial) -> Option<f64>) -> (Vec<String>, Option<f64>) {
        let mut spoiled = Vec::new();
        let worst = self.worst(|trial| {
            let value = metric(trial)?;
            if value > threshold {
                spoiled.push(trial.id.clone());
            }
            Some(value)
        });
        (spoiled, worst)
    }

    /// The largest value of any trial; none where it is known of no trial.
    fn worst(&self, metric: impl FnMut(&Trial) -> Option<f64>) -> Option<f64> {
        self.trials.iter().filter_map(metric).reduce(f64::max)
    }
}

fn confounder(kind: ConfounderKind, evidence: String, spoils: Vec<String>, advice: &str) -> Confounder {
    Confounder {
        name: kind.name().to_owned(),
        evidence,
        spoils,
        advice: advice.to_owned(),
    }
}

fn damon(seen: &Seen<'_>) -> Option<Confounder> {
    let switch = pageout_switch(seen);
    let (spoils, applied) = seen.spoiled(FOREIGN_PAGING_SPOILS_PERCENT, |trial| {
        seen.percent_of_size(trial, seen.growth("damon_sz_applied", trial)?)
    });
    let cpu = seen.worst(|trial| {
        let cpu_us = seen.growth("kdamond_cpu_us", trial)?;
        super::ratio(cpu_us as f64 / 1e4, seconds(trial.span_ns.0, trial.span_ns.1))
    });
    let acted = applied.is_some_and(|applied| applied > 0.0);
    if switch.is_none() && !acted && cpu.is_none_or(|cpu| cpu < DAMON_TOLD_PERCENT) {
        return None;
    }
    let mut evidence = match (&switch, acted) {
        (Some(_), _) => "a DAMON scheme pages out idle memory; ".to_owned(),
        (None, true) => "DAMON schemes are active; ".to_owned(),
        (None, false) => "DAMON is active; ".to_owned(),
    };
    evidence += &match applied {
        Some(applied) => format!("in the worst trial its schemes acted on {applied:.1}% of the trial's size"),
        None => "the bytes that its schemes acted on are unknown: the kernel did not update their counters"
            .to_owned(),
    };
    evidence += &match cpu {
        Some(cpu) => format!(", and its threads used {cpu:.1}% of a CPU"),
        None => ", and the CPU time of its threads is unknown".to_owned(),
    };
    if let Some(percent) = seen.worst(|trial| unscanned_refaults_percent(seen, trial))
        && percent >= 0.1
    {
        evidence += &format!(
            "; file pages of {percent:.1}% of the size were refaulted though reclaim had scanned none"
        );
    }
    let advice = match switch {
        Some((path, off)) => format!("Switch the scheme off for the run: `echo {off} > {path}`"),
        None => "Switch DAMON's schemes off for the run: `echo off` into each \
                 `/sys/kernel/mm/damon/admin/kdamonds/*/state` that is on"
            .to_owned(),
    };
    Some(confounder(ConfounderKind::Damon, evidence, spoils, &advice))
}

/// The file that switches a running scheme off that pages memory out, with the word for it: a kdamond of the
/// administrator whose `state` is on, or the kernel's own `damon_reclaim`.
fn pageout_switch(seen: &Seen<'_>) -> Option<(String, &'static str)> {
    let settings = &seen.manifest.host.settings;
    let of_admin = seen.machine("/kdamonds/").find_map(|(path, action)| {
        let (kdamond, _) = path.split_once("/contexts/")?;
        let state = format!("{kdamond}/state");
        let on = settings.get(&state).is_some_and(|state| state.trim() == "on");
        (path.ends_with("/action") && action == "pageout" && on).then_some((state, "off"))
    });
    of_admin.or_else(|| {
        let mut switches = seen.machine("damon_reclaim/parameters/enabled");
        let on = switches.find(|(_, value)| matches!(*value, "Y" | "1"))?;
        Some((on.0.to_owned(), "N"))
    })
}

/// File pages that came back during a trial although nothing scans for such pages in it, in percent of the trial's
/// memory: DAMON and `madvise` page out without scanning. Anonymous pages tell nothing: the trial's own trim and restore
/// look the same.
fn unscanned_refaults_percent(seen: &Seen<'_>, trial: &Trial) -> Option<f64> {
    let own_pages_refault = seen
        .settings(trial)
        .is_some_and(|settings| settings.memory() == Backing::File);
    if own_pages_refault || seen.growth("pgscan_file", trial)? > 0 {
        return None;
    }
    let pages = seen.growth("workingset_refault_file", trial)?;
    seen.percent_of_size(trial, pages.checked_mul(page_size(seen)?)?)
}

fn page_size(seen: &Seen<'_>) -> Option<i64> {
    i64::try_from(seen.manifest.host.page_size).ok()
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
    let evidence = match worst {
        Some(worst) if worst >= 0.5 => {
            format!("in the worst trial the hypervisor took {worst:.1}% of the CPU time for other guests")
        }
        // Bare metal has no steal time.
        None if may_be_stolen_from(seen) => {
            "the CPU time that the hypervisor took for other guests is unknown: no trial has samples of it"
                .to_owned()
        }
        _ => return None,
    };
    let advice = "Run on a dedicated machine or at a quieter time, with more repeats";
    Some(confounder(ConfounderKind::Steal, evidence, spoils, advice))
}

/// Whether trials ran in a virtual machine.
fn may_be_stolen_from(seen: &Seen<'_>) -> bool {
    let kind = seen.manifest.host.virtualization.as_str();
    !seen.trials.is_empty() && !matches!(kind, "" | "none")
}

fn other_load(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, worst) = seen.spoiled(OTHER_LOAD_SPOILS_PERCENT, |trial| other_load_percent(seen, trial));
    let worst = worst.filter(|&worst| worst >= OTHER_LOAD_TOLD_PERCENT)?;
    let load = |trial: &&Trial| other_load_percent(seen, trial);
    let worst_trial = seen.trials.iter().find(|trial| load(trial) == Some(worst));
    let named = worst_trial.map_or_else(String::new, programs);
    let evidence = format!(
        "in the worst trial other programs used {worst:.0}% of all CPUs during the timed phases{named}"
    );
    let advice = "Stop other programs or pin them to other CPUs";
    Some(confounder(ConfounderKind::OtherLoad, evidence, spoils, advice))
}

/// The programs outside of the run in a trial, with their share of all CPUs; empty if none is recorded.
fn programs(trial: &Trial) -> String {
    const NAMED: usize = 3;
    let programs = trial.other_programs.iter().take(NAMED);
    let named: Vec<String> = programs
        .map(|(name, percent)| format!("{} {percent:.0}%", sanitize(name)))
        .collect();
    match named.is_empty() {
        true => String::new(),
        false => format!(" (in the whole trial: {})", named.join(", ")),
    }
}

/// CPU time during the timed phases that neither the workers nor kernel threads used, in percent of all CPUs. Phases that
/// do not record the CPU time of their workers do not count: it would be blamed on others. Only the `seconds` of a phase
/// from its start count: work after the clock has stopped, such as comparing
/// every byte that was restored, is in the span of the phase and not in its CPU time.
fn other_load_percent(seen: &Seen<'_>, trial: &Trial) -> Option<f64> {
    let (mut others_s, mut all_s) = (0.0, 0.0);
    for phase in trial.phases.iter().filter(|phase| own_cpu_s(phase) > 0.0) {
        let Some((first, last)) = seen.within(timed_span(phase)) else {
            continue;
        };
        if last - first + 1 < MIN_SAMPLES {
            continue;
        }
        let growth = |name: &&str| seen.column(name)?.growth(first, last);
        growth(&"cpu_user_us")?;
        let busy_s = CPU_TIMES[..BUSY].iter().filter_map(growth).sum::<i64>() as f64 / 1e6;
        let window_s = seconds(seen.samples.t_ns()[first], seen.samples.t_ns()[last]);
        others_s += busy_s - own_cpu_s(phase) * share_of_phase(phase, window_s);
        // The wake-up probe outside of the cgroup is the run's own too, and beats all the time.
        // So is the worker that holds the background.
        others_s -= phase.cpu_background_s * share_of_phase(phase, window_s);
        others_s -= trial.metrics.get(neighbour::CPU).copied().unwrap_or(0.0) / 100.0 * window_s;
        all_s += window_s * f64::from(seen.manifest.host.cpus);
    }
    super::ratio(100.0 * others_s.max(0.0), all_s)
}

/// CPU seconds that the experiment itself spent in a phase.
fn own_cpu_s(phase: &Phase) -> f64 {
    phase.cpu_user_s + phase.cpu_system_s + phase.cpu_kernel_threads_s
}

/// The part of a phase that is timed.
fn timed_span(phase: &Phase) -> (u64, u64) {
    let (start, end) = phase.span_ns;
    (start, start.saturating_add((phase.seconds * 1e9) as u64).min(end))
}

/// Share of a phase's timed part that its samples span; its work is taken to be even.
fn share_of_phase(phase: &Phase, window_s: f64) -> f64 {
    let (start, end) = timed_span(phase);
    super::ratio(window_s, seconds(start, end)).map_or(1.0, |share| share.min(1.0))
}

fn seconds(from_ns: u64, to_ns: u64) -> f64 {
    to_ns.saturating_sub(from_ns) as f64 / 1e9
}

/// Finds zswap by its activity in the trials: its state before the run means little, as the run itself turns it off
/// for every other subject that swaps.
fn zswap(seen: &Seen<'_>) -> Option<Confounder> {
    let not_asked = |trial: &Trial| !matches!(trial.subject.parse(), Ok(Subject::Zswap(_)));
    let (spoils, worst) = seen.spoiled(FOREIGN_PAGING_SPOILS_PERCENT, |trial| {
        let pages = seen.growth("zswpout", trial).filter(|_| not_asked(trial))?;
        seen.percent_of_size(trial, pages.checked_mul(page_size(seen)?)?)
    });
    let was_on = seen
        .machine("zswap/parameters/enabled")
        .any(|(_, value)| matches!(value, "Y" | "1"));
    let evidence = match worst {
        Some(worst) if worst > 0.0 => format!(
            "zswap was used and is not the subject; in the worst trial it stored {worst:.1}% of the trial's size"
        ),
        None if was_on && seen.trials.iter().any(not_asked) => {
            "zswap was on before the run and is not the subject; its use in the trials is unknown: \
             its counters are missing"
                .to_owned()
        }
        _ => return None,
    };
    let advice = "Switch it off for the run: `echo N > /sys/module/zswap/parameters/enabled`";
    Some(confounder(ConfounderKind::Zswap, evidence, spoils, advice))
}

fn thp(seen: &Seen<'_>) -> Option<Confounder> {
    let always = seen
        .machine("transparent_hugepage/enabled")
        .any(|(_, value)| value.contains("[always]"));
    let any = |of: fn(&Settings) -> bool| {
        let mut settings = seen.trials.iter().filter_map(|trial| seen.settings(trial));
        settings.any(of)
    };
    let left_alone = any(|settings| settings.thp() == Some(ThpMode::System));
    let of_system = any(|settings| settings.workload.has_thp_of_system());
    let advice = match (left_alone, of_system) {
        (true, _) => {
            "Set `thp = \"never\"` (or `\"always\"`) in the scenario to compare with machines that differ"
        }
        (false, true) => {
            "The consumers use the setting of the system: compare with machines where `enabled` is the same"
        }
        (false, false) => return None,
    };
    if !always {
        return None;
    }
    let evidence =
        "transparent huge pages are `always` on: a fault maps 2 MiB, and the kernel splits huge pages before it pages them out"
            .to_owned();
    Some(confounder(ConfounderKind::Thp, evidence, Vec::new(), advice))
}

fn page_reporting(seen: &Seen<'_>) -> Option<Confounder> {
    // The parameter is the order of the blocks that are reported; one above any block's switches reporting off.
    const LARGEST_ORDER: u64 = 20;
    let (path, order) = seen
        .machine("page_reporting")
        .find_map(|(path, value)| Some((path, value.parse::<u64>().ok()?)))
        .filter(|&(_, order)| order <= LARGEST_ORDER)?;
    let evidence = format!(
        "the kernel reports free memory to the hypervisor, which may reclaim it (`{path}` is {order}): first touches then \
         fault in the hypervisor too"
    );
    let advice =
        "Compare speeds of first touches (fills) within this run only, by their ratio to the calibration";
    Some(confounder(
        ConfounderKind::PageReporting,
        evidence,
        Vec::new(),
        advice,
    ))
}

fn cpu_frequency(seen: &Seen<'_>) -> Option<Confounder> {
    let (path, governor) = seen
        .machine("scaling_governor")
        .find(|(_, governor)| *governor != "performance")?;
    let evidence = format!("the CPU frequency follows the load (`{path}` is {governor})");
    let advice = "Fix it for the run: `cpupower frequency-set -g performance`";
    Some(confounder(
        ConfounderKind::CpuFrequency,
        evidence,
        Vec::new(),
        advice,
    ))
}

/// Spoils no trial: the run's own results are valid, other processes waited.
fn harmed_neighbour(seen: &Seen<'_>) -> Option<Confounder> {
    let worst = seen.worst(|trial| trial.metrics.get(neighbour::P99).copied());
    let worst = worst.filter(|&worst| worst > HARMLESS_P99_S)?;
    let evidence = format!(
        "in the worst trial the p99 wake-up latency of a process outside of the run's cgroup was {:.0} ms; users notice \
         {:.0} ms",
        worst * 1e3,
        HARMLESS_P99_S * 1e3,
    );
    let advice = "Reduce the run (`--scale`, `size`) or the other load of the machine: the run itself does not wait, \
                  other programs do, and on a busy machine they wait without the run too";
    Some(confounder(
        ConfounderKind::Neighbour,
        evidence,
        Vec::new(),
        advice,
    ))
}
