//! The swap device that a run supports, among those that it compared.

use super::candidates::{Candidate, Measurement, Stratum, by_subject, stands_for_data, strata};
use super::commands::{self, Applied, MIB};
use super::ranking::{Field, Lack, Ranking};
use super::wording::{measured_with, noun_is, withheld, zram_before};
use crate::workloads;
use crate::workloads::criteria::{Criteria, Measure};
use plimsoll_model::quantity::{bytes, significant};
use plimsoll_model::recording::model::Host;
use plimsoll_model::recording::{Recommendation, RecommendationCode, Withheld, WithheldCode, Worth};
use plimsoll_model::scenario::Subject;

/// The setting, as recommendations name it.
pub(super) const SETTING: &str = "swap";

/// A recommendation, or the reason for none, for each set of conditions under which several subjects ran. Without
/// commands: see [`apply`].
pub(super) fn advise(measured: &[Measurement<'_>]) -> Vec<Result<Recommendation, Withheld>> {
    let mut compared: Vec<(Stratum<'_>, &Criteria)> = Vec::new();
    for mut stratum in strata(measured, "subject", by_subject) {
        let Some(criteria) = workloads::of(stratum.workload).criteria else {
            continue;
        };
        if !criteria.all_subjects {
            stratum
                .candidates
                .retain(|candidate| is_compressed(&candidate.name));
        }
        if stratum.candidates.len() + stratum.failed.len() > 1 && !stratum.candidates.is_empty() {
            compared.push((stratum, criteria));
        }
    }
    let real = |stratum: &Stratum<'_>| stratum.class.is_some_and(stands_for_data);
    let any_real = |workload| {
        compared
            .iter()
            .any(|(other, _)| other.workload == workload && real(other))
    };
    let advised = compared.iter().filter_map(|(stratum, criteria)| {
        if real(stratum) {
            return Some(of_stratum(stratum, criteria).map_err(|lack| no_swap(stratum, &lack)));
        }
        // Where the data of another group stand for a program's, these need no word.
        (!any_real(stratum.workload)).then(|| Err(no_swap(stratum, &made_up(stratum))))
    });
    advised.collect()
}

fn is_compressed(name: &str) -> bool {
    name.parse()
        .is_ok_and(|subject: Subject| subject.has_compressed_swap())
}

fn no_swap(stratum: &Stratum<'_>, lack: &Lack) -> Withheld {
    withheld(SETTING, "a swap device", stratum.workload, lack)
}

/// The reason for no advice about data of this class.
pub(super) fn made_up(stratum: &Stratum<'_>) -> Lack {
    let class = stratum.class.map_or("none".to_owned(), ToString::to_string);
    Lack {
        code: WithheldCode::MadeUpData,
        text: format!(
            "data of the class {class} stand for no program's; measure your own with `--set class=file=PATH`, or data of a \
             known ratio with `--set class=ratio=2.5`"
        ),
    }
}

/// The chosen candidate, the metric that decided, and the candidate that it is compared with.
struct Choice {
    chosen: usize,
    by: Measure,
    repeats: usize,
    against: usize,
    worth: Worth,
    /// Candidates that the first metric does not separate from it.
    level: Vec<usize>,
}

fn of_stratum(stratum: &Stratum<'_>, criteria: &Criteria) -> Result<Recommendation, Lack> {
    let candidates = &stratum.candidates;
    if let [only] = &candidates[..] {
        return Err(Lack {
            code: WithheldCode::NotMeasured,
            text: format!(
                "all trials but those with {} failed ({}); the notes and tables have the causes",
                only.name,
                stratum.failed.join(", ")
            ),
        });
    }
    let choice = choose(candidates, criteria)?;
    let name = &candidates[choice.chosen].name;
    let subject: Subject = name.parse().map_err(|_| Lack {
        code: WithheldCode::Other,
        text: format!("this version does not know the best subject, {name}"),
    })?;
    if subject == Subject::NoSwap {
        return Err(Lack {
            code: WithheldCode::NoGain,
            text: format!(
                "no subject has a better {} than no swap; without swap the OOM killer acts at the limit",
                choice.by.noun
            ),
        });
    }
    let against = &candidates[choice.against].name;
    Ok(Recommendation {
        code: RecommendationCode::SwapSubject,
        setting: SETTING.to_owned(),
        value: name.clone(),
        against: Some(against.clone()),
        workload: stratum.workload.name().to_owned(),
        conditions: stratum.conditions.clone(),
        basis: choice.by.metric.to_owned(),
        repeats: choice.repeats as u32,
        worth: choice.worth,
        text: format!(
            "Swap to {name}: {} that of {against} ({} repeats).",
            noun_is("its ", choice.by, choice.worth),
            choice.repeats
        ),
        premises: premises(stratum, criteria, &choice),
        commands: Vec::new(),
        persistent: None,
    })
}

/// The best by the first metric or, of several that it does not separate, by the second.
fn choose(candidates: &[Candidate<'_>], criteria: &Criteria) -> Result<Choice, Lack> {
    let all: Vec<usize> = (0..candidates.len()).collect();
    let first = Field::of(candidates, criteria.first)?;
    let nothing = || Lack {
        code: WithheldCode::NotSeparated,
        text: "the run has no candidates".to_owned(),
    };
    let ranking = first.rank(&all).ok_or_else(nothing)?;
    let choice = match ranking.level.is_empty() {
        true => decided(&first, criteria.first, &ranking, Vec::new()),
        false => by_second(candidates, criteria, &first, &ranking)?,
    };
    let choice = choice.ok_or_else(nothing)?;
    if criteria.opposing {
        not_opposed(candidates, criteria, &all, &choice)?;
    }
    Ok(choice)
}

fn decided(field: &Field, by: Measure, ranking: &Ranking, level: Vec<usize>) -> Option<Choice> {
    let (against, worth) = field.next(ranking)?;
    let ranked = ranking.behind.iter().map(|(place, _)| *place);
    let repeats = ranked.chain([ranking.best]).map(|place| field.repeats(place));
    Some(Choice {
        chosen: ranking.best,
        by,
        repeats: repeats.min()?,
        against,
        worth,
        level,
    })
}

/// The best by the second metric among those that the first does not separate from its best.
fn by_second(
    candidates: &[Candidate<'_>],
    criteria: &Criteria,
    first: &Field,
    ranking: &Ranking,
) -> Result<Option<Choice>, Lack> {
    let mut top = ranking.level.clone();
    top.push(ranking.best);
    top.sort_unstable();
    let unclear = || not_separated(candidates, criteria, first, ranking, &top);
    let second = Field::of(candidates, criteria.second).map_err(|_| unclear())?;
    let among = second.rank(&top).ok_or_else(unclear)?;
    if !among.level.is_empty() {
        return Err(unclear());
    }
    let mut choice = decided(&second, criteria.second, &among, top.clone());
    if let Some(choice) = &mut choice {
        choice.level.retain(|place| *place != among.best);
    }
    Ok(choice)
}

fn not_separated(
    candidates: &[Candidate<'_>],
    criteria: &Criteria,
    first: &Field,
    ranking: &Ranking,
    top: &[usize],
) -> Lack {
    let names: Vec<&str> = top.iter().map(|&place| candidates[place].name.as_str()).collect();
    let medians = top.iter().map(|&place| first.median(place));
    let medians: Vec<String> = medians.map(significant).collect();
    let n = top
        .iter()
        .map(|&place| first.repeats(place))
        .min()
        .unwrap_or_default();
    let better = first.next(ranking).map_or(String::new(), |(next, _)| {
        format!(
            "; each of the best has a better one than {}",
            candidates[next].name
        )
    });
    // Only those that are certainly worse than all of the best are behind.
    let better = match top.iter().all(|&one| {
        let behind: Vec<usize> = ranking.behind.iter().map(|(place, _)| *place).collect();
        let pairs = first.against(one, &behind);
        pairs.len() == behind.len() && pairs.iter().all(|(_, pair)| pair.is_better(first.direction()))
    }) {
        true => better,
        false => String::new(),
    };
    Lack {
        code: WithheldCode::NotSeparated,
        text: format!(
            "{n} repeats do not separate {} by the {} (medians {}) or the {}{better}; `--repeat {}` may",
            names.join(" and "),
            criteria.first.noun,
            medians.join(" and "),
            criteria.second.noun,
            2 * n
        ),
    }
}

/// Checks that no other candidate is better by the second metric.
fn not_opposed(
    candidates: &[Candidate<'_>],
    criteria: &Criteria,
    all: &[usize],
    choice: &Choice,
) -> Result<(), Lack> {
    let second = Field::of(candidates, criteria.second)?;
    let others = all.iter().copied().filter(|&place| place != choice.chosen);
    for other in others {
        let pair = second.against(other, &[choice.chosen]);
        let Some((_, pair)) = pair
            .first()
            .filter(|(_, pair)| pair.is_better(second.direction()))
        else {
            continue;
        };
        let (best, faster) = (&candidates[choice.chosen].name, &candidates[other].name);
        return Err(Lack {
            code: WithheldCode::TradeOff,
            text: format!(
                "{best} has the best {}, but {} that of {best}; choose by what your service lacks",
                choice.by.noun,
                noun_is(&format!("the {faster} "), criteria.second, pair.worth),
            ),
        });
    }
    Ok(())
}

fn premises(stratum: &Stratum<'_>, criteria: &Criteria, choice: &Choice) -> Vec<String> {
    let mut premises = vec![measured_with(stratum)];
    if !choice.level.is_empty() {
        let level = choice
            .level
            .iter()
            .map(|&place| stratum.candidates[place].name.as_str());
        premises.push(format!(
            "The {} does not separate it from {}: the second criterion decides.",
            criteria.first.noun,
            level.collect::<Vec<_>>().join(" and ")
        ));
    }
    if !stratum.failed.is_empty() {
        premises.push(format!(
            "Not ranked, as all their trials failed: {}.",
            stratum.failed.join(", ")
        ));
    }
    let limit = Some(criteria.limit).filter(|limit| !limit.is_empty());
    premises.extend(limit.map(str::to_owned));
    premises
}

/// Adds the commands of a recommended subject, with their premise. The size of zram is one that no data can make unsafe;
/// of a measured size, [`super::size`] knows better.
pub(super) fn apply(recommendation: &mut Recommendation, host: &Host) {
    let Ok(subject) = recommendation.value.parse() else {
        return;
    };
    let (applied, premises) = applied(&subject, host);
    recommendation.commands = applied.commands;
    recommendation.persistent = applied.persistent;
    recommendation.premises.extend(premises);
}

/// The way to a subject on this machine, with its premises.
fn applied(subject: &Subject, host: &Host) -> (Applied, Vec<String>) {
    match subject {
        Subject::Zram(algorithm) => {
            let half = host.mem_total / 2 / MIB * MIB;
            let size = format!(
                "The commands give the device half of the RAM ({}), which even incompressible data do not exceed.",
                bytes(half as f64)
            );
            let premises = [size].into_iter().chain(zram_before(host)).collect();
            (commands::zram(algorithm.as_deref(), half, half), premises)
        }
        Subject::Zswap(compressor) => {
            let premise = "zswap needs a swap file or partition behind it.".to_owned();
            (commands::zswap(compressor.as_deref()), vec![premise])
        }
        Subject::SwapFile => match on_disk(host) {
            Some(device) => {
                let premise = format!("The machine swaps to {device} already: it needs no command.");
                (Applied::default(), vec![premise])
            }
            None => {
                let premise = "SIZE is the memory above the RAM in the worst case. Btrfs needs `btrfs filesystem \
                               mkswapfile` instead.";
                (commands::swap_file(), vec![premise.to_owned()])
            }
        },
        Subject::NoSwap | Subject::Pager(_) | Subject::Allocator(_) => (Applied::default(), Vec::new()),
    }
}

/// A swap device that the machine had before the run, other than zram.
fn on_disk(host: &Host) -> Option<&str> {
    let mut devices = host.swap_before.iter().map(|(device, _)| device.as_str());
    devices.find(|device| !device.contains("zram"))
}
