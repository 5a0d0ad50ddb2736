//! LZ4 blocks.
#![allow(unsafe_code, reason = "calls of the LZ4 library")]

use core::ffi::{c_char, c_int, c_void};

use super::few_matches;

/// Bytes of the compressor's state (`LZ4_sizeofState`), with what a later version may add.
const STATE: usize = (16 << 10) + 64;

/// The state of a compressor. Any bytes are one: each call begins by initializing it.
#[repr(C, align(64))]
pub(crate) struct Lz4State([u8; STATE]);

// Of the library that `lz4-sys` builds, which declares a part of it.
unsafe extern "C" {
    fn LZ4_sizeofState() -> c_int;
    fn LZ4_compress_fast_extState(
        state: *mut c_void,
        source: *const c_char,
        target: *mut c_char,
        length: c_int,
        most: c_int,
        acceleration: c_int,
    ) -> c_int;
}

impl Lz4State {
    #[cfg(all(test, not(loom)))]
    pub(super) fn new() -> Lz4State {
        Lz4State([0; STATE])
    }

    /// Whether the library's state fits.
    pub(crate) fn fits() -> bool {
        // SAFETY: the function reads nothing and returns a constant.
        usize::try_from(unsafe { LZ4_sizeofState() }).is_ok_and(|needed| needed <= STATE)
    }

    /// Compresses `source` into `target`. Returns the length of the body; none if it does not fit.
    pub(crate) fn compress(&mut self, source: &[u8], target: &mut [u8]) -> Option<usize> {
        let length = c_int::try_from(source.len()).ok()?;
        let most = c_int::try_from(target.len()).ok()?;
        // SAFETY: the state is writable, aligned to 64 bytes and as long as the library asks (`Lz4State::fits`, which
        // the store checks when it is made); both lengths are those of the slices.
        let written = unsafe {
            LZ4_compress_fast_extState(
                (&raw mut self.0).cast(),
                source.as_ptr().cast(),
                target.as_mut_ptr().cast(),
                length,
                most,
                1,
            )
        };
        usize::try_from(written).ok().filter(|written| *written > 0)
    }
}

/// Decompresses `body` into all of `target`. Returns false if the body is damaged; `target` then has any bytes.
pub(crate) fn decompress(body: &[u8], target: &mut [u8]) -> bool {
    few_matches::decompress(body, target) || decompress_by_library(body, target)
}

pub(super) fn decompress_by_library(body: &[u8], target: &mut [u8]) -> bool {
    let (Ok(length), Ok(most)) = (c_int::try_from(body.len()), c_int::try_from(target.len())) else {
        return false;
    };
    // SAFETY: both lengths are those of the slices, which the function, made for hostile input, does not exceed.
    let written = unsafe {
        lz4_sys::LZ4_decompress_safe(body.as_ptr().cast(), target.as_mut_ptr().cast(), length, most)
    };
    written == most
}
