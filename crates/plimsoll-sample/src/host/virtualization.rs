//! Whether this is a guest, a container, or both.

use plimsoll_proc::{Tree, cgroup, cpus};

/// Hypervisor and container as far as they show: `kvm`, `xen, docker`, `none`.
pub fn virtualization(tree: &Tree) -> String {
    let layers: Vec<String> = hypervisor(tree)
        .into_iter()
        .chain(container(tree).map(|(name, _)| name))
        .collect();
    if layers.is_empty() {
        "none".to_owned()
    } else {
        layers.join(", ")
    }
}

/// The hypervisor that this machine is a guest of. The guest's clock source tells it without a privileged call.
pub fn hypervisor(tree: &Tree) -> Option<String> {
    if let Some(kind) = tree.read("sys/hypervisor/type") {
        return Some(kind);
    }
    let clocks = tree
        .read("sys/devices/system/clocksource/clocksource0/available_clocksource")
        .unwrap_or_default();
    let by_clock = [
        ("kvm-clock", "kvm"),
        ("hyperv", "hyperv"),
        ("vmware", "vmware"),
        ("xen", "xen"),
    ];
    if let Some((_, name)) = by_clock.iter().find(|(mark, _)| clocks.contains(mark)) {
        return Some((*name).to_owned());
    }
    let vendor = tree.read("sys/class/dmi/id/sys_vendor").unwrap_or_default();
    let by_vendor = [
        ("QEMU", "qemu"),
        ("VMware", "vmware"),
        ("innotek", "virtualbox"),
        ("Microsoft", "hyperv"),
        ("Xen", "xen"),
    ];
    if !cpus::has_hypervisor_flag(tree) {
        return None;
    }
    let named = by_vendor.iter().find(|(mark, _)| vendor.contains(mark));
    Some(named.map_or("unknown hypervisor", |(_, name)| name).to_owned())
}

/// The container that this process is in, and the mark that gives it away.
pub fn container(tree: &Tree) -> Option<(String, String)> {
    let found = |name: &str, mark: &str| Some((name.to_owned(), mark.to_owned()));
    if tree.exists("run/.containerenv") {
        return found("podman", "/run/.containerenv");
    }
    if tree.exists(".dockerenv") {
        return found("docker", "/.dockerenv");
    }
    if let Some(name) = tree.read("run/systemd/container") {
        return found(&name, "/run/systemd/container");
    }
    let paths = cgroup::paths(tree, 1);
    let marks = [("kubepods", "kubernetes"), ("/docker", "docker"), ("/lxc", "lxc")];
    let (mark, name) = marks
        .iter()
        .find(|(mark, _)| paths.iter().any(|path| path.contains(mark)))?;
    found(name, &format!("`{mark}` in /proc/1/cgroup"))
}
