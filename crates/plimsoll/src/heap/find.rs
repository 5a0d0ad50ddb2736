//! The address of the control block in a process.

use std::io;

use plimsoll_lfh::inspect::{MAGIC, Memory, MemoryError, OtherProcess};
use plimsoll_proc::maps;

use super::error::HeapStatError;

/// The address of the control block of a process, if it has one.
///
/// Not every kernel lets the heap name its mapping, so this function reads the first bytes of each readable and
/// writable private anonymous mapping.
///
/// # Errors
/// [`HeapStatError`] if the process does not exist or its memory is unreadable.
pub(super) fn control_block(pid: u32) -> Result<Option<usize>, HeapStatError> {
    let path = format!("/proc/{pid}/maps");
    let text = std::fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => HeapStatError::NoSuchProcess { pid },
        io::ErrorKind::PermissionDenied => HeapStatError::Denied { pid },
        _ if source.raw_os_error() == Some(libc::ESRCH) => HeapStatError::NoSuchProcess { pid },
        _ => HeapStatError::Proc { path, source },
    })?;
    let memory = OtherProcess::new(pid);
    for start in candidates(&text) {
        let mut bytes = [0; MAGIC.len()];
        match memory.read(start, &mut bytes) {
            Ok(()) if bytes == MAGIC => return Ok(Some(start)),
            // The process may have unmapped it since the read of the list.
            Ok(()) | Err(MemoryError::Unreadable { .. }) => {}
            Err(MemoryError::Denied) => return Err(HeapStatError::Denied { pid }),
            Err(MemoryError::NoProcess) => return Err(HeapStatError::Ended { pid }),
            Err(source) => return Err(HeapStatError::Unreadable { pid, source }),
        }
    }
    Ok(None)
}

/// The starts of the readable and writable private anonymous mappings without a name or with one by the program.
fn candidates(text: &[u8]) -> impl Iterator<Item = usize> + '_ {
    maps::parse(text).filter_map(|mapping| {
        let unnamed = mapping.path.is_empty() || mapping.path.starts_with(b"[anon:");
        let candidate = mapping.permissions == b"rw-p" && mapping.is_private_anonymous() && unnamed;
        candidate.then(|| usize::try_from(mapping.start).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_anonymous_mappings_are_candidates() {
        let maps = "\
            1000-2000 rw-p 00000000 00:00 0 \n\
            2000-3000 r--p 00000000 00:00 0 \n\
            3000-4000 rw-s 00000000 00:00 0 \n\
            4000-5000 rw-p 00000000 08:01 12 /usr/lib/libc.so.6\n\
            5000-6000 rw-p 00000000 00:00 0                          [stack]\n\
            6000-7000 rw-p 00000000 00:00 0                          [anon:heap]\n\
            nonsense\n\
            7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";
        let found: Vec<usize> = candidates(maps.as_bytes()).collect();
        assert_eq!(found, [0x1000, 0x6000, 0x7f00_0000_0000]);
    }
}
