//! The check of userfaultfd, by which a program handles its own page faults.

use plimsoll_proc::sysctl;

use super::{About, Cause, Check, Group, Look, Outcome, State, USABLE, UffdAccess};

/// `UFFD_FEATURE_*` by bit, without the prefix (`<linux/userfaultfd.h>`).
const FEATURES: [&str; 17] = [
    "WP",
    "EVENT_FORK",
    "EVENT_REMAP",
    "EVENT_REMOVE",
    "MISSING_HUGETLBFS",
    "MISSING_SHMEM",
    "EVENT_UNMAP",
    "SIGBUS",
    "THREAD_ID",
    "MINOR_HUGETLBFS",
    "MINOR_SHMEM",
    "EXACT_ADDRESS",
    "WP_HUGETLBFS_SHMEM",
    "WP_UNPOPULATED",
    "POISON",
    "WP_ASYNC",
    "MOVE",
];
/// The features that a pager in user space needs; Linux 6.8 added the newest, MOVE.
const WANTED: [&str; 4] = ["WP", "POISON", "WP_ASYNC", "MOVE"];

pub(super) fn userfaultfd(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "userfaultfd",
        group: Group::Pager,
        title: "userfaultfd",
        lost: "a program cannot handle its own page faults: no pager in user space",
    };
    let own = &look.probes.userfaultfd;
    let setting = look
        .tree
        .read(sysctl::UNPRIVILEGED_USERFAULTFD)
        .unwrap_or_else(|| "?".to_owned());
    let names = own.api.map(|api| feature_names(api.features)).unwrap_or_default();
    let absent: Vec<&str> = WANTED
        .into_iter()
        .filter(|wanted| !names.iter().any(|name| name == wanted))
        .collect();
    let mut found = format!("this user: {}", ways(own));
    if let Some(other) = &look.probes.userfaultfd_unprivileged {
        found.push_str(&format!("; a user without privilege: {}", ways(other)));
    }
    found.push_str(&format!("; vm.unprivileged_userfaultfd {setting}"));
    if let Some(api) = own.api {
        // MISSING has no bit: every range that can be registered can be registered for missing pages.
        found.push_str(&format!(
            "; features {:#x}: MISSING {}",
            api.features,
            names.join(" ")
        ));
    }
    if own.api.is_some() && !absent.is_empty() {
        found.push_str(&format!("; lacks {}", absent.join(" ")));
    }
    let all_faults = own.full.is_ok() || own.device.is_ok();
    let state = match own.api {
        None => (State::Missing, Cause::NotPermitted),
        Some(_) if all_faults && absent.is_empty() => USABLE,
        Some(_) if !all_faults => (State::Limited, Cause::NotPermitted),
        Some(_) => (State::Limited, Cause::Incomplete),
    };
    let mut enable = "sudo sysctl vm.unprivileged_userfaultfd=1\n\
                      sudo setfacl -m u:$USER:rw /dev/userfaultfd   # for one user, Linux 6.1 or newer"
        .to_owned();
    if look.container.is_some() {
        enable.push_str("\ndocker run --security-opt seccomp=unconfined --device /dev/userfaultfd ...");
    }
    let unprivileged = look.probes.userfaultfd_unprivileged.as_ref().map(access);
    ABOUT
        .check(state, found, enable)
        .with("access", access(own))
        .with("unprivileged_access", unprivileged)
        .with("features", names)
        .with("lacks", absent)
}

/// The names of the set bits; `bitN` for one without a name.
fn feature_names(features: u64) -> Vec<String> {
    let set = (0..u64::BITS).filter(|bit| features & (1 << bit) != 0);
    set.map(|bit| match FEATURES.get(bit as usize) {
        Some(name) => (*name).to_owned(),
        None => format!("bit{bit}"),
    })
    .collect()
}

/// The faults that a user can handle.
fn access(access: &UffdAccess) -> &'static str {
    match (
        access.full.is_ok() || access.device.is_ok(),
        access.user_mode_only,
    ) {
        (true, _) => "all",
        (false, Ok(())) => "user-mode-only",
        (false, Err(_)) => "none",
    }
}

fn ways(access: &UffdAccess) -> String {
    let all = [
        ("system call", &access.full),
        ("/dev/userfaultfd", &access.device),
    ];
    let open: Vec<&str> = all
        .iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(way, _)| *way)
        .collect();
    let refusal = |outcome: &Outcome| outcome.err().map(|errno| errno.to_string()).unwrap_or_default();
    if !open.is_empty() {
        format!("all faults, by {}", open.join(" and "))
    } else if access.user_mode_only.is_ok() {
        format!("faults of user code only ({} for all)", refusal(&access.full))
    } else {
        format!("none ({})", refusal(&access.user_mode_only))
    }
}
