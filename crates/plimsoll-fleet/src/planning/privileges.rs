//! The possible actions as root on each host.
//!
//! Invariant: every action of a task, and of the scripts of its engine on the host, is listed. Checked by
//! `every_host_path_of_a_pod_is_in_the_plan` and `each_engine_lists_its_own_actions`.

use crate::plan::{Engine, Privilege};

/// (action, reason)
type Action = (&'static str, &'static str);

/// Those of a task, if it runs as root.
const TASK: [Action; 7] = [
    (
        "run the program, and write its attempts and its result",
        "the task",
    ),
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
        "write the journal of these changes, and a lock, in /var/lib/plimsoll",
        "the next task undoes the changes of a killed one",
    ),
    (
        "undo the changes of killed tasks, of other fleets as well",
        "a change that stays would distort the measurement",
    ),
];

const SLURM: [Action; 3] = [
    (
        "run job.sbatch, and write logs into the folder of the fleet",
        "Slurm runs a task as the user who submits it",
    ),
    (
        "start a failed task again with `scontrol requeue`",
        "up to --retries times",
    ),
    (
        "cancel the waiting tasks with `scancel`",
        "--stop-after tasks have failed",
    ),
];

const SSH: [Action; 4] = [
    (
        "create a temporary folder in /var/tmp for program and scenario, and remove it",
        "ssh has no shared folder",
    ),
    (
        "run ssh-host.sh, which checks the files, starts the task and packs its result",
        "nothing is installed on the host",
    ),
    (
        "send SIGTERM to a task, and SIGKILL after 30 s",
        "`fleet cancel` ends the tasks",
    ),
    (
        "run `plimsoll cleanup` after a SIGKILL, for all killed runs on the host",
        "the killed task cannot undo its changes",
    ),
];

const KUBERNETES: [Action; 4] = [
    (
        "run a privileged container with the processes and the network of the node",
        "a container without privileges can make none of these changes",
    ),
    (
        "mount /dev, /sys/fs/cgroup and /lib/modules (read-only) of the node",
        "zram devices, cgroups and the module zram",
    ),
    (
        "mount /var/lib/plimsoll and /var/tmp of the node",
        "the journal and the swap files",
    ),
    (
        "run `chmod go-w` and `tar` on the volume, in a pod without capabilities (files.yaml)",
        "submit.sh and fetch.sh copy files through it; a task refuses a folder that others can write to",
    ),
];

pub(super) fn of(engine: &Engine) -> Vec<Privilege> {
    let own: &[Action] = match engine {
        Engine::Slurm { .. } => &SLURM,
        Engine::Ssh { .. } => &SSH,
        Engine::Kubernetes { .. } => &KUBERNETES,
    };
    let all = own.iter().chain(&TASK);
    all.map(|(action, reason)| Privilege {
        action: (*action).to_owned(),
        reason: (*reason).to_owned(),
    })
    .collect()
}
