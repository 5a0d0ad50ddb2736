//! Settings of the kernel that a run swept, against the present value of the machine.

use super::candidates::{Candidate, Measurement, Split, Stratum, stands_for_data, strata};
use super::commands::{self, Applied};
use super::ranking::{Field, Lack, Pair};
use super::swap::made_up;
use super::wording::{interval, measured_with, noun_is, withheld};
use crate::workloads;
use crate::workloads::criteria::Measure;
use plimsoll_model::recording::model::Host;
use plimsoll_model::recording::{Recommendation, RecommendationCode, Withheld, WithheldCode, Worth};
use plimsoll_model::scenario::Settings;

/// A setting that a scenario can sweep.
struct Swept {
    /// Its key in a scenario.
    key: &'static str,
    /// The setting, as recommendations name it.
    name: &'static str,
    /// The file with the present value, as the recording of the machine names it.
    file: &'static str,
    split: Split,
    apply: fn(u32) -> Applied,
    /// The premise of every recommendation of it.
    premise: &'static str,
    /// Values below it are not safe.
    least: u32,
    /// Whether it chooses between anonymous memory and page cache, so that a workload must have both.
    needs_page_cache: bool,
}

const SWEPT: [Swept; 3] = [
    Swept {
        key: "swappiness",
        name: "vm.swappiness",
        file: "/proc/sys/vm/swappiness",
        split: |settings| {
            let shared = Settings {
                swappiness: None,
                ..settings.clone()
            };
            Some((text(settings.swappiness), shared))
        },
        apply: |value| commands::sysctl("vm.swappiness", value),
        premise: "It weighs anonymous memory against page cache: with another share of file pages, another device of \
                  either, or other data, another value may be better.",
        // With 0 a cgroup at its limit is not swapped out at all.
        least: 1,
        needs_page_cache: true,
    },
    Swept {
        key: "page-cluster",
        name: "vm.page-cluster",
        file: "/proc/sys/vm/page-cluster",
        split: |settings| {
            let shared = Settings {
                page_cluster: None,
                ..settings.clone()
            };
            Some((text(settings.page_cluster), shared))
        },
        apply: |value| commands::sysctl("vm.page-cluster", value),
        premise: "It holds for every swap device of the machine.",
        least: 0,
        needs_page_cache: false,
    },
    Swept {
        key: "zswap-pool-percent",
        name: "zswap.max_pool_percent",
        file: "/sys/module/zswap/parameters/max_pool_percent",
        split: |settings| {
            let shared = Settings {
                zswap_pool_percent: None,
                ..settings.clone()
            };
            Some((text(settings.zswap_pool_percent), shared))
        },
        apply: |value| commands::zswap_parameter("max_pool_percent", value),
        premise: "The pool grows to that share of the RAM.",
        least: 1,
        needs_page_cache: false,
    },
];

/// The name of the value that leaves the setting of the machine alone.
const PRESENT: &str = "system";

fn text(value: Option<u32>) -> String {
    value.map_or(PRESENT.to_owned(), |value| value.to_string())
}

/// A recommendation, or the reason for none, for each swept setting under each set of conditions.
pub(super) fn advise(measured: &[Measurement<'_>], host: &Host) -> Vec<Result<Recommendation, Withheld>> {
    let mut advised = Vec::new();
    for swept in &SWEPT {
        let swept_here: Vec<Stratum<'_>> = strata(measured, swept.key, swept.split)
            .into_iter()
            .filter(|stratum| stratum.candidates.len() > 1)
            .collect();
        for stratum in &swept_here {
            let Some(criteria) = workloads::of(stratum.workload).criteria else {
                continue;
            };
            let found = match stratum.class.is_some_and(stands_for_data) {
                _ if swept.needs_page_cache && !stratum.visits_file => Err(no_page_cache(stratum)),
                true => of_stratum(stratum, swept, criteria.setting, host),
                false => Err(made_up(stratum)),
            };
            advised.push(found.map_err(|lack| withheld(swept.name, swept.name, stratum.workload, &lack)));
        }
    }
    advised
}

fn of_stratum(
    stratum: &Stratum<'_>,
    swept: &Swept,
    by: Measure,
    host: &Host,
) -> Result<Recommendation, Lack> {
    let now = present_value(swept, host)?;
    let candidates = with_present(&stratum.candidates, now);
    let present = place_of_present(&candidates, swept, now)?;
    if candidates.len() == 1 {
        return Err(Lack {
            code: WithheldCode::NotMeasured,
            text: format!("every value of the run is {now}, the present one"),
        });
    }
    let field = Field::of(&candidates, by)?;
    let choice = choose(&candidates, &field, swept, by, (present, now))?;
    let repeats = field.repeats(choice.chosen).min(field.repeats(present));
    let mut premises = vec![measured_with(stratum), swept.premise.to_owned()];
    let level = choice.level.iter().map(|&place| candidates[place].name.as_str());
    let level: Vec<&str> = level.collect();
    if !level.is_empty() {
        premises.push(format!(
            "The run does not separate it from {}; it is the nearest to the present value.",
            level.join(" and ")
        ));
    }
    let applied = (swept.apply)(choice.value);
    Ok(Recommendation {
        code: RecommendationCode::KernelSetting,
        setting: swept.name.to_owned(),
        value: choice.value.to_string(),
        against: Some(now.to_string()),
        workload: stratum.workload.name().to_owned(),
        conditions: stratum.conditions.clone(),
        basis: by.metric.to_owned(),
        repeats: repeats as u32,
        worth: choice.worth,
        text: format!(
            "Set {} to {}: {} that with {now}, the present value ({repeats} repeats).",
            swept.name,
            choice.value,
            noun_is("the ", by, choice.worth)
        ),
        premises,
        commands: applied.commands,
        persistent: applied.persistent,
    })
}

/// The recommended value of a setting.
struct Choice {
    chosen: usize,
    value: u32,
    /// The metric with it over that with the present value.
    worth: Worth,
    /// Values that the run does not separate from it.
    level: Vec<usize>,
}

/// Of the safe values that are better than the present one, the best; of those that the run does not separate from it, the
/// nearest to the present one.
fn choose(
    candidates: &[Candidate<'_>],
    field: &Field,
    swept: &Swept,
    by: Measure,
    (present, now): (usize, u32),
) -> Result<Choice, Lack> {
    let others: Vec<usize> = (0..field.len()).filter(|&place| place != present).collect();
    let pairs = field.against_each(&others, present);
    let value_of = |place: usize| candidates[place].name.parse::<u32>().unwrap_or(now);
    let better = pairs.iter().filter(|(_, pair)| pair.is_better(field.direction()));
    let better: Vec<usize> = better.map(|(place, _)| *place).collect();
    if better.is_empty() {
        return Err(nothing_better(field, swept, by, &pairs, (present, now)));
    }
    let safe: Vec<usize> = better
        .into_iter()
        .filter(|&place| value_of(place) >= swept.least)
        .collect();
    let endangers = || Lack {
        code: WithheldCode::Unsafe,
        text: format!(
            "the best value of the run is below {}, with which a cgroup at its limit is not swapped out but killed; the \
             present value is {now}",
            swept.least
        ),
    };
    let ranking = field.rank(&safe).ok_or_else(endangers)?;
    let best = [ranking.best].into_iter().chain(ranking.level.iter().copied());
    let nearest = best.clone().min_by_key(|&place| value_of(place).abs_diff(now));
    let chosen = nearest.unwrap_or(ranking.best);
    let worth = pairs.iter().find(|(place, _)| *place == chosen);
    let (_, pair) = worth.ok_or_else(endangers)?;
    Ok(Choice {
        chosen,
        value: value_of(chosen),
        worth: pair.worth,
        level: best.filter(|&place| place != chosen).collect(),
    })
}

fn present_unknown(text: String) -> Lack {
    Lack {
        code: WithheldCode::PresentNotMeasured,
        text,
    }
}

/// The reason for no advice on a choice between anonymous memory and page cache without the latter.
fn no_page_cache(stratum: &Stratum<'_>) -> Lack {
    Lack {
        code: WithheldCode::NoPageCache,
        text: format!(
            "it weighs anonymous memory against page cache, and the workload {} of the run has no page cache; measure both \
             with `plimsoll run swappiness`",
            stratum.workload.name()
        ),
    }
}

/// The present value of the machine.
fn present_value(swept: &Swept, host: &Host) -> Result<u32, Lack> {
    let now = host.settings.get(swept.file).map(|value| value.trim().parse());
    match now {
        Some(Ok(now)) => Ok(now),
        Some(Err(_)) | None => Err(present_unknown(
            "the recording lacks the present value of the machine".to_owned(),
        )),
    }
}

/// The candidates, of which one that names the present value is the same as the one that leaves it alone.
fn with_present<'a>(candidates: &[Candidate<'a>], now: u32) -> Vec<Candidate<'a>> {
    let mut candidates = candidates.to_vec();
    let named = candidates
        .iter()
        .position(|candidate| candidate.name == now.to_string());
    if let Some(named) = named.filter(|_| candidates.iter().any(|candidate| candidate.name == PRESENT)) {
        let named = candidates.remove(named);
        let unnamed = candidates.iter_mut().find(|candidate| candidate.name == PRESENT);
        if let Some(unnamed) = unnamed {
            unnamed.groups.extend(named.groups);
        }
    }
    candidates
}

/// The place of the present value among the candidates.
fn place_of_present(candidates: &[Candidate<'_>], swept: &Swept, now: u32) -> Result<usize, Lack> {
    let of_name = |name: &str| candidates.iter().position(|candidate| candidate.name == name);
    let place = of_name(PRESENT).or_else(|| of_name(&now.to_string()));
    place.ok_or_else(|| {
        present_unknown(format!(
            "the run did not measure {now}, the present value; add \"{PRESENT}\" to the values of `{}`",
            swept.key
        ))
    })
}

/// The reason if no value is better than the present one.
fn nothing_better(
    field: &Field,
    swept: &Swept,
    by: Measure,
    pairs: &[(usize, Pair)],
    (present, now): (usize, u32),
) -> Lack {
    let others: Vec<usize> = pairs.iter().map(|(place, _)| *place).collect();
    let of_present = field.against(present, &others);
    let all_worse = of_present.len() == field.len() - 1
        && of_present
            .iter()
            .all(|(_, pair)| pair.is_better(field.direction()));
    if all_worse {
        return Lack {
            code: WithheldCode::PresentIsBest,
            text: format!(
                "{now}, the present value, is better than every other value of the run by the {}",
                by.noun
            ),
        };
    }
    let ratios = pairs.iter().map(|(_, pair)| interval(pair.worth));
    Lack {
        code: WithheldCode::NotSeparated,
        text: format!(
            "no value is certainly better than {now}, the present one: the {} is {} times that with {now}, and a value of \
             `{}` must gain 5%",
            by.noun,
            ratios.collect::<Vec<_>>().join(", "),
            swept.key
        ),
    }
}
