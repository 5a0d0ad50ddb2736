//! What moves the numbers from outside. Here `available` means quiet.

use super::{About, Check, Group, Look, State, size};
use plimsoll_proc::{Tree, cpu_times, cpus, damon, loadavg};

/// Scheme actions that take pages away or make them the next to go.
const TRIMMING_ACTIONS: [&str; 3] = ["pageout", "cold", "lru_deprio"];

pub(super) fn damon(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "damon",
        group: Group::Confounders,
        title: "DAMON schemes",
        lost: "pages that rest for a while are trimmed by the kernel itself: memory levels fall that no phase touched",
    };
    let tree = look.tree;
    let mut running = Vec::new();
    let mut enable = Vec::new();
    let mut hidden = false;
    for kdamond in damon::kdamonds(tree) {
        match tree.read(&format!("{kdamond}/state")).as_deref() {
            Some("on") => {
                let number = kdamond.rsplit('/').next().unwrap_or_default();
                running.push((format!("kdamond {number}: "), schemes(tree, &kdamond)));
                enable.push(format!("echo off | sudo tee /{kdamond}/state"));
            }
            Some(_) => {}
            None => hidden = true,
        }
    }
    for module in damon::MODULES {
        let file = damon::module_switch(module);
        if tree.read(&file).as_deref() == Some("Y") {
            running.push((
                module.to_owned(),
                vec![Scheme {
                    text: String::new(),
                    trims: true,
                }],
            ));
            enable.push(format!("echo N | sudo tee /{file}"));
        }
    }
    if running.is_empty() && (hidden || kdamond_thread(tree)) {
        return ABOUT.says(
            State::Unknown,
            "a monitor exists, but its schemes may be read by root alone",
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
        (true, _) if tree.exists(damon::KDAMONDS) => {
            ABOUT.says(State::Available, "built in, none running", "")
        }
        (true, _) if tree.exists("sys/kernel/mm") => {
            ABOUT.says(State::Available, "not built into this kernel", "")
        }
        (true, _) => ABOUT.says(State::Unknown, "/sys/kernel/mm is hidden", "sudo plimsoll doctor"),
        (false, false) => ABOUT.says(State::Available, texts.join("; "), enable.join("\n")),
        (false, true) => ABOUT.says(State::Limited, texts.join("; "), enable.join("\n")),
    }
}

/// A kernel thread of DAMON's, which everybody may see.
fn kdamond_thread(tree: &Tree) -> bool {
    tree.list("proc").iter().any(|name| {
        name.bytes().all(|byte| byte.is_ascii_digit())
            && tree
                .read(&format!("proc/{name}/comm"))
                .is_some_and(|comm| comm.starts_with("kdamond"))
    })
}

struct Scheme {
    text: String,
    trims: bool,
}

fn schemes(tree: &Tree, kdamond: &str) -> Vec<Scheme> {
    let mut found = Vec::new();
    for context in damon::contexts(tree, kdamond) {
        let aggregation = tree.parse(&format!("{context}/monitoring_attrs/intervals/aggr_us"));
        for scheme in damon::schemes(tree, &context) {
            if let Some(action) = tree.read(&format!("{scheme}/action")) {
                let trims = TRIMMING_ACTIONS.contains(&action.as_str());
                let text = scheme_text(tree, &scheme, &action, aggregation);
                found.push(Scheme { text, trims });
            }
        }
    }
    if found.is_empty() {
        found.push(Scheme {
            text: "watches without a scheme".to_owned(),
            trims: false,
        });
    }
    found
}

/// `pageout of what rested 60 s, at most 128 MiB each 1000 ms, sparing anonymous memory`.
fn scheme_text(tree: &Tree, scheme: &str, action: &str, aggregation_us: Option<u64>) -> String {
    let number = |file: &str| tree.parse::<u64>(&format!("{scheme}/{file}"));
    let mut text = action.to_owned();
    if let (Some(age), Some(aggregation)) = (number("access_pattern/age/min"), aggregation_us) {
        text.push_str(&format!(
            " of what rested {:.1} s",
            (age * aggregation) as f64 / 1e6
        ));
    }
    if let (Some(bytes @ 1..), Some(interval)) = (number("quotas/bytes"), number("quotas/reset_interval_ms"))
    {
        text.push_str(&format!(", at most {} each {interval} ms", size(bytes)));
    }
    if spares_anonymous(tree, scheme) {
        text.push_str(", sparing anonymous memory");
    }
    text
}

/// Whether a filter keeps anonymous pages out: one that matches them and does not allow. Kernels before 6.14 have no
/// `allow`, and every filter of theirs keeps out what it matches.
fn spares_anonymous(tree: &Tree, scheme: &str) -> bool {
    damon::FILTERS.iter().any(|folder| {
        let folder = format!("{scheme}/{folder}");
        tree.list(&folder).iter().any(|filter| {
            let word = |file: &str| tree.read(&format!("{folder}/{filter}/{file}"));
            word("type").as_deref() == Some("anon")
                && word("matching").as_deref() == Some("Y")
                && word("allow").as_deref() != Some("Y")
        })
    })
}

pub(super) fn page_reporting(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "page-reporting",
        group: Group::Confounders,
        title: "free page reporting",
        lost: "memory that was freed is given to the host: the first touch after it costs the host's fault as well",
    };
    let tree = look.tree;
    let folder = "sys/module/page_reporting/parameters";
    let order = tree.read(&format!("{folder}/page_reporting_order"));
    let reported: Option<u64> = tree.parse(&format!("{folder}/reported_kib"));
    let balloon = tree
        .list("sys/bus/virtio/devices")
        .into_iter()
        .find(|device| reports_free_pages(tree, device));
    let order = order.map_or("no order set".to_owned(), |order| format!("order {order}"));
    let enable = "# on the host: take free-page-reporting=on off the guest's balloon (qemu), or its like";
    match (balloon, reported) {
        (_, Some(kib @ 1..)) => ABOUT.says(
            State::Limited,
            format!(
                "active, {order}, {} given to the host since boot",
                size(kib * 1024)
            ),
            enable,
        ),
        (Some(device), _) => ABOUT.says(
            State::Limited,
            format!("active through the balloon {device}, {order}"),
            enable,
        ),
        (None, None) if !tree.exists("sys/bus") => ABOUT.says(State::Unknown, "/sys/bus is hidden", enable),
        (None, _) => ABOUT.says(
            State::Available,
            format!("no device that reports ({order})"),
            enable,
        ),
    }
}

/// Whether it is a virtio balloon (device 5) whose driver agreed on `VIRTIO_BALLOON_F_REPORTING` (bit 5).
fn reports_free_pages(tree: &Tree, device: &str) -> bool {
    let file = |name: &str| tree.read(&format!("sys/bus/virtio/devices/{device}/{name}"));
    file("device").as_deref() == Some("0x0005")
        && file("features").is_some_and(|bits| bits.as_bytes().get(5) == Some(&b'1'))
}

pub(super) fn steal(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "load",
        group: Group::Confounders,
        title: "other load and steal",
        lost: "other programs, or neighbours on the host, take CPU while phases are timed",
    };
    let enable = "# stop other load before a run; a guest with steal needs CPUs of its own";
    let load = loadavg::last_minute(look.tree);
    let times = cpu_times::parse(&look.tree.bytes(cpu_times::PATH).unwrap_or_default());
    // What follows `STEAL` is contained in what stands before it.
    let total: i64 = times[..=cpu_times::at::STEAL].iter().flatten().sum();
    let (Some(load), Some(stolen), 1..) = (load, times[cpu_times::at::STEAL], total) else {
        return ABOUT.says(
            State::Unknown,
            "/proc/loadavg or /proc/stat may not be read",
            enable,
        );
    };
    let cpus = cpus::online(look.tree).max(1);
    let percent = 100.0 * stolen as f64 / total as f64;
    let busy = load > 0.5 * f64::from(cpus);
    let state = if busy || percent > 1.0 {
        State::Limited
    } else {
        State::Available
    };
    ABOUT.says(
        state,
        format!("load {load} on {cpus} CPUs, {percent:.1}% stolen since boot"),
        enable,
    )
}

pub(super) fn frequency(look: &Look) -> Check {
    const ABOUT: About = About {
        id: "cpu-frequency",
        group: Group::Confounders,
        title: "CPU frequency",
        lost: "the clock rises and falls with load and heat, and the timings with it",
    };
    let enable = "sudo cpupower frequency-set --governor performance";
    let governor = cpus::frequency_governor(look.tree);
    match governor.as_deref() {
        None => ABOUT.says(
            State::Unknown,
            "no governor to be seen: firmware or the host decides",
            enable,
        ),
        Some("performance") => ABOUT.says(State::Available, "governor performance", enable),
        Some(name) => ABOUT.says(State::Limited, format!("governor {name}"), enable),
    }
}
