//! A pager with its regions and pins, by address and number.
#![allow(
    unsafe_code,
    reason = "pins, which borrow a region, beside their region; `discard` of memory that C uses"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plimsoll_pager::{Pager, PinGuard, RangeError, Region, Stats, TrimTo};

use crate::failure::Failure;

/// A pager of a C program. Regions and pins end with it.
pub struct Handle {
    /// Before the pager and its regions, which pins refer to.
    parts: Mutex<Parts>,
    pager: Pager,
}

#[derive(Default)]
struct Parts {
    pins: BTreeMap<u64, HeldPin>,
    next_pin: u64,
    /// By address.
    regions: BTreeMap<usize, Arc<Region>>,
}

/// A pin and the region that it refers to.
///
/// Invariant: `guard` borrows the region behind `region`, which does not move, and is dropped before it.
struct HeldPin {
    guard: PinGuard<'static>,
    region: Arc<Region>,
}

impl Handle {
    pub(crate) fn new(pager: Pager) -> Handle {
        Handle {
            parts: Mutex::default(),
            pager,
        }
    }

    pub(crate) fn map(&self, bytes: usize) -> Result<usize, Failure> {
        let region = self.pager.map(bytes)?;
        let address = region.as_ptr() as usize;
        self.parts()?.regions.insert(address, Arc::new(region));
        Ok(address)
    }

    pub(crate) fn unmap(&self, address: usize) -> Result<(), Failure> {
        let mut parts = self.parts()?;
        let region = parts.regions.get(&address).ok_or_else(|| no_region(address))?;
        if parts.pins.values().any(|pin| Arc::ptr_eq(&pin.region, region)) {
            return Err(Failure::invalid(format!(
                "cannot unmap the region at {address:#x}: a part of it is pinned; end the pin first"
            )));
        }
        let region = parts.regions.remove(&address);
        drop(parts);
        // The lock is free again while the region's pages are dropped.
        drop(region);
        Ok(())
    }

    pub(crate) fn trim(&self, address: usize, bytes: usize, to: TrimTo) -> Result<u32, Failure> {
        let (region, range) = self.range(address, bytes)?;
        Ok(region.trim(range, to)?)
    }

    pub(crate) fn prefetch(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        let (region, range) = self.range(address, bytes)?;
        Ok(region.prefetch(range)?)
    }

    pub(crate) fn discard(&self, address: usize, bytes: usize) -> Result<(), Failure> {
        let (region, range) = self.range(address, bytes)?;
        if region.is_pinned(range.clone())? {
            return Err(Failure::invalid(format!(
                "cannot discard {bytes} bytes at {address:#x}: a part of them is pinned; end the pin first"
            )));
        }
        // SAFETY: a C program has no references into its regions, and this crate makes none.
        Ok(unsafe { region.discard_unborrowed(range) }?)
    }

    pub(crate) fn reset(&self, address: usize, bytes: usize) -> Result<u32, Failure> {
        let (region, range) = self.range(address, bytes)?;
        // SAFETY: as in `discard`.
        Ok(unsafe { region.reset_unborrowed(range) }?)
    }

    pub(crate) fn set_priority(&self, address: usize, priority: u32) -> Result<(), Failure> {
        let priority = u8::try_from(priority)
            .ok()
            .filter(|priority| (1..=7).contains(priority));
        let priority = priority.ok_or_else(|| {
            Failure::invalid("cannot set the priority of a region: it is out of range; pass 1 to 7")
        })?;
        self.region(address)?.set_priority(priority);
        Ok(())
    }

    pub(crate) fn set_working_set(&self, address: usize, minimum: u64, maximum: u64) -> Result<(), Failure> {
        let region = self.region(address)?;
        if (minimum, maximum) == (0, 0) {
            region.end_working_set();
            return Ok(());
        }
        Ok(region.set_working_set(minimum, maximum)?)
    }

    pub(crate) fn suspend(&self, address: usize) -> Result<(), Failure> {
        self.region(address)?.suspend();
        Ok(())
    }

    pub(crate) fn resume(&self, address: usize) -> Result<(), Failure> {
        self.region(address)?.resume();
        Ok(())
    }

    pub(crate) fn serves_system_calls(&self) -> bool {
        self.pager.serves_system_calls()
    }

    pub(crate) fn pin(&self, address: usize, bytes: usize) -> Result<u64, Failure> {
        let (region, range) = self.range(address, bytes)?;
        let guard = region.pin(range)?;
        // SAFETY: the guard borrows the region behind the `Arc`, which `HeldPin` keeps longer than the guard.
        let guard = unsafe { std::mem::transmute::<PinGuard<'_>, PinGuard<'static>>(guard) };
        let mut parts = self.parts()?;
        let number = parts.next_pin;
        parts.next_pin += 1;
        parts.pins.insert(number, HeldPin { guard, region });
        Ok(number)
    }

    pub(crate) fn unpin(&self, pin: u64) -> Result<(), Failure> {
        let held = self.parts()?.pins.remove(&pin);
        let Some(HeldPin { guard, region }) = held else {
            return Err(Failure::invalid(format!(
                "cannot end pin {pin}: there is none of this number"
            )));
        };
        drop(guard);
        drop(region);
        Ok(())
    }

    pub(crate) fn set_ram(&self, bytes: u64) -> Result<(), Failure> {
        Ok(self.pager.set_ram(bytes)?)
    }

    pub(crate) fn stats(&self) -> Stats {
        self.pager.stats()
    }

    /// The region that has `address`, and the range in it.
    fn range(&self, address: usize, bytes: usize) -> Result<(Arc<Region>, Range<usize>), Failure> {
        let parts = self.parts()?;
        let before = parts.regions.range(..=address).next_back();
        let inside = before.filter(|(start, region)| address - *start < region.len());
        let (start, region) = inside.ok_or_else(|| no_region(address))?;
        let first = address - start;
        // A range beyond the end is an error of the region.
        Ok((region.clone(), first..first.saturating_add(bytes)))
    }

    /// The region that begins at `address`.
    fn region(&self, address: usize) -> Result<Arc<Region>, Failure> {
        let parts = self.parts()?;
        parts.regions.get(&address).cloned().ok_or_else(|| {
            Failure::invalid(format!(
                "cannot use {address:#x} as a region: none begins there; pass an address of plimsoll_pager_map()"
            ))
        })
    }

    /// A child of a fork has no regions, and the lock may have been held at the fork.
    fn parts(&self) -> Result<MutexGuard<'_, Parts>, Failure> {
        if self.pager.is_forked() {
            return Err(RangeError::Forked.into());
        }
        Ok(self.parts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn no_region(address: usize) -> Failure {
    Failure::invalid(format!(
        "cannot use the address {address:#x}: it is in no region of the pager"
    ))
}
