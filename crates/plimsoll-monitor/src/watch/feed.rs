//! Feeds samples to the state, the account and the recording.

use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::shared::{Shared, lock};
use plimsoll_model::columns::Row;
use plimsoll_report::analysis::frame::{Frame, Machine};
use plimsoll_sample::Batch;

/// Consumes batches until the sampler ends. Makes frames only if a user interface draws them.
pub(super) fn feed(batches: &Receiver<Batch>, shared: &Arc<Shared>, machine: Machine, drawn: bool) {
    let mut before: Option<Row> = None;
    for batch in batches {
        let rows = batch.rows();
        {
            let mut account = lock(&shared.account);
            rows.iter().for_each(|row| account.add(row));
        }
        if let Some(recorder) = lock(&shared.recorder).as_mut() {
            recorder.rows(rows);
        }
        if drawn {
            let mut state = shared.state();
            for row in rows {
                state.history.push(Frame::of(row, before.as_ref(), machine));
                before = Some(*row);
            }
        }
    }
}
