//! `/proc/PID/mem`: the memory of another process as a file.
//!
//! `process_vm_readv(2)` takes faults as the process itself does. Where a userfaultfd has the faults of the kernel (QEMU's
//! postcopy, CRIU's lazy pages, a pager with a thread for faults), the call waits until someone brings the page, and a program
//! that expects no such fault may end. A read of the file waits for no userfaultfd: the page is unreadable while it is absent.
//!
//! For pages in swap, both wait. The read of the file holds the lock of the address space meanwhile (`mmap_lock`), so it is for
//! few bytes, of memory that may be anyone's.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use plimsoll_os::{Memory, MemoryError, OtherProcess};

/// The memory of another process, by its file if that can be opened.
#[derive(Debug)]
pub(super) struct MemoryFile {
    /// None if it cannot be opened. Both ways ask for the same access, but the file belongs to the user of the process too:
    /// CAP_SYS_PTRACE alone suffices for the call.
    file: Option<File>,
    process: OtherProcess,
}

impl MemoryFile {
    /// Opens the memory of the process `pid`. If there is none, or no access to it, reads fail.
    pub(super) fn open(pid: u32) -> MemoryFile {
        MemoryFile {
            file: File::open(format!("/proc/{pid}/mem")).ok(),
            process: OtherProcess::new(pid),
        }
    }
}

impl Memory for MemoryFile {
    fn read(&self, address: usize, into: &mut [u8]) -> Result<(), MemoryError> {
        let Some(file) = &self.file else {
            return self.process.read(address, into);
        };
        match file.read_exact_at(into, address as u64) {
            Ok(()) => Ok(()),
            // The opened memory is no one's any more: the process has ended, or executes another program.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.process.read(address, into),
            Err(_) => Err(MemoryError::Unreadable { address }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of a process by its file, and as where the file cannot be opened.
    fn both_ways(pid: u32) -> [MemoryFile; 2] {
        let by_file = MemoryFile::open(pid);
        assert!(by_file.file.is_some());
        let by_call = MemoryFile {
            file: None,
            process: OtherProcess::new(pid),
        };
        [by_file, by_call]
    }

    #[test]
    fn the_file_and_the_call_read_the_same() {
        let word = 7_u64;
        let address = (&raw const word).expose_provenance();
        for memory in both_ways(std::process::id()) {
            let mut bytes = [0; 8];
            assert_eq!(memory.read(address, &mut bytes), Ok(()));
            assert_eq!(u64::from_ne_bytes(bytes), 7);
            for address in [8, usize::MAX - 8] {
                let read = memory.read(address, &mut bytes);
                assert_eq!(read, Err(MemoryError::Unreadable { address }));
            }
        }
    }

    #[test]
    fn an_ended_process_has_no_memory() {
        let mut child = plimsoll_testkit::command("sleep")
            .arg("60")
            .spawn()
            .expect("sleep starts");
        let opened = both_ways(child.id());
        child.kill().expect("it is a child");
        child.wait().expect("it is a child");
        for memory in opened {
            assert_eq!(memory.read(4096, &mut [0; 16]), Err(MemoryError::NoProcess));
        }
    }
}
