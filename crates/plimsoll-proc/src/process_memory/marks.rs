//! Mappings of a process that begin with a mark.

use std::io;

use plimsoll_os::{Memory, MemoryError};

use super::BoundedMemory;
use crate::maps;

/// Marked mappings that are found at most: a process has a few.
pub const MOST_MARKS: usize = 64;

/// The start of a marked mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The first bytes.
    pub bytes: [u8; 16],
    /// Bytes of the mapping; none if it may have any length.
    pub length: Option<u64>,
}

/// The mappings of a process cannot be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindError {
    #[error("no such process")]
    NoProcess,
    /// The process ended during the search.
    #[error("the process ended")]
    Ended,
    #[error("permission denied")]
    Denied,
    #[error(transparent)]
    Unreadable(MemoryError),
    #[error("cannot read {path}: {source}")]
    Proc { path: String, source: io::Error },
}

/// The addresses of the readable and writable private anonymous mappings of a process that begin with `mark`, at most
/// [`MOST_MARKS`]. A search takes about 5 s at most.
///
/// # Errors
/// [`FindError`] if the process does not exist or its memory is unreadable.
pub fn marked(pid: u32, mark: &Mark) -> Result<Vec<usize>, FindError> {
    let path = format!("/proc/{pid}/maps");
    let text = std::fs::read(&path).map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => FindError::NoProcess,
        io::ErrorKind::PermissionDenied => FindError::Denied,
        _ if source.raw_os_error() == Some(libc::ESRCH) => FindError::NoProcess,
        _ => FindError::Proc { path, source },
    })?;
    let memory = BoundedMemory::for_search(pid);
    let mut found = Vec::new();
    for start in candidates(&text, mark.length) {
        let mut bytes = [0; 16];
        match memory.read(start, &mut bytes) {
            Ok(()) if bytes == mark.bytes => found.push(start),
            // The process may have unmapped it since the read of the list.
            Ok(()) | Err(MemoryError::Unreadable { .. }) => {}
            Err(MemoryError::Denied) => return Err(FindError::Denied),
            Err(MemoryError::NoProcess) => return Err(FindError::Ended),
            Err(error) => return Err(FindError::Unreadable(error)),
        }
        if found.len() == MOST_MARKS {
            break;
        }
    }
    Ok(found)
}

/// The starts of the readable and writable private anonymous mappings without a name or with one by the program.
fn candidates(text: &[u8], length: Option<u64>) -> impl Iterator<Item = usize> + '_ {
    maps::parse(text).filter_map(move |mapping| {
        let unnamed = mapping.path.is_empty() || mapping.path.starts_with(b"[anon:");
        let fits = length.is_none_or(|length| mapping.length == length);
        let candidate = mapping.permissions == b"rw-p" && mapping.is_private_anonymous() && unnamed && fits;
        candidate.then(|| usize::try_from(mapping.start).ok())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
        1000-2000 rw-p 00000000 00:00 0 \n\
        2000-3000 r--p 00000000 00:00 0 \n\
        3000-4000 rw-s 00000000 00:00 0 \n\
        4000-5000 rw-p 00000000 08:01 12 /usr/lib/libc.so.6\n\
        5000-6000 rw-p 00000000 00:00 0                          [stack]\n\
        6000-8000 rw-p 00000000 00:00 0                          [anon:heap]\n\
        nonsense\n\
        7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n";

    #[test]
    fn only_private_anonymous_mappings_are_candidates() {
        let found: Vec<usize> = candidates(MAPS.as_bytes(), None).collect();
        assert_eq!(found, [0x1000, 0x6000, 0x7f00_0000_0000]);
        let found: Vec<usize> = candidates(MAPS.as_bytes(), Some(0x2000)).collect();
        assert_eq!(found, [0x6000]);
    }

    #[test]
    fn a_process_without_the_mark_has_no_marked_mapping() {
        let mark = Mark {
            bytes: *b"no such mark ...",
            length: None,
        };
        let found: Vec<usize> = marked(std::process::id(), &mark).expect("it is this process");
        assert!(found.is_empty(), "{found:?}");
        let none = marked(u32::MAX / 2, &mark);
        assert!(matches!(none, Err(FindError::NoProcess)), "{none:?}");
    }
}
