//! Page flags: the counting against a model that looks at one page at a time, and the machine against itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use plimsoll_model::columns::{Row, col};
use plimsoll_sample::page_flags::{ATTRIBUTES, KINDS, PageFlags, PageKind, flag, kind_of, snapshot};
use plimsoll_sample::parse;
use plimsoll_testkit::capability;
use proptest::prelude::*;

use super::MIB;

/// The bits by number, as the kernel's documentation (admin-guide/mm/pagemap.rst) has them.
const ANON: u64 = 12;
const HEAD: u64 = 15;
const TAIL: u64 = 16;
const NOPAGE: u64 = 20;
const THP: u64 = 22;

/// The name of the kind: rules in the order of their weight, by bit numbers.
fn model(flags: u64) -> &'static str {
    let bit = |number: u64| flags >> number & 1 == 1;
    let cached = bit(5) || bit(3);
    let rules = [
        (bit(NOPAGE), "hole"),
        (bit(19), "poisoned"),
        (bit(23), "offline"),
        (bit(10), "free"),
        (bit(24), "zero"),
        (bit(7), "slab"),
        (bit(26), "page_tables"),
        (bit(17), "hugetlb"),
        (bit(21), "ksm"),
        (bit(13) && !bit(11), "swap_cache"),
        (bit(ANON) && bit(THP), "anon_huge"),
        (bit(ANON), "anon"),
        (bit(32), "reserved"),
        (bit(14), "shmem"),
        (cached && bit(11), "file_mapped"),
        (cached, "file_cache"),
        (true, "other"),
    ];
    rules
        .into_iter()
        .find(|(holds, _)| *holds)
        .expect("the last rule holds")
        .1
}

/// A page's entry after those of the tail pages were made those of their head: looks back for each page.
fn flags_in_effect(frames: &[u64], at: usize) -> u64 {
    let has = |at: usize, bit: u64| frames[at] >> bit & 1 == 1;
    if !has(at, TAIL) || has(at, NOPAGE) {
        return frames[at];
    }
    let mut head = at;
    while head > 0 {
        head -= 1;
        if has(head, NOPAGE) {
            break;
        }
        if !has(head, TAIL) {
            return if has(head, HEAD) { frames[head] } else { frames[at] };
        }
    }
    frames[at]
}

fn entry() -> impl Strategy<Value = u64> {
    // Few bits at a time, as the kernel sets them, and sometimes all sorts.
    prop_oneof![
        8 => prop::collection::vec(0u64..36, 0..5).prop_map(|bits| bits.into_iter().fold(0, |flags, bit| flags | 1 << bit)),
        2 => Just(1 << HEAD | 1 << ANON | 1 << THP),
        3 => Just(1 << TAIL),
        1 => any::<u64>(),
    ]
    // No page is the head and the tail of the same thing.
    .prop_map(|flags| if flags >> TAIL & 1 == 1 { flags & !(1 << HEAD) } else { flags })
}

proptest! {
    #[test]
    fn every_page_is_of_one_kind(frames in prop::collection::vec(entry(), 0..200)) {
        let found = PageFlags::count(frames.iter().copied());
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        for at in 0..frames.len() {
            *expected.entry(model(flags_in_effect(&frames, at))).or_default() += 1;
        }
        prop_assert_eq!(found.holes, expected.remove("hole").unwrap_or(0));
        prop_assert_eq!(found.pages + found.holes, frames.len() as u64);
        for (words, count) in KINDS.iter().zip(&found.kinds) {
            prop_assert_eq!(count.pages, expected.remove(words.name).unwrap_or(0), "{}", words.name);
            for (attribute, pages) in ATTRIBUTES.iter().zip(&count.attributes) {
                prop_assert!(*pages <= count.pages, "{}", attribute.name);
            }
        }
        prop_assert!(expected.is_empty());
    }
}

#[test]
fn attributes_are_counted_beside_the_kind() {
    let active = flag::LRU | flag::ACTIVE | flag::ANON | flag::MMAP | flag::SWAPBACKED;
    let found = PageFlags::count([active, active | flag::DIRTY, flag::LRU | flag::ANON | flag::MMAP]);
    let anon = found.of(PageKind::Anon);
    let named: BTreeMap<&str, u64> = ATTRIBUTES
        .iter()
        .zip(anon.attributes)
        .map(|(attribute, pages)| (attribute.name, pages))
        .collect();
    assert_eq!(anon.pages, 3);
    assert_eq!(
        (
            named["active"],
            named["inactive"],
            named["dirty"],
            named["mapped"]
        ),
        (2, 1, 1, 3)
    );
}

fn may_read_page_flags() -> bool {
    let readable = rustix::process::geteuid().is_root() && File::open("/proc/kpageflags").is_ok();
    capability("page-flags", readable, "needs root and /proc/kpageflags")
}

/// The pages that are managed are MemTotal; 1% is left for pages that the kernel took at its start without a mark.
///
/// A kernel that starts with `deferred_init=lazy` counts all of its memory in MemTotal from the start, but writes the
/// descriptors of pages far up only when memory is needed. Until then its reserved pages there (mostly the descriptors
/// themselves, 1.6% of RAM) have no flags, so they are counted among `other`.
#[test]
fn the_kinds_of_this_machine_sum_to_its_memory() {
    if !may_read_page_flags() {
        return;
    }
    let found = snapshot().expect("a snapshot");
    let sum: u64 = found.kinds.iter().map(|count| count.pages).sum();
    assert_eq!(sum, found.pages);
    assert!(found.cpu_us > 0 && found.seconds > 0.0);
    let mut row = Row::empty(0);
    parse::meminfo(&std::fs::read("/proc/meminfo").expect("meminfo"), &mut row);
    let total = row.get(col::MEM_TOTAL).expect("MemTotal") as f64;
    let zones = std::fs::read_to_string("/proc/zoneinfo").expect("zoneinfo");
    let sum_of = |key: &str| -> u64 {
        let lines = zones
            .lines()
            .filter_map(|line| line.trim_start().strip_prefix(key));
        lines.map(|rest| rest.trim().parse::<u64>().expect("pages")).sum()
    };
    let (present, unmanaged) = (sum_of("present "), sum_of("present ") - sum_of("managed "));
    assert!(
        found.pages.abs_diff(present) < present / 100,
        "{} pages, {present} present",
        found.pages
    );
    let reserved = found.of(PageKind::Reserved).pages;
    let lazy = std::fs::read_to_string("/proc/cmdline").is_ok_and(|line| line.contains("deferred_init=lazy"));
    let unmarked = if lazy {
        unmanaged.saturating_sub(reserved)
    } else {
        0
    };
    assert!(
        unmarked <= found.of(PageKind::Other).pages,
        "{unmarked} pages are reserved and not marked so"
    );
    let bytes = |pages: u64| (pages * found.page_size) as f64;
    let managed = bytes(found.pages - reserved - unmarked);
    if lazy {
        // MemTotal counts pages before the kernel initialises and manages them, and leaves out their descriptors (1.6%).
        let most = bytes(found.pages - reserved);
        assert!(
            managed <= 1.01 * total && (total..1.03 * total).contains(&most),
            "{managed} to {most} bytes of pages, MemTotal {total}, {unmarked} pages not marked"
        );
    } else {
        assert!(
            (managed / total - 1.0).abs() < 0.01,
            "{managed} bytes of pages, MemTotal {total}"
        );
    }
}

/// Every page of memory that this process has just written is anonymous, by the frame numbers that the kernel tells.
#[test]
fn pages_that_were_just_written_are_anonymous() {
    if !may_read_page_flags() {
        return;
    }
    let page = rustix::param::page_size();
    let mut memory = plimsoll_os::Mapping::anonymous(16 * MIB as usize).expect("memory");
    memory.bytes_mut().fill(1);
    let (pagemap, flags) = (
        File::open("/proc/self/pagemap").expect("pagemap"),
        File::open("/proc/kpageflags").expect("kpageflags"),
    );
    let number = |file: &File, index: u64| {
        let mut entry = [0; 8];
        file.read_exact_at(&mut entry, index * 8).expect("an entry");
        u64::from_ne_bytes(entry)
    };
    let pages = memory.len() / page;
    let mut anonymous = 0;
    for index in 0..pages {
        let entry = number(&pagemap, (memory.address() / page + index) as u64);
        let kind = kind_of(number(&flags, entry & ((1 << 55) - 1)));
        anonymous += usize::from(matches!(kind, Some(PageKind::Anon | PageKind::AnonHuge)));
    }
    // Reclaim may take some of them meanwhile.
    assert!(anonymous * 100 >= pages * 99, "{anonymous} of {pages} pages");
}

/// Others use memory too: the tests that fill much of it are kept away, and the difference that the kernel's own count
/// (AnonPages) shows beyond this test's memory is taken off. The least disturbed of several attempts counts.
#[test]
fn new_anonymous_memory_shows_as_anonymous_pages() {
    if !may_read_page_flags() {
        return;
    }
    let _alone = crate::machine::alone();
    let accounted = || {
        let mut row = Row::empty(0);
        parse::meminfo(&std::fs::read("/proc/meminfo").expect("meminfo"), &mut row);
        row.get(col::ANON_PAGES).expect("AnonPages")
    };
    // By flags and by the kernel's count, the latter as it was in the middle of the snapshot.
    let anonymous = || {
        let before = accounted();
        let found = snapshot().expect("a snapshot");
        let counted = (found.bytes(PageKind::Anon) + found.bytes(PageKind::AnonHuge)) as i64;
        (counted, (before + accounted()) / 2)
    };
    let size = 128 * MIB;
    let mut differences = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(120);
    while differences.len() < 5 || Instant::now() < deadline {
        let before = anonymous();
        let mut memory = plimsoll_os::Mapping::anonymous(size as usize).expect("memory");
        memory.bytes_mut().fill(1);
        let after = anonymous();
        drop(memory);
        let others = after.1 - before.1 - size as i64;
        let difference = after.0 - before.0 - others;
        if (difference - size as i64).unsigned_abs() <= 32 * MIB {
            return;
        }
        differences.push(difference);
    }
    panic!("{size} bytes more showed as {differences:?}");
}
