//! The loads of a trial: given, or searched; and the size and the limit of each.

use super::{CARRIED, Criterion, Loadline, SERVED};
use crate::scenario::assignment::PAGE;
use crate::scenario::size::size_text;

/// The lowest load of a search, which fits easily.
const LOWEST: f64 = 0.5;
impl Loadline {
    /// The loads to measure and no others, ascending; empty where the load line is searched.
    pub fn given_loads(&self) -> Vec<f64> {
        match (self.working_set, self.limits.as_slice()) {
            (Some(size), limits @ [_, ..]) => {
                limits.iter().map(|limit| size as f64 / *limit as f64).collect()
            }
            _ => self.loads.clone(),
        }
    }

    /// The loads that a search measures first, over the whole axis.
    pub fn coarse_loads(&self) -> impl Iterator<Item = f64> + use<> {
        const COARSE: [f64; 9] = [LOWEST, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0];
        let most = self.max_load;
        COARSE.into_iter().filter(move |load| *load < most).chain([most])
    }

    /// About the loads of a trial: the given ones; or the coarse ones, and six around each knee, which is taken to be at
    /// 1.5.
    pub(super) fn usual_loads(&self) -> impl Iterator<Item = f64> + use<> {
        let given = self.given_loads();
        let searched = match given.as_slice() {
            [] => 6 * self.criteria().count(),
            _ => 0,
        };
        let coarse = given
            .is_empty()
            .then(|| self.coarse_loads())
            .into_iter()
            .flatten();
        let around = std::iter::repeat_n(self.max_load.min(1.5), searched);
        given.into_iter().chain(coarse).chain(around)
    }

    pub(super) fn highest_load(&self) -> f64 {
        self.given_loads().last().copied().unwrap_or(self.max_load)
    }

    /// The bytes to visit at a load, and the limit of the cgroup at it; `limit` is the one of the settings.
    pub fn size_and_limit(&self, load: f64, limit: u64) -> (u64, u64) {
        match self.working_set {
            Some(size) => (size, Loadline::limit_at(size, load)),
            None => ((limit as f64 * load) as u64 / PAGE * PAGE, limit),
        }
    }

    /// The limit under which `size` bytes are a load, in whole pages. Returns the limit that a load was made from.
    pub(super) fn limit_at(size: u64, load: f64) -> u64 {
        // A float holds any size closely enough here: half a page is more than its error up to 2^60 bytes.
        ((size as f64 / load / PAGE as f64).round() as u64).max(1) * PAGE
    }

    /// The largest limit of a search, or of the given loads, with a working set of `size` bytes.
    pub(super) fn largest_limit(size: u64, loads: impl Iterator<Item = f64>) -> u64 {
        Loadline::limit_at(size, loads.reduce(f64::min).unwrap_or(LOWEST))
    }

    /// Bytes of the largest load.
    pub(super) fn largest(limit: u64, load: f64) -> u64 {
        // A float holds any size closely enough here: the load is a number with a few digits.
        (limit as f64 * load) as u64
    }

    /// The name of the measurement at a load.
    pub fn phase(&self, load: f64) -> String {
        match (self.working_set, self.limits.as_slice()) {
            (Some(size), [_, ..]) => format!("limit {}", size_text(Loadline::limit_at(size, load))),
            _ => format!("load {load}"),
        }
    }

    /// The criteria of a load that is carried, that of useful work first.
    pub fn criteria(&self) -> impl Iterator<Item = Criterion> + use<> {
        let p99 = self.target_p99.map(Criterion::P99);
        [Criterion::Work(self.target_work)].into_iter().chain(p99)
    }

    /// The share of useful work where the scenario does not say.
    pub(super) fn usual_target_work(&self) -> f64 {
        Loadline::usual_share(self.rate.is_some())
    }

    pub(super) fn usual_share(has_rate: bool) -> f64 {
        if has_rate { SERVED } else { CARRIED }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_limit_is_found_again_from_its_load(size in 1u64..1 << 28, limit in 1u64..1 << 28) {
            let (size, limit) = (size * PAGE, limit * PAGE);
            prop_assert_eq!(Loadline::limit_at(size, size as f64 / limit as f64), limit);
        }
    }
}
