//! In place of [`calls`](crate::calls) where no instruction is exempt from a filter: the mode without privilege is refused.
#![allow(unsafe_code, reason = "system calls")]

use crate::trampoline;

/// A system call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [usize; 6],
}

impl Call {
    pub(crate) fn new(number: i64, arguments: [usize; 6]) -> Call {
        Call { number, arguments }
    }
}

/// The reason why system calls cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The target has no code for it.
    Unsupported,
}

/// Whether this process has inherited a filter that traps its calls: there is none.
pub(crate) fn may_be_filtered() -> bool {
    false
}

/// Refuses.
///
/// # Errors
/// Always.
pub(crate) fn prepare() -> Result<(), StartError> {
    Err(StartError::Unsupported)
}

/// Refuses the filter.
///
/// # Errors
/// [`StartError::Unsupported`], if it is needed.
pub(crate) fn start(has_filter: bool) -> Result<(), StartError> {
    if has_filter {
        Err(StartError::Unsupported)
    } else {
        Ok(())
    }
}

/// Whether calls are served: they are not.
pub(crate) fn is_active() -> bool {
    false
}

/// Serves a transfer. No filter traps it.
///
/// # Safety
/// The program asked for the effects of the call.
pub(crate) unsafe fn serve_transfer(call: Call) -> isize {
    // SAFETY: the caller's premise.
    unsafe { serve(call) }
}

/// Whether an address is the arena's.
pub(crate) fn is_managed(address: usize) -> bool {
    crate::arena::contains(address)
}

/// Makes the call.
///
/// # Safety
/// The program asked for the effects of the call.
pub(crate) unsafe fn serve(call: Call) -> isize {
    // SAFETY: the caller's premise.
    unsafe { trampoline::call(call.number, call.arguments) }
}

/// Texts of a list, which the kernel reads by itself: none to bring.
pub(crate) struct Strings;

impl Strings {
    pub(crate) fn new(_list: usize) -> Strings {
        Strings
    }

    pub(crate) fn next(&mut self) -> Result<Option<(usize, usize)>, plimsoll_os::Errno> {
        Ok(None)
    }
}

/// Alternate stacks need no care.
///
/// # Errors
/// Never.
pub(crate) fn keep_stack(_stack: &libc::stack_t) -> Result<(), plimsoll_os::Errno> {
    Ok(())
}
