//! The settings of hosts, and those in which a host differs from the majority of its class.

use std::collections::BTreeMap;

use plimsoll_model::quantity;
use plimsoll_model::sanitize::sanitize;

use crate::fingerprint::SwapDevice;

const KERNEL: &str = "kernel";
const PROGRAM: &str = "SHA-256 of the program";
const SWAP: &str = "swap devices";
const ALGORITHM: &str = "zram algorithm";
/// The value of an absent setting.
const ABSENT: &str = "none";

/// A setting in which a host differs from the majority of its class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingDifference {
    /// A path, or a name: `zram algorithm`.
    pub name: String,
    pub value: String,
    pub majority: String,
    /// Hosts of the class with the value of this one, itself included.
    pub hosts: usize,
}

impl std::fmt::Display for SettingDifference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} in place of {}", self.name, self.value, self.majority)
    }
}

/// The settings of a host by name: those of its fingerprint, its kernel, its program and its swap devices.
pub(super) fn of(
    values: &BTreeMap<String, String>,
    kernel: &str,
    swap: &[SwapDevice],
    binary: Option<&str>,
) -> BTreeMap<String, String> {
    let line = |text: &str| sanitize(text.trim()).into_owned();
    let mut settings: BTreeMap<String, String> = values
        .iter()
        .map(|(name, value)| (line(name), line(value)))
        .collect();
    let devices = swap.iter();
    let devices =
        devices.map(|device| format!("{} {}", line(&device.kind), quantity::bytes(device.bytes as f64)));
    let algorithms = swap.iter().filter_map(|device| device.algorithm.as_deref());
    let algorithms: Vec<String> = algorithms.map(line).collect();
    let named = [
        (KERNEL, line(kernel)),
        (PROGRAM, binary.map(line).unwrap_or_default()),
        (SWAP, devices.collect::<Vec<_>>().join(", ")),
        (ALGORITHM, algorithms.join(", ")),
    ];
    let known = named.into_iter().filter(|(_, value)| !value.is_empty());
    settings.extend(known.map(|(name, value)| (name.to_owned(), value)));
    settings
}

/// The value of each setting that more than half of these hosts have, and how many hosts have each value.
#[derive(Debug, Default)]
pub(super) struct Majority<'a> {
    settings: BTreeMap<&'a str, (&'a str, BTreeMap<&'a str, usize>)>,
}

impl<'a> Majority<'a> {
    pub(super) fn of(hosts: &[&'a BTreeMap<String, String>]) -> Majority<'a> {
        let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
        for (name, value) in hosts.iter().copied().flatten() {
            *counts.entry(name).or_default().entry(value).or_insert(0) += 1;
        }
        let mut settings = BTreeMap::new();
        for (name, mut counts) in counts {
            let absent = hosts.len() - counts.values().sum::<usize>();
            if absent > 0 {
                *counts.entry(ABSENT).or_insert(0) += absent;
            }
            let most = counts.iter().find(|(_, count)| *count * 2 > hosts.len());
            if let Some((value, _)) = most {
                settings.insert(name, (*value, counts));
            }
        }
        Majority { settings }
    }

    /// The values of the majority.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.settings.iter().map(|(name, (value, _))| (*name, *value))
    }

    /// The settings in which a host differs, the rarest values first, and swap before others.
    pub(super) fn differences(&self, host: &BTreeMap<String, String>) -> Vec<SettingDifference> {
        let mut found = Vec::new();
        for (name, (majority, counts)) in &self.settings {
            let value = host.get(*name).map_or(ABSENT, String::as_str);
            if value != *majority {
                found.push(SettingDifference {
                    name: (*name).to_owned(),
                    value: value.to_owned(),
                    majority: (*majority).to_owned(),
                    hosts: counts.get(value).copied().unwrap_or(1),
                });
            }
        }
        let of_swap = |difference: &SettingDifference| [SWAP, ALGORITHM].contains(&difference.name.as_str());
        found.sort_by_key(|one| (one.hosts, !of_swap(one), one.name.clone()));
        found
    }
}
