//! Pages of a run that never happened, with every feature that a page shows: phases that move memory, swap, faults,
//! pressure, a gap, a failed and an untrustworthy trial.

use std::collections::BTreeMap;
use std::path::PathBuf;

use plimsoll_model::recording::model::{
    Calibration, Confounder, Host, Manifest, Phase, Results, RunStatus, SamplerReport, SamplerSettings,
    Trial, TrialStatus,
};
use plimsoll_model::recording::{
    ConfigurationFile, Recommendation, RecommendationCode, Warning, WarningCode, Withheld, WithheldCode,
    Worth,
};
use plimsoll_model::scenario::{Order, Plan};
use plimsoll_report::analysis::gauges::Panel;
use plimsoll_report::analysis::groups;
use plimsoll_report::analysis::groups::{Dot, Group, Measured};
use plimsoll_report::analysis::statistics::summarise;
use plimsoll_report::{Mark, MemoryUse, Page, headlines};

use super::simulation::{MEM_TOTAL, MIB, Shape, Simulation};

fn memory_use(group: &Group, trials: &[Trial], size: f64) -> MemoryUse {
    let measure = |values: [&dyn Fn(&Trial) -> f64; 2]| {
        values.map(|value| {
            let of_group = trials
                .iter()
                .filter(|trial| group.trials.iter().any(|id| **id == *trial.id));
            let dots: Vec<Dot> = of_group
                .map(|trial| Dot {
                    trial: trial.id.as_str().into(),
                    value: value(trial),
                    status: trial.status,
                })
                .collect();
            let values: Vec<f64> = dots.iter().map(|dot| dot.value).collect();
            Some(Measured {
                summary: summarise(&values, 1)?,
                dots,
            })
        })
    };
    let nothing = |_: &Trial| 0.0;
    MemoryUse {
        working_set: measure([&|_| size, &|trial| 0.4 * MIB * f64::from(trial.repeat)]),
        compressed: measure([&nothing, &|trial| trial.metrics["stored_bytes"]]),
        swap_used: measure([&nothing, &|trial| size * (1.0 + f64::from(trial.repeat) / 200.0)]),
        page_cache: [None, None],
    }
}

/// A page of a run of this shape, all well.
pub(crate) fn page(shape: Shape) -> Page {
    let simulation = Simulation::new(shape);
    let trials: Vec<Trial> = (0..simulation.order.len())
        .map(|index| simulation.trial(index))
        .collect();
    let groups = groups(&trials);
    let memory = groups
        .iter()
        .map(|group| memory_use(group, &trials, shape.size))
        .collect();
    let results = results(trials);
    Page {
        headline: headlines::of_run(&results, &groups),
        manifest: manifest(&results.run),
        overview: simulation.timeline(None, shape.overview),
        trials: (0..simulation.order.len())
            .map(|index| simulation.timeline(Some(index), shape.detail))
            .collect(),
        marks: marks(&results.trials),
        memory,
        groups,
        results,
        service: None,
        hold: None,
    }
}

/// The phases of these trials as they are marked.
pub(super) fn marks(trials: &[Trial]) -> Vec<Mark> {
    let of_trial = |trial: &Trial| {
        let mark = |(index, phase): (usize, &Phase)| Mark {
            t: phase.span_ns.0 as f64 / 1e9,
            label: (index + 1).to_string(),
            name: phase.name.clone(),
            trial: Some(trial.id.clone()),
        };
        trial.phases.iter().enumerate().map(mark).collect::<Vec<Mark>>()
    };
    trials.iter().flat_map(of_trial).collect()
}

/// The same run with two recommendations and one withheld.
pub(crate) fn advised(shape: Shape) -> Page {
    let mut page = page(shape);
    let recommendation = |code, setting: &str, value: &str, text: &str| Recommendation {
        code,
        setting: setting.to_owned(),
        value: value.to_owned(),
        against: None,
        workload: "compression".to_owned(),
        conditions: BTreeMap::new(),
        basis: "stored_ratio".to_owned(),
        repeats: 6,
        worth: Worth {
            median: 1.16,
            low: 1.14,
            high: 1.18,
        },
        text: text.to_owned(),
        premises: vec![
            "Measured by compression with class ratio=2.5; `--set class=file=PATH` for others.".to_owned(),
        ],
        commands: vec!["device=$(sudo zramctl --find --algorithm lz4 --size 19000MiB)".to_owned()],
        persistent: Some(ConfigurationFile {
            path: "/etc/systemd/zram-generator.conf".to_owned(),
            lines: vec!["[zram0]".to_owned(), "zram-size = 19000".to_owned()],
        }),
    };
    page.results.recommendations = vec![
        recommendation(
            RecommendationCode::SwapSubject,
            "swap",
            "zram:lz4",
            "Swap to zram:lz4: its saving of RAM is 1.14 to 1.18 times that of zram:lzo-rle (6 repeats).",
        ),
        recommendation(
            RecommendationCode::ZramSize,
            "zram-size",
            "19922944000",
            "Size a zram:lz4 device at 18.6 GiB: once full, memory of 1.69 to 1.71 times the RAM fits (6 repeats).",
        ),
    ];
    page.results.withheld = vec![Withheld {
        code: WithheldCode::NotSeparated,
        setting: "vm.page-cluster".to_owned(),
        workload: "loadline".to_owned(),
        text: "No recommendation of vm.page-cluster: no value is certainly better than 3, the present one."
            .to_owned(),
    }];
    page
}

/// The same run with a failed and an untrustworthy trial, a confounder and warnings.
pub(crate) fn troubled(shape: Shape) -> Page {
    let mut page = page(shape);
    let trials = &mut page.results.trials;
    trials[1].status = TrialStatus::Failed;
    trials[1].verified = false;
    trials[1].reasons = vec!["12 bytes came back wrong, the first at offset 81920".to_owned()];
    trials[4].status = TrialStatus::Untrustworthy;
    trials[4].reasons = vec!["CPU steal of 12% while it ran".to_owned()];
    page.results.status = RunStatus::Failed;
    page.results.confounders = vec![
        Confounder {
            name: "damon".to_owned(),
            evidence: "DAMON paged out 38 MiB while the run went on.".to_owned(),
            spoils: Vec::new(),
            advice: "Turn its scheme off: `echo off > /sys/kernel/mm/damon/admin/kdamonds/0/state`"
                .to_owned(),
        },
        Confounder {
            name: "steal".to_owned(),
            evidence: "The hypervisor took 12% of the CPU time in one trial.".to_owned(),
            spoils: vec![trials[4].id.clone()],
            advice: "Run again when the host is quiet.".to_owned(),
        },
    ];
    page.results.warnings = vec![Warning::new(
        WarningCode::Other,
        "3 samples were late by more than half a period.",
    )];
    page.headline = headlines::of_run(&page.results, &page.groups);
    page
}

/// The same run where every text that a file or another program can choose tries to break out.
pub(crate) fn hostile(shape: Shape) -> Page {
    const ATTACK: &str =
        "</script><img src=x onerror=\"window.broken=1\"><svg onload='window.broken=1'>&\u{2028}'\"";
    let mut page = troubled(shape);
    let advised = advised(shape).results;
    (page.results.recommendations, page.results.withheld) = (advised.recommendations, advised.withheld);
    for one in &mut page.results.recommendations {
        one.text += ATTACK;
        one.premises.push(ATTACK.to_owned());
        one.commands.push(ATTACK.to_owned());
        one.persistent
            .iter_mut()
            .for_each(|file| file.lines.push(ATTACK.to_owned()));
        one.value += ATTACK;
    }
    page.results.withheld[0].text += ATTACK;
    page.manifest.host.hostname = ATTACK.to_owned();
    page.manifest
        .host
        .settings
        .insert(ATTACK.to_owned(), ATTACK.to_owned());
    page.manifest.command.push(ATTACK.to_owned());
    page.results.run = ATTACK.to_owned();
    page.results
        .warnings
        .push(Warning::new(WarningCode::Other, ATTACK));
    page.results.confounders[0].evidence = ATTACK.to_owned();
    page.results.trials[1].reasons = vec![ATTACK.to_owned()];
    let id = format!("zram/{ATTACK}#1");
    let old = std::mem::replace(&mut page.results.trials[0].id, id.clone());
    for group in &mut page.groups {
        group.label += ATTACK;
        group.params.insert("class".to_owned(), ATTACK.to_owned());
        for trial in group.trials.iter_mut().filter(|trial| ***trial == *old) {
            *trial = id.as_str().into();
        }
    }
    page.trials[0].trial = Some(id.clone());
    for mark in &mut page.marks {
        mark.name += ATTACK;
        if mark.trial.as_ref() == Some(&old) {
            mark.trial = Some(id.clone());
        }
    }
    for timeline in std::iter::once(&mut page.overview).chain(&mut page.trials) {
        let mut panels = timeline.panels.iter_mut();
        let (_, swap) = panels
            .find(|(panel, _)| *panel == Panel::Swap)
            .expect("a panel of swap");
        swap[0].label = ATTACK.to_owned();
        swap[0].key = ATTACK.to_owned();
    }
    page.headline = headlines::of_run(&page.results, &page.groups);
    page
}

pub(super) fn results(trials: Vec<Trial>) -> Results {
    Results {
        schema: 1,
        version: "0.1.0".to_owned(),
        run: "compression-20260102T030405Z-c0de".to_owned(),
        scenario: "compression".to_owned(),
        status: RunStatus::Ok,
        headline: Default::default(),
        findings: Vec::new(),
        recommendations: Vec::new(),
        withheld: Vec::new(),
        size: None,
        service: None,
        hold: None,
        calibration: Some(Calibration {
            memset_gb_per_s: 28.6,
            memcpy_gb_per_s: 11.3,
            fault_ns: 540.0,
            first_touch_gb_per_s: 1.9,
            random_access_ns: 153.0,
            timer_ns: 41.0,
            read_gb_per_s: 14.2,
        }),
        confounders: Vec::new(),
        warnings: Vec::new(),
        sampler: SamplerReport {
            hz: 10,
            samples: 361,
            late: 3,
            missed: 4,
            dropped: 0,
            cpu_s: 0.02,
            cpu_percent: 0.055,
            us_per_sample: 55.0,
        },
        trials,
    }
}

pub(super) fn manifest(run: &str) -> Manifest {
    Manifest {
        schema: 1,
        tool_version: "0.1.0".to_owned(),
        run: run.to_owned(),
        command: ["plimsoll", "run", "compression", "--quick"]
            .map(str::to_owned)
            .to_vec(),
        monotonic_start_ns: 0,
        started: "2026-01-02T03:04:05Z".to_owned(),
        plan: Plan {
            sections: Vec::new(),
            scenario: "compression".to_owned(),
            title: "Fill, trim, restore and release memory that compresses well, a little and not at all"
                .to_owned(),
            description: String::new(),
            seed: 1,
            quick: true,
            time_limit: Some(600.0),
            order: Order::Random,
            trials: Vec::new(),
            omitted: Vec::new(),
        },
        sampler: SamplerSettings {
            hz: 10,
            locked: Ok(()),
        },
        calibration: None,
        missing: Vec::new(),
        resumed: Vec::new(),
        checksums: BTreeMap::new(),
        swap_slots: vec!["/dev/zram1".to_owned()],
        host: Host {
            hostname: "lab".to_owned(),
            kernel: "6.18.0 #1 SMP PREEMPT_DYNAMIC".to_owned(),
            cpu: "Example CPU @ 2.5 GHz".to_owned(),
            cpus: 2,
            mem_total: MEM_TOTAL as u64,
            page_size: 4096,
            cgroup: "v1".to_owned(),
            swap_before: Vec::new(),
            virtualization: "kvm".to_owned(),
            settings: BTreeMap::from([
                ("/proc/sys/vm/swappiness".to_owned(), "60".to_owned()),
                (
                    "/sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
                    "always [madvise] never".to_owned(),
                ),
            ]),
        },
    }
}

/// Folder for pages that a test writes.
pub(crate) fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report");
    std::fs::create_dir_all(&folder).expect("the target folder takes new folders");
    folder
}
