//! Checks of the memory cgroup, which confines pressure to a run, and of PSI, the source of the tripwire.

use std::path::Path;

use super::{About, Cause, Check, Group, Look, State, USABLE};
use plimsoll_proc::cgroup::{CgroupVersion, SUBTREE_CONTROL, controllers};
use plimsoll_proc::{boot, mounts, psi};

pub(super) fn cgroup(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "cgroup",
        group: Group::Confinement,
        title: "memory cgroup",
        lost: "a run cannot confine pressure, which would hit the whole machine: it only fills, restores and releases",
    };
    let Some(hierarchy) = &look.cgroup else {
        return no_cgroup(look, &ABOUT);
    };
    let version = hierarchy.version;
    let (top, group) = (
        look.group(hierarchy, &hierarchy.mount),
        look.group(hierarchy, &hierarchy.own),
    );
    let (mount, own) = (hierarchy.mount.display(), hierarchy.own.display());
    let tree = look.tree;
    let writable = |path: &Path| tree.writable_at(path);
    let delegated =
        writable(group.path()) && (version == CgroupVersion::V1 || writable(&group.file(SUBTREE_CONTROL)));
    let at_root = writable(top.path());
    let place = if at_root {
        format!("this user can create groups below {mount}")
    } else if delegated {
        format!("delegated: this user can create groups below {own}")
    } else {
        format!("this user can create groups neither in {mount} nor in {own}")
    };
    let detail = if version == CgroupVersion::V2 {
        format!("controllers {}", group.controllers().unwrap_or_default())
    } else if group.counts_memory_and_swap() {
        "memory controller with swap accounting".to_owned()
    } else {
        "memory controller without swap accounting (kernel option swapaccount=1)".to_owned()
    };
    let state = if at_root || delegated {
        USABLE
    } else {
        (State::Limited, Cause::NotPermitted)
    };
    let enable = match (&look.container, version) {
        (Some(_), _) => "docker run --privileged --cgroupns=host -v /sys/fs/cgroup:/sys/fs/cgroup ...",
        (None, CgroupVersion::V2) => {
            "sudo plimsoll run compression\n\
             systemd-run --user --scope -p Delegate=yes plimsoll run compression   # confined, without swap of its own"
        }
        (None, _) => "sudo plimsoll run compression",
    };
    let folder = match (at_root, delegated) {
        (true, _) => Some(mount.to_string()),
        (false, true) => Some(own.to_string()),
        (false, false) => None,
    };
    ABOUT
        .check(state, format!("{version}, {detail}; {place}"), enable)
        .with("version", version.to_string())
        .with("controllers", group.controllers())
        .with("swap_accounting", group.counts_memory_and_swap())
        .with("folder", folder)
}

fn no_cgroup(look: &Look, about: &About) -> Check {
    let memory = controllers::memory(look.tree);
    if memory.is_some_and(|controller| controller.disabled) {
        return about.check(
            (State::Missing, Cause::DisabledAtBoot),
            "a kernel option disabled the memory controller at boot",
            "# kernel option: cgroup_enable=memory",
        );
    }
    let hierarchy = memory.and_then(|controller| controller.hierarchy);
    let mounted = mounts::of(look.tree)
        .iter()
        .any(|mount| mount.kind.starts_with("cgroup"));
    match (memory, hierarchy) {
        (None, _) if controllers::is_known(look.tree) => about.check(
            (State::Missing, Cause::NotBuilt),
            "this kernel has no memory controller",
            "# build the kernel with CONFIG_MEMCG=y",
        ),
        (Some(_), _) if !mounted => about.check(
            (State::Missing, Cause::NotMounted),
            "the kernel has a memory controller, but no cgroup file system is mounted",
            "sudo mount -t cgroup2 none /sys/fs/cgroup",
        ),
        (Some(_), Some(0)) => about.check(
            (State::Missing, Cause::NotMounted),
            "the memory controller is unused, but the mounted hierarchy lacks it",
            "sudo mkdir -p /sys/fs/cgroup/memory && sudo mount -t cgroup -o memory none /sys/fs/cgroup/memory",
        ),
        (Some(_), _) => about.check(
            (State::Missing, Cause::NotMounted),
            "the memory controller's hierarchy is not mounted here",
            look.become_root(),
        ),
        (None, _) => about.check(
            (State::Missing, Cause::Hidden),
            "no memory controller is visible from here",
            look.become_root(),
        ),
    }
}

pub(super) fn pressure(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "psi",
        group: Group::Confinement,
        title: "pressure stalls (PSI)",
        lost: "no tripwire on memory pressure (the reserve alone protects the machine) and no PSI in the report",
    };
    if let Some(text) = look.tree.bytes(psi::MEMORY) {
        let pressure = psi::parse(&text);
        let found = format!(
            "memory, last 10 s: some {}%, full {}%",
            pressure.some.last_10_s.unwrap_or("?"),
            pressure.full.last_10_s.unwrap_or("?")
        );
        let percent = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
        return ABOUT
            .check(USABLE, found, "# kernel option: psi=1")
            .with("some_10_s_percent", percent(pressure.some.last_10_s))
            .with("full_10_s_percent", percent(pressure.full.last_10_s));
    }
    let (state, found, enable) = if look.tree.exists(psi::MEMORY) {
        (
            (State::Limited, Cause::NotPermitted),
            "this user cannot read /proc/pressure/memory",
            look.become_root(),
        )
    } else if boot::switch(look.tree, "psi") == Some(false) {
        (
            (State::Missing, Cause::DisabledAtBoot),
            "disabled by the kernel option psi=0",
            "# kernel option: psi=1",
        )
    } else if boot::is_built_without(look.tree, "CONFIG_PSI") {
        (
            (State::Missing, Cause::NotBuilt),
            "not built into this kernel",
            "# build the kernel with CONFIG_PSI=y",
        )
    } else {
        (
            (State::Missing, Cause::NotSupported),
            "no /proc/pressure: the kernel lacks CONFIG_PSI, or CONFIG_PSI_DEFAULT_DISABLED disables it",
            "# kernel option: psi=1\n# if that changes nothing: a kernel with CONFIG_PSI=y",
        )
    };
    ABOUT.check(state, found, enable)
}
