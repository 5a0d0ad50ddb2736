//! Gauges: the series over time besides the layers of RAM, in one table for the report, the monitor and its page.

use serde::Serialize;

use plimsoll_model::columns::col;

/// The panel that a gauge is drawn in. Panels have one time axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Panel {
    /// RAM and swap of the target: values in a table, not a panel.
    Target,
    /// Pages of the target's pagers by state.
    Pager,
    Swap,
    /// Transfers of swap, block devices and pagers, bytes a second.
    Io,
    Faults,
    /// Reclaim and compaction: values in the terminal, not a panel.
    Reclaim,
    /// Time in which tasks wait (PSI), percent.
    Pressure,
    /// CPU by use, percent of all CPUs; without idle.
    Cpu,
    /// CPU time and missed ticks of the monitor.
    Monitor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GaugeUnit {
    /// Bytes, a level.
    Bytes,
    BytesPerSecond,
    PerSecond,
    /// Percent of the quantity in [`Scale`].
    Percent,
    /// CPUs in use, on average: 1.7 are as many as 170% of one.
    Cpus,
    Milliseconds,
    Number,
}

/// How the value comes out of its columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// The columns' sum, times a factor.
    Level(f64),
    /// The first column less the others, which are parts of it; nothing without the first.
    Rest,
    /// Growth a second of the columns' sum.
    Rate(Scale),
}

/// The factor of a unit of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    One,
    /// A page: shown as bytes.
    Page,
    /// A microsecond in which something waited: shown as percent of the time.
    PercentOfTime,
    /// A microsecond of a CPU: shown as percent of one CPU, for threads that use little of it.
    PercentOfOneCpu,
    /// A microsecond of a CPU: shown as the number of CPUs in use.
    Cpus,
    /// A microsecond of all CPUs: shown as percent of their time.
    PercentOfCpus,
}

#[derive(Debug, Clone, Copy)]
pub struct Gauge {
    /// Stable name, in documents and in styles.
    pub key: &'static str,
    pub title: &'static str,
    pub panel: Panel,
    pub unit: GaugeUnit,
    /// Columns it is read from (indices into [`plimsoll_model::columns::COLUMNS`]): those that are absent count as nothing; when
    /// all are, so is the gauge.
    pub columns: &'static [usize],
    pub reading: Reading,
}

macro_rules! gauges {
    ($($index:ident $key:literal $title:literal $panel:ident $unit:ident $reading:expr => [$($column:ident),+];)*) => {
        /// Every gauge, by panel, in the order of drawing.
        pub const GAUGES: &[Gauge] = &[
            $(Gauge {
                key: $key,
                title: $title,
                panel: Panel::$panel,
                unit: GaugeUnit::$unit,
                columns: &[$(col::$column),+],
                reading: $reading,
            },)*
        ];

        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        enum Index { $($index,)* }

        /// Index of each gauge in [`GAUGES`].
        pub mod gauge {
            $(#[doc = $title] pub const $index: usize = super::Index::$index as usize;)*
        }
    };
}

use Reading::{Level, Rate, Rest};
use Scale::{Cpus, One, Page, PercentOfCpus, PercentOfOneCpu, PercentOfTime};

gauges! {
    TARGET_RESIDENT "target-resident" "resident" Target Bytes Level(1.0) => [TARGET_RESIDENT];
    TARGET_SWAP "target-swap" "swapped" Target Bytes Level(1.0) => [TARGET_SWAP];
    TARGET_MINOR "target-minor" "minor faults" Target PerSecond Rate(One) => [TARGET_MINOR_FAULTS];
    TARGET_MAJOR "target-major" "major faults" Target PerSecond Rate(One) => [TARGET_MAJOR_FAULTS];
    TARGET_CPU "target-cpu" "CPUs in use" Target Cpus Rate(Cpus) => [TARGET_CPU_US];
    TARGET_PROCESSES "target-processes" "processes" Target Number Level(1.0) => [TARGET_PROCESSES];
    CGROUP_USAGE "cgroup-usage" "cgroup" Target Bytes Level(1.0) => [CGROUP_USAGE];
    CGROUP_SWAP "cgroup-swap" "cgroup swap" Target Bytes Level(1.0) => [CGROUP_SWAP];
    CGROUP_SOME "cgroup-some" "cgroup memory some" Target Percent Rate(PercentOfTime) => [CGROUP_PSI_SOME_US];
    PAGER_BUDGET "pager-budget" "pager budget" Target Bytes Level(1.0) => [TARGET_PAGER_BUDGET];
    PAGER_STORE "pager-store" "pager store" Target Bytes Level(1.0) => [TARGET_PAGER_STORE];
    PAGER_SOFT "pager-soft" "pager soft faults" Target PerSecond Rate(One) => [TARGET_PAGER_SOFT_FAULTS];
    PAGER_HARD "pager-hard" "pager hard faults" Target PerSecond Rate(One) => [TARGET_PAGER_HARD_FAULTS];
    PAGER_ACTIVE "pager-active" "active" Pager Bytes Level(1.0) => [TARGET_PAGER_ACTIVE];
    PAGER_MODIFIED "pager-modified" "modified" Pager Bytes Level(1.0) => [TARGET_PAGER_MODIFIED];
    PAGER_STANDBY "pager-standby" "standby" Pager Bytes Rest => [TARGET_PAGER_STANDBY, TARGET_PAGER_STANDBY_LOW];
    PAGER_STANDBY_LOW "pager-standby-low" "standby, low priority" Pager Bytes Level(1.0) => [TARGET_PAGER_STANDBY_LOW];
    PAGER_COMPRESSED "pager-compressed" "compressed" Pager Bytes Level(1.0) => [TARGET_PAGER_COMPRESSED];
    PAGER_PAGE_FILE "pager-page-file" "page file" Pager Bytes Level(1.0) => [TARGET_PAGER_PAGE_FILE];
    PAGER_METADATA "pager-metadata" "metadata" Pager Bytes Level(1.0) => [TARGET_PAGER_METADATA];
    SWAP0 "device0" "swap device 0" Swap Bytes Level(1.0) => [SWAP0_USED];
    SWAP1 "device1" "swap device 1" Swap Bytes Level(1.0) => [SWAP1_USED];
    SWAP2 "device2" "swap device 2" Swap Bytes Level(1.0) => [SWAP2_USED];
    SWAP3 "device3" "swap device 3" Swap Bytes Level(1.0) => [SWAP3_USED];
    SWAP_TOTAL "swap-total" "swap size" Swap Bytes Level(1.0) => [SWAP_TOTAL];
    COMPRESSED_HOLDS "compressed-holds" "compressed holds" Swap Bytes Level(1.0) => [ZRAM_ORIG_DATA_SIZE, ZSWAP_STORED];
    SWAP_IN "swap-in" "swap in" Io BytesPerSecond Rate(Page) => [PSWPIN];
    SWAP_OUT "swap-out" "swap out" Io BytesPerSecond Rate(Page) => [PSWPOUT];
    ZERO_FILLED "zero-filled" "zero-filled" Io BytesPerSecond Rate(Page) => [SWPIN_ZERO, SWPOUT_ZERO];
    DISK_IN "disk-in" "block in" Io BytesPerSecond Rate(One) => [PGPGIN];
    DISK_OUT "disk-out" "block out" Io BytesPerSecond Rate(One) => [PGPGOUT];
    PAGER_IN "pager-in" "pager in" Io BytesPerSecond Rate(Page) => [TARGET_PAGER_HARD_FAULTS, TARGET_PAGER_READ_AHEAD];
    PAGER_OUT "pager-out" "pager out" Io BytesPerSecond Rate(Page) => [TARGET_PAGER_SAVED];
    MINOR "minor" "all" Faults PerSecond Rate(One) => [PGFAULT];
    MAJOR "major" "major" Faults PerSecond Rate(One) => [PGMAJFAULT];
    REFAULT "refault" "anon refault" Faults PerSecond Rate(One) => [WORKINGSET_REFAULT_ANON];
    REFAULT_FILE "refault-file" "file refault" Faults PerSecond Rate(One) => [WORKINGSET_REFAULT_FILE];
    RECLAIMED "reclaimed" "reclaimed" Reclaim BytesPerSecond Rate(Page) => [PGSTEAL_KSWAPD, PGSTEAL_DIRECT, PGSTEAL_KHUGEPAGED, PGSTEAL_PROACTIVE];
    COMPACTION "compaction" "compaction stalls" Reclaim PerSecond Rate(One) => [COMPACT_STALL];
    MEMORY_SOME "memory-some" "memory some" Pressure Percent Rate(PercentOfTime) => [PSI_MEMORY_SOME_US];
    MEMORY_FULL "memory-full" "memory full" Pressure Percent Rate(PercentOfTime) => [PSI_MEMORY_FULL_US];
    IO_SOME "io-some" "I/O some" Pressure Percent Rate(PercentOfTime) => [PSI_IO_SOME_US];
    CPU_SOME "cpu-some" "CPU some" Pressure Percent Rate(PercentOfTime) => [PSI_CPU_SOME_US];
    USER "user" "user" Cpu Percent Rate(PercentOfCpus) => [CPU_USER_US];
    NICE "nice" "nice" Cpu Percent Rate(PercentOfCpus) => [CPU_NICE_US];
    SYSTEM "system" "system" Cpu Percent Rate(PercentOfCpus) => [CPU_SYSTEM_US];
    INTERRUPTS "interrupts" "interrupts" Cpu Percent Rate(PercentOfCpus) => [CPU_IRQ_US, CPU_SOFTIRQ_US];
    IOWAIT "iowait" "I/O wait" Cpu Percent Rate(PercentOfCpus) => [CPU_IOWAIT_US];
    STEAL "steal" "steal" Cpu Percent Rate(PercentOfCpus) => [CPU_STEAL_US];
    SELF_CPU "self" "monitor (of one core)" Monitor Percent Rate(PercentOfOneCpu) => [RUNNER_CPU_US];
    LATE "late" "tick late" Monitor Milliseconds Level(1e-6) => [TICK_LATE_NS];
    MISSED "missed" "ticks missed" Monitor PerSecond Rate(One) => [MISSED_TICKS];
}

/// The columns whose times make up that of all CPUs. Time of guests is in that of programs.
pub(super) const CPU_TIMES: &[usize] = &[
    col::CPU_USER_US,
    col::CPU_NICE_US,
    col::CPU_SYSTEM_US,
    col::CPU_IDLE_US,
    col::CPU_IOWAIT_US,
    col::CPU_IRQ_US,
    col::CPU_SOFTIRQ_US,
    col::CPU_STEAL_US,
];

impl Gauge {
    /// Index of the gauge with that key in [`GAUGES`].
    pub fn index_of(key: &str) -> Option<usize> {
        GAUGES.iter().position(|gauge| gauge.key == key)
    }
}

/// The gauges of a panel with their indices, in the order in which they are drawn.
pub fn gauges_of(panel: Panel) -> impl Iterator<Item = (usize, &'static Gauge)> {
    GAUGES
        .iter()
        .enumerate()
        .filter(move |(_, gauge)| gauge.panel == panel)
}
