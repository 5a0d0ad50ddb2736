//! The kinds of confounders, by the names that they have in documents.

/// A kind of disturbance outside the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ConfounderKind {
    Damon,
    Steal,
    OtherLoad,
    /// Swap devices of others took pages during a trial, or were turned on in it.
    OtherSwap,
    /// Pages of other cgroups were on the run's own swap device: its counters count them too.
    ForeignPages,
    /// The trimmed, the swapped and the original bytes of a trial disagree, so that at least one of them is wrong.
    InconsistentBytes,
    Zswap,
    Thp,
    PageReporting,
    CpuFrequency,
    Neighbour,
}

impl ConfounderKind {
    /// Every kind with its name.
    const NAMES: [(ConfounderKind, &'static str); 11] = [
        (ConfounderKind::Damon, "damon"),
        (ConfounderKind::Steal, "steal"),
        (ConfounderKind::OtherLoad, "other-load"),
        (ConfounderKind::OtherSwap, "other-swap"),
        (ConfounderKind::ForeignPages, "foreign-pages"),
        (ConfounderKind::InconsistentBytes, "inconsistent-bytes"),
        (ConfounderKind::Zswap, "zswap"),
        (ConfounderKind::Thp, "thp"),
        (ConfounderKind::PageReporting, "page-reporting"),
        (ConfounderKind::CpuFrequency, "cpu-frequency"),
        (ConfounderKind::Neighbour, "neighbour"),
    ];

    /// Its name in `results.json`.
    pub fn name(self) -> &'static str {
        let mut names = Self::NAMES.iter();
        names
            .find(|(kind, _)| *kind == self)
            .map_or("", |(_, name)| *name)
    }

    /// The kind of this name; `None` for a kind of another version.
    pub fn of_name(name: &str) -> Option<ConfounderKind> {
        let mut names = Self::NAMES.iter();
        names.find(|(_, known)| *known == name).map(|(kind, _)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_of_its_own() {
        for (kind, name) in ConfounderKind::NAMES {
            assert_eq!((kind.name(), ConfounderKind::of_name(name)), (name, Some(kind)));
        }
        assert_eq!(ConfounderKind::of_name("of-another-version"), None);
    }
}
