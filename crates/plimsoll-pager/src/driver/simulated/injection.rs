//! Injected errors, and writes that race with moves: by chance, and counted by kind.

use std::collections::BTreeMap;

/// Injected errors, and writes that race with moves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Injection {
    /// Calls of 1000 that fail.
    pub(super) per_mille: u32,
    /// State of the random numbers: any number but 0.
    seed: u64,
    /// Errors so far, by kind.
    injected: BTreeMap<&'static str, u64>,
}

impl Injection {
    /// Fails `per_mille` of 1000 calls.
    pub(crate) fn new(per_mille: u32, seed: u64) -> Injection {
        Injection {
            per_mille,
            seed,
            injected: BTreeMap::new(),
        }
    }

    /// Changes the share of calls that fail.
    pub(crate) fn set(&mut self, per_mille: u32) {
        self.per_mille = per_mille;
    }

    /// Errors so far, by kind.
    pub(crate) fn injected(&self) -> &BTreeMap<&'static str, u64> {
        &self.injected
    }

    pub(crate) fn random(&mut self) -> u64 {
        let mut x = self.seed.max(1);
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.seed = x;
        x
    }

    /// One of `errors`, each with the name that counts it, or none.
    pub(crate) fn draw<E: Copy>(&mut self, errors: &[(&'static str, E)]) -> Option<E> {
        if self.per_mille == 0 || self.random() % 1000 >= u64::from(self.per_mille) {
            return None;
        }
        let (name, error) = errors[self.random() as usize % errors.len()];
        *self.injected.entry(name).or_default() += 1;
        Some(error)
    }
}
