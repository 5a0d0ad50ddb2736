//! Room for saved copies: those that were idle longest move to the page file.

use crate::backing::{Backing, Owners, Room, Spillable};
use crate::driver::Driver;
use crate::manager::{Manager, Patience};
use crate::page::{PageIndex, Place};

/// Bytes that one tick of the balance-set manager moves to the page file at most.
const MOST_SPILLED: u64 = 16 << 20;

/// Waits for a thread that spills, each of 50 us or longer but the first ones.
const MOST_WAITS: u32 = 100_000;

/// Bytes of copies that move together at once if no page file takes them.
const CLEANED_AT_ONCE: u64 = 1 << 20;

impl<D: Driver, B: Backing> Owners for Manager<D, B> {
    fn relocate(&self, owner: PageIndex, old: Place, new: Place) -> bool {
        Manager::relocate(self, owner, old, new)
    }

    fn names(&self, owner: PageIndex, place: Place) -> bool {
        owner.number() < self.extent() && self.table.word(owner).load().place() == Some(place)
    }
}

impl<D: Driver, B: Backing> Manager<D, B> {
    /// The most bytes of saved copies in RAM where there is a page file: three quarters of the budget, and the store's own
    /// limit.
    fn share_of_copies(&self, copies: &Spillable) -> u64 {
        let ram = self.budget.ram();
        copies.most.min(ram - ram / 4)
    }

    /// Bytes of copies above which they spill, and down to which, if there is a page file that takes them.
    fn spill_marks(&self) -> Option<(Spillable, u64, u64)> {
        let copies = self.backing.spillable()?;
        let share = self.share_of_copies(&copies);
        let spare = (share / 16).max(2 * copies.write);
        let marks = (share.saturating_sub(spare), share.saturating_sub(2 * spare));
        Some((copies, marks.0, marks.1))
    }

    /// Whether the store nears its limit, and a page file takes copies.
    pub(crate) fn wants_spill(&self) -> bool {
        self.spill_marks()
            .is_some_and(|(copies, high, _)| copies.used > high)
    }

    /// Moves copies to the page file if the store nears its limit. Bounded work.
    pub(crate) fn spill_idle(&self) {
        if let Some((copies, high, low)) = self.spill_marks()
            && copies.used > high
        {
            let excess = copies.used - low;
            self.backing.spill(excess.min(MOST_SPILLED), self);
        }
    }

    /// As [`Manager::make_room`]; if the page file takes none, or there is none, moves copies together.
    pub(crate) fn make_room_or_clean(&self) -> bool {
        self.make_room() || self.clean_store(CLEANED_AT_ONCE)
    }

    /// The store refuses pages: moves copies to the page file, or waits for the thread that does. Returns whether there is
    /// room now.
    pub(crate) fn make_room(&self) -> bool {
        let mut patience = Patience::default();
        while let Some(copies) = self.backing.spillable() {
            match self.backing.spill(copies.write, self) {
                Room::Made => return true,
                Room::None => return false,
                Room::Busy => patience.wait(),
                Room::Pending => {
                    self.wake_balancer();
                    patience.wait();
                }
            }
            let has_room = self.backing.spillable().is_some_and(|now| now.used < copies.used);
            if has_room || patience.waits() > MOST_WAITS {
                return has_room;
            }
        }
        false
    }
}
