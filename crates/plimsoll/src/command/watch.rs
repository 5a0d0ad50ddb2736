//! `plimsoll watch`.

use std::sync::Arc;

use crate::cli::{Talk, Watch};
use crate::exit::{Exit, Failure, OrExit};
use crate::stop::Stop;
use crate::watch::serve::{ServeError, ServeOptions, Server};
use crate::watch::{Monitor, Options, Source, TargetChoice};

/// Carries out the command.
pub(super) fn watch(options: &Watch, talk: &Talk) -> Result<Exit, Failure> {
    let Some(address) = options.serve else {
        return Err(Failure::message(
            Exit::Unsupported,
            "`plimsoll watch` is being built",
        ));
    };
    let server = bind(&ServeOptions {
        address,
        allow_actions: options.allow_actions,
    })?;
    let stop = Stop::install().or_exit(Exit::Missing)?;
    let monitor = Monitor::start(&Options {
        hz: options.hz,
        ..Options::of(Source::Live(TargetChoice::None))
    })
    .or_exit(Exit::Missing)?;
    serve(server, &Arc::new(monitor), &stop, talk)
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
