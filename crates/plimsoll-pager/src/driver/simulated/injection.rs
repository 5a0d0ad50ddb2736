//! Injected errors, and writes that race with moves: by chance, and counted by kind.

use std::collections::BTreeMap;

use plimsoll_os::Errno;

use super::{Simulated, State};
use crate::page::PageIndex;

/// Injected errors, and writes that race with moves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Injection {
    /// Calls of 1000 that fail.
    pub(super) per_mille: u32,
    /// State of the random numbers: any number but 0.
    seed: u64,
    /// Errors so far, by kind.
    injected: BTreeMap<&'static str, u64>,
    /// The error of all copies, if they fail.
    copies: Option<Errno>,
}

impl Injection {
    /// Fails `per_mille` of 1000 calls.
    pub(crate) fn new(per_mille: u32, seed: u64) -> Injection {
        Injection {
            per_mille,
            seed,
            injected: BTreeMap::new(),
            copies: None,
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

impl Simulated {
    /// Has all copies to absent pages fail, or none.
    pub(crate) fn refuse_copies(&self, errno: Option<Errno>) {
        self.state().injection.copies = errno;
    }
}

impl State {
    /// The error of a copy to a page of the arena, if there is one.
    pub(super) fn refuse_copy(&mut self, page: PageIndex) -> Option<Errno> {
        let errors = [
            ("ENOMEM of a copy", Errno::NOMEM),
            ("EAGAIN of a copy", Errno::AGAIN),
            ("EFAULT of a copy", Errno::FAULT),
            ("EEXIST of a copy to an absent page", Errno::EXIST),
        ];
        let is_present = self.arena[page.index()];
        let injected = self
            .injection
            .draw(&errors[..errors.len() - usize::from(is_present)]);
        if is_present {
            return injected.or(Some(Errno::EXIST));
        }
        if self.injection.copies.is_some() {
            return self.injection.copies;
        }
        if injected == Some(Errno::EXIST) {
            self.ghosts.entry(page).or_default();
        }
        if injected.is_some() {
            return injected;
        }
        let more = self.ghosts.get_mut(&page)?;
        match more.checked_sub(1) {
            Some(rest) => {
                *more = rest;
                Some(Errno::EXIST)
            }
            None => {
                self.ghosts.remove(&page);
                None
            }
        }
    }
}
