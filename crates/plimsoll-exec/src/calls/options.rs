//! Calls whose memory depends on a command: `ioctl`, `fcntl`, `prctl`, `setsockopt`, `seccomp` and `ptrace`.
#![allow(unsafe_code, reason = "system calls")]

use plimsoll_os::Errno;

use super::Call;
use super::loan::{Loan, Manner, Way};
use super::memory;
use super::nested;
use super::plain;

/// Tries to have the pages present that a structure of a call points to.
const MOST_TRIES: usize = 4;

/// Makes a call with `bytes` behind one of its arguments, which the kernel reads and writes.
unsafe fn with(call: &Call, argument: usize, bytes: usize) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let mut arguments = call.arguments;
    arguments[argument] = loan.lend(arguments[argument], bytes, Way::Both, Manner::Any)?;
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(arguments) }))
}

/// Bytes behind the argument of an `ioctl`; none if they are unknown.
fn ioctl_bytes(request: u32) -> Option<usize> {
    // `struct ifreq`, `struct arpreq` and `struct rtentry`.
    const INTERFACE: usize = 40;
    const NEIGHBOUR: usize = 68;
    const ROUTE: usize = 120;
    let known = match request {
        // Terminals: `termios`, `termio`, `winsize`, `serial_struct`, numbers, a character.
        0x5401..=0x5404 => 36,
        0x5405..=0x5408 => 18,
        0x5413 | 0x5414 => 8,
        0x541e | 0x541f => 72,
        0x5412 => 1,
        0x540f | 0x5410 | 0x5411 | 0x5415..=0x541d | 0x5420 | 0x5421 | 0x5423 | 0x5424 | 0x5429 => 4,
        0x5452 => 4,
        // Block devices.
        0x125e | 0x1263 | 0x126c | 0x126d | 0x1260 | 0x1262 | 0x1268 | 0x1278..=0x127c => 8,
        // Sockets.
        0x8901..=0x8905 => 4,
        0x8906 | 0x8907 => 16,
        0x890b | 0x890c => ROUTE,
        0x8910..=0x8911 | 0x8913..=0x8945 | 0x8947..=0x8952 => INTERFACE,
        0x8953..=0x8955 => NEIGHBOUR,
        0x8960..=0x8970 => INTERFACE,
        _ => 0,
    };
    let stated = (request >> 16 & 0x3fff) as usize;
    match (known, stated) {
        (0, 0) => None,
        (0, stated) => Some(stated),
        (known, _) => Some(known),
    }
}

/// `ioctl(2)`: the number of the request states its bytes, or a list does. Without either, the page is present; the words of a structure
/// that may point to more memory have pages there brought.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn ioctl(call: &Call) -> Result<isize, Errno> {
    let [_, request, user, ..] = call.arguments;
    // SAFETY: the caller's premise.
    unsafe {
        match ioctl_bytes(request as u32) {
            Some(bytes) if memory::is_managed(user) => ioctl_with(call, bytes),
            _ => plain::with_pages(call, call.arguments, &[2]),
        }
    }
}

unsafe fn ioctl_with(call: &Call, bytes: usize) -> Result<isize, Errno> {
    let fault = -(libc::EFAULT as isize);
    let mut result = fault;
    for _ in 0..MOST_TRIES {
        let mut loan = Loan::new();
        let mut arguments = call.arguments;
        arguments[2] = loan.lend(arguments[2], bytes, Way::Both, Manner::Any)?;
        if bytes >= size_of::<usize>() && !memory::is_managed(arguments[2]) {
            // SAFETY: the copy has that many bytes.
            unsafe { plain::bring_targets(arguments[2], bytes) };
        }
        // SAFETY: the caller's premise.
        result = loan.settle(unsafe { call.make(arguments) });
        if result != fault {
            break;
        }
    }
    Ok(result)
}

/// `fcntl(2)`.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn fcntl(call: &Call) -> Result<isize, Errno> {
    const F_SETOWN_EX: i32 = 15;
    const F_GETOWN_EX: i32 = 16;
    const F_GET_RW_HINT: i32 = 1035;
    const F_SET_FILE_RW_HINT: i32 = 1038;
    let bytes = match call.arguments[1] as i32 {
        libc::F_GETLK
        | libc::F_SETLK
        | libc::F_SETLKW
        | libc::F_OFD_GETLK
        | libc::F_OFD_SETLK
        | libc::F_OFD_SETLKW => size_of::<libc::flock>(),
        F_SETOWN_EX | F_GETOWN_EX => 8,
        F_GET_RW_HINT..=F_SET_FILE_RW_HINT => 8,
        // The argument is a number.
        _ => 0,
    };
    // SAFETY: the caller's premise.
    unsafe { with(call, 2, bytes) }
}

/// `prctl(2)`. Names of memory of the arena are not set: the kernel would split the mapping, and moves pages of whole mappings alone.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn prctl(call: &Call) -> Result<isize, Errno> {
    const PR_SET_VMA: i32 = 0x5356_4d41;
    const PR_GET_AUXV: i32 = 0x4155_5856;
    /// Bytes of a thread's name.
    const NAME: usize = 16;
    let [option, second, third, ..] = call.arguments;
    // SAFETY: the caller's premise.
    unsafe {
        match option as i32 {
            libc::PR_SET_NAME if memory::is_managed(second) => {
                let bytes = memory::text_length(second, NAME)?;
                with(call, 1, bytes)
            }
            libc::PR_GET_NAME => with(call, 1, NAME),
            libc::PR_GET_PDEATHSIG
            | libc::PR_GET_TSC
            | libc::PR_GET_UNALIGN
            | libc::PR_GET_FPEMU
            | libc::PR_GET_FPEXC
            | libc::PR_GET_ENDIAN
            | libc::PR_GET_CHILD_SUBREAPER => with(call, 1, 4),
            libc::PR_GET_TID_ADDRESS => with(call, 1, 8),
            libc::PR_SET_SECCOMP if third != 0 => with_program(call, 2),
            PR_SET_VMA if memory::is_managed(third) => Ok(0),
            PR_SET_VMA if call.arguments[4] != 0 => {
                let bytes = memory::text_length(call.arguments[4], 80)?;
                with(call, 4, bytes)
            }
            PR_GET_AUXV => with(call, 1, third),
            _ => plain::with_pages(call, call.arguments, &[1, 2, 3, 4]),
        }
    }
}

/// `arch_prctl(2)`: it sets registers to addresses, and stores them.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn arch_prctl(call: &Call) -> Result<isize, Errno> {
    const ARCH_SET_GS: i32 = 0x1001;
    const ARCH_SET_FS: i32 = 0x1002;
    let bytes = match call.arguments[0] as i32 {
        ARCH_SET_FS | ARCH_SET_GS => 0,
        _ => 8,
    };
    // SAFETY: the caller's premise.
    unsafe { with(call, 1, bytes) }
}

/// Makes a call with a filter program behind one of its arguments.
unsafe fn with_program(call: &Call, argument: usize) -> Result<isize, Errno> {
    let mut loan = Loan::new();
    let mut arguments = call.arguments;
    arguments[argument] = nested::lend_program(&mut loan, arguments[argument])?;
    // SAFETY: the caller's premise.
    Ok(loan.settle(unsafe { call.make(arguments) }))
}

/// `setsockopt(2)`: some options are filter programs.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn set_socket_option(call: &Call) -> Result<isize, Errno> {
    let [_, level, option, user, bytes, _] = call.arguments;
    let is_program = level as i32 == libc::SOL_SOCKET
        && matches!(
            option as i32,
            libc::SO_ATTACH_FILTER | libc::SO_ATTACH_REUSEPORT_CBPF
        );
    // SAFETY: the caller's premise.
    unsafe {
        match is_program && user != 0 && bytes == size_of::<[usize; 2]>() {
            true => with_program(call, 3),
            // A negative length is refused.
            false => with(call, 3, i32::try_from(bytes as u32).unwrap_or(0) as usize),
        }
    }
}

/// `seccomp(2)`.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn seccomp(call: &Call) -> Result<isize, Errno> {
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    let [operation, _, user, ..] = call.arguments;
    // SAFETY: the caller's premise.
    unsafe {
        match operation == SECCOMP_SET_MODE_FILTER && user != 0 {
            true => with_program(call, 2),
            false => with(call, 2, 8),
        }
    }
}

/// `ptrace(2)`. The kernel knows the bytes of its structures. The value of `PTRACE_POKEDATA` may be an address of the arena, as
/// programs have the arena at the same place. Values and addresses of the tracee are passed on unchanged; only pointers of the
/// caller are made resident.
///
/// # Safety
/// The program asked for the effects of the call.
pub(super) unsafe fn ptrace(call: &Call) -> Result<isize, Errno> {
    const PTRACE_ARCH_PRCTL: u32 = 30;
    let pointers: &[usize] = match call.arguments[0] as u32 {
        libc::PTRACE_POKETEXT | libc::PTRACE_POKEDATA | libc::PTRACE_POKEUSER => &[],
        libc::PTRACE_GETREGSET | libc::PTRACE_SETREGSET => {
            // SAFETY: the caller's premise.
            return unsafe { register_set(call) };
        }
        libc::PTRACE_PEEKSIGINFO => &[2, 3],
        // The pointer to the result, or a value; the next argument is a code.
        PTRACE_ARCH_PRCTL => &[2],
        _ => &[3],
    };
    // SAFETY: the caller's premise.
    unsafe { plain::with_pages(call, call.arguments, pointers) }
}

/// A set of registers of the tracee: the pointer is to an `iovec` of the buffer. The kernel writes the length of the set to it.
unsafe fn register_set(call: &Call) -> Result<isize, Errno> {
    /// No set has more bytes. The program may state more than its buffer has.
    const MOST: usize = 1 << 16;
    let fault = -(libc::EFAULT as isize);
    let mut result = fault;
    for _ in 0..MOST_TRIES {
        let mut loan = Loan::new();
        let mut arguments = call.arguments;
        arguments[3] = loan.lend(arguments[3], size_of::<libc::iovec>(), Way::Both, Manner::Any)?;
        let buffer: libc::iovec = memory::read(arguments[3])?;
        let (start, bytes) = (buffer.iov_base as usize, buffer.iov_len.min(MOST));
        if bytes > 0 && memory::is_managed(start) && !loan.pin(start, bytes) {
            memory::bring(start, bytes);
        }
        // SAFETY: the caller's premise.
        result = loan.settle(unsafe { call.make(arguments) });
        if result != fault {
            break;
        }
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::testing::Pages;
    use super::*;

    #[test]
    fn requests_state_their_bytes() {
        assert_eq!(ioctl_bytes(libc::TCGETS as u32), Some(36));
        assert_eq!(ioctl_bytes(libc::TIOCGWINSZ as u32), Some(8));
        assert_eq!(ioctl_bytes(libc::FIONREAD as u32), Some(4));
        assert_eq!(ioctl_bytes(libc::FIONBIO as u32), Some(4));
        assert_eq!(ioctl_bytes(libc::TIOCGPTN as u32), Some(4));
        assert_eq!(ioctl_bytes(libc::TCGETS2 as u32), Some(44));
        assert_eq!(ioctl_bytes(0x8912), None, "SIOCGIFCONF: its pointers are unknown");
        assert_eq!(ioctl_bytes(0), None);
        assert_eq!(ioctl_bytes(u32::MAX), Some(0x3fff));
    }

    #[test]
    fn names_of_threads_go_both_ways() {
        crate::trampoline::map().expect("free addresses");
        let pages = Pages::of_arena(1);
        // At the end of the page: not a byte more is read.
        pages.fill(4096 - 5, b"name\0");
        let call = |option, at| Call::new(libc::SYS_prctl, [option as usize, pages.start() + at, 0, 0, 0, 0]);
        // SAFETY: the calls read and write the test's pages.
        unsafe {
            assert_eq!(super::super::serve(call(libc::PR_SET_NAME, 4096 - 5)), 0);
            assert_eq!(super::super::serve(call(libc::PR_GET_NAME, 100)), 0);
        }
        assert_eq!(pages.bytes(100, 5), b"name\0");
    }
}
