//! The code that calls malloc: blocks of the C library, the dynamic linker and this library itself come from unmanaged memory.
#![allow(
    unsafe_code,
    reason = "the loaded libraries, as the dynamic linker lists them"
)]

use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Blocks of more bytes are managed whoever calls: they are the program's data (a line, an array to sort), not the C library's
/// own.
pub(crate) const LARGEST: usize = 64 << 10;

/// The addresses of code, of one library or of several; empty until [`find`].
struct Code {
    start: AtomicUsize,
    length: AtomicUsize,
}

impl Code {
    const fn none() -> Code {
        Code {
            start: AtomicUsize::new(0),
            length: AtomicUsize::new(0),
        }
    }

    #[inline(always)]
    fn contains(&self, address: usize) -> bool {
        address.wrapping_sub(self.start.load(Ordering::Relaxed)) < self.length.load(Ordering::Relaxed)
    }

    fn set(&self, start: usize, length: usize) {
        self.start.store(start, Ordering::Relaxed);
        self.length.store(length, Ordering::Relaxed);
    }

    /// Makes it reach to `start..start + length` too.
    fn extend(&self, start: usize, length: usize) {
        let (old, old_length) = (
            self.start.load(Ordering::Relaxed),
            self.length.load(Ordering::Relaxed),
        );
        match old_length {
            0 => self.set(start, length),
            _ => {
                let first = old.min(start);
                self.set(first, (old + old_length).max(start + length) - first);
            }
        }
    }
}

/// Libraries whose blocks are unmanaged: the C library, the dynamic linker, the thread library of old glibc, and this one.
const LIBRARIES: usize = 4;

static CODE: [Code; LIBRARIES] = [const { Code::none() }; LIBRARIES];

/// The addresses from the first of these libraries to the last: the program's own code is elsewhere.
static ALL: Code = Code::none();

/// Whether `caller` is code of these libraries.
#[inline(always)]
pub(crate) fn is_system(caller: usize) -> bool {
    ALL.contains(caller) && is_one_of(caller)
}

#[inline(never)]
fn is_one_of(caller: usize) -> bool {
    CODE.iter().any(|code| code.contains(caller))
}

/// Finds the libraries, which are loaded at the start of the process.
pub(crate) fn find() {
    // SAFETY: the function visits each loaded library, and uses what it gets during the visit alone.
    unsafe { libc::dl_iterate_phdr(Some(visit), std::ptr::null_mut()) };
}

/// The place of a library in [`CODE`] by its path.
fn place_of(path: &[u8]) -> Option<usize> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let prefixes: [&[u8]; LIBRARIES - 1] = [b"libc.so", b"ld-linux", b"libpthread.so"];
    prefixes.iter().position(|prefix| name.starts_with(prefix))
}

unsafe extern "C" fn visit(library: *mut libc::dl_phdr_info, _: usize, _: *mut c_void) -> c_int {
    // SAFETY: the dynamic linker gives a valid description, of which the name may be null.
    let (library, name) = unsafe {
        let library = &*library;
        let name = match library.dlpi_name.is_null() {
            true => c"",
            false => CStr::from_ptr(library.dlpi_name),
        };
        (library, name)
    };
    // SAFETY: the headers are as many.
    let headers = unsafe { std::slice::from_raw_parts(library.dlpi_phdr, usize::from(library.dlpi_phnum)) };
    let own = visit as *const () as usize;
    for header in headers {
        let start = library.dlpi_addr as usize + header.p_vaddr as usize;
        let length = header.p_memsz as usize;
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_X == 0 {
            continue;
        }
        let is_own = own.wrapping_sub(start) < length;
        if let Some(place) = place_of(name.to_bytes()).or(is_own.then_some(LIBRARIES - 1)) {
            CODE[place].set(start, length);
            ALL.extend(start, length);
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_and_this_code_are_found() {
        find();
        assert!(is_system(libc::getpid as *const () as usize));
        assert!(is_system(find as *const () as usize));
        let word = 0u8;
        assert!(!is_system(&raw const word as usize) && !is_system(0));
    }

    #[test]
    fn libraries_are_told_apart_by_their_names() {
        assert_eq!(place_of(b"/lib/x86_64-linux-gnu/libc.so.6"), Some(0));
        assert_eq!(place_of(b"/lib64/ld-linux-x86-64.so.2"), Some(1));
        assert_eq!(place_of(b"libpthread.so.0"), Some(2));
        for other in [
            b"/opt/libc.so.d/libm.so".as_slice(),
            b"",
            b"linux-vdso.so.1",
            b"libcap.so.2",
        ] {
            assert_eq!(place_of(other), None);
        }
    }
}
