//! The actions as root on each host.

use crate::plan::{Engine, Privilege};

/// Those of a run, if it runs as root.
const RUN: [(&str, &str); 5] = [
    (
        "create memory cgroups, and remove them",
        "each trial has its own, with the limit of the scenario",
    ),
    (
        "turn on zram devices, zswap and swap files in /var/tmp, and turn them off",
        "the swap of the scenario, if it has any",
    ),
    (
        "write memory settings in /proc/sys/vm and /sys, and restore them",
        "the settings of the scenario, if it has any",
    ),
    ("load kernel modules, such as zram", "the swap of the scenario"),
    (
        "write the journal of these changes in /var/lib/plimsoll",
        "the next task undoes those of a killed one",
    ),
];

const SSH: (&str, &str) = (
    "create a folder for program and scenario, and remove it",
    "ssh as root, or as another user, who then runs the task",
);
const KUBERNETES: (&str, &str) = (
    "run a privileged container with the processes, the network, /dev and the cgroups of the node",
    "a container without privileges can make none of these changes",
);

pub(super) fn of(engine: &Engine) -> Vec<Privilege> {
    let own = match engine {
        Engine::Slurm { .. } => None,
        Engine::Ssh { .. } => Some(SSH),
        Engine::Kubernetes { .. } => Some(KUBERNETES),
    };
    let all = own.into_iter().chain(RUN);
    all.map(|(action, reason)| Privilege {
        action: action.to_owned(),
        reason: reason.to_owned(),
    })
    .collect()
}
