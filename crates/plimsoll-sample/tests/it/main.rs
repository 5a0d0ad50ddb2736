//! Integration tests of the sampler and of the categories of memory, one file a topic.

mod oracle;
mod parsers;
mod programs;
mod thread;

use std::collections::BTreeSet;

use plimsoll_model::categories::{CATEGORIES, categories};
use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_model::columns::{WIDTH, col};
use plimsoll_sample::Reader;
use proptest::prelude::*;

/// The second row of a reader, which knows the order of the lines by then.
fn read_now() -> Row {
    let mut row = Row::empty(0);
    let mut reader = Reader::open().expect("/proc/meminfo is readable");
    reader.read(&mut row);
    reader.read(&mut row);
    row
}

#[test]
fn column_names_are_unique_and_every_column_says_what_it_is() {
    let names: BTreeSet<_> = COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), WIDTH);
    for column in COLUMNS {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(column.name.chars().all(plain), "{}", column.name);
        assert!(column.meaning.ends_with('.'), "{}", column.name);
        assert!(!column.source.is_empty(), "{}", column.name);
    }
}

/// A misspelt key would be null for ever, unnoticed.
#[test]
fn every_column_of_meminfo_and_vmstat_is_there_unless_the_kernel_is_too_old_or_built_without() {
    let optional = [
        "zswap_pool",
        "zswap_stored",
        "secondary_page_tables",
        "percpu",
        "hugetlb",
        "anon_huge_pages",
        "nr_zspages",
        "pgscan_khugepaged",
        "pgsteal_khugepaged",
        "pgscan_proactive",
        "pgsteal_proactive",
        "swpin_zero",
        "swpout_zero",
        "zswpin",
        "zswpout",
        "zswpwb",
        "thp_swpout",
        "thp_swpout_fallback",
        "thp_fault_alloc",
        "compact_stall",
        "balloon_inflate",
        "swap_ra",
        "swap_ra_hit",
    ];
    let modern = rustix::system::uname()
        .release()
        .to_string_lossy()
        .starts_with("6.18");
    let row = read_now();
    for (index, column) in COLUMNS.iter().enumerate() {
        let keyed = column.source.starts_with("/proc/meminfo ") || column.source.starts_with("/proc/vmstat ");
        if keyed && (modern || !optional.contains(&column.name)) {
            assert!(row.get(index).is_some(), "{} is missing", column.name);
        }
    }
}

#[test]
fn reading_again_forgets_what_is_gone() {
    let mut row = Row::empty(7);
    row.set(col::WORKER4_RESIDENT, 1);
    Reader::open().expect("/proc/meminfo is readable").read(&mut row);
    assert_eq!(row.get(col::WORKER4_RESIDENT), None);
    assert_eq!(row.t_ns, 7);
}

#[test]
fn categories_have_the_order_of_the_design() {
    let names: Vec<_> = CATEGORIES.iter().map(|layer| layer.name).collect();
    assert_eq!(
        names,
        [
            "kernel",
            "target",
            "other",
            "compressed",
            "swap_cache",
            "dirty",
            "page_cache",
            "slab_reclaimable",
            "free",
            "unaccounted"
        ]
    );
}

/// A machine worked out by hand: 1000 pages, and one that is in the swap cache and mapped must not count twice.
#[test]
fn categories_of_a_machine_worked_out_by_hand() {
    let mut row = Row::empty(0);
    for (column, value) in [
        (col::MEM_TOTAL, 1000),
        (col::MEM_FREE, 300),
        (col::BUFFERS, 10),
        (col::CACHED, 200),
        (col::SHMEM, 20),
        (col::DIRTY, 4),
        (col::WRITEBACK, 1),
        (col::ANON_PAGES, 250),
        // 250 mapped, 20 shared, 30 in the swap cache alone; of the 45 in the swap cache 15 are mapped as well.
        (col::ACTIVE_ANON, 140),
        (col::INACTIVE_ANON, 155),
        (col::UNEVICTABLE, 5),
        (col::SWAP_CACHED, 45),
        (col::TARGET_ANON, 100),
        (col::NR_ZSPAGES, 60),
        (col::ZSWAP_POOL, 25),
        (col::SLAB_RECLAIMABLE, 40),
        (col::SLAB_UNRECLAIMABLE, 30),
        (col::KERNEL_STACK, 3),
        (col::VMALLOC_USED, 8),
        (col::PAGE_TABLES, 7),
        (col::PERCPU, 2),
    ] {
        row.set(column, value);
    }
    let layers = categories(&row).expect("nothing is missing");
    let expected = [47, 100, 150, 60, 30, 5, 205, 40, 300, 63];
    assert_eq!(layers.bytes(), expected);
    assert_eq!(layers.get("page_cache"), Some(205));
    assert_eq!(layers.get("unaccounted"), Some(63));
}

#[test]
fn categories_of_this_machine_leave_little_unaccounted() {
    let row = read_now();
    let layers = categories(&row).expect("this machine has them all");
    let total = row.get(col::MEM_TOTAL).unwrap();
    let unaccounted = layers.get("unaccounted").unwrap();
    assert!(
        unaccounted.abs() * 20 < total,
        "{unaccounted} of {total} unaccounted"
    );
}

#[test]
fn no_categories_without_the_values_that_every_linux_has() {
    let row = read_now();
    for missing in [
        col::MEM_TOTAL,
        col::MEM_FREE,
        col::BUFFERS,
        col::CACHED,
        col::ANON_PAGES,
    ] {
        let mut without = Row::empty(0);
        for index in (0..WIDTH).filter(|&index| index != missing) {
            if let Some(value) = row.get(index) {
                without.set(index, value);
            }
        }
        assert_eq!(categories(&without), None, "without {}", COLUMNS[missing].name);
    }
}

proptest! {
    #[test]
    fn categories_sum_to_mem_total_whatever_the_row_holds(
        values in prop::collection::vec(prop::option::weighted(0.9, any_value()), WIDTH),
    ) {
        let mut row = Row::empty(0);
        for (index, value) in values.iter().enumerate() {
            if let Some(value) = value {
                row.set(index, *value);
            }
        }
        if let Some(layers) = categories(&row) {
            prop_assert_eq!(layers.total(), row.get(col::MEM_TOTAL).unwrap());
            for (layer, bytes) in layers.iter() {
                prop_assert!(bytes >= 0 || layer.name == "unaccounted", "{}: {bytes}", layer.name);
            }
        }
    }
}

/// Values of machines, and nonsense.
fn any_value() -> impl Strategy<Value = i64> {
    prop_oneof![8 => 0..64_i64 << 30, 1 => any::<i64>(), 1 => Just(i64::MAX), 1 => Just(i64::MIN)]
}
