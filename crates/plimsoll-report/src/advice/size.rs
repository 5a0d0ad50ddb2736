//! The size of a zram device, from the measured ratio of the data and the RAM of the machine.

use xxhash_rust::xxh3::xxh3_64;

use super::candidates::{Candidate, Measurement, Stratum, by_subject, stands_for_data, strata};
use super::commands::{self, MIB};
use super::ranking::{Lack, lack};
use super::swap::made_up;
use super::wording::{interval, measured_with, withheld, zram_before};
use crate::analysis::statistics::{IntervalKind, MIN_FOR_INTERVAL, Summary, summarise};
use crate::workloads::compression::STORED_RATIO;
use crate::workloads::criteria::Measure;
use crate::workloads::metrics_of;
use plimsoll_model::quantity::{bytes, significant};
use plimsoll_model::recording::model::Host;
use plimsoll_model::recording::{Recommendation, RecommendationCode, Withheld, WithheldCode, Worth};
use plimsoll_model::scenario::{FillClass, Subject, WorkloadKind};

const SETTING: &str = "zram-size";
/// The share of RAM that the compressed pages of a full device may take.
const SHARE: f64 = 0.5;
/// Ratio below which zram saves too little for its CPU time.
const SAVES_LITTLE: f64 = 1.3;
const RATIO: Measure = Measure {
    metric: STORED_RATIO,
    noun: "saving of RAM",
};

/// A size for each class of data, of the recommended zram subject or, without one, of the one that compresses least.
pub(super) fn advise(
    measured: &[Measurement<'_>],
    host: &Host,
    swaps: &[Recommendation],
) -> Vec<Result<Recommendation, Withheld>> {
    let mut compressed: Vec<Stratum<'_>> = strata(measured, "subject", by_subject);
    for stratum in &mut compressed {
        stratum
            .candidates
            .retain(|candidate| algorithm(&candidate.name).is_some());
    }
    compressed.retain(|stratum| measures_ratio(stratum.workload) && !stratum.candidates.is_empty());
    let real = |stratum: &Stratum<'_>| stratum.class.is_some_and(stands_for_data);
    let any_real = compressed.iter().any(real);
    let advised = compressed.iter().filter_map(|stratum| {
        let found = match real(stratum) {
            true => of_stratum(stratum, host, swaps),
            false if any_real => return None,
            false => Err(made_up(stratum)),
        };
        Some(found.map_err(|lack| withheld(SETTING, "a zram size", stratum.workload, &lack)))
    });
    advised.collect()
}

/// Whether the ratio is a metric of this workload.
fn measures_ratio(workload: WorkloadKind) -> bool {
    let mut known = metrics_of(workload).iter();
    known.any(|metric| metric.name == RATIO.metric)
}

/// Whether the size is that of the device of a recommended swap subject.
pub(super) fn is_of(size: &Recommendation, swap: &Recommendation) -> bool {
    let mut conditions = size.conditions.clone();
    let subject = conditions.remove("subject");
    size.workload == swap.workload && conditions == swap.conditions && subject.as_ref() == Some(&swap.value)
}

/// The algorithm of a zram subject, by its name; `None` of another subject.
fn algorithm(name: &str) -> Option<Option<String>> {
    match name.parse() {
        Ok(Subject::Zram(algorithm)) => Some(algorithm),
        _ => None,
    }
}

fn of_stratum(stratum: &Stratum<'_>, host: &Host, swaps: &[Recommendation]) -> Result<Recommendation, Lack> {
    if host.mem_total == 0 {
        return Err(Lack {
            code: WithheldCode::NotMeasured,
            text: "the recording lacks the RAM of the machine".to_owned(),
        });
    }
    let chosen = swaps
        .iter()
        .find(|swap| swap.conditions == stratum.conditions && swap.workload == stratum.workload.name())
        .and_then(|swap| {
            stratum
                .candidates
                .iter()
                .find(|candidate| candidate.name == swap.value)
        });
    let (candidate, summary) = match chosen {
        Some(candidate) => (candidate, ratio(candidate)?),
        None => least(&stratum.candidates)?,
    };
    if summary.interval.low < SAVES_LITTLE {
        return Err(Lack {
            code: WithheldCode::NoGain,
            text: format!(
                "{} stores the data {}:1, and below {SAVES_LITTLE}:1 zram saves little",
                candidate.name,
                significant(summary.median)
            ),
        });
    }
    let mut size = recommendation(stratum, candidate, &summary, host);
    if chosen.is_none() && stratum.candidates.len() > 1 {
        size.premises.push(format!(
            "It is no choice of an algorithm: of those of the run, {} compresses least.",
            candidate.name
        ));
    }
    Ok(size)
}

/// The ratio of a candidate with its interval.
fn ratio(candidate: &Candidate<'_>) -> Result<Summary, Lack> {
    let repeats = candidate.repeats(RATIO.metric);
    if let Some(lack) = lack(&candidate.name, &repeats, RATIO, MIN_FOR_INTERVAL) {
        return Err(lack);
    }
    let seed = xxh3_64(format!("{}/{}", RATIO.metric, candidate.name).as_bytes());
    let summary = summarise(&repeats.trustworthy, seed);
    let with_interval = summary.filter(|summary| summary.interval.kind == IntervalKind::Bootstrap95);
    with_interval.ok_or_else(|| Lack {
        code: WithheldCode::TooFewRepeats,
        text: "the repeats have no interval".to_owned(),
    })
}

/// The candidate with the lowest ratio, the careful choice; the first reason if none has one.
fn least<'a, 'b>(candidates: &'b [Candidate<'a>]) -> Result<(&'b Candidate<'a>, Summary), Lack> {
    let mut least: Option<(&Candidate<'_>, Summary)> = None;
    let mut missing = None;
    for candidate in candidates {
        match ratio(candidate) {
            Ok(summary) if least.is_none_or(|(_, known)| summary.median < known.median) => {
                least = Some((candidate, summary));
            }
            Ok(_) => {}
            Err(lack) => missing = missing.or(Some(lack)),
        }
    }
    least.ok_or_else(|| {
        missing.unwrap_or(Lack {
            code: WithheldCode::NotMeasured,
            text: "no zram subject ran".to_owned(),
        })
    })
}

fn recommendation(
    stratum: &Stratum<'_>,
    candidate: &Candidate<'_>,
    ratio: &Summary,
    host: &Host,
) -> Recommendation {
    let ram = host.mem_total as f64;
    let limit = (SHARE * ram) as u64 / MIB * MIB;
    // The careful end of the interval: the store of a full device stays within its share.
    let size = (SHARE * ram * ratio.interval.low) as u64 / MIB * MIB;
    let carried = |ratio: f64| 1.0 - SHARE + SHARE * ratio;
    let worth = Worth {
        median: carried(ratio.median),
        low: carried(ratio.interval.low),
        high: carried(ratio.interval.high),
    };
    let applied = commands::zram(algorithm(&candidate.name).flatten().as_deref(), size, limit);
    let [size_text, limit_text, ram_text] = [size, limit, host.mem_total].map(|size| bytes(size as f64));
    let mut conditions = stratum.conditions.clone();
    conditions.insert("subject".to_owned(), candidate.name.clone());
    Recommendation {
        code: RecommendationCode::ZramSize,
        setting: SETTING.to_owned(),
        value: size.to_string(),
        against: None,
        workload: stratum.workload.name().to_owned(),
        conditions,
        basis: RATIO.metric.to_owned(),
        repeats: ratio.n as u32,
        worth,
        text: format!(
            "Size a {} device at {size_text}: once full, memory of {} times the RAM fits ({} repeats).",
            candidate.name,
            interval(worth),
            ratio.n
        ),
        premises: premises(
            stratum,
            ratio,
            [&size_text, &limit_text, &ram_text],
            size > host.mem_total,
        )
        .into_iter()
        .chain(zram_before(host))
        .collect(),
        commands: applied.commands,
        persistent: applied.persistent,
    }
}

fn premises(stratum: &Stratum<'_>, ratio: &Summary, sizes: [&str; 3], beyond_ram: bool) -> Vec<String> {
    let [size, limit, ram] = sizes;
    let stored = interval(Worth {
        median: ratio.median,
        low: ratio.interval.low,
        high: ratio.interval.high,
    });
    let generated = match stratum.class {
        Some(FillClass::Ratio(_)) => {
            " They are generated: measure your own with `--set class=file=PATH` before you rely on it."
        }
        _ => "",
    };
    let more = if beyond_ram { ", more than there is" } else { "" };
    vec![
        format!(
            "{} The data are stored {stored}:1, the store's overhead included.{generated}",
            measured_with(stratum)
        ),
        format!("Half of the {ram} of RAM holds the compressed pages, the other half is left to work in."),
        format!(
            "Worst case: incompressible data in a full device would take {size} of RAM{more}. The commands therefore limit its \
             store to {limit}; beyond that, writes to the device fail, the pages stay in RAM, and the OOM killer acts when \
             RAM is full."
        ),
    ]
}
