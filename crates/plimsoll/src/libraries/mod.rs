//! The shared libraries to preload that this program contains. `build.rs` builds them.

mod unpack;

pub use unpack::{LibraryError, Refusal};

/// A library that this program contains.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    bytes: &'static [u8],
    /// The SHA-256 of the bytes, in hexadecimal digits.
    hash: &'static str,
}

/// The heap of `heap run`.
pub static MALLOC: Library = Library {
    name: "libplimsoll_malloc.so",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libplimsoll_malloc.so")),
    hash: env!("MALLOC_SHA256"),
};

/// The pager and the heap of `exec`.
pub static EXEC: Library = Library {
    name: "libplimsoll_exec.so",
    bytes: include_bytes!(concat!(env!("OUT_DIR"), "/libplimsoll_exec.so")),
    hash: env!("EXEC_SHA256"),
};
