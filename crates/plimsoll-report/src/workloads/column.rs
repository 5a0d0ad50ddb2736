//! The columns of a summary on a terminal.

#[derive(Debug, Clone)]
pub(crate) enum Column {
    Subject,
    /// The other parameters of the group, under this heading.
    Rest(&'static str),
    Runs,
    /// Median with the lowest and highest run, of the named metric, whose unit the heading says.
    Spread(&'static str, &'static str),
    Median(&'static str, &'static str),
    /// Median with the lowest and highest run of a main metric.
    Main(MainMetric),
    Verified,
    Status,
}

/// A metric of a workload in summaries.
#[derive(Debug, Clone)]
pub(crate) struct MainMetric {
    pub(crate) name: String,
    pub(crate) title: String,
}
