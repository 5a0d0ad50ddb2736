//! Short text for numbers.

pub(super) use plimsoll_model::quantity::short_bytes as bytes;

/// Bytes per second.
pub(super) fn rate(value: f64) -> String {
    format!("{}/s", bytes(value))
}

/// A number in at most six cells: `12`, `1.2k`, `34.0M`.
pub(super) fn count(value: f64) -> String {
    if value >= 999_500.0 {
        format!("{:.1}M", value / 1e6)
    } else if value >= 999.5 {
        format!("{:.1}k", value / 1e3)
    } else {
        format!("{value:.0}")
    }
}

/// Events per second.
pub(super) fn events(value: f64) -> String {
    format!("{}/s", count(value))
}

/// A percentage. Values between 0 and 0.5 are not shown as 0.
pub(super) fn percent(value: f64) -> String {
    if value > 0.0 && value < 0.95 {
        format!("{value:.1}%")
    } else {
        format!("{value:.0}%")
    }
}

/// Time of CPUs per time: 1.7 CPUs are 170% of one. The unit is written out, as a percentage would lack its base.
pub(super) fn cpus(value: f64) -> String {
    format!("{value:.2} CPUs")
}

/// A share of one CPU; for several threads that use more than one, the number of CPUs.
pub(super) fn share_of_cpu(percent: f64) -> String {
    if percent > 100.0 {
        cpus(percent / 100.0)
    } else {
        self::percent(percent)
    }
}

/// A duration: `40s`, `2m10s`, `3h05m`, `0.4s`.
pub(super) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 if (1..95_000_000).contains(&ns) => format!("{}ms", ns.div_ceil(1_000_000)),
        0 if ns > 0 => format!("{:.1}s", ns as f64 / 1e9),
        0..60 if !ns.is_multiple_of(1_000_000_000) => format!("{:.1}s", ns as f64 / 1e9),
        0..60 => format!("{seconds}s"),
        60..3600 if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ if seconds % 3600 < 60 => format!("{}h", seconds / 3600),
        _ => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
    }
}
