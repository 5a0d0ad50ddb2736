//! The engines of a size: those of the machine, or the named ones if the machine has them.

use plimsoll_lab::run::requirements::{Lack, requirements};
use plimsoll_model::exit::Failure;
use plimsoll_model::scenario::{Machine, Subject};

use super::document::{self, Pilot};
use super::error::SizeError;
use super::request::Request;

/// Takes the engines of this machine if none is named. Refuses engines that lack a requirement. Changes nothing.
pub(super) fn choose(request: &mut Request, machine: &Machine) -> Result<(), Failure> {
    let works = working(request, machine);
    if request.engines.is_empty() && !works.is_empty() {
        request.engines = works;
        return Ok(());
    }
    let asked = match request.engines.as_slice() {
        [] => vec![Subject::NoSwap],
        engines => engines.to_vec(),
    };
    let missing = lacks(request, asked, machine)?;
    if missing.is_empty() {
        return Ok(());
    }
    let works = works.iter().map(ToString::to_string).collect();
    Err(SizeError::Missing { missing, works }.into())
}

/// The engines of the default that lack nothing here. One that cannot be examined, such as a swap file on a machine without
/// the folder for it, is none of them.
fn working(request: &Request, machine: &Machine) -> Vec<Subject> {
    let lz4 = Subject::Zram(Some("lz4".to_owned()));
    let known = [
        Subject::NoSwap,
        lz4.clone(),
        Subject::Zram(None),
        Subject::Zswap(None),
        Subject::SwapFile,
    ];
    let mut works = Vec::new();
    for engine in known {
        if lacks(request, vec![engine.clone()], machine).is_ok_and(|lacks| lacks.is_empty()) {
            works.push(engine);
        }
    }
    // zram with its default algorithm stands in for one without lz4.
    if works.contains(&lz4) {
        works.retain(|engine| *engine != Subject::Zram(None));
    }
    works
}

/// The requirements that these engines lack here.
fn lacks(request: &Request, engines: Vec<Subject>, machine: &Machine) -> Result<Vec<Lack>, Failure> {
    let request = Request {
        engines,
        ..request.clone()
    };
    // A limit that every machine has: its size is checked when the peak is known.
    let small = Pilot {
        peak: document::MIB,
        wall_s: 1.0,
    };
    let found = requirements(&document::search(&request, &small, machine)?);
    Ok(found.refused.into_iter().chain(found.degraded).collect())
}
