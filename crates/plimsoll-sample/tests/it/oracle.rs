//! The procfs crate as the oracle: exactly for the same text, and for monotonic counters of the live machine.

use std::fs;

use plimsoll_model::columns::col;
use plimsoll_model::columns::{COLUMNS, Row};
use plimsoll_sample::{Reader, parse};

use procfs::{CurrentSI, FromBufReadSI, FromRead};

#[test]
fn meminfo_is_what_the_oracle_reads_of_the_same_text() {
    let text = fs::read("/proc/meminfo").unwrap();
    let mut row = Row::empty(0);
    parse::meminfo(&text, &mut row);
    let oracle = procfs::Meminfo::from_read(&*text).unwrap();
    for (column, expected) in [
        (col::MEM_TOTAL, Some(oracle.mem_total)),
        (col::MEM_FREE, Some(oracle.mem_free)),
        (col::MEM_AVAILABLE, oracle.mem_available),
        (col::BUFFERS, Some(oracle.buffers)),
        (col::CACHED, Some(oracle.cached)),
        (col::SWAP_CACHED, Some(oracle.swap_cached)),
        (col::ACTIVE_ANON, oracle.active_anon),
        (col::INACTIVE_ANON, oracle.inactive_anon),
        (col::ACTIVE_FILE, oracle.active_file),
        (col::INACTIVE_FILE, oracle.inactive_file),
        (col::UNEVICTABLE, oracle.unevictable),
        (col::MLOCKED, oracle.mlocked),
        (col::SWAP_TOTAL, Some(oracle.swap_total)),
        (col::SWAP_FREE, Some(oracle.swap_free)),
        (col::ZSWAP_POOL, oracle.z_swap),
        (col::ZSWAP_STORED, oracle.z_swapped),
        (col::DIRTY, Some(oracle.dirty)),
        (col::WRITEBACK, Some(oracle.writeback)),
        (col::ANON_PAGES, oracle.anon_pages),
        (col::MAPPED, Some(oracle.mapped)),
        (col::SHMEM, oracle.shmem),
        (col::SLAB, Some(oracle.slab)),
        (col::SLAB_RECLAIMABLE, oracle.s_reclaimable),
        (col::SLAB_UNRECLAIMABLE, oracle.s_unreclaim),
        (col::KERNEL_STACK, oracle.kernel_stack),
        (col::PAGE_TABLES, oracle.page_tables),
        (col::SECONDARY_PAGE_TABLES, oracle.secondary_page_tables),
        (col::VMALLOC_USED, Some(oracle.vmalloc_used)),
        (col::PERCPU, oracle.per_cpu),
        (col::ANON_HUGE_PAGES, oracle.anon_hugepages),
        (col::HUGETLB, oracle.hugetlb),
        (col::COMMIT_LIMIT, oracle.commit_limit),
        (col::COMMITTED, Some(oracle.committed_as)),
    ] {
        let expected = expected.map(|bytes| bytes as i64);
        assert_eq!(row.get(column), expected, "{}", COLUMNS[column].name);
    }
}

#[test]
fn vmstat_is_what_the_oracle_reads_of_the_same_text() {
    let text = fs::read("/proc/vmstat").unwrap();
    let mut row = Row::empty(0);
    parse::vmstat(&text, &mut row);
    let procfs::VmStat(oracle) = procfs::VmStat::from_read(&*text).unwrap();
    let mut compared = 0;
    for (index, column) in COLUMNS.iter().enumerate() {
        let Some(keys) = column.source.strip_prefix("/proc/vmstat ") else {
            continue;
        };
        let values: Vec<i64> = keys
            .split(" + ")
            .filter_map(|key| oracle.get(key).copied())
            .collect();
        let scale = match column.name {
            "nr_zspages" => rustix::param::page_size() as i64,
            "pgpgin" | "pgpgout" => 1024,
            _ => 1,
        };
        let expected = (!values.is_empty()).then(|| values.iter().sum::<i64>() * scale);
        assert_eq!(row.get(index), expected, "{}", column.name);
        compared += 1;
    }
    assert!(compared > 40, "the table names /proc/vmstat {compared} times");
}

#[test]
fn stat_is_what_the_oracle_reads_of_the_same_text() {
    let text = fs::read("/proc/stat").unwrap();
    let mut row = Row::empty(0);
    parse::stat(&text, &mut row);
    let oracle = procfs::KernelStats::from_buf_read(&*text, procfs::current_system_info())
        .unwrap()
        .total;
    for (column, ticks) in [
        (col::CPU_USER_US, Some(oracle.user)),
        (col::CPU_NICE_US, Some(oracle.nice)),
        (col::CPU_SYSTEM_US, Some(oracle.system)),
        (col::CPU_IDLE_US, Some(oracle.idle)),
        (col::CPU_IOWAIT_US, oracle.iowait),
        (col::CPU_IRQ_US, oracle.irq),
        (col::CPU_SOFTIRQ_US, oracle.softirq),
        (col::CPU_STEAL_US, oracle.steal),
        (col::CPU_GUEST_US, oracle.guest),
        (col::CPU_GUEST_NICE_US, oracle.guest_nice),
    ] {
        let expected = ticks.map(|ticks| (ticks * 1_000_000 / procfs::ticks_per_second()) as i64);
        assert_eq!(row.get(column), expected, "{}", COLUMNS[column].name);
    }
}

/// A monotonic counter must lie between a sample before and a sample after.
#[test]
fn the_reader_agrees_with_the_oracle_on_the_live_machine() {
    let mut reader = Reader::open().unwrap();
    let (mut before, mut after) = (Row::empty(0), Row::empty(0));
    reader.read(&mut before);
    let vmstat = procfs::vmstat().unwrap();
    let cpu = procfs::KernelStats::current().unwrap().total;
    let own = procfs::process::Process::myself().unwrap().statm().unwrap();
    reader.read(&mut after);
    let us = |ticks: u64| (ticks * 1_000_000 / procfs::ticks_per_second()) as i64;
    for (column, value) in [
        (col::PGFAULT, vmstat["pgfault"]),
        (col::PGMAJFAULT, vmstat["pgmajfault"]),
        (col::PGACTIVATE, vmstat["pgactivate"]),
        (col::PSWPIN, vmstat["pswpin"]),
        (col::PSWPOUT, vmstat["pswpout"]),
        (col::WORKINGSET_REFAULT_FILE, vmstat["workingset_refault_file"]),
        (col::CPU_USER_US, us(cpu.user)),
        (col::CPU_SYSTEM_US, us(cpu.system)),
    ] {
        let range = before.get(column).unwrap()..=after.get(column).unwrap();
        assert!(
            range.contains(&value),
            "{}: {value} not in {range:?}",
            COLUMNS[column].name
        );
    }
    assert_eq!(before.get(col::MEM_TOTAL), after.get(col::MEM_TOTAL));
    // Tests beside this one come and go in this very process.
    let resident = own.resident as i64 * rustix::param::page_size() as i64;
    let sampled = after.get(col::RUNNER_RESIDENT).unwrap();
    assert!(
        (resident - sampled).abs() < 512 << 20,
        "{resident} against {sampled}"
    );
}
