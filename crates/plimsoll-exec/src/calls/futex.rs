//! Futexes: the kernel needs the program's own words, since other threads change them.
//!
//! A word is absent or present when the call begins; a thread that sleeps already needs it no more. So a word is brought, and the call
//! is made again while the kernel misses it.
#![allow(unsafe_code, reason = "system calls")]

use plimsoll_os::Errno;

use super::Call;
use super::loan::{Loan, Manner, Way};
use super::memory;

/// Tries while the pager evicts the word in between.
const MOST_TRIES: usize = 1000;
/// Words of `futex_waitv`, and the bytes of each entry.
const MOST_WORDS: usize = 128;
const ENTRY: usize = 24;
/// The bits of an operation that name it.
const OPERATION: usize = 0x7f;
/// `futex_wait(2)` of Linux 6.7.
const FUTEX_WAIT: i64 = 455;
const FUTEX_LOCK_PI2: i32 = 13;

/// Whether the fourth argument of an operation is a time: it is a number otherwise.
fn has_timeout(operation: i32) -> bool {
    matches!(
        operation,
        libc::FUTEX_WAIT
            | libc::FUTEX_LOCK_PI
            | libc::FUTEX_WAIT_BITSET
            | libc::FUTEX_WAIT_REQUEUE_PI
            | FUTEX_LOCK_PI2
    )
}

/// Whether the fifth argument is a word.
fn has_second_word(operation: i32) -> bool {
    matches!(
        operation,
        libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE
            | libc::FUTEX_WAKE_OP
            | libc::FUTEX_WAIT_REQUEUE_PI
            | libc::FUTEX_CMP_REQUEUE_PI
    )
}

/// `futex(2)`, and the calls for its parts.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve(call: &Call) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let mut arguments = call.arguments;
    let operation = (arguments[1] & OPERATION) as i32;
    let (timeout, second) = match call.number {
        libc::SYS_futex => (
            has_timeout(operation).then_some(3),
            has_second_word(operation).then_some(4),
        ),
        FUTEX_WAIT => (Some(4), None),
        _ => (None, None),
    };
    if let Some(timeout) = timeout {
        arguments[timeout] = loan.lend(arguments[timeout], 16, Way::In, Manner::Any)?;
    }
    let words = [Some(arguments[0]), second.map(|second| arguments[second])];
    // SAFETY: the caller's premise.
    unsafe { with_words(call, arguments, words.into_iter().flatten()) }
}

/// Makes a call while the kernel misses one of the words.
unsafe fn with_words(
    call: &Call,
    arguments: [usize; 6],
    words: impl Iterator<Item = usize> + Clone,
) -> Result<isize, Errno> {
    let fault = -(libc::EFAULT as isize);
    let mut result = fault;
    for _ in 0..MOST_TRIES {
        for word in words.clone().filter(|word| memory::is_managed(*word)) {
            if !memory::is_readable(word, size_of::<u32>()) {
                return Err(Errno::FAULT);
            }
        }
        // SAFETY: the caller's premise.
        result = unsafe { call.make(arguments) };
        if result != fault {
            break;
        }
    }
    Ok(result)
}

/// `futex_waitv(2)` and `futex_requeue(2)`: a vector of words.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve_vector(call: &Call) -> Result<isize, Errno> {
    let [vector, count, _, timeout, ..] = call.arguments;
    let is_wait = call.number == libc::SYS_futex_waitv;
    let count = if is_wait { count as u32 as usize } else { 2 };
    if count > MOST_WORDS {
        return Err(Errno::INVAL);
    }
    let mut loan = Loan::new();
    let mut arguments = call.arguments;
    let copy = loan.take(count * ENTRY)?;
    // SAFETY: memory of the loan.
    unsafe { memory::copy_in(vector, copy as *mut u8, count * ENTRY) }?;
    arguments[0] = copy;
    if is_wait {
        arguments[3] = loan.lend(timeout, 16, Way::In, Manner::Any)?;
    }
    // SAFETY: an entry has the address of its word as its second one, and the memory of the loan lives.
    let word = |entry: usize| unsafe { ((copy + entry * ENTRY + 8) as *const usize).read() };
    // SAFETY: the caller's premise.
    unsafe { with_words(call, arguments, (0..count).map(word)) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Pages;
    use super::*;

    #[test]
    fn a_wait_for_another_value_returns_at_once_and_a_bad_word_is_refused() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(2);
        pages.forbid(1);
        let wait = |word, timeout| {
            Call::new(
                libc::SYS_futex,
                [word, libc::FUTEX_WAIT as usize, 1, timeout, 0, 0],
            )
        };
        let [again, fault, late] =
            [libc::EAGAIN, libc::EFAULT, libc::ETIMEDOUT].map(|error| -(error as isize));
        pages.fill(64 + 8, &1_000_000u64.to_ne_bytes());
        pages.fill(128, &1u32.to_ne_bytes());
        let serve = super::super::serve;
        // SAFETY: the calls read the test's pages.
        unsafe {
            assert_eq!(serve(wait(pages.start(), 0)), again);
            assert_eq!(serve(wait(pages.start() + 4096, 0)), fault);
            assert_eq!(serve(wait(pages.start() + 128, pages.start() + 64)), late);
        }
    }

    #[test]
    fn vectors_of_hostile_lengths_are_refused() {
        let pages = Pages::of_arena(1);
        let call = |count| Call::new(libc::SYS_futex_waitv, [pages.start(), count, 0, 0, 0, 0]);
        // SAFETY: no call is made.
        unsafe {
            assert_eq!(serve_vector(&call(129)), Err(Errno::INVAL));
            assert_eq!(serve_vector(&call(usize::MAX)), Err(Errno::INVAL));
        }
    }
}
