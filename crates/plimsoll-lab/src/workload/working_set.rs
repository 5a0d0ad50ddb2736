//! The working set of this process's filled memory.

use std::fs;
use std::io;

use plimsoll_model::scenario::Backing;
use plimsoll_proc::Statm;

/// Counts the resident bytes of memory of one kind.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorkingSet {
    memory: Backing,
    /// Resident bytes of files besides the memory: of the program itself.
    own_files: u64,
}

impl WorkingSet {
    /// Of memory of so many bytes that is resident now.
    pub(crate) fn filled(memory: Backing, bytes: u64) -> WorkingSet {
        let own_files = match memory {
            Backing::Anonymous => 0,
            // Without /proc, the first look at the working set fails.
            Backing::Memfd | Backing::File => statm().map_or(0, |statm| statm.shared.saturating_sub(bytes)),
        };
        WorkingSet { memory, own_files }
    }

    /// Resident bytes, of anonymous memory with the program's own.
    pub(crate) fn bytes(self) -> io::Result<u64> {
        let statm = statm()?;
        Ok(match self.memory {
            Backing::Anonymous => statm.anonymous(),
            Backing::Memfd | Backing::File => statm.shared.saturating_sub(self.own_files),
        })
    }
}

fn statm() -> io::Result<Statm> {
    let text = fs::read("/proc/self/statm")?;
    Statm::parse(&text).ok_or_else(|| io::Error::other("it holds no three numbers"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_anonymous_memory() {
        assert!(WorkingSet::filled(Backing::Anonymous, 0).bytes().unwrap() > 0);
    }

    #[test]
    fn shared_memory_is_counted_without_the_program() {
        const LENGTH: usize = 64 << 20;
        let mut mapping = plimsoll_os::Mapping::of_memory_file(LENGTH).unwrap();
        mapping.bytes_mut().fill(1);
        let counted = WorkingSet::filled(Backing::Memfd, LENGTH as u64);
        assert!(counted.bytes().unwrap() >= LENGTH as u64);
        mapping.unmap().unwrap();
        assert!(counted.bytes().unwrap() < LENGTH as u64, "{counted:?}");
    }
}
