//! Raw calls of the codecs, page by page.
#![allow(unsafe_code)]

use plimsoll_pager::store::{PAGE, QUAD};
use zstd_safe::{CCtx, DCtx};

/// Compresses all pages in blocks of `block` pages by that codec into `target`, whose bodies' ends it returns. A body
/// above three quarters of its pages is the pages as they are.
pub(crate) fn pack(codec: Raw, pages: &[[u8; PAGE]], target: &mut Vec<u8>) -> Vec<usize> {
    let mut zstd = CCtx::create();
    let mut body = vec![0; QUAD * PAGE];
    let mut ends = Vec::with_capacity(pages.len());
    target.clear();
    for block in pages.chunks(codec.pages()) {
        let plain = block.as_flattened();
        let most = plain.len() / 4 * 3;
        let length = match codec {
            Raw::Lz4 => {
                // SAFETY: both lengths are those of the slices.
                let length = unsafe {
                    lz4_sys::LZ4_compress_fast(
                        plain.as_ptr().cast(),
                        body.as_mut_ptr().cast(),
                        plain.len() as i32,
                        most as i32,
                        1,
                    )
                };
                (length > 0).then_some(length as usize)
            }
            Raw::Zstd | Raw::ZstdQuads => zstd.compress(&mut body[..most], plain, -1).ok(),
        };
        target.extend_from_slice(length.map_or(plain, |length| &body[..length]));
        ends.push(target.len());
    }
    ends
}

/// Decompresses all bodies. Returns a sum, so that nothing is optimized away.
pub(crate) fn unpack(codec: Raw, count: usize, bodies: &[u8], ends: &[usize]) -> u64 {
    let mut zstd = DCtx::create();
    let mut plain = vec![0; QUAD * PAGE];
    let mut sum = 0;
    let mut start = 0;
    for (index, end) in ends.iter().enumerate() {
        let body = &bodies[start..*end];
        let pages = codec.pages().min(count - index * codec.pages());
        let plain = &mut plain[..pages * PAGE];
        if body.len() == plain.len() {
            plain.copy_from_slice(body);
        } else if codec == Raw::Lz4 {
            // SAFETY: both lengths are those of the slices.
            let length = unsafe {
                lz4_sys::LZ4_decompress_safe(
                    body.as_ptr().cast(),
                    plain.as_mut_ptr().cast(),
                    body.len() as i32,
                    plain.len() as i32,
                )
            };
            assert_eq!(length as usize, plain.len());
        } else {
            assert_eq!(zstd.decompress(plain, body), Ok(plain.len()));
        }
        sum += u64::from(plain[index % PAGE]);
        start = *end;
    }
    sum
}

/// A codec without a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw {
    Lz4,
    Zstd,
    ZstdQuads,
}

impl Raw {
    fn pages(self) -> usize {
        if self == Raw::ZstdQuads { QUAD } else { 1 }
    }
}

/// CPU time of this thread, in seconds.
pub(crate) fn cpu() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the kernel writes the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
