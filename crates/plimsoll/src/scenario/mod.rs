//! What is asked: a scenario file in TOML becomes typed trials.
//!
//! `text -> Document (spans kept) -> Plan (sweeps expanded, sizes resolved against a Machine) -> TrialPlan`
//!
//! Invariant: nothing in here reads the system; the numbers of the machine come in through [`Machine`].

mod model;

pub use model::{
    FillClass, Machine, Order, ParseNameError, Plan, Settings, Subject, ThpMode, TrialPlan, TrimMechanism,
    Workload,
};
