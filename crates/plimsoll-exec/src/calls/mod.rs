//! System calls of the program that use memory of the arena, served without privilege.
//!
//! In this mode the kernel does not wait for the pager: a call that meets an absent page fails with `EFAULT`. So a filter of
//! system calls (seccomp) sends SIGSYS for each call with an argument in the arena, and the handler makes the call for the
//! program: with its pages pinned, or with copies of what is small. Other calls run as ever (0.05-0.09 us for the filter).
//!
//! | step | by |
//! |---|---|
//! | the filter finds an argument in the arena | [`filter`] |
//! | the handler of SIGSYS reads the registers | [`trap`] |
//! | the row of the call states its pointers | [`table`] |
//! | copies and pins | [`loan`], [`memory`] |
//! | signals that have come meanwhile | [`interruption`] |
//! | the call itself, from an instruction that the filter exempts | [`trampoline`](crate::trampoline) |
//! | the result goes to the register of the interrupted code | [`trap`] |
//!
//! Calls whose own arguments are elsewhere but whose memory points into the arena (`writev` with its vector on the stack) do not
//! meet the filter. The exported symbols of the C library's functions serve them ([`crate::symbols`]).
//!
//! # Limits
//! - io_uring and the kernel's AIO use memory after the call, and are refused (`ENOSYS`): programs fall back to other calls.
//! - A forked child that the C library did not make (`clone` by the program's own instruction, not by `syscall(2)`) does not have the
//!   arena.
//! - A program that sets the handlers of SIGBUS or SIGSYS by its own instruction (Go) takes them from the pager.
//! - The C library's own helper threads block all signals: `aio_read` and its like end the process if the buffer is in the
//!   arena.
//! - Thread cancellation (`pthread_cancel`) does not interrupt a call that is served and waits; the thread ends at its next
//!   cancellation point.
//! - A program's signal handler that leaves a call by `siglongjmp` keeps the pins of the call for ever.
//! - The kernel's list of robust mutexes in the arena ends at an absent page.
//! - A child of `vfork` that is traced from the start (`PTRACE_TRACEME`, as by gdb) stops at the SIGSYS of its `execvp`, while its
//!   tracer waits in `vfork`.
//! - `PTRACE_GETREGSET` and `PTRACE_SETREGSET` fail with `EFAULT` if their buffer is on an absent page and the `iovec` is not
//!   in the arena.
//! - A thread whose stack is in the arena runs on while the pages below its stack pointer are present. Stacks that the program names
//!   (`makecontext`, `sigaltstack`) stay so; a thread gets one of the C library, and mappings with MAP_STACK are not in the arena.
//!
//! # A new system call
//!
//! 1. A row in `table/rows.rs`: its pointers, or `WITHOUT_POINTERS`. A call with other work has a `Kind` in
//!    `table.rs` and an arm in this module; a call on the address space is in `space.rs` and `mappings/`.
//! 2. The filter sees arguments only: a call whose memory points into the arena, or that makes a child, also needs the symbol of
//!    its C function in `symbols/`.
//! 3. A program in `tests/programs/`, which `tests/it/main.rs` runs in both modes of faults.

#![allow(unsafe_code, reason = "system calls")]

mod chunked;
mod filter;
mod futex;
mod interruption;
mod loan;
mod memory;
mod message;
mod nested;
mod options;
mod plain;
mod space;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod trap;
mod vector;

use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_os::Errno;

#[cfg(not(test))]
pub(crate) use memory::{is_managed, is_readable};
#[cfg(not(test))]
pub(crate) use nested::Strings;
#[cfg(not(test))]
pub(crate) use trap::{keep_memory, keep_stack};

use table::Kind;
use trap::Frame;

use crate::signals_blocked::SignalsBlocked;
use crate::{handlers, trampoline};

/// A system call of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) number: i64,
    pub(crate) arguments: [usize; 6],
    /// The mask of the program, while this thread blocks signals until the call is made.
    mask: Option<u64>,
}

impl Call {
    pub(crate) fn new(number: i64, arguments: [usize; 6]) -> Call {
        Call {
            number,
            arguments,
            mask: None,
        }
    }

    /// A call in place of this one.
    fn inner(&self, number: i64, arguments: [usize; 6]) -> Call {
        Call {
            number,
            arguments,
            mask: self.mask,
        }
    }

    /// The same call for a thread that blocks signals until it is made.
    fn with_mask(self, mask: u64) -> Call {
        Call {
            mask: Some(mask),
            ..self
        }
    }

    /// Makes the call with these arguments instead.
    ///
    /// # Safety
    /// The program asked for the effects of the call.
    unsafe fn make(&self, arguments: [usize; 6]) -> isize {
        // SAFETY: the caller's premise.
        unsafe {
            match self.mask {
                Some(mask) => interruption::make(self, mask, arguments),
                None => trampoline::call(self.number, arguments),
            }
        }
    }
}

/// Whether calls are served: in the mode without privilege.
static IS_ACTIVE: AtomicBool = AtomicBool::new(false);

/// Whether the library serves system calls in this process. The exported symbols ask: in the other mode the kernel waits for the
/// pager, and they pass on to the C library.
pub(crate) fn is_active() -> bool {
    IS_ACTIVE.load(Ordering::Relaxed)
}

/// The reason why system calls cannot be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartError {
    /// The page of the exempt instruction cannot be mapped.
    Trampoline(Errno),
    /// The handlers of SIGBUS and SIGSYS cannot be installed.
    Handler(Errno),
    /// The kernel refuses the filter.
    Filter(Errno),
}

/// Whether this process has inherited the filter, or another one.
pub(crate) fn may_be_filtered() -> bool {
    // SAFETY: the call takes no memory.
    unsafe { trampoline::call(libc::SYS_prctl, [libc::PR_GET_SECCOMP as usize, 0, 0, 0, 0, 0]) == 2 }
}

/// Prepares to serve system calls: called before the pager is built, since its own calls are trapped if the process has inherited the
/// filter.
///
/// # Errors
/// [`StartError`]: the program must not run.
pub(crate) fn prepare() -> Result<(), StartError> {
    trampoline::map().map_err(StartError::Trampoline)?;
    handlers::start().map_err(StartError::Handler)?;
    trap::install().map_err(StartError::Handler)
}

/// Serves the system calls of this process from here on. `has_filter` states whether the process needs the filter; one that has
/// inherited it has to serve its calls too.
///
/// # Errors
/// [`StartError`]: the program must not run.
pub(crate) fn start(has_filter: bool) -> Result<(), StartError> {
    let is_filtered = trap::is_filtered();
    if has_filter || is_filtered {
        handlers::record();
        IS_ACTIVE.store(true, Ordering::Release);
    }
    if has_filter && !is_filtered {
        filter::install().map_err(StartError::Filter)?;
    }
    Ok(())
}

/// Serves a call of the program: makes it so that the kernel finds its memory. Returns the result of the kernel.
///
/// # Safety
/// The program asked for the effects of the call.
pub(crate) unsafe fn serve(call: Call) -> isize {
    // A change of the mask is for the time after the call.
    if table::kind(call.number) == Kind::Frame {
        // SAFETY: the caller's premise.
        return unsafe { serve_in(call, None) };
    }
    let blocked = SignalsBlocked::others();
    // SAFETY: the caller's premise.
    unsafe { serve_in(call.with_mask(blocked.former()), None) }
}

/// As [`serve`], for a transfer of bytes. A short one has a copy of its bytes and no pin: a signal may come at any time, as in a
/// program without the library, and the thread saves the system calls that block it. One that may wait has it only if its memory is
/// present: a signal that came while that is restored would not end the wait.
///
/// # Safety
/// As [`serve`].
pub(crate) unsafe fn serve_transfer(call: Call) -> isize {
    // SAFETY: the caller's premise.
    unsafe {
        match chunked::is_copied(&call) && (!interruption::may_wait(&call) || chunked::is_present(&call)) {
            true => serve_in(call, None),
            false => serve(call),
        }
    }
}

/// As [`serve`], for a call that a handler of SIGSYS interrupted at `frame`.
///
/// # Safety
/// As [`serve`].
unsafe fn serve_in(call: Call, frame: Option<&mut Frame>) -> isize {
    let kind = table::kind(call.number);
    // SAFETY: the caller's premise.
    let result = unsafe {
        match kind {
            Kind::Plain(pointers) => plain::serve(&call, pointers),
            Kind::Unknown => plain::serve_unknown(&call),
            Kind::Registered(pointers) => plain::serve_registered(&call, pointers),
            Kind::Transfer(way) => chunked::transfer(&call, way),
            Kind::Vector(way) => nested::vector(&call, way),
            Kind::Splice => nested::splice(&call),
            Kind::OtherMemory(way) => nested::other_memory(&call, way),
            Kind::Message(way) => nested::message(&call, way),
            Kind::Messages(way) => nested::messages(&call, way),
            Kind::Memory => Ok(space::serve(&call)),
            Kind::Execute(path) => nested::execute(&call, path),
            Kind::Fork => trap::fork(&call, frame),
            Kind::Futex => futex::serve(&call),
            Kind::FutexVector => futex::serve_vector(&call),
            Kind::Frame => trap::serve_frame(&call, frame),
            Kind::Masked(mask, pointers) => nested::masked(&call, mask, pointers),
            Kind::Select => nested::select(&call),
            Kind::Ioctl => options::ioctl(&call),
            Kind::Fcntl => options::fcntl(&call),
            Kind::Prctl => options::prctl(&call),
            Kind::ArchPrctl => options::arch_prctl(&call),
            Kind::SetSocketOption => options::set_socket_option(&call),
            Kind::Seccomp => options::seccomp(&call),
            Kind::Ptrace => options::ptrace(&call),
        }
    };
    result.unwrap_or_else(|error| -(error.raw() as isize))
}
