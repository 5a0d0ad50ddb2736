//! The environment that the process was started with. `getenv(3)` needs a C library that has started, and reads what
//! others change. No call touches `errno`.
#![allow(unsafe_code)]

use crate::raw::system_call;

/// Whether the process was started with the variable `name` set to `value`. No where it cannot be read.
pub fn started_with(name: &[u8], value: &[u8]) -> bool {
    let arguments = [
        libc::AT_FDCWD as usize,
        c"/proc/self/environ".as_ptr() as usize,
        (libc::O_RDONLY | libc::O_CLOEXEC) as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the path ends with a zero byte.
    let Ok(file) = (unsafe { system_call(libc::SYS_openat, arguments) }) else {
        return false;
    };
    let mut search = Search::new(name, value);
    let mut chunk = [0; 1024];
    loop {
        let arguments = [file, chunk.as_mut_ptr() as usize, chunk.len(), 0, 0, 0];
        // SAFETY: the kernel writes to the array, and not past its length.
        match unsafe { system_call(libc::SYS_read, arguments) } {
            Ok(read) if read > 0 => chunk[..read.min(chunk.len())]
                .iter()
                .for_each(|byte| search.next(*byte)),
            _ => break,
        }
    }
    // SAFETY: the descriptor was opened above, and nobody else knows of it.
    let _ = unsafe { system_call(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    search.found
}

/// Looks for `name=value\0` at the starts of zero-ended strings that come byte by byte.
struct Search<'s> {
    name: &'s [u8],
    value: &'s [u8],
    /// Bytes of the wanted string that the current one began with; none where it already differs.
    matched: Option<usize>,
    found: bool,
}

impl<'s> Search<'s> {
    fn new(name: &'s [u8], value: &'s [u8]) -> Search<'s> {
        Search {
            name,
            value,
            matched: Some(0),
            found: false,
        }
    }

    fn wanted(&self, at: usize) -> u8 {
        let after = at.checked_sub(self.name.len() + 1);
        match after {
            None if at < self.name.len() => self.name[at],
            None => b'=',
            Some(at) => self.value.get(at).copied().unwrap_or(0),
        }
    }

    fn next(&mut self, byte: u8) {
        let as_wanted = self.matched.filter(|at| self.wanted(*at) == byte);
        if byte == 0 {
            self.found |= as_wanted.is_some();
            self.matched = Some(0);
        } else {
            self.matched = as_wanted.map(|at| at + 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(environment: &[u8]) -> bool {
        let mut search = Search::new(b"NAME", b"off");
        environment.iter().for_each(|byte| search.next(*byte));
        search.found
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name_and_value() {
        assert!(found(b"A=1\0NAME=off\0B=2\0"));
        assert!(found(b"NAME=of\0NAME=off\0"));
        for other in [
            &b"NAME=offf\0"[..],
            b"NAME=of\0",
            b"XNAME=off\0",
            b"NAM=off\0",
            b"NAME\0off\0",
            b"",
        ] {
            assert!(!found(other), "{}", other.escape_ascii());
        }
    }
}
