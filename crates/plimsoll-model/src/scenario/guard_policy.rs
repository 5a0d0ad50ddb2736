//! The policies of thrash control.

use serde::{Deserialize, Serialize};

use super::choice::{Choice, named};

/// How a guard holds processes back while they thrash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GuardPolicy {
    /// The best of the measured ones: `Relay`.
    Auto,
    /// Processes take turns one by one.
    Relay,
    /// Packs of processes that fit together take turns.
    Packs,
    /// One process is spared, the others lose pages.
    Token,
    /// The last active process waits for a while.
    FreezeLast,
    /// The largest process waits until the pressure is gone.
    SwapLargest,
    /// The cgroup whose processes need most gets little CPU time and memory until the pressure is gone.
    Throttle,
    /// A process is killed.
    Kill,
}

named! {
    GuardPolicy,
    "auto" = GuardPolicy::Auto,
    "relay" = GuardPolicy::Relay,
    "packs" = GuardPolicy::Packs,
    "token" = GuardPolicy::Token,
    "freeze-last" = GuardPolicy::FreezeLast,
    "swap-largest" = GuardPolicy::SwapLargest,
    "throttle" = GuardPolicy::Throttle,
    "kill" = GuardPolicy::Kill,
}

impl GuardPolicy {
    pub const ALL: [GuardPolicy; 8] = [
        GuardPolicy::Auto,
        GuardPolicy::Relay,
        GuardPolicy::Packs,
        GuardPolicy::Token,
        GuardPolicy::FreezeLast,
        GuardPolicy::SwapLargest,
        GuardPolicy::Throttle,
        GuardPolicy::Kill,
    ];
}

/// Values of a key for the guard of a trial. A trial ends with a consumer, so that no guard may kill one, and all consumers
/// are in one cgroup, so that there is none to throttle.
pub(super) const OF_TRIALS: &[&str] = &[
    "none",
    "auto",
    "relay",
    "packs",
    "token",
    "freeze-last",
    "swap-largest",
];

impl Choice for Option<GuardPolicy> {
    fn of_name(name: &str) -> Option<Self> {
        match name {
            "none" => Some(None),
            name => GuardPolicy::of_name(name).map(Some),
        }
    }
}

impl std::str::FromStr for GuardPolicy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<GuardPolicy, UnknownPolicy> {
        GuardPolicy::of_name(name).ok_or(UnknownPolicy)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a policy; give one of {}", GuardPolicy::NAMES.join(", "))]
pub struct UnknownPolicy;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_may_have_every_policy_but_those_for_several_cgroups_and_for_kills() {
        let of_trials = OF_TRIALS.iter().map(|name| Option::<GuardPolicy>::of_name(name));
        let expected = GuardPolicy::ALL
            .into_iter()
            .filter(|policy| !matches!(policy, GuardPolicy::Throttle | GuardPolicy::Kill));
        let expected: Vec<_> = expected.map(|policy| Some(Some(policy))).collect();
        assert_eq!(
            of_trials.collect::<Vec<_>>(),
            [vec![Some(None)], expected].concat()
        );
        assert!(
            GuardPolicy::ALL
                .iter()
                .all(|policy| policy.name().parse() == Ok(*policy))
        );
    }
}
