//! In place of [`calls`](crate::calls) where no instruction is exempt from a filter: the mode without privilege is refused.
#![allow(unsafe_code, reason = "system calls")]

pub(crate) use trampoline::call as raw_call;

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// System calls by an instruction of their own.
pub(crate) mod trampoline {
    use plimsoll_os::Errno;

    /// Makes a system call. Returns the kernel's result: an error is the negative of its number. `errno` stays as it was.
    ///
    /// # Safety
    /// As for the system call: it may change any memory of the process.
    pub(crate) unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
        let returned: isize;
        // SAFETY: the kernel's calling convention; the effects of the call are the caller's premise.
        unsafe {
            #[cfg(target_arch = "aarch64")]
            std::arch::asm!(
                "svc 0",
                in("x8") number,
                inlateout("x0") arguments[0] => returned,
                in("x1") arguments[1],
                in("x2") arguments[2],
                in("x3") arguments[3],
                in("x4") arguments[4],
                in("x5") arguments[5],
                options(nostack),
            );
        }
        returned
    }

    /// A result of the kernel as a `Result`.
    pub(crate) fn check(returned: isize) -> Result<usize, Errno> {
        match returned {
            -4095..=-1 => Err(Errno::of_number(-returned as i32)),
            _ => Ok(returned as usize),
        }
    }
}

/// A system call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [usize; 6],
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
    unsafe { raw_call(call.number, call.arguments) }
}

/// A signal mask of the kernel as it is.
pub(crate) const fn stripped(mask: u64) -> u64 {
    mask
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
