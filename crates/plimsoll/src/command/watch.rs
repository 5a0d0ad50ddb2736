//! `plimsoll watch`.

use crate::cli::{Talk, Watch, When};
use crate::exit::{Exit, Failure, OrExit};
use crate::stop::Stop;
use crate::watch::terminal::{self, Colours, End, TerminalOptions};
use crate::watch::{Monitor, Options, Source, TargetChoice};

/// Carries out the command.
pub(super) fn watch(options: &Watch, talk: &Talk) -> Result<Exit, Failure> {
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let choice = match (options.pid, &options.cgroup) {
        (Some(pid), _) => TargetChoice::Pid(pid),
        (_, Some(cgroup)) => TargetChoice::Cgroup(cgroup.clone()),
        (None, None) => TargetChoice::None,
    };
    let monitor = Monitor::start(&Options {
        hz: options.hz,
        ..Options::of(Source::Live(choice))
    })
    .or_exit(Exit::Missing)?;
    let drawn = TerminalOptions {
        colours: match talk.color {
            When::Auto => Colours::Auto,
            When::Always => Colours::Always,
            When::Never => Colours::Never,
        },
        duration: options.duration.map(std::time::Duration::from_secs_f64),
        page: None,
    };
    let end = terminal::run(&monitor, &drawn, &stop).or_exit(Exit::Missing)?;
    Ok(match end {
        End::Quit | End::Over => Exit::Done,
        End::Stopped | End::Gone => Exit::Killed,
    })
}
