//! The table of the sampled columns: name, unit, meaning and source of each, and the row that holds their values.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Bytes, a level.
    Bytes,
    /// A counter that only grows, of events.
    Count,
    /// A counter that only grows, of bytes.
    CountBytes,
    /// A counter that only grows, of microseconds.
    CountMicroseconds,
    /// A counter that only grows, of pages.
    CountPages,
    /// Nanoseconds, a level.
    Nanoseconds,
    /// A number of things, a level.
    Number,
}

#[derive(Debug, Clone, Copy)]
pub struct Column {
    pub name: &'static str,
    pub unit: Unit,
    pub meaning: &'static str,
    /// File and field it is read from, or how it is computed.
    pub source: &'static str,
}

/// Declares [`COLUMNS`] and, for each, an index constant in [`col`].
macro_rules! columns {
    ($($index:ident $name:literal $unit:ident $source:literal $meaning:literal;)*) => {
        /// Every column, in the order of the recording. The time of the row (`t_ns`) comes before them.
        pub const COLUMNS: &[Column] = &[
            $(Column { name: $name, unit: Unit::$unit, meaning: $meaning, source: $source },)*
        ];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($index,)* }

        /// Index of each column in [`COLUMNS`] and in a [`Row`].
        pub mod col {
            $(#[doc = $meaning] pub const $index: usize = super::Index::$index as usize;)*
        }
    };
}

columns! {
    MEM_TOTAL "mem_total" Bytes "/proc/meminfo MemTotal" "Memory the kernel manages.";
    MEM_FREE "mem_free" Bytes "/proc/meminfo MemFree" "Memory that holds nothing.";
    MEM_AVAILABLE "mem_available" Bytes "/proc/meminfo MemAvailable" "Kernel's estimate of the memory that programs can get without swapping.";
    BUFFERS "buffers" Bytes "/proc/meminfo Buffers" "Page cache of block devices.";
    CACHED "cached" Bytes "/proc/meminfo Cached" "Page cache of files, shared memory included, swap cache and `buffers` excluded.";
    SWAP_CACHED "swap_cached" Bytes "/proc/meminfo SwapCached" "Pages in RAM that also have a place in swap, mapped ones included.";
    ACTIVE_ANON "active_anon" Bytes "/proc/meminfo Active(anon)" "Anonymous and shared memory that was used lately.";
    INACTIVE_ANON "inactive_anon" Bytes "/proc/meminfo Inactive(anon)" "Anonymous and shared memory that is next to be reclaimed.";
    ACTIVE_FILE "active_file" Bytes "/proc/meminfo Active(file)" "File pages that were used lately.";
    INACTIVE_FILE "inactive_file" Bytes "/proc/meminfo Inactive(file)" "File pages that are next to be reclaimed.";
    UNEVICTABLE "unevictable" Bytes "/proc/meminfo Unevictable" "Pages that cannot be reclaimed, locked ones above all.";
    MLOCKED "mlocked" Bytes "/proc/meminfo Mlocked" "Pages that a program has locked.";
    SWAP_TOTAL "swap_total" Bytes "/proc/meminfo SwapTotal" "Size of all swap devices.";
    SWAP_FREE "swap_free" Bytes "/proc/meminfo SwapFree" "Swap that holds nothing.";
    ZSWAP_POOL "zswap_pool" Bytes "/proc/meminfo Zswap" "RAM that zswap's compressed pages take.";
    ZSWAP_STORED "zswap_stored" Bytes "/proc/meminfo Zswapped" "Size of the pages in zswap before compression.";
    DIRTY "dirty" Bytes "/proc/meminfo Dirty" "File pages that wait to be written.";
    WRITEBACK "writeback" Bytes "/proc/meminfo Writeback" "Pages being written, to files or to swap.";
    ANON_PAGES "anon_pages" Bytes "/proc/meminfo AnonPages" "Anonymous pages mapped by programs.";
    MAPPED "mapped" Bytes "/proc/meminfo Mapped" "File and shared memory mapped by programs.";
    SHMEM "shmem" Bytes "/proc/meminfo Shmem" "Shared memory and tmpfs, a part of `cached`.";
    SLAB "slab" Bytes "/proc/meminfo Slab" "Kernel objects, reclaimable or not.";
    SLAB_RECLAIMABLE "slab_reclaimable" Bytes "/proc/meminfo SReclaimable" "Kernel objects that can be reclaimed, such as cached inodes.";
    SLAB_UNRECLAIMABLE "slab_unreclaimable" Bytes "/proc/meminfo SUnreclaim" "Kernel objects that cannot be reclaimed.";
    KERNEL_STACK "kernel_stack" Bytes "/proc/meminfo KernelStack" "Stacks of threads inside the kernel.";
    PAGE_TABLES "page_tables" Bytes "/proc/meminfo PageTables" "Page tables.";
    SECONDARY_PAGE_TABLES "secondary_page_tables" Bytes "/proc/meminfo SecPageTables" "Page tables of virtual machines and IOMMUs.";
    VMALLOC_USED "vmalloc_used" Bytes "/proc/meminfo VmallocUsed" "Kernel memory mapped page by page, on most machines `kernel_stack` included.";
    PERCPU "percpu" Bytes "/proc/meminfo Percpu" "Kernel memory kept once a CPU.";
    ANON_HUGE_PAGES "anon_huge_pages" Bytes "/proc/meminfo AnonHugePages" "Part of `anon_pages` in transparent huge pages.";
    HUGETLB "hugetlb" Bytes "/proc/meminfo Hugetlb" "Memory set aside as huge pages, used or not.";
    COMMIT_LIMIT "commit_limit" Bytes "/proc/meminfo CommitLimit" "Memory that may be promised under strict overcommit.";
    COMMITTED "committed" Bytes "/proc/meminfo Committed_AS" "Memory promised to programs.";
    NR_ZSPAGES "nr_zspages" Bytes "/proc/vmstat nr_zspages" "RAM in zsmalloc's pool, which holds the compressed pages of zram and zswap.";
    PGSCAN_KSWAPD "pgscan_kswapd" CountPages "/proc/vmstat pgscan_kswapd" "Pages looked at for reclaim by kswapd.";
    PGSCAN_DIRECT "pgscan_direct" CountPages "/proc/vmstat pgscan_direct" "Pages looked at for reclaim by programs that waited for memory.";
    PGSCAN_KHUGEPAGED "pgscan_khugepaged" CountPages "/proc/vmstat pgscan_khugepaged" "Pages looked at for reclaim by khugepaged.";
    PGSCAN_PROACTIVE "pgscan_proactive" CountPages "/proc/vmstat pgscan_proactive" "Pages looked at for reclaim by a request for reclaim.";
    PGSCAN_ANON "pgscan_anon" CountPages "/proc/vmstat pgscan_anon" "Anonymous pages looked at for reclaim by anyone.";
    PGSCAN_FILE "pgscan_file" CountPages "/proc/vmstat pgscan_file" "File pages looked at for reclaim by anyone.";
    PGSTEAL_KSWAPD "pgsteal_kswapd" CountPages "/proc/vmstat pgsteal_kswapd" "Pages reclaimed by kswapd.";
    PGSTEAL_DIRECT "pgsteal_direct" CountPages "/proc/vmstat pgsteal_direct" "Pages reclaimed by programs that waited for memory.";
    PGSTEAL_KHUGEPAGED "pgsteal_khugepaged" CountPages "/proc/vmstat pgsteal_khugepaged" "Pages reclaimed by khugepaged.";
    PGSTEAL_PROACTIVE "pgsteal_proactive" CountPages "/proc/vmstat pgsteal_proactive" "Pages reclaimed by a request for reclaim.";
    PGSTEAL_ANON "pgsteal_anon" CountPages "/proc/vmstat pgsteal_anon" "Anonymous pages reclaimed by anyone.";
    PGSTEAL_FILE "pgsteal_file" CountPages "/proc/vmstat pgsteal_file" "File pages reclaimed by anyone.";
    PGACTIVATE "pgactivate" CountPages "/proc/vmstat pgactivate" "Pages moved to an active list.";
    PGDEACTIVATE "pgdeactivate" CountPages "/proc/vmstat pgdeactivate" "Pages moved to an inactive list.";
    PGREFILL "pgrefill" CountPages "/proc/vmstat pgrefill" "Pages of active lists looked at for moving to an inactive one.";
    PGROTATED "pgrotated" CountPages "/proc/vmstat pgrotated" "Pages moved to the tail of an inactive list, to go next.";
    WORKINGSET_REFAULT_ANON "workingset_refault_anon" CountPages "/proc/vmstat workingset_refault_anon" "Anonymous pages read back that had been reclaimed.";
    WORKINGSET_REFAULT_FILE "workingset_refault_file" CountPages "/proc/vmstat workingset_refault_file" "File pages read back that had been reclaimed.";
    WORKINGSET_ACTIVATE_ANON "workingset_activate_anon" CountPages "/proc/vmstat workingset_activate_anon" "Anonymous pages read back so soon that they were made active at once.";
    WORKINGSET_ACTIVATE_FILE "workingset_activate_file" CountPages "/proc/vmstat workingset_activate_file" "File pages read back so soon that they were made active at once.";
    WORKINGSET_RESTORE_ANON "workingset_restore_anon" CountPages "/proc/vmstat workingset_restore_anon" "Anonymous pages read back that had been active when they were reclaimed.";
    WORKINGSET_RESTORE_FILE "workingset_restore_file" CountPages "/proc/vmstat workingset_restore_file" "File pages read back that had been active when they were reclaimed.";
    PGFAULT "pgfault" Count "/proc/vmstat pgfault" "Page faults, minor and major.";
    PGMAJFAULT "pgmajfault" Count "/proc/vmstat pgmajfault" "Page faults that waited for a read or a decompression.";
    PGPGIN "pgpgin" CountBytes "/proc/vmstat pgpgin" "Bytes read from block devices.";
    PGPGOUT "pgpgout" CountBytes "/proc/vmstat pgpgout" "Bytes written to block devices.";
    PSWPIN "pswpin" CountPages "/proc/vmstat pswpin" "Pages read from swap devices, zram included.";
    PSWPOUT "pswpout" CountPages "/proc/vmstat pswpout" "Pages written to swap devices, zram included.";
    SWPIN_ZERO "swpin_zero" CountPages "/proc/vmstat swpin_zero" "Pages of zeros swapped in without a device.";
    SWPOUT_ZERO "swpout_zero" CountPages "/proc/vmstat swpout_zero" "Pages of zeros swapped out without a device.";
    SWAP_RA "swap_ra" CountPages "/proc/vmstat swap_ra" "Pages read from swap ahead of need.";
    SWAP_RA_HIT "swap_ra_hit" CountPages "/proc/vmstat swap_ra_hit" "Pages read from swap ahead of need and then needed.";
    ZSWPIN "zswpin" CountPages "/proc/vmstat zswpin" "Pages taken out of zswap.";
    ZSWPOUT "zswpout" CountPages "/proc/vmstat zswpout" "Pages put into zswap.";
    ZSWPWB "zswpwb" CountPages "/proc/vmstat zswpwb" "Pages moved from zswap to the swap device behind it.";
    THP_SWPOUT "thp_swpout" Count "/proc/vmstat thp_swpout" "Transparent huge pages swapped out whole.";
    THP_SWPOUT_FALLBACK "thp_swpout_fallback" Count "/proc/vmstat thp_swpout_fallback" "Transparent huge pages split to be swapped out.";
    THP_FAULT_ALLOC "thp_fault_alloc" Count "/proc/vmstat thp_fault_alloc" "Transparent huge pages given on a fault.";
    NR_VMSCAN_WRITE "nr_vmscan_write" CountPages "/proc/vmstat nr_vmscan_write" "Pages that reclaim began to write.";
    NR_VMSCAN_IMMEDIATE_RECLAIM "nr_vmscan_immediate_reclaim" CountPages "/proc/vmstat nr_vmscan_immediate_reclaim" "Pages that reclaim met while they were being written, to be freed as soon as that ends.";
    ALLOCSTALL "allocstall" Count "/proc/vmstat allocstall_dma + allocstall_dma32 + allocstall_normal + allocstall_movable + allocstall_device" "Allocations that had to wait for direct reclaim, all zones.";
    COMPACT_STALL "compact_stall" Count "/proc/vmstat compact_stall" "Allocations that had to wait for compaction.";
    OOM_KILL "oom_kill" Count "/proc/vmstat oom_kill" "Processes killed for want of memory.";
    DROP_PAGECACHE "drop_pagecache" Count "/proc/vmstat drop_pagecache" "Number of times the page cache was dropped.";
    BALLOON_INFLATE "balloon_inflate" CountPages "/proc/vmstat balloon_inflate" "Pages given to the hypervisor by the balloon.";
    CPU_USER_US "cpu_user_us" CountMicroseconds "/proc/stat cpu user" "CPU time, all CPUs, in programs, `cpu_guest_us` included.";
    CPU_NICE_US "cpu_nice_us" CountMicroseconds "/proc/stat cpu nice" "CPU time, all CPUs, in programs of low priority.";
    CPU_SYSTEM_US "cpu_system_us" CountMicroseconds "/proc/stat cpu system" "CPU time, all CPUs, in the kernel.";
    CPU_IDLE_US "cpu_idle_us" CountMicroseconds "/proc/stat cpu idle" "CPU time, all CPUs, idle.";
    CPU_IOWAIT_US "cpu_iowait_us" CountMicroseconds "/proc/stat cpu iowait" "CPU time, all CPUs, idle while a read or write was under way.";
    CPU_IRQ_US "cpu_irq_us" CountMicroseconds "/proc/stat cpu irq" "CPU time, all CPUs, in interrupts.";
    CPU_SOFTIRQ_US "cpu_softirq_us" CountMicroseconds "/proc/stat cpu softirq" "CPU time, all CPUs, in soft interrupts.";
    CPU_STEAL_US "cpu_steal_us" CountMicroseconds "/proc/stat cpu steal" "CPU time, all CPUs, taken by the hypervisor for others.";
    CPU_GUEST_US "cpu_guest_us" CountMicroseconds "/proc/stat cpu guest" "CPU time, all CPUs, running virtual machines.";
    CPU_GUEST_NICE_US "cpu_guest_nice_us" CountMicroseconds "/proc/stat cpu guest_nice" "CPU time, all CPUs, running virtual machines of low priority.";
    PSI_MEMORY_SOME_US "psi_memory_some_us" CountMicroseconds "/proc/pressure/memory some total" "Time in which at least one task waited for memory.";
    PSI_MEMORY_FULL_US "psi_memory_full_us" CountMicroseconds "/proc/pressure/memory full total" "Time in which all tasks waited for memory.";
    PSI_IO_SOME_US "psi_io_some_us" CountMicroseconds "/proc/pressure/io some total" "Time in which at least one task waited for a read or write.";
    PSI_IO_FULL_US "psi_io_full_us" CountMicroseconds "/proc/pressure/io full total" "Time in which all tasks waited for a read or write.";
    PSI_CPU_SOME_US "psi_cpu_some_us" CountMicroseconds "/proc/pressure/cpu some total" "Time in which at least one task waited for a CPU.";
    SWAP0_SIZE "swap0_size" Bytes "/proc/swaps Size" "Size of the swap device in slot 0.";
    SWAP0_USED "swap0_used" Bytes "/proc/swaps Used" "Bytes used on the swap device in slot 0.";
    SWAP1_SIZE "swap1_size" Bytes "/proc/swaps Size" "Size of the swap device in slot 1.";
    SWAP1_USED "swap1_used" Bytes "/proc/swaps Used" "Bytes used on the swap device in slot 1.";
    SWAP2_SIZE "swap2_size" Bytes "/proc/swaps Size" "Size of the swap device in slot 2.";
    SWAP2_USED "swap2_used" Bytes "/proc/swaps Used" "Bytes used on the swap device in slot 2.";
    SWAP3_SIZE "swap3_size" Bytes "/proc/swaps Size" "Size of the swap device in slot 3.";
    SWAP3_USED "swap3_used" Bytes "/proc/swaps Used" "Bytes used on the swap device in slot 3.";
    DEVICE_SWAP_SIZE "device_swap_size" Bytes "/proc/swaps Size" "Size of the target's swap device.";
    DEVICE_SWAP_USED "device_swap_used" Bytes "/proc/swaps Used" "Bytes used on the target's swap device, by pages of any cgroup.";
    OTHER_SWAP_SIZE "other_swap_size" Bytes "/proc/swaps Size" "Size of all swap devices but the target's, while there is a target.";
    OTHER_SWAP_USED "other_swap_used" Bytes "/proc/swaps Used" "Bytes used on all swap devices but the target's, while there is a target.";
    ZRAM_ORIG_DATA_SIZE "zram_orig_data_size" Bytes "/sys/block/zramN/mm_stat orig_data_size" "Size of the pages on the target's zram device before compression.";
    ZRAM_COMPR_DATA_SIZE "zram_compr_data_size" Bytes "/sys/block/zramN/mm_stat compr_data_size" "Size of the pages on the target's zram device after compression.";
    ZRAM_MEM_USED_TOTAL "zram_mem_used_total" Bytes "/sys/block/zramN/mm_stat mem_used_total" "RAM that the target's zram device takes, its allocator's loss included.";
    ZRAM_MEM_LIMIT "zram_mem_limit" Bytes "/sys/block/zramN/mm_stat mem_limit" "Limit on the RAM of the target's zram device, 0 for none.";
    ZRAM_MEM_USED_MAX "zram_mem_used_max" Bytes "/sys/block/zramN/mm_stat mem_used_max" "Most RAM that the target's zram device ever took.";
    ZRAM_SAME_PAGES "zram_same_pages" Number "/sys/block/zramN/mm_stat same_pages" "Pages of one repeated word, kept without a store.";
    ZRAM_PAGES_COMPACTED "zram_pages_compacted" CountPages "/sys/block/zramN/mm_stat pages_compacted" "Pages freed by compaction of the store.";
    ZRAM_HUGE_PAGES "zram_huge_pages" Number "/sys/block/zramN/mm_stat huge_pages" "Incompressible pages, stored as they are.";
    ZRAM_FAILED_READS "zram_failed_reads" Count "/sys/block/zramN/io_stat failed_reads" "Reads that the target's zram device failed.";
    ZRAM_FAILED_WRITES "zram_failed_writes" Count "/sys/block/zramN/io_stat failed_writes" "Writes that the target's zram device failed.";
    ZRAM_INVALID_IO "zram_invalid_io" Count "/sys/block/zramN/io_stat invalid_io" "Requests to the target's zram device that were not whole pages.";
    ZRAM_NOTIFY_FREE "zram_notify_free" Count "/sys/block/zramN/io_stat notify_free" "Pages that swap freed on the target's zram device.";
    TARGET_RESIDENT "target_resident" Bytes "/proc/PID/statm resident" "Resident memory of the target's living workers.";
    TARGET_ANON "target_anon" Bytes "/proc/PID/statm resident - shared" "Resident anonymous memory of the target's living workers.";
    TARGET_SWAP "target_swap" Bytes "/proc/PID/status VmSwap" "Anonymous memory of the target's living workers that is in swap.";
    TARGET_MINOR_FAULTS "target_minor_faults" Count "/proc/PID/stat minflt" "Page faults of the target's living workers since each was first watched that waited for no read; from a worker's start, where it was watched within two seconds of it.";
    TARGET_MAJOR_FAULTS "target_major_faults" Count "/proc/PID/stat majflt" "Page faults of the target's living workers that waited for a read or a decompression, since when as for `target_minor_faults`.";
    TARGET_CPU_US "target_cpu_us" CountMicroseconds "/proc/PID/stat utime + stime" "CPU time of the target's living workers, in steps of 10 ms, since when as for `target_minor_faults`.";
    TARGET_PROCESSES "target_processes" Number "/proc/PID/statm" "The target's workers that are alive.";
    TARGET_PAGER_BUDGET "target_pager_budget" Bytes "record of a pager" "RAM that the pagers of the target's workers may occupy; absent without a pager that this user may read.";
    TARGET_PAGER_ACTIVE "target_pager_active" Bytes "record of a pager" "Pages in the working sets of those pagers, and pages whose faults the kernel resolves.";
    TARGET_PAGER_MODIFIED "target_pager_modified" Bytes "record of a pager" "Pages of those pagers that were trimmed and whose frame is the only copy.";
    TARGET_PAGER_STANDBY "target_pager_standby" Bytes "record of a pager" "Pages of those pagers that were trimmed and saved and whose frame is still there.";
    TARGET_PAGER_STANDBY_LOW "target_pager_standby_low" Bytes "record of a pager" "The part of `target_pager_standby` with a priority of 0 to 4: below that of pages whose priority no program set.";
    TARGET_PAGER_COMPRESSED "target_pager_compressed" Bytes "record of a pager" "Pages of those pagers in the compressed store alone, before compression.";
    TARGET_PAGER_PAGE_FILE "target_pager_page_file" Bytes "record of a pager" "Pages of those pagers in the page file alone.";
    TARGET_PAGER_STORE "target_pager_store" Bytes "record of a pager" "RAM of the compressed stores of those pagers.";
    TARGET_PAGER_METADATA "target_pager_metadata" Bytes "record of a pager" "RAM of the page tables and scratch pages of those pagers.";
    TARGET_PAGER_SOFT_FAULTS "target_pager_soft_faults" Count "record of a pager" "Faults of those pagers on modified and standby pages.";
    TARGET_PAGER_HARD_FAULTS "target_pager_hard_faults" Count "record of a pager" "Faults of those pagers on compressed and page-file pages.";
    TARGET_PAGER_READ_AHEAD "target_pager_read_ahead" CountPages "record of a pager" "Pages that those pagers restored ahead of a fault.";
    TARGET_PAGER_TRIMMED "target_pager_trimmed" CountPages "record of a pager" "Pages that those pagers moved out of their working sets.";
    TARGET_PAGER_SAVED "target_pager_saved" CountPages "record of a pager" "Pages that those pagers saved in their stores.";
    WORKER1_RESIDENT "worker1_resident" Bytes "/proc/PID/statm resident" "Resident memory of worker 1.";
    WORKER2_RESIDENT "worker2_resident" Bytes "/proc/PID/statm resident" "Resident memory of worker 2.";
    WORKER3_RESIDENT "worker3_resident" Bytes "/proc/PID/statm resident" "Resident memory of worker 3.";
    WORKER4_RESIDENT "worker4_resident" Bytes "/proc/PID/statm resident" "Resident memory of worker 4.";
    RUNNER_RESIDENT "runner_resident" Bytes "/proc/self/statm resident" "Resident memory of the runner, which holds the sampler; `watch` reads it once a second.";
    RUNNER_CPU_US "runner_cpu_us" CountMicroseconds "CLOCK_PROCESS_CPUTIME_ID" "CPU time of the runner, or of the monitor, all threads.";
    CGROUP_USAGE "cgroup_usage" Bytes "v1 memory.usage_in_bytes, v2 memory.current" "Memory charged to the target's cgroup.";
    CGROUP_SWAP "cgroup_swap" Bytes "v1 memory.stat total_swap, v2 memory.swap.current" "Swap charged to the target's cgroup.";
    CGROUP_SWAP_CACHED "cgroup_swap_cached" Bytes "v1 memory.stat total_swapcached, v2 memory.stat swapcached" "Pages of the target's cgroup in RAM that also have a place in swap. `cgroup_swap` includes them in v2, and not in v1.";
    CGROUP_ANON "cgroup_anon" Bytes "v1 memory.stat total_rss, v2 memory.stat anon" "Anonymous memory of the target's cgroup, swap cache included.";
    CGROUP_FILE "cgroup_file" Bytes "v1 memory.stat total_cache, v2 memory.stat file" "Page cache of the target's cgroup, shared memory included.";
    CGROUP_PSI_SOME_US "cgroup_psi_some_us" CountMicroseconds "v2 memory.pressure some total" "Time in which at least one task of the target's cgroup waited for memory.";
    CGROUP_PSI_FULL_US "cgroup_psi_full_us" CountMicroseconds "v2 memory.pressure full total" "Time in which all tasks of the target's cgroup waited for memory.";
    CGROUP_CAP "cgroup_cap" Bytes "v1 memory.limit_in_bytes, v2 memory.high" "Cap on the target's cgroup while `plimsoll size` sizes it; absent without a cap.";
    CGROUP_REFAULT_ANON "cgroup_refault_anon" CountPages "v1 memory.stat total_workingset_refault_anon, v2 memory.stat workingset_refault_anon" "Anonymous pages of the target's cgroup read back that had been reclaimed.";
    CGROUP_REFAULT_FILE "cgroup_refault_file" CountPages "v1 memory.stat total_workingset_refault_file, v2 memory.stat workingset_refault_file" "File pages of the target's cgroup read back that had been reclaimed.";
    HOLD_HELD "hold_held" Bytes "plimsoll hold" "Memory that `plimsoll hold` holds, at its last look at the level.";
    HOLD_AVAILABLE "hold_available" Bytes "plimsoll hold" "Memory that other programs could still take in the scope of `plimsoll hold`, the machine or a cgroup, at that look.";
    HOLD_GOAL "hold_goal" Bytes "plimsoll hold" "Goal of a level of memory at that look: of `hold_held` or of `hold_available`. A ramp and a leak move it.";
    HOLD_STALLED_PPM "hold_stalled_ppm" Number "plimsoll hold" "Pressure at that look: time in which tasks waited for memory in millionths, averaged as `avg10`; of `plimsoll hold --psi` alone.";
    DAMON_SZ_APPLIED "damon_sz_applied" CountBytes "/sys/kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/stats/sz_applied" "Bytes that DAMON's schemes acted on, where refresh_ms keeps the file alive.";
    DAMON_NR_APPLIED "damon_nr_applied" Count "/sys/kernel/mm/damon/admin/kdamonds/*/contexts/*/schemes/*/stats/nr_applied" "Regions that DAMON's schemes acted on, where refresh_ms keeps the file alive.";
    KSWAPD_CPU_US "kswapd_cpu_us" CountMicroseconds "/proc/PID/schedstat of kswapd*" "CPU time of background reclaim; `watch` reads it once a second.";
    KCOMPACTD_CPU_US "kcompactd_cpu_us" CountMicroseconds "/proc/PID/schedstat of kcompactd*" "CPU time of background compaction; `watch` reads it once a second.";
    KDAMOND_CPU_US "kdamond_cpu_us" CountMicroseconds "/proc/PID/schedstat of kdamond*" "CPU time of DAMON; `watch` reads it once a second.";
    KERNEL_THREADS_CPU_US "kernel_threads_cpu_us" CountMicroseconds "/proc/PID/schedstat of kswapd*, kcompactd*, kdamond*, khugepaged, ksmd, zswap* and zram*" "CPU time of the kernel threads that manage memory; `watch` reads it once a second.";
    SAMPLER_CPU_US "sampler_cpu_us" CountMicroseconds "CLOCK_THREAD_CPUTIME_ID" "CPU time of the sampling thread.";
    TICK_LATE_NS "tick_late_ns" Nanoseconds "CLOCK_MONOTONIC" "Time from when this sample was due to when it was begun.";
    MISSED_TICKS "missed_ticks" Count "CLOCK_MONOTONIC" "Samples that were due and never taken.";
}

pub const WIDTH: usize = COLUMNS.len();

/// One sample: a value a column, or nothing where the system does not say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// Nanoseconds since the start of the recording.
    pub t_ns: u64,
    values: [i64; WIDTH],
    present: [bool; WIDTH],
}

impl Row {
    /// A row with nothing in it.
    pub const fn empty(t_ns: u64) -> Self {
        Row {
            t_ns,
            values: [0; WIDTH],
            present: [false; WIDTH],
        }
    }

    #[inline]
    pub fn set(&mut self, index: usize, value: i64) {
        self.values[index] = value;
        self.present[index] = true;
    }

    /// Adds to column `index`, which counts as 0 while it holds nothing.
    #[inline]
    pub fn add(&mut self, index: usize, value: i64) {
        self.set(index, self.values[index].saturating_add(value));
    }

    /// Forgets every value and keeps the time.
    pub fn clear(&mut self) {
        *self = Row::empty(self.t_ns);
    }

    /// Value of column `index`, if the system said.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        self.present[index].then(|| self.values[index])
    }
}
