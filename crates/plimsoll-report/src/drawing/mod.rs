//! Charts and tables as SVG and rows, without knowledge of a workload.

pub(crate) mod bars;
pub(crate) mod names;
pub mod palette;
pub mod panel;
pub(crate) mod strip;
pub(crate) mod svg;
pub(crate) mod table;
pub(crate) mod values;
pub(crate) mod xy;
