//! `plimsoll ps`.

mod cgroups;

use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

use super::screen::Screen;
use crate::cli::{Ps, PsSort, Verbosity};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_monitor::processes::{
    Depth, Entry, Listing, Observer, Snapshot, Users, render, width_without_terminal,
};
use plimsoll_sample::stop::Stop;

/// Valid intervals in seconds: the kernel counts CPU time in steps of 10 ms.
const INTERVALS: std::ops::RangeInclusive<f64> = 0.1..=3600.0;
/// Interval of checks for signals.
const POLL: Duration = Duration::from_millis(50);

pub(super) fn ps(options: &Ps, verbosity: &Verbosity) -> Result<Exit, Failure> {
    if !INTERVALS.contains(&options.interval) {
        return Err(Failure::message(
            Exit::Usage,
            format_args!(
                "cannot use --interval {}: out of range; give seconds from 0.1 to 3600",
                options.interval
            ),
        ));
    }
    if options.sort == PsSort::Pss && !options.pss {
        return Err(Failure::message(
            Exit::Usage,
            "cannot sort by pss: not measured; add --pss",
        ));
    }
    let interval = Duration::from_secs_f64(options.interval);
    if options.cgroups {
        return cgroups::ps_cgroups(options, verbosity, interval);
    }
    let mut source = Source::new(options)?;
    if options.watch {
        return watch(&mut source, options, verbosity, interval);
    }
    let before = source.snapshot(Depth::Counters)?;
    thread::sleep(interval);
    let (_, mut listing) = source.listing(&before)?;
    if options.json {
        if options.limit > 0 {
            listing.processes.truncate(options.limit);
        }
        let mut text = serde_json::to_string_pretty(&listing).or_exit(Exit::WorkloadFailed)?;
        text.push('\n');
        super::print_json_text(&text)?;
    } else {
        super::print_styled(&text(&listing, options, verbosity))?;
    }
    Ok(Exit::Done)
}

struct Source<'a> {
    observer: Observer,
    users: Users,
    options: &'a Ps,
}

impl<'a> Source<'a> {
    fn new(options: &'a Ps) -> Result<Self, Failure> {
        Ok(Source {
            observer: Observer::new().or_exit(Exit::Missing)?,
            users: Users::read(),
            options,
        })
    }

    fn snapshot(&mut self, depth: Depth) -> Result<Snapshot, Failure> {
        self.observer.snapshot(depth).or_exit(Exit::Missing)
    }

    /// A new snapshot, and the listing of the changes since `before`, filtered and sorted by the options.
    fn listing(&mut self, before: &Snapshot) -> Result<(Snapshot, Listing), Failure> {
        let depth = if self.options.pss {
            Depth::Proportional
        } else {
            Depth::Detail
        };
        let now = self.snapshot(depth)?;
        let mut listing = Listing::between(before, &now, &self.users);
        if self.options.storm {
            listing.processes.retain(|entry| entry.storm);
        }
        sort(&mut listing.processes, self.options.sort);
        Ok((now, listing))
    }
}

/// Sorts in descending order, by process id and name in ascending order; unknown values come last.
fn sort(entries: &mut [Entry], by: PsSort) {
    // Rates are finite and not negative, so thousandths sort as integers.
    let rate = |value: Option<f64>| value.map(|value| (value * 1e3) as u64);
    let key = |entry: &Entry| match by {
        PsSort::Wss => Some(entry.wss),
        PsSort::Pss => entry.pss,
        PsSort::Swap => entry.swap,
        PsSort::Oom => entry.oom_score,
        PsSort::Faults => rate(entry.rates.map(|rates| rates.minor_per_s + rates.major_per_s)),
        PsSort::Major => rate(entry.rates.map(|rates| rates.major_per_s)),
        PsSort::Cpu => rate(entry.rates.map(|rates| rates.user_percent + rates.system_percent)),
        PsSort::Pid | PsSort::Name => None,
    };
    entries.sort_unstable_by(|a, b| {
        let by_name = match by {
            PsSort::Name => a.name.cmp(&b.name),
            _ => std::cmp::Ordering::Equal,
        };
        by_name
            .then_with(|| key(b).cmp(&key(a)))
            .then_with(|| a.identity.cmp(&b.identity))
    });
}

fn text(listing: &Listing, options: &Ps, verbosity: &Verbosity) -> String {
    if options.storm && listing.storms.is_empty() {
        return "no fault storm\n".to_owned();
    }
    let width = usize::from(super::width_of_stdout());
    let width = match io::stdout().is_terminal() {
        true => width,
        false => width_without_terminal(listing, options.limit, width),
    };
    render(listing, options.limit, width, super::colour_on_stdout(verbosity))
}

/// Prints a list every interval, on a terminal in place, until a signal.
fn watch(
    source: &mut Source<'_>,
    options: &Ps,
    verbosity: &Verbosity,
    interval: Duration,
) -> Result<Exit, Failure> {
    let mut before = source.snapshot(Depth::Counters)?;
    repeat(interval, || {
        let (now, listing) = source.listing(&before)?;
        before = now;
        Ok(text(&listing, options, verbosity))
    })
}

/// Shows a text every interval until a signal, or until the output is closed.
fn repeat(
    interval: Duration,
    mut next_text: impl FnMut() -> Result<String, Failure>,
) -> Result<Exit, Failure> {
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let screen = Screen::take()?;
    let mut next = Instant::now() + interval;
    loop {
        while Instant::now() < next && !stop.requested() {
            thread::sleep(POLL.min(next.saturating_duration_since(Instant::now())));
        }
        // A signal is the normal end.
        if stop.requested() {
            return Ok(Exit::Done);
        }
        // After a delay of more than an interval, such as a suspend, skip the missed ones.
        next = (next + interval).max(Instant::now());
        if !screen.show(&next_text()?)? {
            return Ok(Exit::Done);
        }
    }
}
