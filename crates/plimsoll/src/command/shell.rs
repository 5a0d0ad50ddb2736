//! `plimsoll completions` and `plimsoll man`, for packagers.

use clap::CommandFactory;

use crate::cli::{Cli, Completions, Man};
use plimsoll_model::exit::{Exit, Failure, OrExit};

pub(super) fn completions(options: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "plimsoll", &mut script);
    super::print_document(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}

pub(super) fn man(options: &Man) -> Result<Exit, Failure> {
    let command = Cli::command();
    let Some(dir) = &options.dir else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command)
            .render(&mut page)
            .or_exit(Exit::WorkloadFailed)?;
        super::print_document(&String::from_utf8_lossy(&page))?;
        return Ok(Exit::Done);
    };
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(command, dir))
        .map_err(|error| anyhow::anyhow!("cannot write man pages into {}: {error}", dir.display()))
        .or_exit(Exit::Missing)?;
    Ok(Exit::Done)
}
