//! Confounders of swap: other devices, pages of other cgroups on the run's own device, and bytes that disagree.
//!
//! The run's device has the highest priority, so that the kernel writes pages of every cgroup to it. Its counters do not
//! tell them apart: the cgroup's own counter does.

use super::{Seen, confounder};
use crate::analysis::ratio;
use plimsoll_model::quantity::{bytes, significant};
use plimsoll_model::recording::model::{Confounder, Trial};
use plimsoll_model::scenario::{Backing, Settings, Subject};
use plimsoll_model::trust::ConfounderKind;

/// Bytes that came onto other swap devices, in percent of the trial's memory: some pages of idle programs are no
/// disturbance.
const OTHER_SWAP_SPOILS_PERCENT: f64 = 5.0;
/// Foreign pages on the run's device, in percent of the trial's memory. They change a ratio by as much at most.
const FOREIGN_PAGES_SPOIL_PERCENT: f64 = 2.0;
/// Samples over which foreign pages must stay: the device and the cgroup are read one after the other.
const LASTING: usize = 3;
/// Pages that the kernel may count to a cgroup late, for each CPU (`MEMCG_CHARGE_BATCH`).
const LATE_PAGES: i64 = 64;
/// The difference between the bytes of one trim by several counters, in percent of the largest. Undisturbed, they differ
/// by some pages of the worker itself.
const DISAGREEMENT_SPOILS_PERCENT: f64 = 2.0;

/// The metrics of a trim that must agree.
const TRIMMED: &str = "trimmed_bytes";
const SWAPPED: &str = "swapped_bytes";
const ORIGINAL: &str = "original_bytes";

/// Finds swap devices of others that were on before the run or were turned on during a trial, and pages on them.
pub(super) fn other_swap(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, worst) = seen.spoiled(OTHER_SWAP_SPOILS_PERCENT, |trial| {
        seen.percent_of_size(trial, other_swap_growth(seen, trial)?)
    });
    let devices = &seen.manifest.host.swap_before;
    let before: u64 = devices.iter().map(|(_, size)| size).sum();
    let mut findings = match devices.len() {
        0 => Vec::new(),
        1 => vec![format!("another swap device of {} is on", bytes(before as f64))],
        count => vec![format!(
            "{count} other swap devices of {} are on",
            bytes(before as f64)
        )],
    };
    let turned_on = seen.worst(|trial| Some(other_swap_size(seen, trial)? as f64 - before as f64));
    if let Some(size) = turned_on.filter(|&size| size > 0.0) {
        findings.push(format!(
            "another program turned on swap of {} during the run",
            bytes(size)
        ));
    }
    if findings.is_empty() && worst.is_none_or(|worst| worst <= 0.0) {
        return None;
    }
    findings.push(match worst {
        Some(worst) => {
            format!("in the worst trial {worst:.1}% of the trial's size went to other swap devices")
        }
        None => "the growth of other swap is unknown: the recording has no samples of it".to_owned(),
    });
    let advice =
        "Switch other swap off for the run (`swapoff`), or stop the programs that the kernel swaps out";
    Some(confounder(
        ConfounderKind::OtherSwap,
        findings.join("; "),
        spoils,
        advice,
    ))
}

/// The size of the swap devices of others in a trial, at most.
fn other_swap_size(seen: &Seen<'_>, trial: &Trial) -> Option<i64> {
    values(seen, trial, "other_swap_size").max()
}

/// Bytes that came onto swap devices of others: pages of others, or of the trial itself where its own device could not
/// take them.
fn other_swap_growth(seen: &Seen<'_>, trial: &Trial) -> Option<i64> {
    let mut used = values(seen, trial, "other_swap_used");
    let Some(first) = used.next() else {
        return growth_by_slot(seen, trial);
    };
    // The most, not the last: what was read back again moved the numbers too.
    used.max().unwrap_or(first).checked_sub(first)
}

/// The same of a recording without a column for other swap: of the devices that were on before the run, by slot.
fn growth_by_slot(seen: &Seen<'_>, trial: &Trial) -> Option<i64> {
    let (first, last) = seen.within(trial.span_ns)?;
    let devices = &seen.manifest.host.swap_before;
    let other = |slot: &str| {
        slot.split(", ")
            .any(|name| devices.iter().any(|(device, _)| device == name))
    };
    let mut grown = None;
    for (slot, names) in seen.manifest.swap_slots.iter().enumerate() {
        if !other(names) {
            continue;
        }
        let used = seen.column(&format!("swap{slot}_used"))?;
        let most = (first..=last).filter_map(|sample| used.get(sample)).max()?;
        *grown.get_or_insert(0) += most.checked_sub(used.get(first)?)?;
    }
    grown
}

/// The values of a column in a trial, as far as there are any.
fn values<'a>(seen: &Seen<'a>, trial: &Trial, column: &str) -> impl Iterator<Item = i64> + use<'a> {
    let found = seen.within(trial.span_ns).zip(seen.column(column));
    found
        .into_iter()
        .flat_map(|((first, last), column)| (first..=last).filter_map(move |sample| column.get(sample)))
}

/// Pages of other cgroups on the run's own device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Foreign {
    bytes: i64,
    /// All used bytes of the device.
    used: i64,
}

/// Measures the pages of other cgroups on the run's own device: its used bytes without those of the trial's cgroup.
pub(super) fn foreign_pages(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, _) = seen.spoiled(FOREIGN_PAGES_SPOIL_PERCENT, |trial| {
        seen.percent_of_size(trial, foreign(seen, trial)?.bytes)
    });
    let found = seen.trials.iter().filter_map(|trial| foreign(seen, trial));
    let evidence = match found.max_by_key(|foreign| foreign.bytes) {
        Some(Foreign { bytes: 0, .. }) => return None,
        Some(foreign) => format!(
            "pages of other cgroups were on the run's own swap device: in the worst trial {}% of its used bytes ({} of {})",
            significant(100.0 * foreign.bytes as f64 / foreign.used as f64),
            bytes(foreign.bytes as f64),
            bytes(foreign.used as f64),
        ),
        None if seen.trials.iter().any(|trial| is_uncounted(seen, trial)) => {
            "the share of other cgroups in the run's own swap device is unknown: the kernel does not count the swap of a \
             cgroup"
                .to_owned()
        }
        None => return None,
    };
    let advice =
        "Stop the programs that the kernel swaps out, or raise the limits of their cgroups, for the run";
    Some(confounder(ConfounderKind::ForeignPages, evidence, spoils, advice))
}

/// The most foreign pages of a trial that stayed for some samples, where the kernel counts them.
fn foreign(seen: &Seen<'_>, trial: &Trial) -> Option<Foreign> {
    let (first, last) = seen.within(trial.span_ns)?;
    let column = |name: &str| seen.column(name);
    let (used, swap) = (column("device_swap_used")?, column("cgroup_swap")?);
    // v1 counts a page in the swap cache to the device, and not yet to the cgroup's swap.
    let cached = column("cgroup_swap_cached").filter(|_| seen.manifest.host.cgroup == "v1");
    let late = LATE_PAGES * i64::from(seen.manifest.host.cpus) * super::page_size(seen)?;
    let level = |sample: usize| {
        let used = used.get(sample)?;
        let cached = cached.as_ref().map_or(Some(0), |cached| cached.get(sample));
        let own = swap.get(sample)?.saturating_add(cached?);
        let bytes = used.saturating_sub(own).saturating_sub(late).max(0);
        Some(Foreign { bytes, used })
    };
    let levels: Vec<Foreign> = (first..=last).filter_map(level).collect();
    let lasting = levels.windows(LASTING.min(levels.len()).max(1));
    lasting
        .filter_map(|window| window.iter().copied().min_by_key(|level| level.bytes))
        .max_by_key(|level| level.bytes)
}

/// Whether a trial had a device of its own, and its cgroup no counter of swap.
fn is_uncounted(seen: &Seen<'_>, trial: &Trial) -> bool {
    let has = |name: &str| values(seen, trial, name).next().is_some();
    has("device_swap_used") && !has("cgroup_swap")
}

/// Finds trials whose trimmed, swapped and original bytes disagree: then at least one of them counts something else.
pub(super) fn inconsistent_bytes(seen: &Seen<'_>) -> Option<Confounder> {
    let (spoils, _) = seen.spoiled(DISAGREEMENT_SPOILS_PERCENT, |trial| {
        Trim::of(seen, trial)?.disagreement_percent()
    });
    let trims = seen.trials.iter().filter_map(|trial| Trim::of(seen, trial));
    let known = trims.filter_map(|trim| Some((trim.disagreement_percent()?, trim)));
    let (percent, trim) = known.max_by(|a, b| a.0.total_cmp(&b.0))?;
    if spoils.is_empty() {
        return None;
    }
    let evidence = format!(
        "the bytes of a trim disagree by {}% in the worst trial: {}",
        significant(percent),
        trim.describe()
    );
    let advice = "Run again without other programs that swap, and with a `limit` above the size";
    Some(confounder(
        ConfounderKind::InconsistentBytes,
        evidence,
        spoils,
        advice,
    ))
}

/// The bytes of one trim by the counters of the worker, of the swap devices and of the compressed store.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Trim {
    trimmed: f64,
    swapped: f64,
    original: Option<f64>,
    /// Bytes that the worker had in swap before the trim.
    early: f64,
    /// Bytes that may be missing from the store: the kernel keeps pages of zeros without one, and zswap rejects pages.
    missing: f64,
}

impl Trim {
    fn of(seen: &Seen<'_>, trial: &Trial) -> Option<Trim> {
        let metric = |name: &str| trial.metrics.get(name).copied();
        let start_ns = trial.phases.iter().find(|phase| phase.name == "trim")?.span_ns.0;
        // Swapped pages of a memory file count to its cgroup, and to no process.
        let own_swap = match seen.settings(trial).map(Settings::memory) {
            Some(Backing::Memfd) => "cgroup_swap",
            _ => "target_swap",
        };
        let early = seen
            .samples
            .at_or_before(start_ns)
            .and_then(|sample| seen.column(own_swap)?.get(sample));
        let zeros = seen
            .growth("swpout_zero", trial)
            .and_then(|pages| pages.checked_mul(super::page_size(seen)?));
        let is_zswap = matches!(trial.subject.parse(), Ok(Subject::Zswap(_)));
        Some(Trim {
            trimmed: metric(TRIMMED)?,
            swapped: metric(SWAPPED)?,
            original: metric(ORIGINAL),
            early: early.unwrap_or(0) as f64,
            missing: match is_zswap {
                true => f64::INFINITY,
                false => zeros.unwrap_or(0) as f64,
            },
        })
    }

    /// The largest difference between two of them, in percent of the largest of all.
    ///
    /// The store holds all swapped pages, those from before the trim too, except for the missing ones.
    fn disagreement_percent(&self) -> Option<f64> {
        let stored = self.original.unwrap_or(0.0);
        let largest = self.trimmed.max(self.swapped).max(stored);
        let moved = (self.trimmed - self.swapped).abs();
        let of_store = self.original.map_or(0.0, |original| {
            let most = self.swapped + self.early;
            (original - most).max(most - self.missing - original).max(0.0)
        });
        ratio(100.0 * moved.max(of_store), largest)
    }

    fn describe(&self) -> String {
        let original = match self.original {
            Some(original) => format!(", and the store held {} before compression", bytes(original)),
            None => String::new(),
        };
        format!(
            "{} left the working set, swap grew by {}{original}",
            bytes(self.trimmed),
            bytes(self.swapped)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: f64 = (1 << 20) as f64;

    fn trim(trimmed: f64, swapped: f64, original: Option<f64>) -> Trim {
        Trim {
            trimmed: trimmed * MIB,
            swapped: swapped * MIB,
            original: original.map(|original| original * MIB),
            early: 0.0,
            missing: 0.0,
        }
    }

    fn agrees(trim: Trim) -> bool {
        trim.disagreement_percent()
            .is_none_or(|percent| percent <= DISAGREEMENT_SPOILS_PERCENT)
    }

    #[test]
    fn bytes_that_differ_by_more_than_two_percent_disagree() {
        assert!(agrees(trim(256.0, 256.0, Some(256.0))));
        assert!(agrees(trim(252.0, 256.0, Some(256.0))));
        assert!(!agrees(trim(250.0, 256.0, Some(256.0))));
        assert!(!agrees(trim(256.0, 256.0, Some(250.0))));
        // Swap of others was turned on: the pages went there.
        assert!(!agrees(trim(256.0, 496.0, Some(0.0))));
        // Pages of another cgroup went to the run's device.
        assert!(!agrees(trim(256.0, 326.0, Some(326.0))));
        assert!(agrees(trim(256.0, 256.0, None)) && !agrees(trim(256.0, 300.0, None)));
        assert!(agrees(trim(0.0, 0.0, Some(0.0))), "nothing was trimmed");
    }

    #[test]
    fn pages_of_zeros_need_no_store() {
        let zeros = Trim {
            missing: 256.0 * MIB,
            ..trim(256.0, 256.0, Some(0.0))
        };
        assert!(agrees(zeros));
        assert!(
            !agrees(Trim {
                original: Some(300.0 * MIB),
                ..zeros
            }),
            "more than was swapped"
        );
    }

    #[test]
    fn pages_in_swap_before_the_trim_are_in_the_store_too() {
        let early = Trim {
            early: 12.0 * MIB,
            ..trim(244.0, 244.0, Some(256.0))
        };
        assert!(agrees(early));
        assert!(!agrees(Trim { early: 0.0, ..early }));
    }
}
