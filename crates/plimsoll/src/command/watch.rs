//! `plimsoll watch`.

use std::sync::Arc;

use crate::cli::{Talk, Watch, When};
use crate::exit::{Exit, Failure, OrExit};
use crate::stop::Stop;
use crate::watch::serve::{ServeError, ServeOptions, Server};
use crate::watch::terminal::{self, Colours, End, TerminalOptions};
use crate::watch::{Monitor, Options, Source, TargetChoice};

/// Carries out the command.
pub(super) fn watch(options: &Watch, talk: &Talk) -> Result<Exit, Failure> {
    let server = match options.serve {
        Some(address) => Some(bind(&ServeOptions {
            address,
            allow_actions: options.allow_actions,
        })?),
        None => None,
    };
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
    if let Some(server) = server {
        return serve(server, &Arc::new(monitor), &stop, talk);
    }
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

fn bind(options: &ServeOptions) -> Result<Server, Failure> {
    Server::bind(options).map_err(|error| {
        let exit = match error {
            ServeError::NotLoopback { .. } => Exit::Usage,
            _ => Exit::Missing,
        };
        Failure::new(exit, error)
    })
}

/// Says where the page is, and serves it. The address is the result of the command, so it goes to standard output.
fn serve(server: Server, monitor: &Arc<Monitor>, stop: &Stop, talk: &Talk) -> Result<Exit, Failure> {
    super::print(&format!("{}\n", server.url()))?;
    if !talk.quiet {
        anstream::eprintln!("open this address in a browser; Ctrl-C ends");
    }
    server.run(monitor, stop).or_exit(Exit::Missing)?;
    Ok(Exit::Done)
}
