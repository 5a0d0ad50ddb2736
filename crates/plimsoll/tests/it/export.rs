//! `plimsoll export`: what other programs read is what was recorded.

mod command;
mod prometheus;
mod samples;

use std::path::{Path, PathBuf};

use plimsoll_model::recording::Writer;
use plimsoll_model::recording::model::{EventKind, TrialStatus};
use plimsoll_model::scenario::FillClass;

use crate::recording::{event, manifest, plan, results, rows, trial};

/// A recording of 25 samples, two events and two trials; an unfinished one has a last batch that is torn.
fn recorded(parent: &Path, finished: bool) -> PathBuf {
    let plan = plan(&[FillClass::Random, FillClass::Constant], 1);
    let mut writer = Writer::create(parent, manifest("exported", plan.clone())).unwrap();
    for batch in rows(25).chunks(10) {
        writer.samples(batch).unwrap();
    }
    writer.event(&event(1, EventKind::RunStart, "go")).unwrap();
    writer
        .event(&event(2, EventKind::Mark, "<b>\u{1b}[31m \"here\"\n"))
        .unwrap();
    let trials = [
        trial(&plan, 0, TrialStatus::Ok),
        trial(&plan, 1, TrialStatus::Failed),
    ];
    trials.iter().for_each(|trial| writer.trial(trial).unwrap());
    if finished {
        return writer.finish(&results("exported", trials.to_vec())).unwrap();
    }
    let folder = writer.folder().to_owned();
    drop(writer);
    let live = folder.join(plimsoll_model::recording::model::file::SAMPLES_LIVE);
    let mut content = std::fs::read(&live).unwrap();
    content.extend([0xff, 0xff, 0xff, 0xff, 0x10]);
    std::fs::write(&live, content).unwrap();
    folder
}
