//! Checks of the machine and the user: memory, privileges, container or guest, disk.

use super::caller::{SYS_ADMIN, USED};
use super::{About, Cause, Check, Group, Look, State, USABLE, size};
use plimsoll_lab::environment::memory_reserve;
use plimsoll_proc::{meminfo, mounts};
use plimsoll_sample::host::hypervisor;

/// Memory below which a small experiment already disturbs the machine.
const LITTLE_MEMORY: u64 = 1 << 30;
/// Free disk space below which the swap file of an experiment may not fit.
const LITTLE_DISK: u64 = 4 << 30;
/// File systems on which `swapon` accepts a file.
const SWAP_FILE_SYSTEMS: &[&str] = &["ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs"];

pub(super) fn memory(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "memory",
        group: Group::Machine,
        title: "memory",
        lost: "scenarios shrink to the free memory, down to sizes at which fixed costs affect every metric",
    };
    let field = |key| meminfo::read(look.tree, key);
    let enable = "# more memory for the machine or the container: docker run --memory 8g ...";
    let (Some(total), Some(available)) = (field("MemTotal"), field("MemAvailable")) else {
        return ABOUT.check(
            (State::Unknown, Cause::Hidden),
            "this user cannot read /proc/meminfo",
            enable,
        );
    };
    let limit = own_limit(look).filter(|limit| *limit < total);
    let usable = limit.unwrap_or(total).min(available);
    let words = limit.map_or("no limit of its own cgroup".to_owned(), |limit| {
        format!("its cgroup limits it to {}", size(limit))
    });
    let state = if usable < LITTLE_MEMORY {
        (State::Limited, Cause::TooSmall)
    } else {
        USABLE
    };
    let found = format!(
        "{} RAM, {} available, of which a run leaves {} to others; {words}",
        size(total),
        size(available),
        size(memory_reserve(total))
    );
    ABOUT
        .check(state, found, enable)
        .with("ram_bytes", total)
        .with("available_bytes", available)
        .with("reserve_bytes", memory_reserve(total))
        .with("limit_bytes", limit)
}

/// The limit of the cgroup that this process is in, as a container sets it.
fn own_limit(look: &Look) -> Option<u64> {
    let hierarchy = look.cgroup.as_ref()?;
    look.group(hierarchy, &hierarchy.own).limit().ok()?
}

pub(super) fn privileges(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "privileges",
        group: Group::Machine,
        title: "privileges",
        lost: "a run cannot set up a swap device, and skips the phases that need one",
    };
    let caller = &look.caller;
    let (Some(uid), true) = (caller.uid, caller.capabilities_known()) else {
        return ABOUT.check(
            (State::Unknown, Cause::Hidden),
            "this user cannot read /proc/self/status",
            look.become_root(),
        );
    };
    let list = |wanted: bool| {
        let names: Vec<&str> = USED
            .iter()
            .filter(|cap| caller.has(**cap) == wanted)
            .map(|cap| cap.name)
            .collect();
        if names.is_empty() {
            "none".to_owned()
        } else {
            names.join(" ")
        }
    };
    let mut found = format!(
        "uid {uid}; has {}; lacks {}; seccomp {}",
        list(true),
        list(false),
        caller.seccomp
    );
    if caller.no_new_privileges {
        found.push_str("; no_new_privs is set, sudo does not work");
    }
    let all = USED.iter().all(|capability| caller.has(*capability));
    let state = match (caller.has(SYS_ADMIN), all) {
        (true, true) => USABLE,
        (true, false) => (State::Limited, Cause::NotPermitted),
        (false, _) => (State::Missing, Cause::NotPermitted),
    };
    let lacks: Vec<&str> = USED
        .iter()
        .filter(|cap| !caller.has(**cap))
        .map(|cap| cap.name)
        .collect();
    ABOUT
        .check(state, found, look.become_root())
        .with("uid", uid)
        .with("lacks", lacks)
}

pub(super) fn surroundings(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "surroundings",
        group: Group::Machine,
        title: "container or guest",
        lost: "other guests share CPUs and memory, and this one cannot see them: timings vary more",
    };
    let hypervisor = hypervisor(look.tree);
    let guest = match &hypervisor {
        Some(name) => format!("guest of {name}"),
        None => "no hypervisor seen".to_owned(),
    };
    let container = match &look.container {
        Some((name, mark)) => format!("container mark: {name} ({mark})"),
        None => "no container seen".to_owned(),
    };
    let state = match hypervisor {
        Some(_) => (State::Limited, Cause::Guest),
        None => USABLE,
    };
    ABOUT
        .check(
            state,
            format!("{guest}; {container}"),
            "# for absolute times measure on bare metal; ratios to the calibration hold in guests too",
        )
        .with("hypervisor", hypervisor)
        .with(
            "container",
            look.container.as_ref().map(|(name, _)| name.as_str()),
        )
}

pub(super) fn disk(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "disk",
        group: Group::Machine,
        title: "disk for swap files",
        lost: "the subjects swapfile and zswap cannot run: they have no place for a swap file",
    };
    let enable = "plimsoll run compression --set swap-dir=/a/folder/on/ext4/or/xfs";
    let Some(disk) = &look.probes.disk else {
        return ABOUT.check(
            (State::Unknown, Cause::Absent),
            "the folder for swap files does not exist",
            enable,
        );
    };
    let mounts = mounts::of(look.tree);
    // The longest mount point that contains the folder; of equal ones the last, which hides the others.
    let holds = |point: &str| {
        let rest = disk.folder.strip_prefix(point.trim_end_matches('/'));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let mount = mounts
        .iter()
        .filter(|mount| holds(&mount.point))
        .max_by_key(|mount| mount.point.len());
    let kind = mount.map_or("unknown", |mount| mount.kind.as_str());
    let found = format!(
        "{} is on {kind}, {} of {} free",
        disk.folder,
        size(disk.free),
        size(disk.size)
    );
    let state = match (SWAP_FILE_SYSTEMS.contains(&kind), disk.free >= LITTLE_DISK) {
        (true, true) => USABLE,
        (true, false) => (State::Limited, Cause::TooSmall),
        (false, _) if kind == "unknown" => (State::Unknown, Cause::Hidden),
        (false, _) => (State::Missing, Cause::FileSystem),
    };
    ABOUT
        .check(state, found, enable)
        .with("folder", disk.folder.as_str())
        .with("file_system", kind)
        .with("free_bytes", disk.free)
        .with("size_bytes", disk.size)
}
