//! Tests of the `scenario` room.

use plimsoll_model::scenario::{AllocatorSet, Document, Machine, Overrides, Plan, ScenarioError, Source};

mod commands;
mod errors;
mod loadlines;
mod plans;
mod properties;
mod workloads;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A machine as many are: 16 GiB, 12 of them available, no limit.
fn machine() -> Machine {
    Machine {
        ram: 16 * GIB,
        available: 12 * GIB,
        cgroup_limit: None,
        cpus: 4,
        allocators: AllocatorSet::default(),
    }
}

fn parse(text: &str) -> Result<Document, ScenarioError> {
    Document::parse(&Source::new("test.toml", text))
}

fn resolve(text: &str, overrides: &Overrides) -> Result<Plan, ScenarioError> {
    parse(text)?.resolve(&machine(), overrides)
}

/// The plan of a text that is right.
fn plan(text: &str) -> Plan {
    resolve(text, &Overrides::default()).unwrap()
}

fn sets(set: &[&str]) -> Overrides {
    Overrides {
        set: set.iter().map(|s| (*s).to_owned()).collect(),
        ..Overrides::default()
    }
}

fn quick() -> Overrides {
    Overrides {
        quick: true,
        ..Overrides::default()
    }
}

/// The error as a user sees it, without colour.
fn rendered(error: &ScenarioError) -> String {
    error.mistake().render(false)
}
