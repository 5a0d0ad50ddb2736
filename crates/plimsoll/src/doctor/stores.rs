//! Checks of the destinations of trimmed pages: zram, zswap, swap devices.

use super::caller::SYS_ADMIN;
use super::{About, Cause, Check, Group, Look, State, USABLE, size};
use plimsoll_proc::swaps;
use plimsoll_proc::zram::{CONTROL, HOT_ADD, Zram, devices_of};
use plimsoll_proc::zswap::{Parameter, Zswap};

pub(super) fn zram(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "zram",
        group: Group::Stores,
        title: "zram",
        lost: "no compressed swap in RAM: the subject zram cannot run; scenarios use a swap file in place of a default zram",
    };
    let tree = look.tree;
    let devices: Vec<Zram> = devices_of(tree)
        .into_iter()
        .map(|id| Zram::of_tree(tree, id))
        .collect();
    let control = tree.exists(CONTROL);
    if devices.is_empty() && !control {
        return if look.module_on_disk("zram") {
            ABOUT.check(
                (State::Limited, Cause::NotLoaded),
                "module on disk, not loaded",
                "sudo modprobe zram",
            )
        } else {
            ABOUT.check(
                (State::Missing, Cause::NotBuilt),
                "not loaded, and this kernel has no zram module on disk",
                "sudo modprobe zram   # on the host, if this is a container\n\
                 # without the module: install the distribution's extra kernel modules, or CONFIG_ZRAM=m",
            )
        };
    }
    let is_free = |device: &&Zram| device.is_configured() == Some(false);
    let (free, used): (Vec<&Zram>, Vec<&Zram>) = devices.iter().partition(is_free);
    let hot_add = control && tree.readable(HOT_ADD);
    let usable_device = free
        .iter()
        .any(|device| tree.writable_at(&device.file("disksize")) && tree.writable_at(device.node()));
    let algorithms = devices.iter().find_map(|device| device.algorithms().ok());
    let in_use: Vec<String> = used.into_iter().map(zram_use).collect();
    let free = free.len();
    let mut found = format!(
        "{} device(s), {free} free; hot_add {}; algorithms {}",
        devices.len(),
        if hot_add { "yes" } else { "no" },
        algorithms.as_deref().unwrap_or("unknown without a device"),
    );
    if !in_use.is_empty() {
        found.push_str(&format!("; in use: {}", in_use.join(", ")));
    }
    let usable = look.caller.has(SYS_ADMIN) && (hot_add || usable_device);
    let state = match (usable, look.caller.has(SYS_ADMIN)) {
        (true, _) => USABLE,
        (false, false) => (State::Limited, Cause::NotPermitted),
        // No device is free, and none can be added.
        (false, true) => (State::Limited, Cause::Absent),
    };
    ABOUT
        .check(
            state,
            found,
            format!("sudo modprobe zram\n{}", look.become_root()),
        )
        .with("devices_count", devices.len())
        .with("free_count", free)
        .with("hot_add", hot_add)
        .with("algorithms", algorithms)
        .with("in_use", in_use)
}

/// `zram0 (4 GiB, holds 1.2 GiB in 0.4 GiB)`, the first three fields of `mm_stat`.
fn zram_use(device: &Zram) -> String {
    let name = device.name();
    let disk_size = device.size().map_or("?".to_owned(), size);
    match device.memory() {
        Some(memory) => format!(
            "{name} ({disk_size}, holds {} in {})",
            size(memory.original),
            size(memory.used)
        ),
        None => format!("{name} ({disk_size})"),
    }
}

pub(super) fn zswap(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "zswap",
        group: Group::Stores,
        title: "zswap",
        lost: "no compressed cache in front of a swap file: the subject zswap cannot run",
    };
    let Some(zswap) = Zswap::read(look.tree) else {
        return look.absent_from(
            "sys/module",
            &ABOUT,
            "not built into this kernel",
            "# build the kernel with CONFIG_ZSWAP=y",
        );
    };
    let shown = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
    let pool = zswap.zpool.map_or(String::new(), |pool| format!(", pool {pool}"));
    let on = zswap.enabled == Some(true);
    let switch = if on {
        "on: it caches pages before every swap device, zram too"
    } else {
        "off"
    };
    let found = format!(
        "{switch}; compressor {}{pool}, at most {}% of RAM, shrinker {}",
        shown(zswap.compressor.clone()),
        shown(zswap.max_pool_percent.map(|percent| percent.to_string())),
        shown(
            zswap
                .shrinker_enabled
                .map(|on| if on { "Y" } else { "N" }.to_owned())
        ),
    );
    let writable = look.tree.writable(&Parameter::Enabled.file().to_string_lossy());
    let state = if writable {
        USABLE
    } else {
        (State::Limited, Cause::NotPermitted)
    };
    let enable = if writable {
        "# a run switches it; by hand: echo 1 | sudo tee /sys/module/zswap/parameters/enabled"
    } else {
        look.become_root()
    };
    ABOUT
        .check(state, found, enable)
        .with("enabled", on)
        .with("compressor", zswap.compressor)
}

pub(super) fn swap(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "swap",
        group: Group::Stores,
        title: "swap devices",
        lost: "anonymous memory cannot leave RAM: a trim has no effect on it",
    };
    if !look.tree.exists(swaps::PATH) {
        return ABOUT.check(
            (State::Missing, Cause::NotSupported),
            "no /proc/swaps: this kernel lacks CONFIG_SWAP, or the file is hidden",
            "# build the kernel with CONFIG_SWAP=y",
        );
    }
    let devices = swaps::of(look.tree);
    let lines: Vec<String> = devices
        .iter()
        .map(|swap| {
            format!(
                "{} ({}, {} used, priority {})",
                swap.path.display(),
                size(swap.size),
                size(swap.used),
                swap.priority
            )
        })
        .collect();
    let now = if lines.is_empty() {
        "none in use".to_owned()
    } else {
        lines.join(", ")
    };
    let can_add = look.caller.has(SYS_ADMIN);
    let found = format!(
        "{now}; this user may {}add swap",
        if can_add { "" } else { "not " }
    );
    let state = match (can_add, devices.is_empty()) {
        (true, _) => USABLE,
        (false, false) => (State::Limited, Cause::NotPermitted),
        (false, true) => (State::Missing, Cause::NotPermitted),
    };
    ABOUT
        .check(state, found, look.become_root())
        .with("devices_count", devices.len())
        .with("can_add", can_add)
}
