//! Huge pages are under heaps that are mostly in use, and under no others. The flags of mappings show the heap's
//! requests, and their counts show the kernel's pages.
#![allow(unsafe_code)]

use plimsoll_lfh::{FrontEnd, Heap, HeapOptions};

use crate::blocks::{fill, free_all};
use crate::child::in_child;
use crate::this_process::{resident, set_limit, virtual_bytes};

const MIB: usize = 1 << 20;

/// Bytes of this process's mappings for which huge pages were asked for, and bytes of huge pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HugePages {
    asked_for: usize,
    given: usize,
}

fn huge_pages() -> HugePages {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
    let mut all = HugePages::default();
    let mut size = 0;
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        let (name, first) = (words.next(), words.next());
        let bytes = || first.and_then(|kib| kib.parse::<usize>().ok()).expect("KiB") << 10;
        match name {
            Some("Size:") => size = bytes(),
            Some("AnonHugePages:") => all.given += bytes(),
            Some("VmFlags:") if first.into_iter().chain(words).any(|flag| flag == "hg") => {
                all.asked_for += size;
            }
            _ => {}
        }
    }
    all
}

/// The huge pages of a mapping of so many bytes that requests them itself: the most that the heap can get. None if the
/// kernel has none.
fn of_a_plain_mapping(length: usize) -> HugePages {
    let before = huge_pages();
    // SAFETY: a mapping of this function's own, which is written to and ends here.
    unsafe {
        let mapping = libc::mmap(
            std::ptr::null_mut(),
            length,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        assert_ne!(mapping, libc::MAP_FAILED);
        libc::madvise(mapping, length, libc::MADV_HUGEPAGE);
        mapping.write_bytes(1, length);
        let with = huge_pages();
        libc::munmap(mapping, length);
        HugePages {
            asked_for: with.asked_for - before.asked_for,
            given: with.given - before.given,
        }
    }
}

/// A list of blocks whose pages are resident, so that it does not count later.
fn list() -> Vec<*mut u8> {
    let mut list = vec![std::ptr::without_provenance_mut(1); 2 << 20];
    list.clear();
    list
}

/// Whether the kernel has huge pages, as a plain mapping shows.
fn are_there(plain: HugePages) -> bool {
    plimsoll_testkit::capability("huge-pages", plain.asked_for > 0, "the kernel has none")
}

/// Whether the mapping at an address has advice for base pages.
fn has_base_pages(address: usize) -> bool {
    let text = std::fs::read_to_string("/proc/self/smaps").expect("there is /proc");
    let number = |hex| usize::from_str_radix(hex, 16).ok();
    let mut here = false;
    for line in text.lines() {
        let range = line.split(' ').next().and_then(|range| range.split_once('-'));
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (number(start), number(end))) {
            here = (start..end).contains(&address);
        } else if here && let Some(flags) = line.strip_prefix("VmFlags:") {
            return flags.split_ascii_whitespace().any(|flag| flag == "nh");
        }
    }
    panic!("nothing is mapped at {address:#x}");
}

/// In a limited process the window is mapped piece by piece. A system that always uses huge pages backed each block
/// with one there.
#[test]
fn memory_mapped_in_pieces_has_base_pages() {
    for limited_at_first in [false, true] {
        let limited = if limited_at_first { "1" } else { "" };
        in_child(
            "huge_pages::memory_mapped_in_pieces_has_base_pages",
            &[("LIMITED_AT_FIRST", limited)],
            || {
                if !are_there(of_a_plain_mapping(16 * MIB)) {
                    return;
                }
                let heap = Heap::process();
                if std::env::var("LIMITED_AT_FIRST").is_ok_and(|limited| limited.is_empty()) {
                    assert!(!heap.allocate(100).is_null());
                }
                set_limit(libc::RLIMIT_AS, virtual_bytes() as u64 + (512 << 20));
                let block = heap.allocate(64 * MIB);
                assert!(!block.is_null());
                assert!(has_base_pages(block as usize));
            },
        );
    }
}

fn lie_under_a_heap_that_is_mostly_in_use() {
    let plain = of_a_plain_mapping(16 * MIB);
    if !are_there(plain) {
        return;
    }
    let heap = Heap::process();
    let mut blocks = list();
    let (base, none) = (resident(), huge_pages());
    // The first memory of a heap, until it is mostly in use, is on base pages.
    fill(heap, &mut blocks, 8 * MIB, || 48);
    assert_eq!(huge_pages(), none);
    fill(heap, &mut blocks, 72 * MIB, || 48);
    let now = huge_pages();
    let (asked_for, given) = (now.asked_for - none.asked_for, now.given - none.given);
    println!(
        "measured: huge pages under 80 MiB: asked for {} MiB, given {} MiB, resident {} KiB",
        asked_for / MIB,
        given / MIB,
        (resident() - base) >> 10
    );
    assert!((48 * MIB..=88 * MIB).contains(&asked_for), "{asked_for}");
    if plain.given == 16 * MIB {
        assert!(given >= 40 * MIB, "{given}");
    }
    // At most a page more than in use is resident, and the heap's descriptions.
    assert!(
        resident() - base < 86 * MIB,
        "{} bytes resident",
        resident() - base
    );
    free_all(heap, blocks.drain(..));
    heap.trim();
    let left = resident().saturating_sub(base);
    assert!(left < 4 * MIB, "{left} bytes left");
}

#[test]
fn huge_pages_lie_under_a_heap_that_is_mostly_in_use() {
    in_child(
        "huge_pages::huge_pages_lie_under_a_heap_that_is_mostly_in_use",
        &[],
        lie_under_a_heap_that_is_mostly_in_use,
    );
}

/// The returned part of a huge page must not come back with the rest of it.
#[test]
fn pages_between_blocks_return_from_huge_pages() {
    in_child(
        "huge_pages::pages_between_blocks_return_from_huge_pages",
        &[],
        || {
            let plain = of_a_plain_mapping(16 * MIB);
            if !are_there(plain) {
                return;
            }
            let heap = Heap::process();
            let (mut blocks, mut kept) = (list(), Vec::new());
            let (base, none) = (resident(), huge_pages());
            fill(heap, &mut blocks, 64 * MIB, || 1024);
            let with = huge_pages();
            assert!(with.asked_for > none.asked_for + 32 * MIB, "{with:?}");
            if plain.given == 16 * MIB {
                assert!(with.given > none.given + 24 * MIB, "{with:?}");
            }
            // Of each 64 KiB one block stays, if its neighbours were allocated one after the other.
            blocks.sort_unstable();
            let mut at = 0;
            blocks.retain(|block| {
                at += 1;
                if at % 64 == 0 {
                    kept.push(*block);
                }
                at % 64 != 0
            });
            free_all(heap, blocks.drain(..));
            heap.trim();
            heap.trim();
            let left = resident().saturating_sub(base);
            println!(
                "measured: {} KiB left of 64 MiB, of which 1 MiB is in use",
                left >> 10
            );
            // A page of each, and the heap's descriptions.
            assert!(left < 8 * MIB, "{left} bytes left");
            // A later look finds as much.
            std::thread::sleep(std::time::Duration::from_millis(1500));
            let later = resident().saturating_sub(base);
            assert!(later <= left + MIB, "{later} bytes, after {left}");
            free_all(heap, kept);
        },
    );
}

#[test]
fn no_huge_pages_lie_under_large_blocks_and_the_standard_front_end() {
    in_child(
        "huge_pages::no_huge_pages_lie_under_large_blocks_and_the_standard_front_end",
        &[],
        || {
            let heap = Heap::new(HeapOptions::default()).expect("there is memory");
            assert_eq!(heap.front_end(), FrontEnd::Standard);
            let mut blocks = list();
            let none = huge_pages();
            fill(&heap, &mut blocks, 32 * MIB, || 1000);
            fill(&heap, &mut blocks, 64 * MIB, || MIB);
            assert_eq!(huge_pages(), none);
        },
    );
}

#[test]
fn no_huge_pages_are_requested_when_turned_off() {
    in_child(
        "huge_pages::no_huge_pages_are_requested_when_turned_off",
        &[("PLIMSOLL_HEAP_THP", "off")],
        || {
            let mut blocks = list();
            let none = huge_pages();
            fill(Heap::process(), &mut blocks, 80 * MIB, || 48);
            assert_eq!(huge_pages(), none);
        },
    );
}
