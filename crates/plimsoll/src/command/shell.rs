//! `plimsoll completions` with its hidden `complete`, and `plimsoll man`.

use clap::CommandFactory;

use clap_complete::Shell;

use crate::cli::{Cli, Complete, CompletingShell, Completions, Man};
use crate::completion::{self, Line};
use crate::manual;
use plimsoll_model::exit::{Exit, Failure, OrExit};

/// Prints the script of a shell. Those of bash, zsh and fish call [`complete`].
pub(super) fn completions(options: &Completions) -> Result<Exit, Failure> {
    let own = match options.shell {
        Shell::Bash => Some(CompletingShell::Bash),
        Shell::Zsh => Some(CompletingShell::Zsh),
        Shell::Fish => Some(CompletingShell::Fish),
        _ => None,
    };
    if let Some(shell) = own {
        super::print_document(completion::script(shell))?;
        return Ok(Exit::Done);
    }
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "plimsoll", &mut script);
    super::print_document(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

/// Prints the candidates for the end of a line. Reads only: see [`completion`].
pub(super) fn complete(options: &Complete) -> Result<Exit, Failure> {
    let line = Line::split(&options.line);
    let answer = completion::complete(Cli::command(), &line);
    super::print_document(&completion::reply(
        options.shell,
        &answer,
        &line,
        options.word.as_deref(),
    ))?;
    Ok(Exit::Done)
}

pub(super) fn man(options: &Man) -> Result<Exit, Failure> {
    let mut root = Cli::command();
    root.build();
    let Some(dir) = &options.dir else {
        let page = manual::render(&root).or_exit(Exit::WorkloadFailed)?;
        super::print_document(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| manual::write_all(&root, dir))
        .map_err(|error| anyhow::anyhow!("cannot write man pages into {}: {error}", dir.display()))
        .or_exit(Exit::Missing)?;
    Ok(Exit::Done)
}
