//! Parts of headline sentences.

use plimsoll_model::quantity::significant;

/// `low to high`, or one value if both look the same.
pub(crate) fn range(values: &[f64]) -> Option<String> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let (low, high) = (significant(low), significant(high));
    Some(if low == high {
        low
    } else {
        format!("{low} to {high}")
    })
}
