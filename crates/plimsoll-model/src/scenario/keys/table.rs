//! Every key of a scenario file.

use super::{Id, Key, Kind};
use crate::scenario::heap::HeapLoad;
use crate::scenario::workloads::{CapBy, Mapping, Pattern, Touch, WorkloadKind};

const DAY: f64 = 86_400.0;
/// Longest `time-limit`.
pub(in crate::scenario) const LONGEST: f64 = 365.0 * DAY;

const fn key(id: Id, name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key {
        id,
        name,
        alias: None,
        kind,
        default,
        meaning,
        sweep: true,
        whole_plan: false,
        of: &[],
    }
}

/// A key that only some kinds of work know.
const fn of(kinds: &'static [WorkloadKind], key: Key) -> Key {
    Key { of: kinds, ..key }
}

/// A key with a second name.
const fn alias(name: &'static str, key: Key) -> Key {
    Key {
        alias: Some(name),
        ..key
    }
}

/// A key that takes one value alone.
const fn single(key: Key) -> Key {
    Key { sweep: false, ..key }
}

/// A key of the whole plan.
const fn whole_plan(key: Key) -> Key {
    Key {
        sweep: false,
        whole_plan: true,
        ..key
    }
}

const COMPRESSION: &[WorkloadKind] = &[WorkloadKind::Compression];
const THRASH: &[WorkloadKind] = &[WorkloadKind::Thrash];
const LOADLINE: &[WorkloadKind] = &[WorkloadKind::Loadline];
const WSCAP: &[WorkloadKind] = &[WorkloadKind::Wscap];
const MAP: &[WorkloadKind] = &[WorkloadKind::Map];
const CONTENTION: &[WorkloadKind] = &[WorkloadKind::Contention];
/// Work on memory that is filled with a class of data.
const FILLED: &[WorkloadKind] = &[
    WorkloadKind::Compression,
    WorkloadKind::Loadline,
    WorkloadKind::Wscap,
    WorkloadKind::Contention,
];
/// Work whose size is not made of other keys.
const SIZED: &[WorkloadKind] = &[
    WorkloadKind::Compression,
    WorkloadKind::Wscap,
    WorkloadKind::Map,
    WorkloadKind::Contention,
];
/// Work with rests between its phases.
const RESTING: &[WorkloadKind] = &[
    WorkloadKind::Compression,
    WorkloadKind::Thrash,
    WorkloadKind::Wscap,
    WorkloadKind::Map,
    WorkloadKind::Contention,
    WorkloadKind::Heap,
];
const REQUESTING: &[WorkloadKind] = &[WorkloadKind::Compression, WorkloadKind::Contention];
const MEASURED: &[WorkloadKind] = &[WorkloadKind::Loadline, WorkloadKind::Wscap, WorkloadKind::Heap];
const HEAP: &[WorkloadKind] = &[WorkloadKind::Heap];

const fn integer(min: u64, max: u64, or_system: bool) -> Kind {
    Kind::Integer { min, max, or_system }
}

/// Every key, in the order of `Id`, which is the order of the reference page.
pub const KEYS: &[Key] = &[
    single(key(
        Id::Workload,
        "workload",
        Kind::Workload,
        "`compression`",
        "what the worker processes do",
    )),
    of(
        THRASH,
        single(key(
            Id::Scale,
            "scale",
            Kind::Number { min: 0.001, max: 1.0 },
            "`1`",
            "shrinks the sizes in bytes of the file, `stagger` and `writes` together, so that a cycle touches the same \
             share of its memory; what the command line says is not shrunk",
        )),
    ),
    key(
        Id::Subject,
        "subject",
        Kind::Subject,
        "`zram`; of `heap` `installed`",
        "what is tested: where trimmed pages go; of `heap`, the allocator: a name, the path of a library after \
         `preload=`, or `installed`, which stands for all that the machine has",
    ),
    of(
        FILLED,
        key(
            Id::Class,
            "class",
            Kind::Class,
            "`random`",
            "what the memory is filled with",
        ),
    ),
    of(
        THRASH,
        alias(
            "N",
            key(
                Id::Consumers,
                "consumers",
                integer(1, 1000, false),
                "`25`",
                "consumer processes, N in the original",
            ),
        ),
    ),
    of(
        THRASH,
        alias(
            "S",
            key(
                Id::ConsumerSize,
                "consumer-size",
                Kind::Size,
                "`100M`",
                "bytes that each consumer allocates, S in the original; all together are its `size`",
            ),
        ),
    ),
    of(
        SIZED,
        key(
            Id::Size,
            "size",
            Kind::Size,
            "10% of the available memory, at most `1G`",
            "bytes that the worker fills; of `contention`, what the first program holds",
        ),
    ),
    of(
        LOADLINE,
        single(key(
            Id::MaxLoad,
            "max-load",
            Kind::Number { min: 1.0, max: 10.0 },
            "`3`",
            "largest load, as a multiple of `limit`; that many bytes are its `size`",
        )),
    ),
    of(
        REQUESTING,
        key(
            Id::Request,
            "request",
            Kind::Size,
            "`25% size`, at most `1G`",
            "bytes of one allocation; more than `size` means `size`. Of `contention`, by how much the second program's \
             asks grow",
        ),
    ),
    key(
        Id::Limit,
        "limit",
        Kind::Size,
        "`112.5% size` + `64M`; of `thrash` `40% size`; of `loadline` 2% of the available memory, `64M` to `256M`; of \
         `contention` `200% size`; of `heap` four times its blocks + `64M` + `4M` a thread, at most half of the available \
         memory",
        "limit of the memory cgroup that the workers run in; of `heap` also where no cgroup can be made: a worker that \
         takes more is ended",
    ),
    key(
        Id::SwapSize,
        "swap-size",
        Kind::Size,
        "`110% size` + `16M`",
        "bytes of the zram device or the swap file",
    ),
    of(
        THRASH,
        alias(
            "W",
            key(
                Id::Writes,
                "writes",
                integer(1, 1_000_000_000, false),
                "`10000`",
                "writes at random bytes in one cycle, W in the original",
            ),
        ),
    ),
    of(
        THRASH,
        alias(
            "ts",
            key(
                Id::Sleep,
                "sleep",
                Kind::Seconds { min: 0.0, max: DAY },
                "`0.1`",
                "sleep between two cycles, t_s in the original",
            ),
        ),
    ),
    of(
        THRASH,
        alias(
            "tc",
            key(
                Id::Stagger,
                "stagger",
                Kind::Seconds { min: 0.0, max: DAY },
                "`30`",
                "time between the starts of two consumers, t_c in the original",
            ),
        ),
    ),
    of(
        LOADLINE,
        key(
            Id::Pattern,
            "pattern",
            Kind::Choice(Pattern::NAMES),
            "`uniform`",
            "how the worker chooses the page that it visits next",
        ),
    ),
    of(
        LOADLINE,
        key(
            Id::Compute,
            "compute",
            Kind::Seconds { min: 0.0, max: 1.0 },
            "`0.00001`",
            "computing after each visit of a page, in seconds of CPU time",
        ),
    ),
    of(
        WSCAP,
        key(
            Id::Load,
            "load",
            Kind::Number { min: 0.1, max: 100.0 },
            "`2`",
            "`size` over the cap",
        ),
    ),
    of(
        WSCAP,
        key(
            Id::CapBy,
            "cap-by",
            Kind::Choice(CapBy::NAMES),
            "`limit`",
            "what holds the worker to its cap",
        ),
    ),
    of(
        MAP,
        key(
            Id::Mapping,
            "mapping",
            Kind::Choice(Mapping::NAMES),
            "`anonymous`",
            "how memory is mapped",
        ),
    ),
    of(
        MAP,
        key(
            Id::Touch,
            "touch",
            Kind::Choice(Touch::NAMES),
            "`whole`",
            "what of the memory is written: every byte, or one in each 64 or 4 KiB",
        ),
    ),
    of(
        CONTENTION,
        key(
            Id::Suspended,
            "suspended",
            Kind::Flag,
            "`false`",
            "whether the program that holds memory is stopped while the other one asks",
        ),
    ),
    of(
        HEAP,
        key(
            Id::HeapLoad,
            "heap-load",
            Kind::Choice(HeapLoad::NAMES),
            "`replacement`",
            "what the worker does to its heap",
        ),
    ),
    of(
        HEAP,
        key(
            Id::Threads,
            "threads",
            integer(1, 4096, false),
            "`1`",
            "threads that do so at a time",
        ),
    ),
    of(
        HEAP,
        key(
            Id::Blocks,
            "blocks",
            integer(1, 100_000_000, false),
            "`10000`",
            "blocks that each thread holds; of `heap-load = \"scaling\"` all together, divided among the threads",
        ),
    ),
    of(
        HEAP,
        key(
            Id::BlockSize,
            "block-size",
            Kind::BlockSizes,
            "`0-1k`; of `aggressive` `32`",
            "sizes of the blocks, each of a range as often as another: `22`, `0-1k`, `1-2k`",
        ),
    ),
    of(
        HEAP,
        key(
            Id::Volume,
            "volume",
            Kind::Size,
            "`50M`; of `fragmentation` `70M`",
            "bytes that each thread of `heap-load = \"aggressive\"` allocates; of `fragmentation`, that are live",
        ),
    ),
    of(
        MEASURED,
        key(
            Id::Duration,
            "duration",
            Kind::Seconds { min: 0.05, max: DAY },
            "`2`",
            "seconds of each measured stretch; of `heap`, how long blocks are replaced",
        ),
    ),
    of(
        COMPRESSION,
        key(
            Id::Trim,
            "trim",
            Kind::Trim,
            "`worker`",
            "how pages are made to leave the working set",
        ),
    ),
    of(
        RESTING,
        key(
            Id::Hold,
            "hold",
            Kind::Seconds { min: 0.0, max: DAY },
            "`2`",
            "rest after fill and after trim; of `thrash`, before the first consumer and as baseline of the recovery; of \
             `map`, the longest wait for memory to be back; of `contention`, after the fill and after each ask; of `heap`, from \
             the end of the load until what is left of its memory is measured",
        ),
    ),
    key(
        Id::Swappiness,
        "swappiness",
        integer(0, 200, true),
        "`\"system\"`",
        "`vm.swappiness` during the trial",
    ),
    key(
        Id::PageCluster,
        "page-cluster",
        integer(0, 31, true),
        "`\"system\"`",
        "`vm.page-cluster` during the trial: 2^n pages are read from swap at once",
    ),
    of(
        FILLED,
        key(
            Id::Thp,
            "thp",
            Kind::Thp,
            "`system`",
            "transparent huge pages for the worker's memory",
        ),
    ),
    key(
        Id::ZswapPoolPercent,
        "zswap-pool-percent",
        integer(1, 100, true),
        "`\"system\"`",
        "most of RAM that zswap's pool may take, in percent; for the subject `zswap`",
    ),
    single(key(
        Id::SwapDir,
        "swap-dir",
        Kind::Folder,
        "`/var/tmp`",
        "folder for swap files, and for the file of `map` with `mapping = \"file\"`",
    )),
    single(key(
        Id::PhaseTimeout,
        "phase-timeout",
        Kind::Seconds {
            min: 0.1,
            max: 7.0 * DAY,
        },
        "`600`",
        "a phase that takes longer is given up, and its trial has failed",
    )),
    single(key(
        Id::Repeat,
        "repeat",
        integer(1, 1000, false),
        "`3`",
        "how often each combination runs",
    )),
    whole_plan(key(
        Id::Order,
        "order",
        Kind::Order,
        "`random`",
        "order of the trials within each repeat: shuffled by `seed`, or as written",
    )),
    whole_plan(key(
        Id::Seed,
        "seed",
        integer(0, u64::MAX, false),
        "`1`",
        "seed of the data and of the order",
    )),
    whole_plan(key(
        Id::TimeLimit,
        "time-limit",
        Kind::Seconds {
            min: 1.0,
            max: LONGEST,
        },
        "four times the expected time + `120`",
        "the run is stopped, and everything undone, when it takes longer",
    )),
];
