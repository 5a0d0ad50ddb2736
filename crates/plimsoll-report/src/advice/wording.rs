//! Parts of the texts of recommendations.

use super::candidates::Stratum;
use super::ranking::Lack;
use crate::workloads::criteria::Measure;
use plimsoll_model::quantity::{bytes, significant};
use plimsoll_model::recording::model::Host;
use plimsoll_model::recording::{Withheld, Worth};
use plimsoll_model::scenario::WorkloadKind;

/// `its load line by RAM is 1.21 to 1.32 times`.
pub(super) fn noun_is(whose: &str, measure: Measure, worth: Worth) -> String {
    format!("{whose}{} is {} times", measure.noun, interval(worth))
}

/// `1.21 to 1.32`, or one number if both ends look the same.
pub(super) fn interval(worth: Worth) -> String {
    let (low, high) = (significant(worth.low), significant(worth.high));
    match low == high {
        true => low,
        false => format!("{low} to {high}"),
    }
}

/// The conditions of a stratum as a sentence.
pub(super) fn measured_with(stratum: &Stratum<'_>) -> String {
    let conditions = stratum.conditions.iter().filter(|(name, _)| *name != "size");
    let conditions: Vec<String> = conditions
        .map(|(name, value)| format!("{name} {value}"))
        .collect();
    format!(
        "Measured by {} with {}.",
        stratum.workload.name(),
        conditions.join(", ")
    )
}

/// The premise of another zram device, if the machine had one before the run.
pub(super) fn zram_before(host: &Host) -> Option<String> {
    let (device, size) = host
        .swap_before
        .iter()
        .find(|(device, _)| device.contains("zram"))?;
    Some(format!(
        "The machine swaps to {device} ({}) already: turn it off first (`sudo swapoff {device}`), as the stores of both may \
         fill the RAM.",
        bytes(*size as f64)
    ))
}

/// A withheld recommendation of `named`, the setting in words.
pub(super) fn withheld(setting: &str, named: &str, workload: WorkloadKind, lack: &Lack) -> Withheld {
    Withheld {
        code: lack.code,
        setting: setting.to_owned(),
        workload: workload.name().to_owned(),
        text: format!("No recommendation of {named}: {}.", lack.text),
    }
}
