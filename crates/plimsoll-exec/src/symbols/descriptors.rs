//! Descriptors of the library, and the symbols that close descriptors.
//!
//! Programs take low numbers by themselves (`dup2(file, 3)`), so the library's are high. Programs close all that they do not know
//! (`close_range(3, ~0)`), in themselves and between `vfork` and `execve`: the library's have to stay. That of the pool, which children
//! inherit, is protected too.
#![allow(unsafe_code, reason = "exported symbols")]

use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU64, Ordering};

use super::errors::{failed, returned};
use crate::next_symbol::Next;
use crate::trampoline;

/// The usual limit of a process. The library's descriptors are below it if they have room there.
const MOST: usize = 1024;
/// Numbers for descriptors of the library.
const ROOM: usize = 128;
/// The library's descriptors are below it.
const NUMBERS: usize = MOST + ROOM;

/// The protected descriptors, one bit each.
static PROTECTED: [AtomicU64; NUMBERS / 64] = [const { AtomicU64::new(0) }; NUMBERS / 64];

/// Low numbers that are in use while the library opens its descriptors. The limit is higher meanwhile, if the process may raise it:
/// a program that starts at its limit has descriptors of the library above it.
pub(crate) struct LowNumbers {
    /// Numbers from here on are the library's.
    first: usize,
    /// The numbers that this value occupies, one bit each.
    occupied: [u64; NUMBERS / 64],
    limit: Limit,
}

/// Makes a system call with three numbers.
fn system_call(number: i64, first: usize, second: usize, third: usize) -> isize {
    // SAFETY: the calls take no memory, or a variable of the caller.
    unsafe { trampoline::call(number, [first, second, third, 0, 0, 0]) }
}

/// No limit of the kernel's: the soft limit is above the hard one.
const UNKNOWN: libc::rlimit64 = libc::rlimit64 {
    rlim_cur: MOST as u64,
    rlim_max: 0,
};

/// The limit of the process on numbers of descriptors.
#[derive(Clone, Copy)]
pub(crate) struct Limit(libc::rlimit64);

impl Limit {
    /// The limit in force. [`UNKNOWN`] if the kernel does not tell.
    pub(crate) fn current() -> Limit {
        let mut limit = UNKNOWN;
        system_call(
            libc::SYS_getrlimit,
            libc::RLIMIT_NOFILE as usize,
            (&raw mut limit) as usize,
            0,
        );
        Limit(limit)
    }

    /// Has the kernel take this limit.
    pub(crate) fn set(&self) -> bool {
        let limit = (&raw const self.0) as usize;
        system_call(libc::SYS_setrlimit, libc::RLIMIT_NOFILE as usize, limit, 0) == 0
    }

    /// Makes room for the library's descriptors, as far as the hard limit allows. Returns the limit in force then.
    pub(crate) fn raise(self) -> Limit {
        if self.0.rlim_max < self.0.rlim_cur {
            // The kernel would take 0, which ends the use of descriptors.
            return self;
        }
        let most = (MOST as u64).max(self.0.rlim_cur).saturating_add(ROOM as u64);
        let raised = Limit(libc::rlimit64 {
            rlim_cur: most.min(self.0.rlim_max),
            ..self.0
        });
        match raised.set() {
            true => raised,
            false => self,
        }
    }

    /// The first number for the library's descriptors: the same for all limits, if possible. Programs lower the soft limit and
    /// expect nothing open at numbers that they have used above it.
    fn first_number(&self) -> usize {
        let limit = usize::try_from(self.0.rlim_cur).unwrap_or(MOST).min(MOST);
        limit.saturating_sub(ROOM).max(limit / 2)
    }
}

/// Descriptors that a message may have (`SCM_MAX_FD`).
const IN_MESSAGE: usize = 253;
/// Words of a control message with them.
const CONTROL: usize = HEADER / 8 + IN_MESSAGE.div_ceil(2);

/// A message of one byte with descriptors.
struct Parcel {
    byte: u8,
    control: [u64; CONTROL],
}

impl Parcel {
    /// Sends or receives it, with `count` descriptors.
    fn exchange(&mut self, number: i64, socket: usize, count: usize, flags: c_int) -> bool {
        let mut part = libc::iovec {
            iov_base: (&raw mut self.byte).cast(),
            iov_len: 1,
        };
        // SAFETY: the header is valid as zeroes.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        header.msg_controllen = (HEADER + 4 * count).next_multiple_of(8);
        system_call(number, socket, (&raw mut header) as usize, flags as usize) == 1
    }
}

/// Bytes of the header of a control message: its length, its level and its type.
const HEADER: usize = 16;

/// Gives `file` `count` more numbers, the lowest that are free, by one message of a socket to the other: a call for each number takes
/// longer than all of the rest of the start. Calls `take` for each.
fn multiply(file: usize, sockets: [usize; 2], count: usize, mut take: impl FnMut(usize)) -> bool {
    let mut parcel = Parcel {
        byte: 0,
        control: [0; CONTROL],
    };
    let kind = (libc::SOL_SOCKET as u64) | (libc::SCM_RIGHTS as u64) << 32;
    parcel.control[0] = (HEADER + 4 * count) as u64;
    parcel.control[1] = kind;
    parcel.control[2..].fill(file as u64 | (file as u64) << 32);
    if !parcel.exchange(libc::SYS_sendmsg, sockets[0], count, libc::MSG_DONTWAIT) {
        return false;
    }
    parcel.control.fill(0);
    let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
    if !parcel.exchange(libc::SYS_recvmsg, sockets[1], count, flags) || parcel.control[1] != kind {
        return false;
    }
    let received = (parcel.control[0] as usize).saturating_sub(HEADER) / 4;
    for index in 0..received.min(count) {
        take((parcel.control[2 + index / 2] >> (32 * (index % 2)) & u64::from(u32::MAX)) as usize);
    }
    received == count
}

impl LowNumbers {
    /// Occupies the low numbers that are free.
    pub(crate) fn occupy() -> LowNumbers {
        let limit = Limit::current();
        let mut low = LowNumbers {
            first: limit.raise().first_number(),
            occupied: [0; NUMBERS / 64],
            limit,
        };
        let event = system_call(libc::SYS_eventfd2, 0, libc::EFD_CLOEXEC as usize, 0);
        let Ok(event) = usize::try_from(event) else {
            return low;
        };
        if low.take(event) {
            low.occupy_by_messages(event);
            low.occupy_one_by_one(event);
        }
        low
    }

    /// The first number of the library's.
    pub(crate) fn first(&self) -> i32 {
        self.first as i32
    }

    /// Keeps a number if it is a low one. Closes it otherwise.
    fn take(&mut self, file: usize) -> bool {
        let is_low = file < self.first;
        if is_low {
            self.occupied[file / 64] |= 1 << (file % 64);
        } else {
            system_call(libc::SYS_close, file, 0, 0);
        }
        is_low
    }

    fn occupy_by_messages(&mut self, event: usize) {
        let mut sockets = [-1 as c_int; 2];
        let kind = (libc::SOCK_DGRAM | libc::SOCK_CLOEXEC) as usize;
        let arguments = [
            libc::AF_UNIX as usize,
            kind,
            0,
            sockets.as_mut_ptr() as usize,
            0,
            0,
        ];
        // SAFETY: the kernel writes the numbers.
        if unsafe { trampoline::call(libc::SYS_socketpair, arguments) } != 0 {
            return;
        }
        let sockets = sockets.map(|socket| socket as usize);
        if !(self.take(sockets[0]) & self.take(sockets[1])) {
            return;
        }
        let mut last = sockets[0].max(sockets[1]);
        while last + 1 < self.first {
            let count = (self.first - last - 1).min(IN_MESSAGE);
            let are_all = multiply(event, sockets, count, |file| {
                self.take(file);
                last = last.max(file);
            });
            if !are_all {
                return;
            }
        }
    }

    /// Occupies the numbers that are free yet.
    fn occupy_one_by_one(&mut self, event: usize) {
        let command = libc::F_DUPFD_CLOEXEC as usize;
        loop {
            let next = system_call(libc::SYS_fcntl, event, command, 0);
            if !usize::try_from(next).is_ok_and(|next| self.take(next)) {
                return;
            }
        }
    }

    /// Frees the low numbers, and protects the descriptors that the library has opened meanwhile.
    pub(crate) fn free(self) {
        let is_occupied = |file: usize| self.occupied[file / 64] >> (file % 64) & 1 == 1;
        let mut start = 0;
        while start < self.first {
            let end = (start..self.first)
                .find(|file| !is_occupied(*file))
                .unwrap_or(self.first);
            if end > start && system_call(libc::SYS_close_range, start, end - 1, 0) != 0 {
                // A filter of the caller may refuse the call.
                for file in start..end {
                    system_call(libc::SYS_close, file, 0, 0);
                }
            }
            start = end + 1;
        }
        for file in open_files(self.first) {
            let flags = system_call(libc::SYS_fcntl, file, libc::F_GETFD as usize, 0);
            // Inherited ones have stayed open at the execution of the program.
            let is_new = flags > 0 && flags as c_int & libc::FD_CLOEXEC != 0;
            // The pager ends the protection of its own when it closes them.
            if is_new && !plimsoll_pager::owns_descriptor(file as c_int) {
                protect(file as c_int);
            }
        }
        self.limit.set();
    }
}

/// The numbers of open files from `first` on; all numbers if the kernel does not tell.
fn open_files(first: usize) -> impl Iterator<Item = usize> {
    let mut entries: [libc::pollfd; 2 * ROOM] = std::array::from_fn(|index| libc::pollfd {
        fd: (first + index) as c_int,
        events: 0,
        revents: 0,
    });
    let no_time = [0u64; 2];
    let arguments = [
        entries.as_mut_ptr() as usize,
        2 * ROOM,
        no_time.as_ptr() as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the kernel writes the entries.
    unsafe { trampoline::call(libc::SYS_ppoll, arguments) };
    let is_open = |entry: &libc::pollfd| entry.revents & libc::POLLNVAL == 0;
    entries.into_iter().filter(is_open).map(|entry| entry.fd as usize)
}

/// Ends the protection of a number that the library has closed.
pub(crate) fn unprotect(file: c_int) {
    if let Ok(file) = usize::try_from(file)
        && let Some(word) = PROTECTED.get(file / 64)
    {
        word.fetch_and(!(1 << (file % 64)), Ordering::Relaxed);
    }
}

/// Has the program leave a descriptor alone.
pub(crate) fn protect(file: c_int) {
    let file = usize::try_from(file).unwrap_or(MOST);
    if let Some(word) = PROTECTED.get(file / 64) {
        word.fetch_or(1 << (file % 64), Ordering::Relaxed);
    }
}

/// Whether the program must not touch a descriptor. The pager gives its own other files while it forks.
fn is_protected(file: c_int) -> bool {
    !super::forker::is_this_thread() && (is_marked(file) || plimsoll_pager::owns_descriptor(file))
}

fn is_marked(file: c_int) -> bool {
    let file = usize::try_from(file).unwrap_or(NUMBERS);
    let word = PROTECTED.get(file / 64);
    word.is_some_and(|word| word.load(Ordering::Relaxed) >> (file % 64) & 1 == 1)
}

/// `close(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close(file: c_int) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int) -> c_int> = unsafe { Next::new(c"close") };
    if is_protected(file) {
        return failed(libc::EBADF);
    }
    match NEXT.find() {
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(file) },
        None => failed(libc::ENOSYS),
    }
}

/// `dup2(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup2(old: c_int, new: c_int) -> c_int {
    // SAFETY: the type of the function.
    static NEXT: Next<unsafe extern "C" fn(c_int, c_int) -> c_int> = unsafe { Next::new(c"dup2") };
    match NEXT.find() {
        _ if is_protected(new) => failed(libc::EBUSY),
        // SAFETY: the caller's premise.
        Some(next) => unsafe { next(old, new) },
        None => failed(libc::ENOSYS),
    }
}

/// `dup3(2)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dup3(old: c_int, new: c_int, flags: c_int) -> c_int {
    if is_protected(new) {
        return failed(libc::EBUSY);
    }
    // SAFETY: the call takes no memory.
    returned(unsafe {
        trampoline::call(
            libc::SYS_dup3,
            [old as usize, new as usize, flags as usize, 0, 0, 0],
        )
    }) as c_int
}

/// `close_range(2)`: the ranges between protected descriptors.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let close = |first: c_uint, last: c_uint| {
        // SAFETY: the call takes no memory.
        returned(unsafe {
            trampoline::call(
                libc::SYS_close_range,
                [first as usize, last as usize, flags as usize, 0, 0, 0],
            )
        }) as c_int
    };
    let mut next = first;
    for file in first..=last.min(NUMBERS as c_uint) {
        if !is_protected(file as c_int) {
            continue;
        }
        if file > next && close(next, file - 1) != 0 {
            return -1;
        }
        next = file + 1;
    }
    // The kernel judges an empty range.
    if next <= last || first > last {
        close(next, last)
    } else {
        0
    }
}

/// `closefrom(3)`.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    // SAFETY: the caller's premise.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}
