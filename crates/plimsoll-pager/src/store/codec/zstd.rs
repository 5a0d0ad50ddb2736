//! Zstandard frames in their shortest form: without magic number, content size and checksum.
//!
//! Contexts are built in place (`ZSTD_initStatic*`), in memory that is zero at first, once; they never allocate.
#![allow(
    unsafe_code,
    reason = "calls of the Zstandard library, with contexts built in place"
)]

use core::ffi::{c_int, c_void};

use zstd_safe::zstd_sys::{self, ZSTD_CCtx, ZSTD_DCtx, ZSTD_cParameter, ZSTD_dParameter, ZSTD_format_e};

use crate::store::units::{PAGE, QUAD_BYTES};

/// Level for one page: as fast as it gets, without entropy coding of literals.
const PAGE_LEVEL: c_int = -1;
/// Level for quads, which are the coldest.
const QUAD_LEVEL: c_int = -1;

const COMPRESSOR_SPACE: usize = 512 << 10;
const DECOMPRESSOR_SPACE: usize = 128 << 10;

/// A context that compresses, in place.
///
/// Invariant: `level` is 0 and the space unused, or the space holds a context that [`Compressor::context`] built there,
/// set to `level`. Zeroed memory is the former. The value is never moved: contexts point into themselves.
#[repr(C, align(64))]
pub(crate) struct Compressor {
    level: c_int,
    space: Space<COMPRESSOR_SPACE>,
}

/// A context that decompresses, in place.
///
/// Invariant: as that of [`Compressor`], with `is_built` 0 or 1.
#[repr(C, align(64))]
pub(crate) struct Decompressor {
    is_built: u32,
    space: Space<DECOMPRESSOR_SPACE>,
}

#[repr(C, align(64))]
struct Space<const BYTES: usize>([u8; BYTES]);

fn is_error(code: usize) -> bool {
    // SAFETY: the function looks at the number alone.
    unsafe { zstd_sys::ZSTD_isError(code) != 0 }
}

/// Bytes that a context needs to compress a quad.
fn needed_to_compress() -> usize {
    let needed = |level, length: usize| {
        // SAFETY: the functions look at numbers alone.
        unsafe {
            zstd_sys::ZSTD_estimateCCtxSize_usingCParams(zstd_sys::ZSTD_getCParams(level, length as u64, 0))
        }
    };
    needed(PAGE_LEVEL, PAGE).max(needed(QUAD_LEVEL, QUAD_BYTES))
}

impl Compressor {
    /// Whether the library's context fits.
    pub(crate) fn fits() -> bool {
        needed_to_compress() <= COMPRESSOR_SPACE
    }

    /// Bytes of the space that a context uses.
    pub(crate) fn used() -> usize {
        size_of::<Compressor>() - COMPRESSOR_SPACE + needed_to_compress()
    }

    fn context(&mut self, level: c_int) -> Option<*mut ZSTD_CCtx> {
        let start: *mut c_void = (&raw mut self.space).cast();
        let context = start.cast::<ZSTD_CCtx>();
        if self.level == 0 {
            // The whole space would have the context's tables at its far end.
            // SAFETY: the space is writable, aligned and longer than that, and outlives the context in it.
            let built =
                unsafe { zstd_sys::ZSTD_initStaticCCtx(start, needed_to_compress().min(COMPRESSOR_SPACE)) };
            if built != context {
                return None;
            }
            let parameters = [
                // ZSTD_c_format
                (
                    ZSTD_cParameter::ZSTD_c_experimentalParam2,
                    ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int,
                ),
                (ZSTD_cParameter::ZSTD_c_contentSizeFlag, 0),
                (ZSTD_cParameter::ZSTD_c_checksumFlag, 0),
                (ZSTD_cParameter::ZSTD_c_dictIDFlag, 0),
            ];
            for (parameter, value) in parameters {
                // SAFETY: the context was built above.
                if is_error(unsafe { zstd_sys::ZSTD_CCtx_setParameter(context, parameter, value) }) {
                    return None;
                }
            }
        }
        if self.level != level {
            let parameter = ZSTD_cParameter::ZSTD_c_compressionLevel;
            // SAFETY: the context was built above, or by an earlier call: the level says so.
            if is_error(unsafe { zstd_sys::ZSTD_CCtx_setParameter(context, parameter, level) }) {
                return None;
            }
            self.level = level;
        }
        Some(context)
    }

    /// Compresses `source`, a page or up to a quad, into `target`. Returns the length of the body; none if it does not
    /// fit.
    pub(crate) fn compress(&mut self, source: &[u8], target: &mut [u8]) -> Option<usize> {
        let level = if source.len() > PAGE {
            QUAD_LEVEL
        } else {
            PAGE_LEVEL
        };
        let context = self.context(level)?;
        // SAFETY: the context is built, and this value borrowed exclusively; both lengths are those of the slices.
        let written = unsafe {
            zstd_sys::ZSTD_compress2(
                context,
                target.as_mut_ptr().cast(),
                target.len(),
                source.as_ptr().cast(),
                source.len(),
            )
        };
        (!is_error(written)).then_some(written)
    }
}

impl Decompressor {
    /// Whether the library's context fits.
    pub(crate) fn fits() -> bool {
        Decompressor::needed() <= DECOMPRESSOR_SPACE
    }

    fn needed() -> usize {
        // SAFETY: the function returns a constant.
        unsafe { zstd_sys::ZSTD_estimateDCtxSize() }
    }

    /// Bytes of the space that a context uses.
    pub(crate) fn used() -> usize {
        size_of::<Decompressor>() - DECOMPRESSOR_SPACE + Decompressor::needed()
    }

    fn context(&mut self) -> Option<*mut ZSTD_DCtx> {
        let start: *mut c_void = (&raw mut self.space).cast();
        let context = start.cast::<ZSTD_DCtx>();
        if self.is_built == 0 {
            // SAFETY: the space is writable, aligned and as long as stated, and outlives the context in it.
            let built = unsafe { zstd_sys::ZSTD_initStaticDCtx(start, DECOMPRESSOR_SPACE) };
            if built != context {
                return None;
            }
            // ZSTD_d_format
            let parameter = ZSTD_dParameter::ZSTD_d_experimentalParam1;
            let format = ZSTD_format_e::ZSTD_f_zstd1_magicless as c_int;
            // SAFETY: the context was built above.
            if is_error(unsafe { zstd_sys::ZSTD_DCtx_setParameter(context, parameter, format) }) {
                return None;
            }
            self.is_built = 1;
        }
        Some(context)
    }

    /// Decompresses `body` into all of `target`. Returns false if the body is damaged; `target` then has any bytes.
    pub(crate) fn decompress(&mut self, body: &[u8], target: &mut [u8]) -> bool {
        let Some(context) = self.context() else {
            return false;
        };
        // SAFETY: the context is built, and this value borrowed exclusively; both lengths are those of the slices, which
        // the function, made for hostile input, does not exceed.
        let written = unsafe {
            zstd_sys::ZSTD_decompressDCtx(
                context,
                target.as_mut_ptr().cast(),
                target.len(),
                body.as_ptr().cast(),
                body.len(),
            )
        };
        written == target.len()
    }
}
