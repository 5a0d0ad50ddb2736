//! The tasks of a fleet: each host, or each place for a host, by repeat.

use std::collections::BTreeSet;

use crate::FleetError;
use crate::plan::{Engine, MOST_TASKS, Task};

/// Longest name of a host in an id.
const LONGEST_HOST: usize = 40;

/// All first repeats stand before the second ones, so that each host has a result early.
pub(super) fn of(engine: &Engine, hosts: u32, repeat: u32) -> Result<Vec<Task>, FleetError> {
    let place_count = match engine {
        Engine::Ssh { hosts } => hosts.len() as u64,
        Engine::Kubernetes { nodes, .. } if !nodes.is_empty() => nodes.len() as u64,
        Engine::Slurm { .. } | Engine::Kubernetes { .. } => u64::from(hosts),
    };
    let count = place_count * u64::from(repeat);
    if count > MOST_TASKS as u64 {
        return Err(FleetError::refused(
            format_args!("cannot plan {count} tasks: a fleet has at most {MOST_TASKS}"),
            "split it into several fleets",
        ));
    }
    // (id, host)
    let places: Vec<(String, Option<String>)> = match engine {
        Engine::Ssh { hosts } => {
            let names: Vec<(String, String)> = hosts
                .iter()
                .map(|host| {
                    let port = host.port.map(|port| format!("-{port}")).unwrap_or_default();
                    (format!("{}{port}", host.name()), host.address())
                })
                .collect();
            pinned(names.iter().map(|(name, host)| (name.as_str(), host.as_str())))
        }
        Engine::Kubernetes { nodes, .. } if !nodes.is_empty() => {
            pinned(nodes.iter().map(|node| (node.as_str(), node.as_str())))
        }
        Engine::Slurm { .. } | Engine::Kubernetes { .. } => {
            let digits = hosts.to_string().len();
            let number = |number: u32| (format!("t{number:0digits$}"), None);
            (1..=hosts).map(number).collect()
        }
    };
    let mut tasks = Vec::new();
    for number in 1..=repeat {
        for (place, host) in &places {
            let id = match repeat {
                1 => place.clone(),
                _ => format!("{place}.r{number}"),
            };
            let id = id.parse().map_err(|error| {
                FleetError::refused(
                    format_args!("cannot name a task `{id}`: {error}"),
                    "rename the host",
                )
            })?;
            tasks.push(Task {
                id,
                host: host.clone(),
                repeat: number,
            });
        }
    }
    Ok(tasks)
}

/// A distinct name for each host.
fn pinned<'h>(hosts: impl Iterator<Item = (&'h str, &'h str)>) -> Vec<(String, Option<String>)> {
    let mut taken = BTreeSet::new();
    hosts
        .map(|(name, host)| {
            let name = plain(name, LONGEST_HOST);
            let others = (2..).map(|number| format!("{name}-{number}"));
            let free = std::iter::once(name.clone())
                .chain(others)
                .find(|name| !taken.contains(name));
            let free = free.unwrap_or(name);
            taken.insert(free.clone());
            (free, Some(host.to_owned()))
        })
        .collect()
}

/// The text as part of a name: lowercase letters, digits and single dots, `_`, `-`, with a letter or digit at both ends.
pub(super) fn plain(text: &str, longest: usize) -> String {
    let mut name = String::new();
    for letter in text
        .chars()
        .map(|letter| letter.to_ascii_lowercase())
        .take(longest)
    {
        match letter {
            'a'..='z' | '0'..='9' | '_' => name.push(letter),
            '.' if !name.ends_with('.') => name.push('.'),
            _ => name.push('-'),
        }
    }
    let name = name.trim_matches(['.', '_', '-']);
    // The folder of attempts has this ending.
    match name {
        "" => "x".to_owned(),
        _ => name.replace(".attempts", "-attempts"),
    }
}
