//! The parsers against simple ones: any order, missing and unknown lines, garbage.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::columns::{COLUMNS, Row, Unit};
use plimsoll_model::columns::{WIDTH, col};
use plimsoll_sample::parse;
use proptest::prelude::*;

/// The keys of a file and the column each feeds, from the table.
fn keys_of(file: &str) -> Vec<(&'static str, usize)> {
    COLUMNS
        .iter()
        .enumerate()
        .filter_map(|(index, column)| Some((index, column.source.split_once(' ')?)))
        .filter(|(_, (source, _))| *source == file)
        .flat_map(|(index, (_, keys))| keys.split(" + ").map(move |key| (key, index)))
        .collect()
}

/// The result of a simple parser for `text`: a map of keys, a split at line ends, a sum a column.
fn simple(text: &[u8], keys: &[(&'static str, usize)], scale: impl Fn(usize) -> i64) -> BTreeMap<usize, i64> {
    let keys: BTreeMap<&[u8], usize> = keys
        .iter()
        .map(|(key, column)| (key.as_bytes(), *column))
        .collect();
    let mut values = BTreeMap::new();
    for line in text.split(|&b| b == b'\n') {
        let end = line.iter().position(|b| b" :".contains(b)).unwrap_or(line.len());
        let (key, rest) = line.split_at(end);
        let rest = rest.strip_prefix(b":").unwrap_or(rest);
        let number = rest
            .split(|&b| b == b' ' || b == b'\t')
            .enumerate()
            // A tab may end a number but not stand before one.
            .find(|(_, word)| !word.is_empty())
            .map(|(_, word)| word)
            .filter(|_| rest.iter().find(|b| **b != b' ').is_some_and(u8::is_ascii_digit));
        let value = number
            .filter(|word| word.iter().all(u8::is_ascii_digit))
            .and_then(|word| std::str::from_utf8(word).ok()?.parse::<i64>().ok());
        if let (Some(&column), Some(value)) = (keys.get(key), value)
            && let Some(value) = value.checked_mul(scale(column))
        {
            let sum = values.entry(column).or_insert(0_i64);
            *sum = sum.saturating_add(value);
        }
    }
    values
}

fn values(row: &Row) -> BTreeMap<usize, i64> {
    (0..WIDTH)
        .filter_map(|index| Some((index, row.get(index)?)))
        .collect()
}

/// Some lines of a file in any order, between unknown and broken lines.
fn file(keys: Vec<&'static str>) -> impl Strategy<Value = Vec<u8>> {
    let key = prop_oneof![
        6 => prop::sample::select(keys),
        1 => Just("nr_new_thing"), 1 => Just("Active"), 1 => Just("pgfaults"), 1 => Just("")
    ];
    let separator = prop_oneof![
        4 => Just(" "), 4 => Just(":       "), 1 => Just(": "), 1 => Just(":"), 1 => Just(""), 1 => Just("::"), 1 => Just("\t")
    ];
    let number = prop_oneof![
        8 => any::<u32>().prop_map(|n| n.to_string()),
        1 => any::<u64>().prop_map(|n| n.to_string()),
        1 => Just(i64::MAX.to_string()),
        1 => Just("-1".to_owned()), 1 => Just("12x".to_owned()), 1 => Just("99999999999999999999999".to_owned()),
        1 => Just(String::new()),
    ];
    let ending = prop_oneof![4 => Just(" kB\n"), 4 => Just("\n"), 1 => Just("\n\n"), 1 => Just(" "), 1 => Just("\t9\n")];
    let line = (key, separator, number, ending).prop_map(|(k, s, n, e)| format!("{k}{s}{n}{e}").into_bytes());
    let garbage = prop::collection::vec(any::<u8>(), 0..12);
    prop::collection::vec(prop_oneof![9 => line, 1 => garbage], 0..60).prop_map(|lines| lines.concat())
}

fn names(keys: &[(&'static str, usize)]) -> Vec<&'static str> {
    keys.iter().map(|(key, _)| *key).collect()
}

proptest! {
    #[test]
    fn meminfo_is_parsed_as_a_simple_parser_does(text in file(names(&keys_of("/proc/meminfo")))) {
        let mut row = Row::empty(0);
        parse::meminfo(&text, &mut row);
        prop_assert_eq!(values(&row), simple(&text, &keys_of("/proc/meminfo"), |_| 1024));
    }

    #[test]
    fn vmstat_is_parsed_as_a_simple_parser_does(text in file(names(&keys_of("/proc/vmstat")))) {
        let scale = |column: usize| match COLUMNS[column].unit {
            Unit::Bytes => rustix::param::page_size() as i64,
            Unit::CountBytes => 1024,
            _ => 1,
        };
        let mut row = Row::empty(0);
        parse::vmstat(&text, &mut row);
        prop_assert_eq!(values(&row), simple(&text, &keys_of("/proc/vmstat"), scale));
    }

    #[test]
    fn every_parser_takes_any_bytes(text in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut row = Row::empty(0);
        parse::meminfo(&text, &mut row);
        parse::vmstat(&text, &mut row);
        parse::stat(&text, &mut row);
        parse::cgroup_stat(&text, &mut row);
        let mut swaps = parse::Swaps::default();
        swaps.parse(&text, &mut row);
        swaps.parse(&text, &mut row);
        prop_assert!(swaps.labels().len() <= 4);
    }
}

#[test]
fn the_cpu_line_of_an_old_kernel_has_fewer_times() {
    let mut row = Row::empty(0);
    parse::stat(b"cpu  10 20 30 40 50 60 70\ncpu0 1 2 3 4 5 6 7\n", &mut row);
    assert_eq!(row.get(col::CPU_USER_US), Some(100_000));
    assert_eq!(row.get(col::CPU_SOFTIRQ_US), Some(700_000));
    assert_eq!(row.get(col::CPU_STEAL_US), None);
}

#[test]
fn memory_stat_of_both_cgroup_versions() {
    let mut v1 = Row::empty(0);
    parse::cgroup_stat(
        b"cache 1\nrss 2\nswap 3\ninactive_anon 9\ntotal_cache 10\ntotal_rss 20\ntotal_swap 30\ntotal_swapcached 40\n",
        &mut v1,
    );
    let charged = |row: &Row| {
        let columns = [
            col::CGROUP_ANON,
            col::CGROUP_FILE,
            col::CGROUP_SWAP,
            col::CGROUP_SWAP_CACHED,
        ];
        columns.map(|column| row.get(column))
    };
    assert_eq!(charged(&v1), [Some(20), Some(10), Some(30), Some(40)]);
    let mut v2 = Row::empty(0);
    parse::cgroup_stat(b"anon 5\nfile 6\nkernel 7\nswapcached 8\nanon_thp 0\n", &mut v2);
    assert_eq!(charged(&v2), [Some(5), Some(6), None, Some(8)]);
}

const HEADING: &str = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";

fn swaps(parser: &mut parse::Swaps, devices: &[(&str, i64)]) -> Row {
    let mut text = HEADING.to_owned();
    for (name, used) in devices {
        text += &format!("{name}                              partition\t2048\t\t{used}\t\t-2\n");
    }
    let mut row = Row::empty(0);
    parser.parse(text.as_bytes(), &mut row);
    row
}

#[test]
fn the_targets_own_device_is_no_device_of_others() {
    let text =
        b"Filename Type Size Used Priority\n/swap\\040file file 100 10 1000\n/dev/a partition 40 4 -2\n\
                 /dev/b partition 4000 400 -3\n";
    let bytes = |own: Option<&str>| {
        let mut row = Row::empty(0);
        parse::OwnDevice::new(own.map(Path::new)).parse(text, &mut row);
        [
            col::DEVICE_SWAP_SIZE,
            col::DEVICE_SWAP_USED,
            col::OTHER_SWAP_SIZE,
            col::OTHER_SWAP_USED,
        ]
        .map(|column| row.get(column).map(|bytes| bytes / 1024))
    };
    let own = bytes(Some("/swap file"));
    assert_eq!(own, [Some(100), Some(10), Some(4040), Some(404)]);
    let without = [None, None, Some(4140), Some(414)];
    assert_eq!((bytes(None), bytes(Some("/dev/gone"))), (without, without));
}

#[test]
fn a_swap_device_keeps_its_slot_when_others_come_and_go() {
    let mut parser = parse::Swaps::default();
    let row = swaps(&mut parser, &[("/dev/zram1", 4), ("/swap\\040file", 8)]);
    assert_eq!(row.get(col::SWAP0_SIZE), Some(2048 * 1024));
    assert_eq!(row.get(col::SWAP0_USED), Some(4096));
    assert_eq!(row.get(col::SWAP1_USED), Some(8192));
    assert_eq!(row.get(col::SWAP2_SIZE), None);

    let row = swaps(&mut parser, &[("/dev/vdb", 1), ("/swap\\040file", 9)]);
    assert_eq!(row.get(col::SWAP0_SIZE), None);
    assert_eq!(row.get(col::SWAP1_USED), Some(9 * 1024));
    assert_eq!(row.get(col::SWAP2_USED), Some(1024));
    assert_eq!(parser.labels(), ["/dev/zram1", "/swap\\040file", "/dev/vdb"]);
}

#[test]
fn a_fifth_swap_device_takes_the_slot_of_one_that_has_gone_or_none() {
    let mut parser = parse::Swaps::default();
    let row = swaps(&mut parser, &[("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)]);
    assert_eq!(row.get(col::SWAP3_USED), Some(4 * 1024));
    assert_eq!(parser.labels(), ["a", "b", "c", "d"]);

    let row = swaps(&mut parser, &[("e", 5), ("a", 1), ("c", 3), ("d", 4)]);
    assert_eq!(row.get(col::SWAP1_USED), Some(5 * 1024));
    assert_eq!(row.get(col::SWAP0_USED), Some(1024));
    assert_eq!(parser.labels(), ["a", "b, e", "c", "d"]);
}
