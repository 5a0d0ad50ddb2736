//! System calls from one known instruction, which the filter of system calls exempts.
//!
//! The instruction is at the same address in every process: a child of `execve` inherits the filter, and has to find the exempt
//! instruction where the filter expects it.
//!
//! The kernel restarts a call by going back to the instruction: a call that a signal with SA_RESTART interrupts while the
//! handler of SIGSYS makes it here restarts here, and one without SA_RESTART returns `-EINTR` here. Neither returns to the
//! program's own instruction.
#![allow(unsafe_code, reason = "system calls")]

use std::sync::atomic::{AtomicUsize, Ordering};

use plimsoll_os::Errno;

/// Bytes of a page.
const PAGE: usize = 4096;
/// The address of the page of the instruction.
pub(crate) const TRAMPOLINE: usize = 0x0fff_0000_0000;

/// `syscall; ret`, and breakpoints up to the end of a word.
const CODE: [u8; 8] = [0x0f, 0x05, 0xc3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc];

/// Instructions for interrupted code that has to make a call by itself: `syscall; jmp [site]`. The sites to return to are on the next
/// page, which is writable.
const STUBS: usize = 64;
const STUB_BYTES: usize = 16;
const FIRST_STUB: usize = TRAMPOLINE + 1024;
const SITES: usize = TRAMPOLINE + PAGE;
const _: () = assert!(FIRST_STUB + STUBS * STUB_BYTES <= TRAMPOLINE + PAGE);

const fn stub_code(index: usize) -> [u8; 8] {
    // The distance counts from the end of the jump.
    let distance = (SITES + index * size_of::<usize>()) - (FIRST_STUB + index * STUB_BYTES + 8);
    let distance = (distance as u32).to_le_bytes();
    [
        0x0f,
        0x05,
        0xff,
        0x25,
        distance[0],
        distance[1],
        distance[2],
        distance[3],
    ]
}

/// The code that makes system calls: [`direct`] until the page is mapped. 0 stands for [`direct`].
static ENTRY: AtomicUsize = AtomicUsize::new(0);

/// The same code outside of the page. The filter does not exempt it.
#[unsafe(naked)]
unsafe extern "C" fn direct() {
    core::arch::naked_asm!("syscall", "ret");
}

/// Maps the page. It is writable while the code is written, and executable from then on, but never both.
///
/// # Errors
/// The addresses are in use, or the kernel refuses an executable page.
pub(crate) fn map() -> Result<(), Errno> {
    if ENTRY.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the kernel maps a new page at addresses that are free, or fails.
    let mapped = unsafe {
        call(
            libc::SYS_mmap,
            [
                TRAMPOLINE,
                2 * PAGE,
                access as usize,
                flags as usize,
                usize::MAX,
                0,
            ],
        )
    };
    let mapped = check(mapped)?;
    if mapped != TRAMPOLINE {
        // A kernel before 4.17 takes the address as a hint.
        // SAFETY: mapped a moment ago, and nobody knows it.
        unsafe { call(libc::SYS_munmap, [mapped, 2 * PAGE, 0, 0, 0, 0]) };
        return Err(Errno::EXIST);
    }
    // SAFETY: the page is writable, and this thread alone knows it. The code is within it.
    unsafe {
        (TRAMPOLINE as *mut [u8; 8]).write(CODE);
        for index in 0..STUBS {
            ((FIRST_STUB + index * STUB_BYTES) as *mut [u8; 8]).write(stub_code(index));
        }
    }
    let access = libc::PROT_READ | libc::PROT_EXEC;
    // SAFETY: the page is this module's.
    check(unsafe { call(libc::SYS_mprotect, [TRAMPOLINE, PAGE, access as usize, 0, 0, 0]) })?;
    ENTRY.store(TRAMPOLINE, Ordering::Release);
    Ok(())
}

/// The address of code that makes a system call, of which the registers are set, and continues at `site`. None if there are as many
/// sites as stubs.
pub(crate) fn stub(site: usize) -> Option<usize> {
    if ENTRY.load(Ordering::Acquire) == 0 {
        return None;
    }
    (0..STUBS).find_map(|index| {
        // SAFETY: the page of the sites is mapped for ever, and is used as atomic numbers alone.
        let slot = unsafe { &*((SITES + index * size_of::<usize>()) as *const AtomicUsize) };
        let former = slot.compare_exchange(0, site, Ordering::AcqRel, Ordering::Acquire);
        let is_here = former.is_ok() || former == Err(site);
        is_here.then_some(FIRST_STUB + index * STUB_BYTES)
    })
}

/// Makes a system call. Returns the kernel's result: an error is the negative of its number. `errno` stays as it was.
///
/// # Safety
/// As for the system call: it may change any memory of the process.
pub(crate) unsafe fn call(number: i64, arguments: [usize; 6]) -> isize {
    let entry = match ENTRY.load(Ordering::Relaxed) {
        0 => direct as *const () as usize,
        entry => entry,
    };
    let returned: isize;
    // SAFETY: the code at `entry` makes the call and returns; the kernel clobbers rcx and r11 alone. The effects of the call
    // are the caller's premise.
    unsafe {
        core::arch::asm!(
            "call {entry}",
            entry = in(reg) entry,
            inlateout("rax") number as isize => returned,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_return_the_result_of_the_kernel_before_and_after_the_page_is_mapped() {
        let pid = std::process::id() as isize;
        for _ in 0..2 {
            // SAFETY: these calls take no memory.
            unsafe {
                assert_eq!(call(libc::SYS_getpid, [0; 6]), pid);
                assert_eq!(call(libc::SYS_close, [usize::MAX; 6]), -(libc::EBADF as isize));
            }
            map().expect("free addresses");
        }
    }

    #[test]
    fn a_stub_makes_the_call_and_continues_at_its_site() {
        map().expect("free addresses");
        /// The site: returns to the caller of the stub.
        #[unsafe(naked)]
        extern "C" fn site() {
            core::arch::naked_asm!("ret");
        }
        let stub = stub(site as *const () as usize).expect("a stub");
        assert_eq!(super::stub(site as *const () as usize), Some(stub));
        let returned: i64;
        // SAFETY: the stub makes a call without arguments, and the site returns.
        unsafe {
            core::arch::asm!(
                "call {stub}",
                stub = in(reg) stub,
                inlateout("rax") libc::SYS_getpid => returned,
                lateout("rcx") _,
                lateout("r11") _,
            );
        }
        assert_eq!(returned, i64::from(std::process::id()));
    }

    #[test]
    fn the_page_is_never_writable_and_executable() {
        map().expect("free addresses");
        let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps of this process");
        let line = maps.lines().find(|line| line.starts_with("fff00000000-"));
        assert!(line.is_some_and(|line| line.contains("r-xp")), "{line:?}");
    }
}
