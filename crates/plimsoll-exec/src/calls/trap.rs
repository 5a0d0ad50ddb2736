//! The handler of SIGSYS, which makes the trapped calls.
//!
//! It runs on the thread's own stack, as the pager's handler does: alternate stacks of programs are as small as 8 KiB. Signals but
//! those of faults are blocked meanwhile. While the call itself is made, the mask is the program's: a call that waits is interrupted
//! as ever ([`super::interruption`]). The handler of another signal then runs above this one, and a call of its own may be trapped
//! too.
//!
//! The return from the handler restores the registers, the signal mask and the alternate stack of the interrupted code. Calls that
//! change these change the saved ones instead ([`serve_frame`]). A call that returns twice cannot be made here: the interrupted code
//! continues at a copy of its instruction that the filter exempts ([`fork`]).
#![allow(unsafe_code, reason = "a signal handler")]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::OnceLock;

use plimsoll_os::Errno;

use super::Call;
use super::filter::MARK;
use super::loan::{Loan, Manner, Way};
use super::memory;
use crate::handlers::{self, stripped};
use crate::signals_blocked::SignalsBlocked;
use crate::statistics;
use crate::trampoline;

/// The first fields of `siginfo_t` for SIGSYS.
#[repr(C)]
struct Trapped {
    signal: c_int,
    mark: c_int,
    code: c_int,
    _padding: c_int,
    instruction: usize,
    number: c_int,
    architecture: u32,
}

/// `SYS_SECCOMP`: a filter raised the signal.
const BY_FILTER: c_int = 1;

/// The interrupted code, as its return from the handler restores it.
pub(super) struct Frame(*mut libc::ucontext_t);

impl Frame {
    fn context(&mut self) -> &mut libc::ucontext_t {
        // SAFETY: the kernel made it for the handler, which this value does not outlive.
        unsafe { &mut *self.0 }
    }

    fn register(&mut self, number: c_int) -> &mut i64 {
        &mut self.context().uc_mcontext.gregs[number as usize]
    }

    /// The signal mask.
    fn mask(&mut self) -> &mut u64 {
        // SAFETY: the kernel's mask is the first word of the set.
        unsafe { &mut *(&raw mut self.context().uc_sigmask).cast::<u64>() }
    }

    fn call(&mut self, number: c_int) -> Call {
        let registers = [
            libc::REG_RDI,
            libc::REG_RSI,
            libc::REG_RDX,
            libc::REG_R10,
            libc::REG_R8,
            libc::REG_R9,
        ];
        Call::new(
            i64::from(number),
            registers.map(|register| *self.register(register) as usize),
        )
    }
}

/// The code of this library: calls that it makes by itself are for the kernel as they are.
static OWN_CODE: OnceLock<Range<usize>> = OnceLock::new();

/// Installs the handler.
///
/// # Errors
/// The kernel's.
pub(super) fn install() -> Result<(), Errno> {
    OWN_CODE.get_or_init(own_code);
    handlers::install_for_calls(on_sigsys)
}

/// Whether this process has the filter already, as a child of `execve` does. The handler must be installed.
pub(super) fn is_filtered() -> bool {
    let before = statistics::trapped();
    // SAFETY: the call has no arguments; one in the arena is trapped by the filter alone.
    unsafe {
        std::arch::asm!(
            "syscall",
            inlateout("rax") libc::SYS_getppid => _,
            in("rdi") crate::arena::ARENA,
            lateout("rcx") _,
            lateout("r11") _,
        );
    }
    statistics::trapped() != before
}

/// The addresses of the object that this function is in.
fn own_code() -> Range<usize> {
    struct Search {
        address: usize,
        found: Range<usize>,
    }
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, data: *mut c_void) -> c_int {
        // SAFETY: the C library gives a valid description, and the search of `own_code`.
        let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
        // SAFETY: the description states the number of its headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = info.dlpi_addr as usize + header.p_vaddr as usize;
            let range = start..start + header.p_memsz as usize;
            if range.contains(&search.address) {
                search.found = range;
                return 1;
            }
        }
        0
    }
    let mut search = Search {
        address: own_code as *const () as usize,
        found: 0..0,
    };
    // SAFETY: the function takes the search, which outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

extern "C" fn on_sigsys(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel gives a valid description, and `errno` is this thread's.
    let (trapped, errno) = unsafe { (&*info.cast::<Trapped>(), *libc::__errno_location()) };
    if trapped.code != BY_FILTER || trapped.mark != c_int::from(MARK) {
        handlers::pass_on(signal, info, context);
        return;
    }
    statistics::note_trapped();
    let mut frame = Frame(context.cast());
    let kept = match i64::from(trapped.number) {
        // The new program inherits the mask.
        libc::SYS_execve | libc::SYS_execveat => 0,
        _ => SignalsBlocked::CANCELLATION,
    };
    let mask = *frame.mask() | kept;
    let call = frame.call(trapped.number).with_mask(mask);
    let is_own = OWN_CODE
        .get()
        .is_some_and(|code| code.contains(&trapped.instruction));
    // SAFETY: the interrupted code asked for the effects of the call.
    let result = unsafe {
        match is_own {
            true => Some(trampoline::call(call.number, call.arguments)),
            false => serve(call, &mut frame),
        }
    };
    if let Some(result) = result {
        *frame.register(libc::REG_RAX) = result as i64;
    }
    // SAFETY: `errno` is this thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Serves a call of the interrupted code; none if that makes the call itself when it continues.
///
/// # Safety
/// The interrupted code asked for the effects of the call.
unsafe fn serve(call: Call, frame: &mut Frame) -> Option<isize> {
    let before = *frame.register(libc::REG_RIP);
    // SAFETY: the caller's premise.
    let result = unsafe { super::serve_in(call, Some(frame)) };
    (*frame.register(libc::REG_RIP) == before).then_some(result)
}

/// `rt_sigprocmask` and `sigaltstack`: the result stays when the handler returns.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn serve_frame(call: &Call, frame: Option<&mut Frame>) -> Result<isize, Errno> {
    // SAFETY: the caller's premise.
    unsafe {
        match call.number {
            libc::SYS_rt_sigprocmask => change_mask(call, frame),
            _ => change_stack(call, frame),
        }
    }
}

unsafe fn change_mask(call: &Call, frame: Option<&mut Frame>) -> Result<isize, Errno> {
    const BYTES: usize = size_of::<u64>();
    let [how, new, old, bytes, ..] = call.arguments;
    if bytes != BYTES {
        return Err(Errno::INVAL);
    }
    let new = match new {
        0 => None,
        new => Some(memory::read::<u64>(new)?),
    };
    let new = new.map(|mask| {
        if how as c_int == libc::SIG_UNBLOCK {
            mask
        } else {
            stripped(mask)
        }
    });
    let former = match frame {
        // The mask of the thread is that of the handler.
        Some(frame) => {
            let former = *frame.mask();
            *frame.mask() = changed(former, how as c_int, new)?;
            former
        }
        None => {
            let mut former = 0u64;
            let set = new.as_ref().map_or(0, |mask| std::ptr::from_ref(mask) as usize);
            // SAFETY: the kernel reads and writes the variables.
            let result = unsafe { call.make([how, set, (&raw mut former) as usize, BYTES, 0, 0]) };
            if result < 0 {
                return Ok(result);
            }
            former
        }
    };
    if old != 0 {
        // SAFETY: the program asked the kernel to write there.
        unsafe { memory::write(old, &former) }?;
    }
    Ok(0)
}

/// A mask after a change, as the kernel makes it.
fn changed(former: u64, how: c_int, set: Option<u64>) -> Result<u64, Errno> {
    /// No mask has these.
    const NEVER: u64 = 1 << (libc::SIGKILL - 1) | 1 << (libc::SIGSTOP - 1);
    match (set, how) {
        (None, _) => Ok(former),
        (Some(set), libc::SIG_BLOCK) => Ok(former | set & !NEVER),
        (Some(set), libc::SIG_UNBLOCK) => Ok(former & !set),
        (Some(set), libc::SIG_SETMASK) => Ok(set & !NEVER),
        _ => Err(Errno::INVAL),
    }
}

unsafe fn change_stack(call: &Call, frame: Option<&mut Frame>) -> Result<isize, Errno> {
    let [new, old, ..] = call.arguments;
    let mut loan = Loan::new();
    let bytes = size_of::<libc::stack_t>();
    let new = match new {
        0 => None,
        new => Some(memory::read::<libc::stack_t>(new)?),
    };
    if let Some(stack) = &new {
        keep_stack(stack)?;
    }
    let set = new.as_ref().map_or(0, |stack| std::ptr::from_ref(stack) as usize);
    let old = loan.lend(old, bytes, Way::Both, Manner::Any)?;
    // SAFETY: the kernel reads and writes the lent memory.
    let result = unsafe { call.make([set, old, 0, 0, 0, 0]) };
    if let (Some(frame), Some(stack), 0) = (frame, new, result) {
        frame.context().uc_stack = stack;
    }
    Ok(loan.settle(result))
}

/// Keeps an alternate stack present: the kernel writes a signal's frame there, and kills the process if it cannot. The pin stays
/// when the stack is given up: others may have got its address from the heap by then.
///
/// # Errors
/// [`Errno::NOMEM`] if it cannot be pinned.
pub(crate) fn keep_stack(stack: &libc::stack_t) -> Result<(), Errno> {
    match stack.ss_flags & libc::SS_DISABLE != 0 {
        true => Ok(()),
        false => keep_memory(stack.ss_sp as usize, stack.ss_size),
    }
}

/// As [`keep_stack`], of a stack that a thread runs on.
///
/// # Errors
/// As [`keep_stack`].
pub(crate) fn keep_memory(start: usize, bytes: usize) -> Result<(), Errno> {
    match memory::is_managed(start) {
        true => memory::keep(start, bytes),
        false => Ok(()),
    }
}

/// `clone` and its like. The child begins where the interrupted code continues, maybe on another stack: so the interrupted code makes
/// the call itself, from an instruction that the filter exempts.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn fork(call: &Call, frame: Option<&mut Frame>) -> Result<isize, Errno> {
    for argument in call.arguments {
        if memory::is_managed(argument) {
            memory::bring(argument, 1);
        }
    }
    let site = frame.and_then(|frame| {
        let site = *frame.register(libc::REG_RIP) as usize;
        let stub = trampoline::stub(site)?;
        Some((frame, stub))
    });
    let Some((frame, stub)) = site else {
        return Err(Errno::NOSYS);
    };
    *frame.register(libc::REG_RIP) = stub as i64;
    *frame.register(libc::REG_RAX) = call.number;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_change_as_the_kernel_changes_them() {
        let [all, terminate] = [u64::MAX, 1u64 << (libc::SIGTERM - 1)];
        for former in [0, terminate, 1 << 40 | 1] {
            for set in [None, Some(0), Some(terminate), Some(all)] {
                for how in [libc::SIG_BLOCK, libc::SIG_UNBLOCK, libc::SIG_SETMASK, 3, -1] {
                    // In a thread of its own.
                    let kernel = std::thread::spawn(move || kernel_change(former, how, set)).join();
                    assert_eq!(
                        changed(former, how, set).map_err(|error| error.raw()),
                        kernel.expect("a thread"),
                        "{former:x} {how} {set:x?}"
                    );
                }
            }
        }
    }

    fn kernel_change(former: u64, how: c_int, set: Option<u64>) -> Result<u64, c_int> {
        let change = |how: c_int, new: Option<&u64>, old: *mut u64| {
            let new = new.map_or(0, |mask| std::ptr::from_ref(mask) as usize);
            // SAFETY: the kernel reads and writes variables.
            unsafe {
                trampoline::call(
                    libc::SYS_rt_sigprocmask,
                    [how as usize, new, old as usize, 8, 0, 0],
                )
            }
        };
        change(libc::SIG_SETMASK, Some(&former), std::ptr::null_mut());
        match change(how, set.as_ref(), std::ptr::null_mut()) {
            0 => {
                let mut current = 0;
                change(0, None, &raw mut current);
                Ok(current)
            }
            error => Err(-error as c_int),
        }
    }
}
