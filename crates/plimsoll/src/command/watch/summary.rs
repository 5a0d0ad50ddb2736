//! The summary of a watch as text.

use plimsoll_model::quantity::{bytes, count, cpu_share, seconds};
use plimsoll_monitor::watch::{FaultTime, ProgramSummary, Summary};

const NAMES: usize = 18;

/// One value a line.
pub(super) fn text(summary: &Summary) -> String {
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("{name:<NAMES$} {value}\n"));
    };
    match &summary.program {
        Some(program) => line("watched", format!("{}, {}", program.title, how_it_ended(program))),
        None => line("watched", summary.title.clone()),
    }
    line(
        "time",
        format!("{}, {} samples", seconds(summary.seconds), count(summary.samples)),
    );
    let level = |bytes_of: Option<i64>| bytes_of.map_or("unknown".to_owned(), |value| bytes(value as f64));
    if let Some(target) = &summary.target {
        let mut peak = format!("peak {}, as sampled", level(target.peak_resident_bytes));
        if let Some(most) = summary
            .program
            .as_ref()
            .and_then(|program| program.max_resident_bytes)
        {
            peak.push_str(&format!("; {} in one process, by the kernel", bytes(most as f64)));
        }
        line("working set", peak);
        line("swapped out", format!("peak {}", level(target.peak_swap_bytes)));
        if target.peak_cgroup_bytes.is_some() {
            line("cgroup", format!("peak {}", level(target.peak_cgroup_bytes)));
        }
        if summary.program.is_none() {
            let faults = |number: i64| count(u64::try_from(number).unwrap_or(0));
            line(
                "faults",
                format!(
                    "{} minor, {} major seen",
                    faults(target.minor_faults),
                    faults(target.major_faults)
                ),
            );
        }
    }
    if let Some(program) = &summary.program {
        line(
            "faults",
            format!(
                "{} minor, {} major",
                count(program.minor_faults),
                count(program.major_faults)
            ),
        );
        line("time in fault", fault_time(&program.fault_time));
        line(
            "CPU",
            format!(
                "{} user, {} system",
                seconds(program.cpu_user_s),
                seconds(program.cpu_system_s)
            ),
        );
    }
    machine(summary, &mut line);
    let sampler = &summary.monitor.sampler;
    line(
        "monitor",
        format!(
            "{}; {} late, {} missed, {} lost",
            cpu_share(summary.monitor.cpu_percent, 2),
            sampler.late,
            sampler.missed,
            sampler.dropped
        ),
    );
    for note in &summary.notes {
        line("note", note.clone());
    }
    if let Some(folder) = &summary.recording {
        line("recording", folder.display().to_string());
    }
    if let Some(page) = &summary.page {
        line("report", page.display().to_string());
    }
    text
}

fn machine(summary: &Summary, line: &mut impl FnMut(&str, String)) {
    let machine = &summary.machine;
    let amount = |value: Option<u64>| value.map_or("unknown".to_owned(), |value| bytes(value as f64));
    line(
        "machine's swap",
        format!(
            "{} in, {} out",
            amount(machine.swap_in_bytes),
            amount(machine.swap_out_bytes)
        ),
    );
    let share = |value: Option<f64>| match value {
        Some(value) if summary.seconds > 0.0 => {
            format!("{} ({:.1}%)", seconds(value), 100.0 * value / summary.seconds)
        }
        Some(value) => seconds(value),
        None => "unknown".to_owned(),
    };
    line(
        "memory pressure",
        format!(
            "some {}, full {}",
            share(machine.memory_some_s),
            share(machine.memory_full_s)
        ),
    );
    line(
        "I/O pressure",
        format!(
            "some {}, full {}",
            share(machine.io_some_s),
            share(machine.io_full_s)
        ),
    );
}

fn how_it_ended(program: &ProgramSummary) -> String {
    match (program.exit_code, program.signal) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn fault_time(time: &FaultTime) -> String {
    match time {
        FaultTime::Measured {
            at_least_s,
            swap_in_s,
            thrashing_s,
            reclaim_s,
            compaction_s,
            copy_s,
        } => format!(
            "at least {}: swap-in {}, of recently reclaimed pages {}; reclaim {}, compaction {}, copying {}",
            seconds(*at_least_s),
            seconds(*swap_in_s),
            seconds(*thrashing_s),
            seconds(*reclaim_s),
            seconds(*compaction_s),
            seconds(*copy_s)
        ),
        FaultTime::Unknown { reason, cpu_system_s } => format!(
            "unknown ({reason}); system CPU time, which includes decompression, {}",
            seconds(*cpu_system_s)
        ),
    }
}
