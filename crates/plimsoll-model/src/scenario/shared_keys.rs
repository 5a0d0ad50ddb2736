//! The keys of every workload, and the rows that several workloads have.

use super::assignment::{Assignment, GIB, Key, MIB, Preset, key};
use super::error::Invalid;
use super::kind::{Kind, integer};
use super::model::{Order, ThpMode};
use super::size::Base;
use super::value::Value;

pub(super) const DAY: f64 = 86_400.0;
pub(super) const LONGEST: f64 = 365.0 * DAY;

/// The keys that stand before those of a workload.
pub(super) const FIRST: &[Key] = &[
    key(
        "workload",
        Kind::Workload,
        Preset::Text("compression"),
        "the work of the worker processes",
    )
    .single(),
    key(
        "subject",
        Kind::Subject,
        Preset::Text("zram"),
        "the place of trimmed pages, which is under test",
    ),
];

/// The keys that stand after those of a workload.
pub(super) const LAST: &[Key] = &[
    limit(
        Preset::Of("`112.5% size` + `64M`", |values| {
            let size = values.bytes("size")?;
            let limit = size
                .checked_add(size / 8)
                .and_then(|bytes| bytes.checked_add(64 * MIB));
            Ok(limit.map(Value::bytes))
        }),
        "limit of the memory cgroup that the workers run in",
    ),
    key(
        "swap-size",
        Kind::Size,
        Preset::Of("`110% size` + `16M`", |values| {
            let size = values.bytes("size")?;
            let swap = size
                .checked_add(size / 10)
                .and_then(|bytes| bytes.checked_add(16 * MIB));
            Ok(swap.map(Value::bytes))
        }),
        "bytes of the zram device or the swap file",
    ),
    key(
        "swappiness",
        integer(0, 200, true),
        Preset::System,
        "`vm.swappiness` during the trial",
    ),
    key(
        "page-cluster",
        integer(0, 31, true),
        Preset::System,
        "`vm.page-cluster` during the trial: 2^n pages are read from swap at once",
    ),
    key(
        "zswap-pool-percent",
        integer(1, 100, true),
        Preset::System,
        "most of RAM that zswap's pool may take, in percent; for the subject `zswap`",
    ),
    key(
        "swap-dir",
        Kind::Folder,
        Preset::Text("/var/tmp"),
        "folder for swap files, in which no other user can replace them, and for the files of `memory = \"file\"`, \
         `file-percent` and `mapping = \"file\"`",
    )
    .single(),
    key(
        "background",
        Kind::Level,
        Preset::Of("no level", |_| Ok(None)),
        "level of memory that the runner holds on the machine during each trial: `used=80%`, `available=2G`, \
         `bytes=512M`, as `plimsoll hold` does",
    )
    .optional(),
    key(
        "phase-timeout",
        Kind::Seconds {
            min: 0.1,
            max: 7.0 * DAY,
        },
        Preset::Text("600"),
        "a phase that takes longer is given up, and its trial has failed",
    )
    .single(),
    key(
        "repeat",
        integer(1, 1000, false),
        Preset::Text("3"),
        "how often each combination runs",
    )
    .single(),
    key(
        "order",
        Kind::Choice(Order::NAMES),
        Preset::Text("random"),
        "order of the trials within each repeat: shuffled by `seed`, or as written",
    )
    .whole_plan(),
    key(
        "seed",
        integer(0, u64::MAX, false),
        Preset::Text("1"),
        "seed of the data and of the order",
    )
    .whole_plan(),
    key(
        "time-limit",
        Kind::Seconds {
            min: 1.0,
            max: LONGEST,
        },
        Preset::Of("four times the expected time + `120`", |_| Ok(None)),
        "the run is stopped, and everything undone, when it takes longer",
    )
    .whole_plan(),
];

pub(super) const CLASS: Key = key(
    "class",
    Kind::Class,
    Preset::Text("random"),
    "the content of the memory",
);

/// Bytes that the workers fill, where no other key says so.
pub(super) const fn size(meaning: &'static str) -> Key {
    fn tenth(values: &Assignment<'_>) -> Result<Option<Value>, Box<Invalid>> {
        let tenth = values.available() / 10 / MIB * MIB;
        Ok(Some(Value::bytes(values.scale.of(tenth.clamp(MIB, GIB)))))
    }
    key(
        "size",
        Kind::Size,
        Preset::Of("10% of the available memory, at most `1G`", tenth),
        meaning,
    )
}

/// Bytes of one allocation, at most all of them.
pub(super) const fn request(meaning: &'static str) -> Key {
    fn quarter(values: &Assignment<'_>) -> Result<Option<Value>, Box<Invalid>> {
        Ok(Some(Value::bytes((values.bytes("size")? / 4).min(GIB))))
    }
    fn at_most_size(values: &Assignment<'_>, value: Value, _: bool) -> Result<Value, Box<Invalid>> {
        let size = values.bytes("size")?;
        Ok(Value::bytes(value.as_bytes().unwrap_or(size).min(size)))
    }
    key(
        "request",
        Kind::Size,
        Preset::Of("`25% size`, at most `1G`", quarter),
        meaning,
    )
    .at_most_whole(&[Base::Ram, Base::Size, Base::Limit])
    .adjusted(at_most_size)
}

/// The limit of the cgroup, with a default of the workload's own.
pub(super) const fn limit(preset: Preset, meaning: &'static str) -> Key {
    key("limit", Kind::Size, preset, meaning).at_most_whole(&[Base::Ram])
}

/// Seconds of a stretch that is measured.
pub(super) const fn duration(meaning: &'static str) -> Key {
    key(
        "duration",
        Kind::Seconds { min: 0.05, max: DAY },
        Preset::Text("2"),
        meaning,
    )
}

pub(super) const fn threads(meaning: &'static str) -> Key {
    key("threads", integer(1, 4096, false), Preset::Text("1"), meaning)
}

/// A rest between phases.
pub(super) const fn hold(meaning: &'static str) -> Key {
    key(
        "hold",
        Kind::Seconds { min: 0.0, max: DAY },
        Preset::Text("2"),
        meaning,
    )
}

pub(super) const THP: Key = key(
    "thp",
    Kind::Choice(ThpMode::NAMES),
    Preset::Text("system"),
    "transparent huge pages for the worker's memory",
);
