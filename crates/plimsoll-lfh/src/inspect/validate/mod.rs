//! Walks over units, blocks and slots of heaps, and checks that their data are consistent. It does not check the heads
//! of lists: of the back end's bins and the purge, of Standard and of buckets, and the shelves and rows of cached runs.
//!
//! The program runs meanwhile. So a walk looks again at a suspected fault at once, some times. If faults stay, a second
//! walk a tenth of a second later looks at everything again, and judges those that the first one found: it looks at them
//! several times over another tenth of a second, until it has waited for a second in all. Only a fault that stays the
//! same all the time is damage. Changing data count as moved.
//!
//! Invariant: however many data change, the walks repeat at most [`again_allowed`] looks, but for the last thing that they
//! look at. Checked by `a_heap_that_always_changes_is_checked_in_part`.
//!
//! Invariant: however many data change, the walks wait for [`PAUSE_MS`] and [`MOST_WAITED_MS`] and one fault's pauses at
//! most. Checked by `a_busy_heap_is_not_waited_for`.

mod damage;
mod evidence;
mod hardened;
mod locks;
mod runs;
mod slots;
mod standard;
mod subsegments;

use core::sync::atomic::AtomicU32;
use core::time::Duration;

use plimsoll_os::futex_wait;

pub use self::damage::{Damage, Fault};
use super::memory::{Memory, MemoryError};
use super::space::Space;

/// Further looks at a suspected fault at once: data that change are consistent at one of them, almost always.
const LOOKS_AT_ONCE: u32 = 8;

/// Milliseconds between the walks.
const PAUSE_MS: u64 = 100;

/// Milliseconds that the second walk waits in all. Later faults are judged by both walks' looks alone.
const MOST_WAITED_MS: u64 = 1000;

/// Milliseconds to wait before each further look at a fault in the second walk. Changes of more than one step happen under a
/// lock, and while that is held the walk does not judge: however long a thread is preempted in the middle of a change.
/// Heaps without locks, for one thread alone, have the time only.
const PAUSES_MS: [u64; 5] = [1, 2, 5, 20, 80];

/// How often something is looked at that cannot be read, before the walk ends.
const LOOKS_AT_UNREADABLE: u32 = 64;

/// A walk ends at so many damages: a reader does not read more.
pub const MOST_DAMAGES: u64 = 256;

/// Counts of a walk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Validation {
    /// Units looked at.
    pub units: u64,
    /// Free blocks looked at, in lists of subsegments and in runs of the Standard front end.
    pub free_blocks: u64,
    /// Free blocks looked at in slots.
    pub cached_blocks: u64,
    /// Blocks in use of hardened heaps whose canary was looked at.
    pub guarded_blocks: u64,
    /// Blocks looked at in the quarantine of hardened heaps.
    pub quarantined_blocks: u64,
    /// Things that changed whenever they were looked at, and could not be judged.
    pub moved: u64,
    /// Damages, at most [`MOST_DAMAGES`].
    pub damaged: u64,
    /// Whether the walk ended at that many damages, before it had looked at everything.
    pub stopped: bool,
    /// Units that the heaps have.
    pub all_units: u64,
    /// Whether the walk ended early, as too much changed whenever it was looked at: at most [`again_allowed`] looks are
    /// repeated. The other units and slots, and what it looked at last, have no verdict.
    pub cut_short: bool,
}

/// Looks that a validation of so many units may repeat, in both walks together.
///
/// A heap in use needs few: almost everything is consistent at one of the first looks. A repeated look reads a bounded
/// part of the heap, so that a validation takes at most a time in proportion to the heap, however busy the program is.
pub const fn again_allowed(units: u64) -> u64 {
    (1 << 16) + 4 * units
}

/// Walks over all heaps of `space` and calls `tell` with each damage.
///
/// # Errors
/// [`MemoryError`] if the memory cannot be read any more; `tell` has the findings until then.
pub fn validate<M: Memory>(
    space: &Space<'_, M>,
    tell: &mut dyn FnMut(Damage),
) -> Result<Validation, MemoryError> {
    let mut walk = Walk::new(space, tell, sleep);
    walk.validate()?;
    Ok(walk.seen)
}

/// Faults that the first walk found, at most as many as the second one reports.
struct Suspects {
    found: [Option<Damage>; MOST_DAMAGES as usize],
    count: usize,
}

impl Suspects {
    fn add(&mut self, damage: Damage) {
        if let Some(free) = self.found.get_mut(self.count) {
            *free = Some(damage);
            self.count += 1;
        }
    }

    fn has(&self, damage: &Damage) -> bool {
        self.found[..self.count].contains(&Some(*damage))
    }
}

/// A walk under way.
struct Walk<'w, 'm, M> {
    space: &'w Space<'m, M>,
    tell: &'w mut dyn FnMut(Damage),
    seen: Validation,
    suspects: Suspects,
    /// Whether it is the second walk, which judges the suspects.
    judges: bool,
    /// Milliseconds that the second walk waited.
    waited_ms: u64,
    sleep: fn(Duration),
}

impl<'w, 'm, M: Memory> Walk<'w, 'm, M> {
    fn new(space: &'w Space<'m, M>, tell: &'w mut dyn FnMut(Damage), sleep: fn(Duration)) -> Walk<'w, 'm, M> {
        Walk {
            space,
            tell,
            seen: Validation::default(),
            suspects: Suspects {
                found: [None; MOST_DAMAGES as usize],
                count: 0,
            },
            judges: false,
            waited_ms: 0,
            sleep,
        }
    }

    fn validate(&mut self) -> Result<(), MemoryError> {
        self.seen.all_units = self.space.units();
        self.runs()?;
        self.slots()?;
        if self.suspects.count > 0 && !self.seen.cut_short {
            (self.sleep)(Duration::from_millis(PAUSE_MS));
            self.space.refresh();
            self.seen = Validation {
                all_units: self.seen.all_units,
                ..Validation::default()
            };
            self.judges = true;
            self.runs()?;
            self.slots()?;
        }
        Ok(())
    }

    /// Whether the walk is to end before it has looked at everything.
    fn is_over(&self) -> bool {
        self.seen.stopped || self.seen.cut_short
    }

    /// Whether no look may be repeated any more: then the walk ends.
    fn is_spent(&mut self) -> bool {
        self.seen.cut_short |= self.space.looks_again() >= again_allowed(self.seen.all_units);
        self.seen.cut_short
    }

    /// Calls `tell` with the fault of `look`, if it is the same at each look of both walks. Returns whether there is no
    /// fault. Does not look if the walk is to end, and ends it when too many looks were repeated.
    fn judge<E: PartialEq>(
        &mut self,
        mut look: impl FnMut(&Space<'m, M>) -> Result<Option<(Damage, E)>, MemoryError>,
    ) -> Result<bool, MemoryError> {
        if self.is_over() {
            return Ok(true);
        }
        let space = self.space;
        let mut look = || while_it_is_there(|| space.refresh(), || look(space));
        let Some(mut last) = look()? else {
            return Ok(true);
        };
        let mut changed = false;
        for _ in 0..LOOKS_AT_ONCE {
            if self.is_spent() {
                return Ok(true);
            }
            space.refresh();
            let Some(now) = look()? else {
                return Ok(true);
            };
            changed |= now != last || space.is_locked(&now.0)?;
            last = now;
        }
        if !changed && !self.judges {
            self.suspects.add(last.0);
            return Ok(false);
        }
        changed |= !self.suspects.has(&last.0);
        for pause in PAUSES_MS {
            if changed || self.waited_ms >= MOST_WAITED_MS {
                break;
            }
            if self.is_spent() {
                return Ok(true);
            }
            (self.sleep)(Duration::from_millis(pause));
            self.waited_ms += pause;
            space.refresh();
            let Some(now) = look()? else {
                return Ok(true);
            };
            changed |= now != last || space.is_locked(&now.0)?;
            last = now;
        }
        if changed {
            self.seen.moved += 1;
        } else {
            self.seen.damaged += 1;
            self.seen.stopped = self.seen.damaged == MOST_DAMAGES;
            (self.tell)(last.0);
        }
        Ok(false)
    }
}

/// The result of `look`, if it can read its data: a run that ends meanwhile may make way for the guard page of a block.
fn while_it_is_there<T>(
    refresh: impl Fn(),
    mut look: impl FnMut() -> Result<T, MemoryError>,
) -> Result<T, MemoryError> {
    for _ in 1..LOOKS_AT_UNREADABLE {
        match look() {
            Err(MemoryError::Unreadable { .. }) => refresh(),
            looked => return looked,
        }
    }
    look()
}

fn sleep(time: Duration) {
    // No thread wakes this one: the timeout ends the wait.
    futex_wait(&AtomicU32::new(0), 0, Some(time));
}

#[cfg(test)]
mod tests;
