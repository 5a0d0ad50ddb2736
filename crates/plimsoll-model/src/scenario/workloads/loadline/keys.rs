//! The keys of a load line, and its settings from their values.

use super::{Loadline, Pattern};
use crate::scenario::assignment::{Assignment, Key, MIB, Preset, key};
use crate::scenario::error::{Invalid, Problem};
use crate::scenario::kind::{Kind, integer};
use crate::scenario::shared_keys::{self, CLASS, THP};
use crate::scenario::value::Value;

/// Bounds of a given load.
const LOADS: (f64, f64) = (0.1, 100.0);
/// Points of a trial that a scenario may give at most.
const MOST_POINTS: usize = 100;

pub(in crate::scenario) const KEYS: &[Key] = &[
    CLASS,
    key(
        "max-load",
        Kind::Number { min: 1.0, max: 10.0 },
        Preset::Text("3"),
        "largest load of the search, as a multiple of `limit`; that many bytes are its `size`",
    )
    .single(),
    key(
        "loads",
        Kind::Number {
            min: LOADS.0,
            max: LOADS.1,
        },
        Preset::Of("a search up to `max-load`", |_| Ok(None)),
        "the loads to measure, and no others",
    )
    .list()
    .optional(),
    key(
        "size",
        Kind::Size,
        Preset::Of("each load times `limit`", |values| {
            let highest = match loads(values).reduce(f64::max) {
                Some(highest) => highest,
                None => values.number("max-load")?,
            };
            let largest = Loadline::largest(values.bytes("limit")?, highest);
            Ok(Some(Value::bytes(largest)))
        }),
        "bytes that the worker visits at every load: the load then changes the limit, and `limit` may be the list of limits \
         to measure",
    )
    .optional(),
    shared_keys::limit(
        Preset::Of(
            "2% of the available memory, `64M` to `256M`; with `size`, that over the lowest load",
            |values| {
                if values.is_given("size") {
                    let largest = Loadline::largest_limit(values.bytes("size")?, loads(values));
                    return Ok(Some(Value::bytes(largest)));
                }
                let share = (values.available() / 50 / MIB * MIB).clamp(64 * MIB, 256 * MIB);
                Ok(Some(Value::bytes(values.scale.of(share))))
            },
        ),
        "limit of the memory cgroup that the worker runs in; with `size`, a list is no sweep but the limits of one curve",
    )
    .list_beside("size"),
    key(
        "target-work",
        Kind::Number { min: 0.01, max: 1.0 },
        Preset::Of("`0.5`; with `rate` `0.95`", |values| {
            let has_rate = values.number("rate")? > 0.0;
            Ok(Some(Value::Number(Loadline::usual_share(has_rate))))
        }),
        "useful work down to which a load is carried, as a share of that at the lowest load, or of `rate`",
    ),
    key(
        "target-p99",
        Kind::Seconds { min: 0.0, max: 3600.0 },
        Preset::Text("0"),
        "p99 latency up to which a load meets the target, in seconds; `0` is no target",
    ),
    key(
        "pattern",
        Kind::Choice(Pattern::NAMES),
        Preset::Text("uniform"),
        "how the worker chooses the page that it visits next",
    ),
    key(
        "threads",
        integer(1, 4096, false),
        Preset::Text("1"),
        "threads of the worker that visit its memory at a time",
    ),
    key(
        "write-percent",
        integer(0, 100, false),
        Preset::Text("100"),
        "visits that write to their page, in percent; the others only read",
    )
    .alias("rwmixwrite"),
    key(
        "file-percent",
        integer(0, 100, false),
        Preset::Text("0"),
        "visited pages that are those of a mapped file without a name in `swap-dir`, in percent; the others are anonymous",
    ),
    key(
        "rate",
        Kind::Number { min: 0.0, max: 1e9 },
        Preset::Text("0"),
        "visits that are due per second, of all threads together (open loop); `0`: each begins when the one before has ended",
    ),
    key(
        "compute",
        Kind::Seconds { min: 0.0, max: 1.0 },
        Preset::Text("0.00001"),
        "computing after each visit of a page, in seconds of CPU time",
    ),
    shared_keys::duration("seconds of each measured stretch"),
    THP,
];

/// The given loads, as they are written.
fn loads(values: &Assignment<'_>) -> impl Iterator<Item = f64> {
    values.taken("loads").iter().filter_map(|(value, _)| match value {
        Value::Number(load) => Some(*load),
        _ => None,
    })
}

/// A time or a rate of which 0 is none.
fn above_zero(values: &Assignment<'_>, name: &str) -> Result<Option<f64>, Box<Invalid>> {
    Ok(Some(values.number(name)?).filter(|number| *number > 0.0))
}

pub(super) fn read(values: &Assignment<'_>) -> Result<Loadline, Box<Invalid>> {
    // Refuses a limit that is made from the size, which is made from it.
    let size = values.bytes("size")?;
    let working_set = values.is_given("size").then_some(size);
    let mut loads: Vec<f64> = loads(values).collect();
    loads.sort_by(f64::total_cmp);
    let limits = match working_set {
        Some(_) => limits(values)?,
        None => Vec::new(),
    };
    refuse_many(values, "loads")?;
    if let (false, [(_, place), ..], Some((_, of_limit))) =
        (limits.is_empty(), values.taken("loads"), values.given("limit"))
    {
        let message = "`loads` and `limit` both give the points of a working set of one `size`";
        return Err(place
            .error(Problem::Misplaced, message, "these are loads")
            .and(of_limit, "and these are limits")
            .help("remove one of them: with `size`, each load has the limit `size` / load"));
    }
    Ok(Loadline {
        class: values.class("class")?,
        pattern: values.choice("pattern")?,
        max_load: values.number("max-load")?,
        compute: values.number("compute")?,
        duration: values.number("duration")?,
        thp: values.choice("thp")?,
        working_set,
        limits,
        loads,
        target_work: values.number("target-work")?,
        target_p99: above_zero(values, "target-p99")?,
        threads: values.count("threads")?,
        write_percent: values.count("write-percent")?,
        rate: above_zero(values, "rate")?,
        file_percent: values.count("file-percent")?,
    })
}

/// The given limits, descending; each once.
fn limits(values: &Assignment<'_>) -> Result<Vec<u64>, Box<Invalid>> {
    refuse_many(values, "limit")?;
    let all = values.all_bytes("limit")?;
    for (index, (limit, place)) in all.iter().enumerate() {
        if let Some((_, first)) = all[..index].iter().find(|(earlier, _)| earlier == limit) {
            return Err(place
                .error(
                    Problem::Duplicate,
                    "two values of `limit` come to the same",
                    "again here",
                )
                .and(first, "first here")
                .help("sizes count in whole pages of 4K; remove one of them"));
        }
    }
    let mut limits: Vec<u64> = all.into_iter().map(|(limit, _)| limit).collect();
    limits.sort_unstable_by(|a, b| b.cmp(a));
    Ok(limits)
}

fn refuse_many(values: &Assignment<'_>, name: &str) -> Result<(), Box<Invalid>> {
    match values.taken(name) {
        all @ [(_, place), ..] if all.len() > MOST_POINTS => Err(place
            .error(
                Problem::BadList,
                format!("`{name}` has {} values for one trial", all.len()),
                "the first of them",
            )
            .help(format!("the most is {MOST_POINTS} points of a trial"))),
        _ => Ok(()),
    }
}
