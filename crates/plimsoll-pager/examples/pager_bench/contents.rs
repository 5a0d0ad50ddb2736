//! The bytes that a region is filled with, and their check.

use std::error::Error;
use std::fs;
use std::hint::black_box;

use plimsoll_os::lock_range_on_fault;

pub(crate) const PAGE: usize = 4096;

/// Pages, repeated over a region. Each page of a region differs from its repetitions in the first eight bytes.
pub(crate) struct Contents(Vec<u8>);

impl Contents {
    /// `ratio=R` or `file=PATH`, at most `bytes`.
    pub(crate) fn of(data: &str, bytes: usize) -> Result<Contents, Box<dyn Error>> {
        let pages = match data.split_once('=') {
            Some(("ratio", ratio)) => of_ratio(ratio.parse()?, bytes.min(16 << 20)),
            Some(("file", path)) => fs::read(path).map_err(|error| format!("cannot read {path}: {error}"))?,
            _ => return Err(format!("cannot use the data {data:?}: give ratio=R or file=PATH").into()),
        };
        let whole = pages.len().min(bytes) / PAGE * PAGE;
        if whole == 0 {
            return Err(format!("cannot use the data {data:?}: it has less than a page").into());
        }
        let pages = pages[..whole].to_vec();
        // The kernel would swap them out in favour of the region.
        lock_range_on_fault(pages.as_ptr() as usize, pages.len())
            .map_err(|error| format!("cannot lock the contents in RAM: {error}"))?;
        for page in pages.chunks_exact(PAGE) {
            black_box(page[0]);
        }
        Ok(Contents(pages))
    }

    pub(crate) fn fill(&self, region: &mut [u8]) {
        let whole = region.len();
        self.fill_part(region, 0, whole);
    }

    /// Fills the bytes of a region from `from` to `to`, which begin and end at pages.
    pub(crate) fn fill_part(&self, region: &mut [u8], from: usize, to: usize) {
        for number in from / PAGE..to / PAGE {
            let content = number * PAGE % self.0.len();
            let page = &mut region[number * PAGE..(number + 1) * PAGE];
            page.copy_from_slice(&self.0[content..content + PAGE]);
            page[..8].copy_from_slice(&(number as u64).to_ne_bytes());
        }
    }

    /// Checks every byte of a region, whose pages may differ in the bytes 8 to 15, which accesses count in.
    pub(crate) fn check(&self, region: &[u8]) -> Result<(), Box<dyn Error>> {
        let pages = region.chunks_exact(PAGE).zip(self.0.chunks_exact(PAGE).cycle());
        for (number, (page, content)) in pages.enumerate() {
            if page[..8] != (number as u64).to_ne_bytes() || page[16..] != content[16..] {
                return Err(format!("page {number} came back with other bytes").into());
            }
        }
        Ok(())
    }
}

/// Pages that begin with random bytes and end with one byte repeated, as those of the class `ratio=R` of the workloads.
fn of_ratio(ratio: f64, bytes: usize) -> Vec<u8> {
    // A sequence with its literals and match takes about 33 bytes more than the random ones.
    let random = ((PAGE as f64 / ratio) as usize).saturating_sub(33).max(16);
    let mut state = 1_u64;
    let mut pages = vec![0; bytes];
    for page in pages.chunks_exact_mut(PAGE) {
        for byte in &mut page[..random] {
            state = next(state);
            *byte = (state >> 56) as u8;
        }
        let last = page[random - 1];
        page[random..].fill(last);
    }
    pages
}

/// The next state of a linear congruential generator; its upper bits are the random ones.
pub(crate) fn next(state: u64) -> u64 {
    state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}
