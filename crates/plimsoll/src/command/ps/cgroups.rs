//! `plimsoll ps --cgroups`.

use std::thread;
use std::time::Duration;

use clap::ValueEnum;

use crate::cli::{Ps, PsSort, Verbosity};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_monitor::processes::{CGROUP_BOUNDS, CgroupListing, CgroupOrder, CgroupTree, render_cgroups};
use plimsoll_proc::cgroup::{Bounds, Hierarchy};

pub(super) fn ps_cgroups(options: &Ps, verbosity: &Verbosity, interval: Duration) -> Result<Exit, Failure> {
    let order = order(options.sort)?;
    // Levels that are not listed are not read.
    let bounds = Bounds {
        depth: options.depth.unwrap_or(usize::MAX).min(CGROUP_BOUNDS.depth),
        ..CGROUP_BOUNDS
    };
    let read = || -> Result<CgroupTree, Failure> {
        // A cgroup mount can come and go between two readings.
        let hierarchy = Hierarchy::of_this_process().or_exit(Exit::Missing)?;
        let mount = hierarchy.mount.display();
        CgroupTree::read(&hierarchy, bounds)
            .map_err(|error| Failure::message(Exit::Missing, format_args!("cannot list {mount}: {error}")))
    };
    let mut before = read()?;
    let mut listing = || -> Result<CgroupListing, Failure> {
        let now = read()?;
        let listing = CgroupListing::between(&before, &now, order);
        before = now;
        Ok(listing)
    };
    if options.watch {
        return super::repeat(interval, || Ok(text(&listing()?, options, verbosity)));
    }
    thread::sleep(interval);
    let mut listing = listing()?;
    if options.json {
        if options.limit > 0 && listing.cgroups.len() > options.limit {
            listing.cgroups.truncate(options.limit);
            listing.complete = false;
        }
        let mut text = serde_json::to_string_pretty(&listing).or_exit(Exit::WorkloadFailed)?;
        text.push('\n');
        super::super::print_json_text(&text)?;
    } else {
        super::super::print_styled(&text(&listing, options, verbosity))?;
    }
    Ok(Exit::Done)
}

fn text(listing: &CgroupListing, options: &Ps, verbosity: &Verbosity) -> String {
    let width = usize::from(super::super::width_of_stdout());
    render_cgroups(
        listing,
        options.limit,
        width,
        super::super::colour_on_stdout(verbosity),
    )
}

fn order(sort: PsSort) -> Result<CgroupOrder, Failure> {
    match sort {
        PsSort::Wss => Ok(CgroupOrder::Usage),
        PsSort::Swap => Ok(CgroupOrder::Swap),
        PsSort::Faults | PsSort::Major => Ok(CgroupOrder::Refaults),
        PsSort::Name => Ok(CgroupOrder::Name),
        PsSort::Pss | PsSort::Cpu | PsSort::Oom | PsSort::Pid => {
            let value = sort.to_possible_value();
            let name = value.as_ref().map_or("that", |value| value.get_name());
            Err(Failure::message(
                Exit::Usage,
                format_args!(
                    "cannot sort cgroups by {name}: a cgroup has no such value; use wss, swap, faults or name"
                ),
            ))
        }
    }
}
