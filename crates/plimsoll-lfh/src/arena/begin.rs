//! The first call: the window's addresses, and its head.
#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use plimsoll_os::{Errno, futex_wait, futex_wake, page_size, random_word};

use super::directory::{Directory, LAYOUT, MAGIC};
use super::{
    BUCKET_TABLE, FIRST_UNIT, HELPER_END, HELPER_STACK, LEAST_WINDOW, RECORDS, SEGMENT, SEGMENTS, TABLE_STEP,
    UNIT_TABLE, UNITS, UNITS_END, WINDOW, window,
};
use crate::memory::{self, Access};
use crate::set_once::{NO_WINDOW, SET_ONCE};
use crate::settings;
use crate::unit::{UNIT, UnitIndex};

/// How far the first call is: the state machine is absent -> being made (by one thread) -> ready, or absent again
/// where there was no memory.
static STATE: AtomicU32 = AtomicU32::new(ABSENT);
const ABSENT: u32 = 0;
const BEING_MADE: u32 = 1;
const READY: u32 = 2;

/// Whether the window is there.
pub(crate) fn is_ready() -> bool {
    STATE.load(Ordering::Acquire) == READY
}

/// Makes the window if it is absent, and returns whether it exists. The thread that makes it runs `make_first` before
/// other threads see it.
#[inline]
pub(crate) fn prepare(make_first: fn() -> bool) -> bool {
    STATE.load(Ordering::Acquire) == READY || prepare_slowly(make_first)
}

#[cold]
fn prepare_slowly(make_first: fn() -> bool) -> bool {
    loop {
        match STATE.compare_exchange(ABSENT, BEING_MADE, Ordering::Acquire, Ordering::Acquire) {
            Ok(_) => {
                settings::read();
                let made = make() && make_first();
                STATE.store(if made { READY } else { ABSENT }, Ordering::Release);
                futex_wake(&STATE, i32::MAX as u32);
                return made;
            }
            Err(READY) => return true,
            Err(_) => futex_wait(&STATE, BEING_MADE, None),
        }
    }
}

/// Finds the window's address and makes the directory, unless an earlier call did and failed later.
fn make() -> bool {
    if window() != NO_WINDOW {
        return true;
    }
    let Some(place) = find_place() else {
        return false;
    };
    if !open_head(&place) {
        return false;
    }
    let Place {
        start,
        bytes,
        reserved,
    } = place;
    let addresses_only = reserved.is_none();
    if !addresses_only {
        memory::use_base_pages(start, bytes);
    }
    memory::keep(start, page_size());
    UNITS_END.store((bytes / UNIT) as UnitIndex, Ordering::Release);
    // SAFETY: the directory's page is accessible, and no other thread knows it.
    let directory = unsafe { &*(start as *const Directory) };
    let word = |at: usize| u64::from_ne_bytes(*MAGIC[at * 8..].first_chunk().expect("16 bytes"));
    let clock = u64::from(plimsoll_os::coarse_milliseconds());
    let key = random_word().unwrap_or((start as u64 ^ clock).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    directory.layout.store(LAYOUT, Ordering::Relaxed);
    directory.unit.store(UNIT as u32, Ordering::Relaxed);
    directory.window.store(start as u64, Ordering::Relaxed);
    directory.window_bytes.store(WINDOW as u64, Ordering::Relaxed);
    directory
        .units
        .store((start + UNIT_TABLE) as u64, Ordering::Relaxed);
    directory
        .segments
        .store((start + SEGMENTS) as u64, Ordering::Relaxed);
    directory
        .records
        .store((start + RECORDS) as u64, Ordering::Relaxed);
    directory.end.store(FIRST_UNIT, Ordering::Relaxed);
    directory
        .addresses_only
        .store(u32::from(addresses_only), Ordering::Relaxed);
    directory.key.store(key, Ordering::Relaxed);
    directory.magic[0].store(word(0), Ordering::Relaxed);
    directory.magic[1].store(word(1), Ordering::Release);
    SET_ONCE.window.store(start, Ordering::Release);
    true
}

/// Where the window can be; none if there is no room.
fn find_place() -> Option<Place> {
    if memory::is_managed() {
        return reserve();
    }
    let limited = memory::is_limited();
    (if limited { None } else { reserve() }).or_else(find_addresses)
}

/// Where the window is to be.
struct Place {
    start: usize,
    /// Its length.
    bytes: usize,
    /// The reservation around the window: start and bytes. None if the window is only addresses.
    reserved: Option<(usize, usize)>,
}

/// Makes the head of the window accessible. Without memory for it, nothing is left of the window.
fn open_head(place: &Place) -> bool {
    let only = place.reserved.is_none();
    let pieces = [
        (0, TABLE_STEP, Access::Write),
        (HELPER_END - HELPER_STACK, HELPER_END, Access::Write),
        (SEGMENTS, RECORDS, Access::Write),
        (BUCKET_TABLE, BUCKET_TABLE + UNITS, Access::Read),
    ]
    .map(|(from, to, access)| (place.start + from, to - from, access));
    // Of addresses alone the first piece is mapped already.
    let mut mapped = usize::from(only);
    for (start, length, access) in &pieces[mapped..] {
        // SAFETY: the range of `reserve` or `find_addresses` belongs to the one thread that makes the window.
        if unsafe { open_for(*start, *length, only, *access) }.is_err() {
            break;
        }
        mapped += 1;
    }
    if mapped == pieces.len() {
        return true;
    }
    let unmap = |start: usize, length: usize| {
        // SAFETY: as above; no other thread knows the window.
        unsafe { memory::release(start, length) };
    };
    match place.reserved {
        Some((start, length)) => unmap(start, length),
        None => pieces[..mapped]
            .iter()
            .for_each(|(start, length, _)| unmap(*start, *length)),
    }
    false
}

/// Reserves the window, with at least a page in front of it that stays inaccessible: the directory must be at the
/// start of its mapping.
fn reserve() -> Option<Place> {
    let bytes = memory::window_bytes(WINDOW) & !(SEGMENT - 1);
    if bytes < LEAST_WINDOW {
        return None;
    }
    let length = bytes + 2 * SEGMENT;
    let start = memory::reserve(length)?;
    Some(Place {
        start: (start + 1).next_multiple_of(SEGMENT),
        bytes,
        reserved: Some((start, length)),
    })
}

/// Finds a stretch of addresses far below those that the kernel assigns, and maps the directory there.
fn find_addresses() -> Option<Place> {
    let near = memory::map(page_size())?;
    // SAFETY: the page was mapped a moment ago, only to see where the kernel maps.
    unsafe { memory::release(near, page_size()) };
    (1..32usize).find_map(|distance| {
        let start = near.checked_sub(distance * 2 * WINDOW)? & !(SEGMENT - 1);
        map_piece(start, TABLE_STEP).ok()?;
        Some(Place {
            start,
            bytes: WINDOW,
            reserved: None,
        })
    })
}

/// Makes a range of the window readable and writable.
///
/// # Errors
/// [`Errno::EXIST`] if the window is only addresses and other mappings use some of them; otherwise there is no memory.
///
/// # Safety
/// The range is of the window, and not in use yet.
pub(super) unsafe fn open(start: usize, length: usize, addresses_only: bool) -> Result<(), Errno> {
    // SAFETY: the caller's premise.
    unsafe { open_for(start, length, addresses_only, Access::Write) }
}

/// As [`open`], for reads alone or for writes too.
///
/// # Safety
/// As for [`open`].
unsafe fn open_for(start: usize, length: usize, addresses_only: bool, access: Access) -> Result<(), Errno> {
    if addresses_only {
        return map_for(start, length, access);
    }
    // SAFETY: the caller's premise; the window is mapped.
    unsafe { memory::set_access(start, length, access) }
}

/// Maps an unused range of the window like the window: with base pages.
///
/// # Errors
/// [`Errno::EXIST`] if other mappings use some of the addresses; otherwise there is no memory.
pub(crate) fn map_piece(start: usize, length: usize) -> Result<(), Errno> {
    map_for(start, length, Access::Write)
}

fn map_for(start: usize, length: usize, access: Access) -> Result<(), Errno> {
    memory::map_unused(start, length, access)?;
    memory::use_base_pages(start, length);
    Ok(())
}
