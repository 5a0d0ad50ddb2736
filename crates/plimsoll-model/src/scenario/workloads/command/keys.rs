//! The keys of a program's run, and its settings from their values.

use super::{MetricPattern, PageCache, ProgramRun};
use crate::scenario::assignment::{Assignment, GIB, Key, MIB, Preset, derived, key};
use crate::scenario::error::{Invalid, Problem};
use crate::scenario::kind::Kind;
use crate::scenario::shared_keys::{self, DAY};
use crate::scenario::value::Value;
use crate::scenario::workloads::points;

/// The largest slowdown that is tolerated, where the scenario does not say.
pub(super) const TOLERATE: f64 = 0.05;

/// The default of a key that each section must have.
const REQUIRED: &str = "none: it must be given";
const COMMAND_HELP: &str = "write for example command = [\"my-program\", \"--option\", \"10\"]; for a shell's syntax: \
                            command = [\"sh\", \"-c\", \"my-program | wc -l\"]";

pub(in crate::scenario) const KEYS: &[Key] = &[
    key(
        "command",
        Kind::Text,
        Preset::Of(REQUIRED, |values| Err(values.missing("command", COMMAND_HELP))),
        "the program, and its arguments; no shell reads them. A name without `/` is searched in `PATH`",
    )
    .list(),
    key(
        "limits",
        Kind::Size,
        Preset::Of("one point, at `limit`", |_| Ok(None)),
        "the limits to measure in each trial, and no others; the largest one is the base",
    )
    .list()
    .optional(),
    key(
        "search",
        Kind::Flag,
        Preset::Text("false"),
        "search the least memory with a tolerated slowdown, downwards from `limit`",
    )
    .single(),
    key(
        "tolerate",
        Kind::Number { min: 0.001, max: 100.0 },
        Preset::Text("0.05"),
        "largest slowdown that is tolerated, as a share of the time at the base: `0.05` is 5%",
    )
    .single(),
    key(
        "metric",
        Kind::Text,
        Preset::Of("wall time", |_| Ok(None)),
        "regular expression with one group: the number that the program prints on stdout or stderr, the last one counts",
    )
    .single()
    .optional(),
    key(
        "higher-is-better",
        Kind::Flag,
        Preset::Text("false"),
        "whether a larger number of `metric` is better",
    )
    .single(),
    key(
        "same-output",
        Kind::Flag,
        Preset::Text("false"),
        "whether the program must write the same to stdout at each limit",
    )
    .single(),
    key(
        "cache",
        Kind::Choice(PageCache::NAMES),
        Preset::Text("cold"),
        "the cgroup's page cache at the start of each run: `cold` is empty, `warm` is that of the run before",
    ),
    key(
        "run-time",
        Kind::Seconds { min: 0.001, max: DAY },
        Preset::Text("10"),
        "seconds that one run is expected to take, for the estimate and the time limit",
    )
    .single(),
    derived("size", "`limit`", |values| Ok(Some(Value::bytes(values.bytes("limit")?)))),
    shared_keys::limit(
        Preset::Of(
            "the largest of `limits`; without them 10% of the available memory, at most `1G`",
            |values| {
                let largest = values.all_bytes("limits")?.into_iter().map(|(limit, _)| limit).max();
                let tenth = (values.available() / 10 / MIB * MIB).clamp(MIB, GIB);
                Ok(Some(Value::bytes(largest.unwrap_or(tenth))))
            },
        ),
        "limit of the memory cgroup that the program runs in",
    ),
];

pub(super) fn read(values: &Assignment<'_>) -> Result<ProgramRun, Box<Invalid>> {
    let words = values.words("command");
    match words.first() {
        None => return Err(values.missing("command", COMMAND_HELP)),
        Some((name, place)) if name.is_empty() => {
            return Err(place
                .error(Problem::BadValue, "`command` has no program", "an empty name")
                .help(COMMAND_HELP));
        }
        Some(_) => {}
    }
    let metric = metric(values)?;
    let higher_is_better = values.flag("higher-is-better")?;
    if let (true, None, Some((_, place))) = (higher_is_better, &metric, values.given("higher-is-better")) {
        return Err(place
            .error(
                Problem::Misplaced,
                "`higher-is-better` needs `metric`",
                "more wall time is never better",
            )
            .help("add for example metric = \"ops/s: ([0-9.]+)\""));
    }
    Ok(ProgramRun {
        command: words.into_iter().map(|(word, _)| word).collect(),
        limits: limits(values)?,
        search: values.flag("search")?,
        tolerate: values.number("tolerate")?,
        metric,
        higher_is_better,
        same_output: values.flag("same-output")?,
        cache: values.choice("cache")?,
        run_time: values.number("run-time")?,
    })
}

/// The pattern of the metric, if there is one and it is valid.
fn metric(values: &Assignment<'_>) -> Result<Option<String>, Box<Invalid>> {
    let Some((text, place)) = values.words("metric").pop() else {
        return Ok(None);
    };
    match MetricPattern::new(&text) {
        Ok(_) => Ok(Some(text)),
        Err(error) => Err(place
            .error(Problem::BadValue, error.to_string(), "not a pattern of a number")
            .help("write for example metric = \"ops/s: ([0-9.]+)\", with one group around the number")),
    }
}

/// The given limits, descending, all within `limit`.
fn limits(values: &Assignment<'_>) -> Result<Vec<u64>, Box<Invalid>> {
    let limits = points::limits(values, "limits")?;
    let Some((_, place)) = values.given("limits") else {
        return Ok(limits);
    };
    if let (true, Some((_, search))) = (values.flag("search")?, values.given("search")) {
        return Err(place
            .error(
                Problem::Misplaced,
                "`limits` and `search` both give the points of a trial",
                "these are limits",
            )
            .and(search, "and this is a search")
            .help("remove one of them"));
    }
    let limit = values.bytes("limit")?;
    match (values.given("limit"), limits.first()) {
        (Some((_, of_limit)), Some(largest)) if *largest > limit => Err(place
            .error(
                Problem::OutOfRange,
                "`limits` has a value above `limit`",
                "of these",
            )
            .and(of_limit, "this is the limit")
            .help("remove `limit`: it is then the largest of `limits`")),
        _ => Ok(limits),
    }
}
