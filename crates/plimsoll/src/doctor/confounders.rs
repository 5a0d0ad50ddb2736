//! Checks of disturbances from outside a run. Here `available` means that the disturbance is absent.

use super::{About, Cause, Check, Group, Look, State, USABLE, size};
use plimsoll_proc::{Tree, cpu_times, cpus, damon, loadavg, page_reporting};

/// Scheme actions that reclaim pages, or move them to the end of the LRU lists.
const TRIMMING_ACTIONS: [&str; 3] = ["pageout", "cold", "lru_deprio"];

pub(super) fn damon(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "damon",
        group: Group::Confounders,
        title: "DAMON schemes",
        lost: "the kernel reclaims idle pages by itself: memory levels fall outside of the trim phases",
    };
    let tree = look.tree;
    let mut running = Vec::new();
    let mut enable = Vec::new();
    let mut hidden = false;
    for kdamond in damon::kdamonds(tree) {
        match damon::is_on(tree, &kdamond) {
            Some(true) => {
                let number = kdamond.rsplit('/').next().unwrap_or_default();
                running.push((format!("kdamond {number}: "), schemes(tree, &kdamond)));
                enable.push(format!("echo off | sudo tee /{}", damon::switch(&kdamond)));
            }
            Some(false) => {}
            None => hidden = true,
        }
    }
    for module in damon::MODULES {
        if damon::is_module_on(tree, module) {
            running.push((
                module.to_owned(),
                vec![Scheme {
                    text: String::new(),
                    trims: true,
                }],
            ));
            enable.push(format!("echo N | sudo tee /{}", damon::module_switch(module)));
        }
    }
    if running.is_empty() && (hidden || damon::has_thread(tree)) {
        return ABOUT.check(
            (State::Unknown, Cause::NotPermitted),
            "DAMON runs, but only root can read its schemes",
            "sudo plimsoll doctor",
        );
    }
    let texts: Vec<String> = running
        .iter()
        .map(|(name, schemes)| {
            let texts: Vec<&str> = schemes.iter().map(|scheme| scheme.text.as_str()).collect();
            format!("{name}{}", texts.join("; "))
        })
        .collect();
    let trims = running
        .iter()
        .any(|(_, schemes)| schemes.iter().any(|scheme| scheme.trims));
    match (running.is_empty(), trims) {
        (true, _) if tree.exists(damon::KDAMONDS) => ABOUT.check(USABLE, "built in, none running", ""),
        (true, _) if tree.exists("sys/kernel/mm") => ABOUT.check(USABLE, "not built into this kernel", ""),
        (true, _) => ABOUT.check(
            (State::Unknown, Cause::Hidden),
            "/sys/kernel/mm is hidden",
            "sudo plimsoll doctor",
        ),
        (false, false) => ABOUT.check(USABLE, texts.join("; "), enable.join("\n")),
        (false, true) => ABOUT.check(
            (State::Limited, Cause::Active),
            texts.join("; "),
            enable.join("\n"),
        ),
    }
}

struct Scheme {
    text: String,
    trims: bool,
}

fn schemes(tree: &Tree, kdamond: &str) -> Vec<Scheme> {
    let mut found = Vec::new();
    for context in damon::contexts(tree, kdamond) {
        let schemes = damon::schemes(tree, &context).into_iter();
        found.extend(
            schemes
                .filter_map(|folder| damon::Scheme::read(tree, &context, &folder))
                .map(|scheme| Scheme {
                    trims: TRIMMING_ACTIONS.contains(&scheme.action.as_str()),
                    text: scheme_text(&scheme),
                }),
        );
    }
    if found.is_empty() {
        found.push(Scheme {
            text: "monitors without a scheme".to_owned(),
            trims: false,
        });
    }
    found
}

/// `pageout of pages idle for 60.0 s, at most 128 MiB each 1000 ms, without anonymous memory`.
fn scheme_text(scheme: &damon::Scheme) -> String {
    let mut text = scheme.action.clone();
    if let Some(idle) = scheme.idle_us {
        text.push_str(&format!(" of pages idle for {:.1} s", idle as f64 / 1e6));
    }
    if let Some((bytes, interval)) = scheme.quota {
        text.push_str(&format!(", at most {} each {interval} ms", size(bytes)));
    }
    if scheme.excludes_anonymous {
        text.push_str(", without anonymous memory");
    }
    text
}

pub(super) fn page_reporting(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "page-reporting",
        group: Group::Confounders,
        title: "free page reporting",
        lost: "the guest reports free pages to the host: the next touch of such a page also costs a fault of the host",
    };
    let tree = look.tree;
    let order =
        page_reporting::order(tree).map_or("no order set".to_owned(), |order| format!("order {order}"));
    let enable = "# on the host: remove free-page-reporting=on from the guest's balloon device (qemu)";
    match (
        page_reporting::balloon(tree),
        page_reporting::reported_bytes(tree),
    ) {
        (_, Some(bytes @ 1..)) => ABOUT.check(
            (State::Limited, Cause::Active),
            format!("active, {order}, {} reported to the host since boot", size(bytes)),
            enable,
        ),
        (Some(device), _) => ABOUT.check(
            (State::Limited, Cause::Active),
            format!("active through the balloon {device}, {order}"),
            enable,
        ),
        (None, None) if !tree.exists("sys/bus") => {
            ABOUT.check((State::Unknown, Cause::Hidden), "/sys/bus is hidden", enable)
        }
        (None, _) => ABOUT.check(USABLE, format!("no device reports free pages ({order})"), enable),
    }
}

pub(super) fn steal(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "load",
        group: Group::Confounders,
        title: "other load and steal",
        lost: "other programs, or other guests of the host, take CPU time during timed phases",
    };
    let enable = "# stop other load before a run; a guest with steal needs CPUs of its own";
    let load = loadavg::last_minute(look.tree);
    let times = cpu_times::parse(&look.tree.bytes(cpu_times::PATH).unwrap_or_default());
    // `user` and `nice` contain the fields after `STEAL`.
    let total: i64 = times[..=cpu_times::at::STEAL].iter().flatten().sum();
    let (Some(load), Some(stolen), 1..) = (load, times[cpu_times::at::STEAL], total) else {
        return ABOUT.check(
            (State::Unknown, Cause::Hidden),
            "this user cannot read /proc/loadavg or /proc/stat",
            enable,
        );
    };
    let cpus = cpus::online(look.tree).max(1);
    let percent = 100.0 * stolen as f64 / total as f64;
    let busy = load > 0.5 * f64::from(cpus);
    let state = if busy || percent > 1.0 {
        (State::Limited, Cause::Active)
    } else {
        USABLE
    };
    ABOUT
        .check(
            state,
            format!("load {load} on {cpus} CPUs, {percent:.1}% stolen since boot"),
            enable,
        )
        .with("load", load)
        .with("cpus_count", cpus)
        .with("stolen_percent", percent)
}

pub(super) fn frequency(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "cpu-frequency",
        group: Group::Confounders,
        title: "CPU frequency",
        lost: "the clock rate changes with load and temperature, and timings change with it",
    };
    let enable = "sudo cpupower frequency-set --governor performance";
    let governor = cpus::frequency_governor(look.tree);
    match governor.as_deref() {
        None => ABOUT.check(
            (State::Unknown, Cause::Absent),
            "no governor is visible: the firmware or the host sets the clock rate",
            enable,
        ),
        Some("performance") => ABOUT.check(USABLE, "governor performance", enable),
        Some(name) => ABOUT.check(
            (State::Limited, Cause::Active),
            format!("governor {name}"),
            enable,
        ),
    }
}
