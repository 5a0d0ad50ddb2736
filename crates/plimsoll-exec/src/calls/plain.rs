//! Calls all of whose memory a row of the table describes, and calls without a row.
#![allow(unsafe_code, reason = "system calls")]

use plimsoll_os::Errno;

use super::Call;
use super::loan::{Loan, Manner};
use super::memory;
use super::table::{Length, Pointer};
use crate::arena::PAGE;

/// Tries of a call without a row whose pages were present, and all of its tries. Pages that cannot be pinned may leave before the
/// kernel uses them.
const MOST_TRIES: usize = 6;
const MOST_TRIES_WITHOUT_PINS: usize = 1000;
/// Bytes behind a pointer of such a call that are present at the second try and later.
const MUCH: usize = 16 * PAGE;

/// Makes a call with these pointers.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve(call: &Call, pointers: &[Pointer]) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let arguments = lend(&mut loan, call.arguments, pointers)?;
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(arguments) }))
}

/// Lends the memory of `pointers`, and returns the arguments of the call with it.
pub(super) fn lend(
    loan: &mut Loan,
    arguments: [usize; 6],
    pointers: &[Pointer],
) -> Result<[usize; 6], Errno> {
    let mut lent = arguments;
    for pointer in pointers {
        let user = arguments[usize::from(pointer.argument)];
        if !memory::is_managed(user) {
            continue;
        }
        let bytes = measure(user, pointer.length, &arguments)?;
        lent[usize::from(pointer.argument)] = loan.lend(user, bytes, pointer.way, Manner::Any)?;
    }
    Ok(lent)
}

/// The bytes behind the pointer `user`.
fn measure(user: usize, length: Length, arguments: &[usize; 6]) -> Result<usize, Errno> {
    let argument = |number: u8| arguments[usize::from(number)];
    Ok(match length {
        Length::Bytes(bytes) => bytes as usize,
        Length::Argument(number) => argument(number),
        Length::Times(number, unit) => units(argument(number), unit),
        Length::After(header, number) => argument(number).saturating_add(header as usize),
        Length::Bits(number) => set_bytes(argument(number)),
        Length::Text(most) => memory::text_length(user, most as usize)?,
        Length::At(number) if argument(number) == 0 => 0,
        // The kernel takes it as a signed number, and refuses negative ones.
        Length::At(number) => i32::try_from(memory::read::<u32>(argument(number))?).unwrap_or(0) as usize,
        Length::Own(offset, least) => {
            let own = memory::read::<u32>(user.saturating_add(offset as usize))?;
            (own.max(least) as usize).min(PAGE)
        }
        Length::Header(header) => {
            let own = memory::read::<u32>(user)? as usize;
            own.min(PAGE) + header as usize
        }
        Length::Page => PAGE - user % PAGE,
    })
}

/// Bytes of so many units. The number of the kernel is an `int`: one that is too large is refused there.
fn units(count: usize, unit: u32) -> usize {
    match i32::try_from(count as u32) {
        Ok(count) => count as usize * unit as usize,
        Err(_) => 0,
    }
}

/// Bytes of a set of so many bits.
pub(super) fn set_bytes(bits: usize) -> usize {
    // The largest set of the kernel: descriptors of a process.
    const MOST: u32 = 1 << 20;
    match i32::try_from(bits as u32) {
        Ok(bits) => (bits as u32).min(MOST).div_ceil(64) as usize * 8,
        Err(_) => 0,
    }
}

/// Makes a call without a row: one page behind each argument in the arena is present, and more if the kernel misses it.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve_unknown(call: &Call) -> Result<isize, Errno> {
    // SAFETY: the caller's premise.
    unsafe { with_pages(call, call.arguments, &[0, 1, 2, 3, 4, 5]) }
}

/// Makes a call with the pages behind some of its arguments pinned. If it fails with `EFAULT`, it is made again, with more pages:
/// but seldom if all of them were present, as it may have effects before it fails.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn with_pages(
    call: &Call,
    arguments: [usize; 6],
    pointers: &[usize],
) -> Result<isize, Errno> {
    let fault = -(libc::EFAULT as isize);
    let mut result = fault;
    let mut tries = 0;
    for attempt in 0..MOST_TRIES_WITHOUT_PINS {
        let bytes_of = |address: usize| if attempt == 0 { PAGE - address % PAGE } else { MUCH };
        let addresses = pointers.iter().map(|pointer| arguments[*pointer]);
        let mut addresses = addresses.filter(|address| memory::is_managed(*address));
        let mut loan = Loan::new();
        let mut is_pinned = true;
        for address in addresses.clone() {
            if !loan.pin(address, bytes_of(address)) {
                is_pinned = false;
                memory::bring(address, bytes_of(address));
            }
        }
        // SAFETY: the caller's premise.
        result = unsafe { call.make(arguments) };
        if result != fault {
            break;
        }
        let were_present =
            is_pinned || addresses.all(|address| memory::is_present(address, bytes_of(address)));
        tries += usize::from(were_present);
        if tries == MOST_TRIES {
            break;
        }
    }
    Ok(result)
}

/// Makes a call whose memory the kernel uses later: it stays pinned.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve_registered(call: &Call, pointers: &[Pointer]) -> Result<isize, Errno> {
    for pointer in pointers {
        let user = call.arguments[usize::from(pointer.argument)];
        if !memory::is_managed(user) {
            continue;
        }
        let bytes = measure(user, pointer.length, &call.arguments)?;
        memory::keep(user, bytes)?;
    }
    // SAFETY: the caller's premise.
    Ok(unsafe { call.make(call.arguments) })
}

/// Brings the pages that words in `bytes` from `copy`, a copy of a structure of the program, may point to.
///
/// # Safety
/// `copy` is valid for reads of `bytes`.
pub(super) unsafe fn bring_targets(copy: usize, bytes: usize) {
    for offset in (0..bytes.saturating_sub(7)).step_by(8) {
        // SAFETY: the caller's premise.
        let word = unsafe { ((copy + offset) as *const usize).read_unaligned() };
        if memory::is_managed(word) {
            memory::bring(word, MUCH);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::super::testing::Pages;
    use super::*;
    use crate::signals_blocked::SignalsBlocked;

    #[test]
    fn hostile_lengths_do_not_overflow() {
        let hostile = [0, usize::MAX, 0, 0, 0, 0];
        let of = |length| measure(0, length, &hostile);
        assert_eq!(of(Length::Argument(1)), Ok(usize::MAX));
        assert_eq!(of(Length::Times(1, 12)), Ok(0));
        assert_eq!(of(Length::After(8, 1)), Ok(usize::MAX));
        assert_eq!(of(Length::Bits(1)), Ok(0));
        assert_eq!(of(Length::At(1)), Err(Errno::FAULT));
        assert_eq!(of(Length::At(0)), Ok(0));
        assert_eq!(set_bytes(i32::MAX as usize), 1 << 17);
        assert_eq!(
            (set_bytes(0), set_bytes(1), set_bytes(64), set_bytes(65)),
            (0, 8, 8, 16)
        );
        assert_eq!(units(i32::MAX as usize, 65536), i32::MAX as usize * 65536);
    }

    #[test]
    fn structures_state_their_length() {
        let pages = Pages::of_arena(1);
        pages.fill(0, &200u32.to_ne_bytes());
        let arguments = [pages.start(), 0, 0, 0, 0, 0];
        assert_eq!(measure(pages.start(), Length::Own(0, 48), &arguments), Ok(200));
        assert_eq!(measure(pages.start(), Length::Own(0, 300), &arguments), Ok(300));
        assert_eq!(measure(pages.start(), Length::Header(8), &arguments), Ok(208));
        assert_eq!(
            measure(pages.start() + 100, Length::Page, &arguments),
            Ok(PAGE - 100)
        );
        pages.fill(0, &u32::MAX.to_ne_bytes());
        assert_eq!(
            measure(pages.start(), Length::Header(8), &arguments),
            Ok(PAGE + 8)
        );
        assert_eq!(measure(0, Length::At(0), &arguments), Ok(0));
    }

    /// A call with a bad address was made 1000 times if a pin was refused.
    #[test]
    fn a_call_that_fails_with_its_pages_present_is_made_a_few_times() {
        crate::trampoline::map().expect("free addresses");
        let _refused = super::super::testing::without_pins();
        let pages = Pages::of_arena(1);
        pages.fill(0, b"/\0");
        let made = Rc::new(Cell::new(0));
        let count = made.clone();
        let _hook = super::super::testing::while_pinned(move || count.set(count.get() + 1));
        let blocked = SignalsBlocked::others();
        // Nothing is at the address 8.
        let call = Call::new(libc::SYS_stat, [pages.start(), 8, 0, 0, 0, 0]).with_mask(blocked.former());
        // SAFETY: the kernel reads the test's page.
        let result = unsafe { serve_unknown(&call) };
        assert_eq!(result, Ok(-(libc::EFAULT as isize)));
        assert_eq!(made.get(), MOST_TRIES);
    }

    #[test]
    fn a_call_reads_and_writes_copies_of_the_program_s_memory() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(1);
        pages.fill(0, b"/proc/self/../self/comm\0");
        let call = Call::new(libc::SYS_stat, [pages.start(), pages.start() + 1024, 0, 0, 0, 0]);
        // SAFETY: the call writes to the test's pages.
        assert_eq!(unsafe { super::super::serve(call) }, 0);
        let mode = pages.bytes(1024 + 24, 4);
        assert_eq!(
            u32::from_ne_bytes(mode.try_into().expect("4 bytes")) & libc::S_IFMT,
            libc::S_IFREG
        );
    }
}
