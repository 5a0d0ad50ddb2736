//! Checks of the ways to trim, and of the settings by which the kernel chooses pages.

use super::{About, Cause, Check, Group, Look, State, USABLE, size};
use plimsoll_proc::cgroup::{CgroupVersion, RECLAIM};
use plimsoll_proc::lru_gen::LruGen;
use plimsoll_proc::sysctl;
use plimsoll_proc::transparent_huge_pages::TransparentHugePages;

use plimsoll_os::Errno;

pub(super) fn page_out(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "page-out",
        group: Group::Reclaim,
        title: "MADV_PAGEOUT",
        lost: "a worker cannot trim itself (trim = \"worker\"); trim = \"cgroup\" remains",
    };
    let enable = "# Linux 5.4 or newer; in a container: --security-opt seccomp=unconfined";
    match &look.probes.page_out {
        Ok(()) => ABOUT.check(USABLE, "madvise accepts it", enable),
        Err(errno) => ABOUT.check(
            (State::Missing, refusal(*errno)),
            format!("madvise refuses it: {errno}"),
            enable,
        ),
    }
}

pub(super) fn process_madvise(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "process-madvise",
        group: Group::Reclaim,
        title: "process_madvise",
        lost: "no process can trim another one (trim = \"process-madvise\"); trim = \"worker\" remains",
    };
    let enable = "# Linux 5.10 or newer with CONFIG_ADVISE_SYSCALLS; on other users' processes as root\n\
                  # in a container: --cap-add SYS_NICE --cap-add SYS_PTRACE --security-opt seccomp=unconfined";
    match &look.probes.process_madvise {
        Ok(()) => ABOUT.check(USABLE, "accepted for this process through a pidfd", enable),
        Err(errno @ Errno::NOSYS) => {
            ABOUT.check((State::Missing, refusal(*errno)), errno.to_string(), enable)
        }
        Err(errno) => ABOUT.check(
            (State::Limited, refusal(*errno)),
            format!("refused: {errno}"),
            enable,
        ),
    }
}

pub(super) fn cgroup_reclaim(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "cgroup-reclaim",
        group: Group::Reclaim,
        title: "cgroup reclaim",
        lost: "a run cannot trim a cgroup on demand (trim = \"cgroup\"); trim = \"worker\" remains",
    };
    match look
        .cgroup
        .as_ref()
        .map(|hierarchy| (hierarchy, hierarchy.version))
    {
        Some((hierarchy, CgroupVersion::V2)) => {
            let there = [&hierarchy.mount, &hierarchy.own];
            if there
                .iter()
                .any(|folder| look.group(hierarchy, folder).has(RECLAIM))
            {
                ABOUT.check(USABLE, "v2: memory.reclaim", "# Linux 5.19 or newer")
            } else {
                ABOUT.check(
                    (State::Missing, Cause::NotSupported),
                    "v2, but there is no memory.reclaim",
                    "# Linux 5.19 or newer",
                )
            }
        }
        Some((_, CgroupVersion::V1)) => ABOUT.check(
            USABLE,
            "v1: by a short decrease of memory.limit_in_bytes",
            "# kernel option for v2 and its memory.reclaim: systemd.unified_cgroup_hierarchy=1",
        ),
        None => ABOUT.check(
            (State::Missing, Cause::Depends),
            "there is no memory cgroup",
            "# see the check of the memory cgroup",
        ),
    }
}

/// Pages that the kernel reads for a fault on swap, by the logarithm in `vm.page-cluster`.
fn pages_per_fault(log: u64) -> u64 {
    u32::try_from(log)
        .ok()
        .and_then(|log| 1_u64.checked_shl(log))
        .unwrap_or(u64::MAX)
}

/// The cause of a refused call.
fn refusal(errno: Errno) -> Cause {
    match errno {
        Errno::PERM => Cause::NotPermitted,
        _ => Cause::NotSupported,
    }
}

pub(super) fn settings(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "reclaim-settings",
        group: Group::Reclaim,
        title: "reclaim settings",
        lost: "with swappiness 0 the kernel reclaims anonymous memory only just before an OOM kill",
    };
    let number = |name: &str| {
        let file = sysctl::file(&format!("vm/{name}"));
        look.tree.parse::<u64>(&file.to_string_lossy())
    };
    let shown = |name: &str| number(name).map_or("?".to_owned(), |value| value.to_string());
    let Some(swappiness) = number("swappiness") else {
        return ABOUT.check(
            (State::Unknown, Cause::Hidden),
            "this user cannot read /proc/sys/vm",
            "sudo sysctl vm.swappiness=60",
        );
    };
    let cluster = number("page-cluster").map_or("?".to_owned(), |log| {
        format!("{log} (reads up to {} pages a fault)", pages_per_fault(log))
    });
    let found = format!(
        "swappiness {swappiness}, page-cluster {cluster}, watermark_scale_factor {}, min_free {}, \
         overcommit_memory {}, vfs_cache_pressure {}, zone_reclaim_mode {}",
        shown("watermark_scale_factor"),
        number("min_free_kbytes").map_or("?".to_owned(), |kib| size(kib * 1024)),
        shown("overcommit_memory"),
        shown("vfs_cache_pressure"),
        shown("zone_reclaim_mode"),
    );
    let state = if swappiness == 0 {
        (State::Limited, Cause::Setting)
    } else {
        USABLE
    };
    ABOUT
        .check(state, found, "sudo sysctl vm.swappiness=60")
        .with("swappiness", swappiness)
        .with("page_cluster", number("page-cluster"))
        .with("pages_per_fault", number("page-cluster").map(pages_per_fault))
        .with(
            "min_free_bytes",
            number("min_free_kbytes").map(|kib| kib.saturating_mul(1024)),
        )
}

pub(super) fn generations(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "mglru",
        group: Group::Reclaim,
        title: "multi-generational LRU",
        lost: "reclaim uses the active and inactive lists only: no comparison with the multi-generational LRU",
    };
    let Some(lru) = LruGen::of(look.tree) else {
        return look.absent_from(
            "sys/kernel/mm",
            &ABOUT,
            "not built into this kernel",
            "# a kernel of 6.1 or newer with CONFIG_LRU_GEN=y",
        );
    };
    let ttl = lru.min_ttl_ms.map_or("?".to_owned(), |ms| ms.to_string());
    let (state, on) = if lru.is_on() {
        (USABLE, lru.parts().collect::<Vec<_>>().join(", "))
    } else {
        ((State::Limited, Cause::Setting), "off".to_owned())
    };
    ABOUT
        .check(
            state,
            format!("{:#06x}: {on}; min_ttl_ms {ttl}", lru.bits),
            "echo y | sudo tee /sys/kernel/mm/lru_gen/enabled",
        )
        .with("enabled_bits", lru.bits)
}

pub(super) fn huge_pages(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "thp",
        group: Group::Reclaim,
        title: "transparent huge pages",
        lost: "no comparison of huge with base pages; with `always` every fill uses huge pages: fewer faults, then splits",
    };
    let enable = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled";
    let Some(pages) = TransparentHugePages::of(look.tree) else {
        return look.absent_from(
            "sys/kernel/mm",
            &ABOUT,
            "not built into this kernel",
            "# build the kernel with CONFIG_TRANSPARENT_HUGEPAGE=y",
        );
    };
    let not_never: Vec<String> = pages
        .sizes
        .iter()
        .filter(|(_, mode)| *mode != "never")
        .map(|(kib, mode)| format!("{kib}kB {mode}"))
        .collect();
    let not_never = if not_never.is_empty() {
        "none".to_owned()
    } else {
        not_never.join(", ")
    };
    let found = format!(
        "mode {}, defrag {}, khugepaged defrag {}; {} sizes, on: {not_never}",
        pages.mode,
        pages.defrag.as_deref().unwrap_or("?"),
        pages.khugepaged_defrag.as_deref().unwrap_or("?"),
        pages.sizes.len()
    );
    let state = if pages.mode == "always" {
        (State::Limited, Cause::Setting)
    } else {
        USABLE
    };
    let sizes: serde_json::Map<String, serde_json::Value> = pages
        .sizes
        .into_iter()
        .map(|(kib, mode)| (kib.to_string(), mode.into()))
        .collect();
    ABOUT
        .check(state, found, enable)
        .with("mode", pages.mode)
        .with("sizes_kib", sizes)
}
