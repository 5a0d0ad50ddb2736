//! System calls on the memory of a region: on pinned ranges, and on absent pages.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};

use plimsoll_pager::{Pager, RangeError, Region, TrimTo};

use crate::modes::builder;
use crate::pages::{PAGE, fill};

const MIB: usize = 1 << 20;
/// Bytes of a file: more than one call reads.
const BYTES: usize = MIB + 12_345;
/// An offset that no unit of memory or disk divides.
const AT: usize = 3 * PAGE + 1237;

/// A temporary file with these bytes, read from its start.
fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("there is a folder for temporary files");
    file.write_all(bytes).expect("the file is this test's");
    file.seek(SeekFrom::Start(0)).expect("as above");
    file
}

/// Bytes that differ between owners in almost every place.
fn bytes_of(owner: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length.next_multiple_of(PAGE)];
    fill(&mut bytes, owner, 1);
    bytes.truncate(length);
    bytes
}

/// Makes every page of the only region of a pager absent.
#[track_caller]
fn trim(pager: &Pager, region: &Region) {
    region.trim(.., TrimTo::Store).expect("the whole region");
    let stats = pager.stats();
    assert_eq!(stats.compressed_pages as usize, region.len() / PAGE, "{stats:?}");
}

/// The reason for which a range was refused.
fn refusal(result: io::Result<usize>) -> Option<RangeError> {
    let error = result.err()?;
    error.get_ref()?.downcast_ref().copied()
}

#[test]
fn a_read_into_absent_pages_changes_the_bytes_of_its_range_alone() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(4 * MIB).expect("addresses are free");
    let mut expected = bytes_of(1, region.len());
    region.bytes_mut().copy_from_slice(&expected);
    trim(&pager, &region);
    let contents = bytes_of(2, BYTES);
    let mut file = file_of(&contents);

    // One call reads 1 MiB at most.
    assert_eq!(region.read_into(AT..AT + BYTES, &file).expect("a file"), MIB);
    expected[AT..AT + MIB].copy_from_slice(&contents[..MIB]);
    assert!(region.bytes() == expected);
    trim(&pager, &region);
    // The file ends before the range.
    let rest = region.read_into(AT + MIB.., &file).expect("a file");
    assert_eq!(rest, BYTES - MIB);
    expected[AT..AT + BYTES].copy_from_slice(&contents);
    assert!(region.bytes() == expected);
    trim(&pager, &region);
    assert_eq!(region.read_into(.., &file).expect("a file"), 0);
    file.seek(SeekFrom::Start(0)).expect("a file");
    assert_eq!(region.read_into(AT..AT, &file).expect("no byte"), 0);

    let length = region.len();
    let outside = region.read_into(length - 1..length + 1, &file);
    assert!(matches!(refusal(outside), Some(RangeError::OutOfBounds { .. })));
    assert!(region.bytes() == expected);
    assert_eq!(pager.stats().pinned_pages, 0);
    assert_eq!(pager.validate(), []);
}

#[test]
fn a_write_from_absent_pages_has_every_byte_of_its_range() {
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(4 * MIB).expect("addresses are free");
    let contents = bytes_of(1, region.len());
    region.bytes_mut().copy_from_slice(&contents);
    let mut file = file_of(&[]);

    trim(&pager, &region);
    let written = region.write_from(AT..AT + BYTES, &file).expect("a file");
    assert_eq!(written, MIB);
    trim(&pager, &region);
    let written = region.write_from(AT + MIB..AT + BYTES, &file).expect("a file");
    assert_eq!(written, BYTES - MIB);
    let outside = region.write_from(region.len() + 1.., &file);
    assert!(matches!(refusal(outside), Some(RangeError::OutOfBounds { .. })));

    file.seek(SeekFrom::Start(0)).expect("a file");
    let mut seen = Vec::new();
    file.read_to_end(&mut seen).expect("a file");
    assert!(seen == contents[AT..AT + BYTES]);
    assert!(region.bytes() == contents);
    assert_eq!(pager.stats().pinned_pages, 0);
    assert_eq!(pager.validate(), []);
}

/// A call on a range of which no page, or the first ones alone, are present.
#[test]
fn a_raw_call_on_absent_pages_returns_efault_or_fewer_bytes() {
    const PRESENT: usize = 2 * PAGE;
    let pager = builder().ram(16 << 20).build().expect("userfaultfd is allowed");
    let mut region = pager.map(MIB).expect("addresses are free");
    let before = bytes_of(1, region.len());
    region.bytes_mut().copy_from_slice(&before);
    let contents = bytes_of(2, region.len() / 2);
    for present in [0, PRESENT] {
        trim(&pager, &region);
        region.prefetch(..present).expect("the budget allows it");
        let mut file = file_of(&contents);
        let range = 100..100 + contents.len();
        let read = file.read(&mut region.bytes_mut()[range.clone()]);
        let mut expected = before.clone();
        let read = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
                // The kernel may have filled present pages before it met an absent one.
                let kept = present.saturating_sub(range.start);
                expected[range.start..][..kept].copy_from_slice(&region.bytes()[range.start..][..kept]);
                0
            }
        };
        expected[range.start..][..read].copy_from_slice(&contents[..read]);
        if pager.serves_system_calls() {
            assert_eq!(read, contents.len());
        } else {
            assert!(
                read <= present.saturating_sub(range.start),
                "{read} of {present} bytes"
            );
        }
        assert!(region.bytes() == expected, "{read} bytes were read");

        trim(&pager, &region);
        region.prefetch(..present).expect("the budget allows it");
        let mut file = file_of(&[]);
        let written = match file.write(&region.bytes()[range.clone()]) {
            Ok(bytes) => bytes,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::EFAULT));
                0
            }
        };
        if pager.serves_system_calls() {
            assert_eq!(written, contents.len());
        } else {
            assert!(
                written <= present.saturating_sub(range.start),
                "{written} of {present} bytes"
            );
        }
        file.seek(SeekFrom::Start(0)).expect("a file");
        let mut seen = Vec::new();
        file.read_to_end(&mut seen).expect("a file");
        assert!(
            seen.starts_with(&expected[range][..written]),
            "{written} bytes were written"
        );
        region.bytes_mut().copy_from_slice(&before);
    }
    assert_eq!(pager.validate(), []);
}
