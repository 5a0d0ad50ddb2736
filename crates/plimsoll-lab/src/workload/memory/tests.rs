//! Filled memory: sizes, streams, threads, and memory of a pager.

use std::path::PathBuf;

use plimsoll_model::scenario::PagerOptions;
use plimsoll_model::scenario::workloads::finding;
use plimsoll_pager::BuildError;

use super::*;
use crate::workload::PagerBudget;
use crate::workload::area::PagerError;
use crate::workload::protocol::RefusalCode;

fn asked(bytes: u64, request: u64) -> FillRequest {
    FillRequest {
        bytes,
        request,
        class: FillClass::Random,
        seed: 11,
        thp: ThpMode::Never,
        placement: Placement::default(),
    }
}

fn placed(bytes: u64, request: u64, memory: Backing, threads: u32) -> FillRequest {
    FillRequest {
        placement: Placement {
            memory,
            threads,
            folder: "/var/tmp".into(),
            file_bytes: 0,
            pager: None,
        },
        ..asked(bytes, request)
    }
}

fn mark(memory: &mut Memory, count: u64) {
    memory.writable()[0].mark(count);
}

#[test]
fn the_last_request_takes_the_rest() {
    assert_eq!(request_lengths(&asked(10, 4)).unwrap(), [4, 4, 2]);
    assert_eq!(request_lengths(&asked(8, 4)).unwrap(), [4, 4]);
    assert_eq!(request_lengths(&asked(3, 1 << 30)).unwrap(), [3]);
}

#[test]
fn fill_refuses_sizes_that_no_machine_holds() {
    for (bytes, request, code) in [
        (0, 4096, RefusalCode::ZeroBytes),
        (4096, 0, RefusalCode::ZeroBytes),
        (1 << 30, 1, RefusalCode::TooManyRequests),
        (99 << 40, 1 << 30, RefusalCode::TooMuch),
        (u64::MAX, u64::MAX, RefusalCode::TooMuch),
    ] {
        let refused = Memory::fill(&asked(bytes, request)).unwrap_err();
        assert_eq!(refused.code(), code, "{refused}");
    }
}

#[test]
fn the_cost_of_a_first_touch_has_a_fault_a_page() {
    let bytes = 8 << 20;
    let (_memory, cost) = Memory::fill(&asked(bytes, 3 << 20)).unwrap();
    let pages = bytes / plimsoll_os::page_size() as u64;
    assert!(cost.minor_faults >= pages, "{cost:?}");
    assert!(cost.bytes == bytes && cost.seconds > 0.0);
}

#[test]
fn growth_continues_the_stream() {
    let (mut memory, _) = Memory::fill(&asked(1 << 20, 1 << 20)).unwrap();
    let cost = memory.grow(3 << 19).unwrap();
    assert_eq!((cost.bytes, memory.bytes()), (3 << 19, 5 << 19));
    let (_, found) = memory.restore().unwrap();
    assert!(found.holds() && found.bytes == 5 << 19, "{found:?}");
    assert!(memory.grow(0).is_err() && memory.grow(99 << 40).is_err());
    assert_eq!(memory.bytes(), 5 << 19, "a refusal leaves it as it was");
}

#[test]
fn wrong_bytes_are_counted_and_the_first_has_its_offset() {
    let (mut memory, _) = Memory::fill(&asked(3 << 20, 1 << 20)).unwrap();
    assert!(memory.restore().unwrap().1.holds());
    let wrong: [u64; 3] = [(1 << 20) + 5, (1 << 20) + 6, (3 << 20) - 1];
    for at in wrong {
        let (mapping, within) = ((at >> 20) as usize, (at % (1 << 20)) as usize);
        memory.mappings[mapping].bytes_mut()[within] ^= 0x80;
    }
    let (_, found) = memory.restore().unwrap();
    assert_eq!((found.wrong_bytes, found.first_wrong), (3, Some(wrong[0])));
    assert!(!found.holds() && found.checksum != found.expected_checksum);
}

#[test]
fn marks_follow_from_their_count() {
    let page = plimsoll_os::page_size();
    // Three mappings of which the last ends within a page: 4, 4 and 3 pages.
    let asked = asked(10 * page as u64 + 100, 4 * page as u64);
    let (mut memory, _) = Memory::fill(&asked).unwrap();
    let pages = memory.pages();
    assert_eq!(pages, 11);
    let mut marked = 0;
    for count in [0, 1, 3, 2, 7, 40, 300 * pages] {
        mark(&mut memory, count);
        marked += count;
        for number in 0..pages {
            let (mapping, within) = ((number / 4) as usize, (number % 4) as usize);
            let turns = marked / pages + u64::from(number < marked % pages);
            let first = memory.mappings[mapping].bytes()[within * page];
            assert!(turns == 0 || first == turns as u8, "page {number} after {marked}");
        }
        assert!(memory.restore().unwrap().1.holds(), "after {marked}");
    }
    // A mark that did not reach its page, and one byte beside it.
    memory.mappings[1].bytes_mut()[0] ^= 1;
    memory.mappings[2].bytes_mut()[1] ^= 1;
    let (_, found) = memory.restore().unwrap();
    assert_eq!((found.wrong_bytes, found.first_wrong), (2, Some(4 * page as u64)));
}

/// With any number of threads and any store, the memory holds the same stream, and every wrong byte is found.
#[test]
fn threads_fill_trim_and_read_back_the_same_bytes() {
    let page = plimsoll_os::page_size() as u64;
    for memory in [Backing::Anonymous, Backing::Memfd, Backing::File] {
        for threads in [1, 2, 3, 7, 64] {
            let asked = placed(37 * page, 10 * page, memory, threads);
            let (mut filled, cost) = Memory::fill(&asked).unwrap();
            assert_eq!(cost.bytes, 37 * page);
            let parts = u64::from(threads).min(37);
            assert_eq!(filled.writable().len() as u64, parts, "{memory:?}");
            let mut expected = vec![0; 37 * page as usize];
            Stream::new(&asked.class, asked.seed)
                .unwrap()
                .write(0, &mut expected);
            let held: Vec<u8> = filled.mappings.iter().flat_map(Area::bytes).copied().collect();
            assert!(held == expected, "{memory:?} {threads}");
            filled.write_back().unwrap();
            filled.trim().unwrap();
            assert!(filled.in_core().unwrap() <= 37 * page);
            for (number, mut part) in filled.writable().into_iter().enumerate() {
                part.mark(part.pages() * 2 + number as u64);
            }
            let (_, found) = filled.restore().unwrap();
            assert!(
                found.holds() && found.bytes == 37 * page,
                "{memory:?} {threads} {found:?}"
            );
            for at in (0..37).map(|number| number * page + 1) {
                let (mapping, within) = (at / (10 * page), at % (10 * page));
                let byte = |filled: &mut Memory| {
                    filled.mappings[mapping as usize].bytes_mut()[within as usize] ^= 1;
                };
                byte(&mut filled);
                let (_, found) = filled.restore().unwrap();
                assert_eq!((found.wrong_bytes, found.first_wrong), (1, Some(at)));
                assert!(!found.holds() && found.checksum != found.expected_checksum);
                byte(&mut filled);
            }
            filled.release().unwrap();
        }
    }
}

/// A pager that its budget is the limit of.
fn paged(bytes: u64, request: u64, ram: u64, options: &str, threads: u32) -> FillRequest {
    let mut asked = placed(bytes, request, Backing::Anonymous, threads);
    asked.placement.folder = PathBuf::new();
    asked.thp = ThpMode::System;
    asked.placement.pager = Some(PagerRequest {
        budget: PagerBudget::Own(ram),
        bytes,
        options: PagerOptions::of_text(options).unwrap().unwrap(),
        folder: "/var/tmp".into(),
    });
    asked
}

/// In the budget and four times larger than it: every byte comes back, and every wrong byte is found.
#[test]
fn a_pager_gives_every_byte_back() {
    let page = plimsoll_os::page_size() as u64;
    let bytes = 16 << 20;
    for (options, ram, threads) in [
        ("pager", 32 << 20, 1),
        ("pager:zstd", 8 << 20, 2),
        ("pager:lz4,trim=per-fault", 8 << 20, 1),
        ("pager:lz4,thrash-control=on", 8 << 20, 2),
        ("pager:lz4", 8 << 20, 7),
        ("pager:auto", 8 << 20, 1),
        ("pager:lz4,pagefile", 8 << 20, 2),
    ] {
        let mut asked = paged(bytes, 5 << 20, ram, options, threads);
        asked.class = FillClass::Ratio(4.0);
        let (mut filled, cost) = Memory::fill(&asked).unwrap();
        assert_eq!(cost.bytes, bytes);
        assert!(filled.in_core().unwrap() <= ram.min(bytes), "{options}");
        let (cost, findings) = filled.trim().unwrap();
        assert_eq!((cost.bytes, filled.in_core().unwrap()), (bytes, 0), "{options}");
        assert_eq!(findings.values[finding::PAGER_SAVED], bytes as f64);
        let store = findings.values[finding::PAGER_STORE];
        assert!(
            store > bytes as f64 / 8.0 && store < bytes as f64 / 2.0,
            "{options}: {store}"
        );
        let metadata = findings.values[finding::PAGER_METADATA];
        assert!(
            metadata > 0.0 && metadata < bytes as f64 / 8.0,
            "{options}: {metadata}"
        );
        for mut part in filled.writable() {
            part.mark(part.pages() / 2);
        }
        let (_, found) = filled.restore().unwrap();
        assert!(found.holds() && found.bytes == bytes, "{options}: {found:?}");
        let wrong = 3 * page + 1;
        filled.mappings[0].bytes_mut()[wrong as usize] ^= 1;
        filled.trim().unwrap();
        let (_, found) = filled.restore().unwrap();
        assert_eq!(
            (found.wrong_bytes, found.first_wrong),
            (1, Some(wrong)),
            "{options}"
        );
        filled.release().unwrap();
    }
}

/// A store of 2 MiB holds a fraction of 16 MiB of random bytes: the rest is in the page file.
#[test]
fn copies_beyond_the_cap_of_the_store_are_in_the_page_file() {
    let bytes = 16 << 20;
    let asked = paged(bytes, bytes, 8 << 20, "pager,store-cap=2M", 1);
    let (mut filled, _) = Memory::fill(&asked).unwrap();
    let (_, findings) = filled.trim().unwrap();
    let value = |name: &str| findings.values[name];
    assert_eq!(value(finding::PAGER_SAVED), bytes as f64);
    assert!(value(finding::PAGER_STORE) <= 4e6, "{findings:?}");
    assert!(value(finding::PAGER_FILE) >= bytes as f64 - 2.5e6, "{findings:?}");
    let (_, found) = filled.restore().unwrap();
    assert!(found.holds() && found.bytes == bytes, "{found:?}");
    filled.release().unwrap();
}

#[test]
fn a_pager_that_cannot_be_built_is_refused_with_its_own_code() {
    let error = Memory::fill(&paged(1 << 20, 1 << 20, 1 << 20, "pager", 1)).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::Pager(PagerError::Build(BuildError::TooLittleRam { .. }))
        ),
        "{error}"
    );
    assert_eq!(error.code(), super::super::protocol::RefusalCode::Pager);
    let mut asked = paged(16 << 20, 1 << 20, 8 << 20, "pager,pagefile", 1);
    asked.placement.pager.as_mut().unwrap().folder = "/proc".into();
    let error = Memory::fill(&asked).unwrap_err();
    assert!(
        matches!(
            error,
            MemoryError::Pager(PagerError::Build(BuildError::PageFile(_)))
        ),
        "{error}"
    );
}

#[test]
fn a_folder_without_files_is_named() {
    let mut asked = placed(1 << 20, 1 << 20, Backing::File, 1);
    asked.placement.folder = "/proc".into();
    let error = Memory::fill(&asked).unwrap_err();
    assert!(
        matches!(&error, MemoryError::File { folder, .. } if folder == &PathBuf::from("/proc")),
        "{error}"
    );
}
