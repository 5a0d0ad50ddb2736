//! Recommendations at the end of a run: which swap device, which size of zram, which settings of the kernel, and their
//! worth with its interval. Nothing applies them.
//!
//! ```text
//! groups + plan -> candidates (groups that differ in the subject, or in one setting, alone)
//!               -> ranking    (medians, intervals and tests of `compare`, over the trustworthy repeats)
//!               -> swap, size, setting (a recommendation with its commands, or the reason for none)
//! ```
//!
//! - Invariant: a recommendation has an interval, from trustworthy metrics of at least
//!   [`MIN_OF_EACH`](crate::analysis::statistics::MIN_OF_EACH) repeats of every candidate. Checked by
//!   `too_few_repeats_have_no_recommendation` and `an_untrustworthy_candidate_withholds_the_recommendation`.
//! - Invariant: the order of the trials changes no recommendation. Checked by `the_order_of_trials_changes_nothing`.

mod candidates;
mod commands;
mod ranking;
mod setting;
mod shown;
mod size;
mod swap;
#[cfg(test)]
mod tests;
mod wording;

use crate::analysis::Group;
use candidates::{Measurement, measurements};
use plimsoll_model::quantity::counted;
use plimsoll_model::recording::model::Manifest;
use plimsoll_model::recording::{Recommendation, Withheld};

pub(crate) use shown::{Shown, shown};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Advice {
    pub(crate) recommendations: Vec<Recommendation>,
    pub(crate) withheld: Vec<Withheld>,
}

impl Advice {
    fn add(&mut self, found: Result<Recommendation, Withheld>) {
        match found {
            Ok(recommendation) => self.recommendations.push(recommendation),
            Err(withheld) => self.withheld.push(withheld),
        }
    }
}

/// The advice of the groups of a run.
pub(crate) fn of(groups: &[Group], manifest: &Manifest) -> Advice {
    let host = &manifest.host;
    let measured: Vec<Measurement<'_>> = measurements(groups, &manifest.plan);
    let mut advice = Advice::default();
    for found in swap::advise(&measured) {
        advice.add(found);
    }
    let sizes = size::advise(&measured, host, &advice.recommendations);
    for swap in &mut advice.recommendations {
        let same_device = |size: &&Recommendation| size::is_of(size, swap);
        match sizes.iter().flatten().find(same_device) {
            Some(size) => {
                swap.commands.clone_from(&size.commands);
                swap.persistent.clone_from(&size.persistent);
            }
            None => swap::apply(swap, host),
        }
    }
    for found in sizes {
        advice.add(found);
    }
    for found in setting::advise(&measured, host) {
        advice.add(found);
    }
    advice.withheld = merged(advice.withheld);
    advice
}

/// One of each kind: the first, with the number of the others.
fn merged(all: Vec<Withheld>) -> Vec<Withheld> {
    let mut kept: Vec<(Withheld, usize)> = Vec::new();
    for one in all {
        let alike = |(other, _): &&mut (Withheld, usize)| {
            (other.code, &other.setting, &other.workload) == (one.code, &one.setting, &one.workload)
        };
        match kept.iter_mut().find(alike) {
            Some((first, more)) => *more += usize::from(first.text != one.text),
            None => kept.push((one, 0)),
        }
    }
    let merged = kept.into_iter().map(|(mut first, more)| {
        if more > 0 {
            first.text += &format!(
                " The same holds for {} of the run.",
                counted(more, "other combination")
            );
        }
        first
    });
    merged.collect()
}
