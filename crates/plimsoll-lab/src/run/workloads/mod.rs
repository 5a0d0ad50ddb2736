//! The workloads in the runner, one file or folder each: the course of a trial, and its requests to workers.

mod command;
mod compression;
mod contention;
mod heap;
mod loadline;
mod map;
mod thrash;
mod wscap;

use super::context::TrialContext;
use super::trial_error::TrialError;
use crate::workload::{NoRequests, Work};
use plimsoll_model::scenario::Workload;

/// The list of the workloads: variant, module, the worker's side, and the part that needs an environment.
macro_rules! workloads {
    ($($workload:ident $module:ident $work:ty, $confined:literal;)*) => {
        pub(super) fn run(context: &mut TrialContext<'_, '_>, workload: &Workload) -> Result<(), TrialError> {
            match workload {
                $(Workload::$workload(settings) => $module::run(context, settings),)*
            }
        }

        /// The part of a workload that needs an environment.
        pub(super) fn confined(workload: &Workload) -> &'static str {
            match workload {
                $(Workload::$workload(_) => $confined,)*
            }
        }

        pub(super) fn work(name: &str) -> Option<Box<dyn Work>> {
            use plimsoll_model::scenario::WorkloadKind;
            match WorkloadKind::of_name(name)? {
                $(WorkloadKind::$workload => Some(Box::new(<$work>::default())),)*
            }
        }
    };
}

workloads! {
    Compression compression NoRequests, "trim";
    Thrash thrash thrash::Consumer, "thrash";
    Loadline loadline loadline::Visits, "loadline";
    Wscap wscap wscap::Scanner, "capped";
    Map map map::Steps, "map";
    Contention contention contention::Suspension, "contention";
    Heap heap heap::Load, "heap";
    Command command NoRequests, "command";
}
