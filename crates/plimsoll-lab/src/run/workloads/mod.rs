//! The workloads in the runner, one file or folder each: the course of a trial (`run`), the part that needs an environment
//! (`CONFINED`), and the requests to workers (`Requests`, the worker's side).

use super::context::TrialContext;
use super::trial_error::TrialError;
use crate::workload::Work;
use plimsoll_model::for_each_workload;
use plimsoll_model::scenario::{Workload, WorkloadKind};

macro_rules! workloads {
    ($($(#[$doc:meta])* $workload:ident($settings:ident) $module:ident $name:literal;)*) => {
        $(mod $module;)*

        pub(super) fn run(context: &mut TrialContext<'_, '_>, workload: &Workload) -> Result<(), TrialError> {
            match workload {
                $(Workload::$workload(settings) => $module::run(context, settings),)*
            }
        }

        /// The part of a workload that needs an environment.
        pub(super) fn confined(workload: &Workload) -> &'static str {
            match workload {
                $(Workload::$workload(_) => $module::CONFINED,)*
            }
        }

        pub(super) fn work(name: &str) -> Option<Box<dyn Work>> {
            match WorkloadKind::of_name(name)? {
                $(WorkloadKind::$workload => Some(Box::new(<$module::Requests>::default())),)*
            }
        }
    };
}

for_each_workload!(workloads);
