//! Faults as messages, which a thread reads from a userfaultfd without `UFFD_FEATURE_SIGBUS`.
#![allow(unsafe_code)]

use core::ptr::null_mut;
use core::time::Duration;

use crate::raw::system_call;
use crate::{Errno, Fd};

/// Messages that one call reads at most.
pub const MOST_FAULTS: usize = 16;

/// `UFFD_EVENT_PAGEFAULT` of `<linux/userfaultfd.h>`.
const PAGE_FAULT: u8 = 0x12;

/// `struct uffd_msg` of a page fault.
#[repr(C)]
#[derive(Clone, Copy)]
struct RawMessage {
    event: u8,
    reserved: [u8; 7],
    flags: u64,
    address: u64,
    thread: u64,
}
const _: () = assert!(size_of::<RawMessage>() == 32);

/// A fault whose thread waits until its page is present, or until it is woken ([`uffd_wake`](crate::uffd_wake)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UffdFault {
    /// The address of the access, or of its page.
    pub address: usize,
    /// The number of its thread (`gettid(2)`), if the userfaultfd has [`UffdFeatures::THREAD_ID`](crate::UffdFeatures); else 0.
    pub thread: usize,
}

/// Reads the faults of a userfaultfd until it is ended. No call allocates or touches `errno`.
#[derive(Debug)]
pub struct FaultReader {
    /// An `eventfd(2)`: readable from [`FaultReader::end`] on.
    end: Fd,
}

impl FaultReader {
    /// A reader that is not ended. Its descriptor is the first free one from `least` on.
    ///
    /// # Errors
    /// The process has as many descriptors as it may.
    pub fn new(least: i32) -> Result<FaultReader, Errno> {
        let flags = (libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) as usize;
        // SAFETY: the call takes numbers alone and returns a new descriptor.
        let descriptor = unsafe { system_call(libc::SYS_eventfd2, [0, flags, 0, 0, 0, 0]) }?;
        let end = Fd::from_call(descriptor as i32).at_number_from(least)?;
        Ok(FaultReader { end })
    }

    /// The number of its descriptor.
    pub fn number(&self) -> i32 {
        self.end.raw()
    }

    /// Has [`FaultReader::next`] return none from now on.
    pub fn end(&self) {
        let one = 1_u64;
        let arguments = [self.end.raw() as usize, &raw const one as usize, 8, 0, 0, 0];
        // SAFETY: the kernel reads 8 bytes. It fails only if the counter is full: then the reader is ended already.
        let _ = unsafe { system_call(libc::SYS_write, arguments) };
    }

    /// Waits for faults of `uffd`, for `limit` if there is one, and gives them to `faults`, as many as one call reads. None
    /// once the reader is ended; 0 if the limit passed, a signal came, or no fault was left to read: another reader had them, or
    /// another thread resolved them.
    ///
    /// Calls `begin` once there are faults, before it reads them. From the read on, the thread of a fault may run again at any
    /// time, as another thread may resolve the fault too.
    ///
    /// # Errors
    /// The kernel refuses the descriptor.
    pub fn next(
        &self,
        uffd: &Fd,
        limit: Option<Duration>,
        begin: impl FnOnce(),
        mut faults: impl FnMut(UffdFault),
    ) -> Result<Option<usize>, Errno> {
        let poll = |descriptor: &Fd| libc::pollfd {
            fd: descriptor.raw(),
            events: libc::POLLIN,
            revents: 0,
        };
        let mut polled = [poll(&self.end), poll(uffd)];
        let mut limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: limit.subsec_nanos() as libc::c_long,
        });
        let limit = limit.as_mut().map_or(null_mut(), |limit| &raw mut *limit);
        let arguments = [
            polled.as_mut_ptr() as usize,
            polled.len(),
            limit as usize,
            0,
            0,
            0,
        ];
        // SAFETY: the kernel writes to the two entries, and the time that is left to the limit; without a limit it waits for
        // ever, without a mask it changes none.
        match unsafe { system_call(libc::SYS_ppoll, arguments) } {
            Ok(0) => return Ok(Some(0)),
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Some(0)),
            Err(errno) => return Err(errno),
        }
        if polled[0].revents != 0 {
            return Ok(None);
        }
        let mut messages = [RawMessage {
            event: 0,
            reserved: [0; 7],
            flags: 0,
            address: 0,
            thread: 0,
        }; MOST_FAULTS];
        let arguments = [
            uffd.raw() as usize,
            messages.as_mut_ptr() as usize,
            size_of_val(&messages),
            0,
            0,
            0,
        ];
        begin();
        // SAFETY: the kernel writes whole messages, for which every bit pattern is valid.
        let bytes = match unsafe { system_call(libc::SYS_read, arguments) } {
            Ok(bytes) => bytes,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Some(0)),
            Err(errno) => return Err(errno),
        };
        let messages = &messages[..bytes / size_of::<RawMessage>()];
        for message in messages.iter().filter(|message| message.event == PAGE_FAULT) {
            faults(UffdFault {
                address: message.address as usize,
                // The number has the lower half.
                thread: (message.thread & u64::from(u32::MAX)) as usize,
            });
        }
        Ok(Some(messages.len()))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    extern crate std;

    use core::cell::Cell;
    use std::thread;

    use super::FaultReader;
    use crate::{
        RegisterMode, UffdMode, address_space, api_handshake, open_userfaultfd, uffd_register, uffd_zero,
    };

    const PAGE: usize = 4096;

    /// The reader once began after its read: a thread whose fault was read and resolved in between did not know that the reader
    /// had its fault.
    #[test]
    fn a_fault_that_is_resolved_when_the_reader_begins_is_not_read() {
        let uffd = open_userfaultfd(UffdMode::UserModeOnly).expect("userfaultfd is allowed");
        api_handshake(&uffd).expect("its first handshake");
        let start = address_space::map(PAGE).expect("memory");
        uffd_register(&uffd, start, PAGE, RegisterMode::Missing).expect("a plain mapping");
        let reader = FaultReader::new(0).expect("a descriptor is free");
        // SAFETY: the page is mapped until the thread has ended.
        let toucher = thread::spawn(move || unsafe { (start as *const u8).read_volatile() });
        let has_begun = Cell::new(false);
        while !has_begun.get() {
            let begin = || {
                // SAFETY: the page is this test's.
                let zeroed = unsafe { uffd_zero(&uffd, start, PAGE) };
                assert_eq!(zeroed.error, None);
                has_begun.set(true);
            };
            // A signal ends a wait without a fault.
            let read = reader.next(&uffd, None, begin, |fault| panic!("{fault:?} is read"));
            assert_eq!(read, Ok(Some(0)));
        }
        assert_eq!(toucher.join().expect("its fault is resolved"), 0);
        // SAFETY: the page is this test's, which uses it no more.
        unsafe { address_space::unmap(start, PAGE) }.expect("mapped above");
    }
}
