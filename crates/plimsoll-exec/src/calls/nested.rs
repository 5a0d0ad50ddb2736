//! Calls whose memory points to more memory: texts of a program to execute, masks of signals.
#![allow(unsafe_code, reason = "system calls")]

use plimsoll_os::Errno;

pub(super) use super::message::{message, messages};
pub(super) use super::vector::{other_memory, splice, vector};

use super::Call;
use super::loan::{Loan, Manner, Way};
use super::memory;
use super::plain;
use super::table::{Length, Pointer};
use crate::handlers::stripped;

/// The most bytes of a text that `execve` takes (`MAX_ARG_STRLEN`), and of a path.
const MOST_TEXT: usize = 1 << 17;
const MOST_PATH: usize = 4096;
/// Texts of a list: more do not fit into the memory that the kernel takes for them.
const MOST_TEXTS: usize = 1 << 20;
/// Tries to have all texts present at the same time.
const MOST_TRIES: usize = 1000;

/// The texts of a list that ends with a null pointer, as `argv`.
pub(crate) struct Strings {
    list: usize,
    next: usize,
}

impl Strings {
    /// The texts of the list at `list`; null is an empty list.
    pub(crate) fn new(list: usize) -> Strings {
        Strings { list, next: 0 }
    }

    /// The next text and its bytes with the NUL; none at the end.
    ///
    /// # Errors
    /// [`Errno::FAULT`] if the program cannot read it, and `E2BIG` for a list without end.
    pub(crate) fn next(&mut self) -> Result<Option<(usize, usize)>, Errno> {
        if self.list == 0 {
            return Ok(None);
        }
        if self.next == MOST_TEXTS {
            return Err(Errno::of_number(libc::E2BIG));
        }
        let entry = self
            .next
            .checked_mul(size_of::<usize>())
            .and_then(|offset| self.list.checked_add(offset));
        let text: usize = memory::read(entry.ok_or(Errno::FAULT)?)?;
        self.next += 1;
        match text {
            0 => Ok(None),
            text => Ok(Some((text, memory::text_length(text, MOST_TEXT)?))),
        }
    }
}

/// `execve` and `execveat`. The texts stay where they are: a copy would outlive a successful call in the parent of `vfork`.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn execute(call: &Call, path: u8) -> Result<isize, Errno> {
    let path = usize::from(path);
    let fault = -(libc::EFAULT as isize);
    let mut result = fault;
    for _ in 0..MOST_TRIES {
        bring_texts(
            call.arguments[path],
            [call.arguments[path + 1], call.arguments[path + 2]],
        )?;
        // SAFETY: the caller's premise.
        result = unsafe { call.make(call.arguments) };
        if result != fault {
            break;
        }
    }
    Ok(result)
}

/// Makes a path and the texts of two lists present, for a moment at least.
fn bring_texts(path: usize, lists: [usize; 2]) -> Result<(), Errno> {
    if memory::is_managed(path) {
        memory::text_length(path, MOST_PATH)?;
    }
    for list in lists {
        let mut texts = Strings::new(list);
        while texts.next()?.is_some() {}
    }
    Ok(())
}

/// A copy of the signal mask at `user` without the library's signals.
fn lend_mask(loan: &mut Loan, user: usize) -> Result<usize, Errno> {
    if user == 0 {
        return Ok(0);
    }
    let mask = stripped(memory::read::<u64>(user)?);
    let copy = loan.take(size_of::<u64>())?;
    // SAFETY: memory of the loan.
    unsafe { (copy as *mut u64).write(mask) };
    Ok(copy)
}

/// A call that sets the signal mask while it waits. The mask is the argument `mask`, and its bytes the next one.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn masked(call: &Call, mask: u8, pointers: &[Pointer]) -> Result<isize, Errno> {
    let mask = usize::from(mask);
    let mut loan = Loan::new();
    let mut arguments = plain::lend(&mut loan, call.arguments, pointers)?;
    // The kernel refuses a mask of another size.
    if call.arguments[mask + 1] == size_of::<u64>() {
        arguments[mask] = lend_mask(&mut loan, call.arguments[mask])?;
    }
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(arguments) }))
}

/// `pselect6`: the last argument points to a pointer to the mask, and its bytes.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn select(call: &Call) -> Result<isize, Errno> {
    const fn set(argument: u8) -> Pointer {
        Pointer {
            argument,
            way: Way::Both,
            length: Length::Bits(0),
        }
    }
    const POINTERS: &[Pointer] = &[
        set(1),
        set(2),
        set(3),
        Pointer {
            argument: 4,
            way: Way::Both,
            length: Length::Bytes(16),
        },
    ];
    let mut loan = Loan::new();
    let mut arguments = plain::lend(&mut loan, call.arguments, POINTERS)?;
    if call.arguments[5] != 0 {
        let [mask, bytes] = memory::read::<[usize; 2]>(call.arguments[5])?;
        let copy = loan.take(size_of::<[usize; 2]>())?;
        let mask = match bytes == size_of::<u64>() {
            true => lend_mask(&mut loan, mask)?,
            false => mask,
        };
        // SAFETY: memory of the loan.
        unsafe { (copy as *mut [usize; 2]).write([mask, bytes]) };
        arguments[5] = copy;
    }
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(arguments) }))
}

/// A copy of a structure of `bytes` at `user` with a vector of filter instructions (`struct sock_fprog`).
///
/// # Errors
/// [`Errno::FAULT`], [`Errno::NOMEM`].
pub(super) fn lend_program(loan: &mut Loan, user: usize) -> Result<usize, Errno> {
    /// Bytes of an instruction.
    const INSTRUCTION: usize = 8;
    let [count, code] = memory::read::<[usize; 2]>(user)?;
    let instructions = usize::from(count as u16);
    let code = loan.lend(code, instructions * INSTRUCTION, Way::In, Manner::Any)?;
    let copy = loan.take(size_of::<[usize; 2]>())?;
    // SAFETY: memory of the loan.
    unsafe { (copy as *mut [usize; 2]).write([count, code]) };
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Pages;
    use super::*;

    #[test]
    fn masks_lose_the_signals_of_the_library_alone() {
        assert_eq!(stripped(u64::MAX), !(1 << 6 | 1 << 30));
        assert_eq!(stripped(1 << 14), 1 << 14);
    }

    #[test]
    fn texts_are_walked_to_the_end_of_their_list() {
        let pages = Pages::of_arena(1);
        let start = pages.start();
        pages.fill(100, b"one\0two\0");
        for (index, text) in [start + 100, start + 104, 0].into_iter().enumerate() {
            pages.fill(index * 8, &text.to_ne_bytes());
        }
        let mut texts = Strings::new(start);
        assert_eq!(texts.next(), Ok(Some((start + 100, 4))));
        assert_eq!(texts.next(), Ok(Some((start + 104, 4))));
        assert_eq!(texts.next(), Ok(None));
        assert_eq!(Strings::new(0).next(), Ok(None));
        assert_eq!(Strings::new(8).next(), Err(Errno::FAULT));
        assert_eq!(Strings::new(usize::MAX - 3).next(), Err(Errno::FAULT));
        pages.fill(0, &[1; 4096]);
        assert_eq!(Strings::new(start).next(), Err(Errno::FAULT), "a wild pointer");
    }

    #[test]
    fn a_wild_list_is_an_error_of_the_call() {
        let call = Call::new(libc::SYS_execve, [8, 8, 8, 0, 0, 0]);
        // SAFETY: no program has this path.
        assert_eq!(unsafe { execute(&call, 0) }, Err(Errno::FAULT));
    }
}
