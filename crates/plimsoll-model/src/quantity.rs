//! Quantities as text, with three significant digits and their unit; ratios of two quantities.

/// `numerator / denominator` where that is a finite number.
pub fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    let ratio = numerator / denominator;
    ratio.is_finite().then_some(ratio)
}

/// Gigabytes (1e9 bytes) a second; 0 if the time is too short to measure.
pub fn gb_per_s(bytes: u64, seconds: f64) -> f64 {
    ratio(bytes as f64 / 1e9, seconds).unwrap_or(0.0)
}

const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/// Bytes with a binary unit: `256 MiB`, `1.21 GiB`, `0`.
pub fn bytes(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (scaled, unit) = scaled(value);
    let sign = if value < 0.0 { "\u{2212}" } else { "" };
    format!("{sign}{} {}", significant(scaled), UNITS[unit])
}

/// Bytes in at most five cells: `0`, `512K`, `8.2G`, `24.0G`, `-1.5G`.
pub fn short_bytes(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let (scaled, unit) = scaled(value);
    let sign = if value < 0.0 { "-" } else { "" };
    let digits = usize::from(unit > 0 && scaled < 99.95);
    format!("{sign}{scaled:.digits$}{}", &UNITS[unit][..1])
}

/// CPU time per time, given in percent of one core: `23% of a core`, and `1.7 CPUs` for the time of several threads.
pub fn cpu_share(percent: f64, digits: usize) -> String {
    if percent > 100.0 {
        format!("{:.1} CPUs", percent / 100.0)
    } else {
        format!("{percent:.digits$}% of a core")
    }
}

/// The size of a number of bytes in the unit that fits, and the place of that in [`UNITS`].
fn scaled(value: f64) -> (f64, usize) {
    let mut scaled = value.abs();
    let mut unit = 0;
    // 999.5 rounds to four digits, so it belongs to the next unit.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    (scaled, unit)
}

/// Bytes with a sign on both sides of zero, for a change.
pub fn change_of_bytes(value: f64) -> String {
    if value > 0.0 {
        format!("+{}", bytes(value))
    } else {
        bytes(value)
    }
}

/// Seconds with a fitting unit: `1.24 s`, `310 ms`, `42.0 µs`, `85.0 ns`.
pub fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0 s".to_owned();
    }
    let size = value.abs();
    let (scaled, unit) = if size >= 0.9995 {
        (value, "s")
    } else if size >= 0.000_999_5 {
        (value * 1e3, "ms")
    } else if size >= 0.000_000_999_5 {
        (value * 1e6, "\u{b5}s")
    } else {
        (value * 1e9, "ns")
    };
    format!("{} {unit}", significant(scaled))
}

/// Three significant digits, without a decimal point from 100 on; as a power of ten where the zeros would hide them.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let magnitude = value.abs();
    if magnitude >= 1e12 || (magnitude > 0.0 && magnitude < 0.0005) {
        format!("{value:.2e}")
    } else if magnitude >= 99.95 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.09995 || magnitude == 0.0 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

/// A whole number with a thin gap every three digits.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 2);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// A number of things, whose noun takes an `s` in the plural: `1 trial`, `3 trials`, `12 000 trials`.
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", self::number(number as f64))
}

/// Things a second, in thousands, millions or milliards from 10 000 on: `850/s`, `12.3k/s`, `114M/s`.
fn rate(value: f64) -> String {
    // 9999.5 rounds to five digits.
    if value.abs() < 9999.5 {
        return format!("{}/s", significant(value));
    }
    let (scale, prefix) = [(1e9, "G"), (1e6, "M"), (1e3, "k")]
        .into_iter()
        .find(|(scale, _)| value.abs() >= scale * 0.9995)
        .unwrap_or((1e3, "k"));
    format!("{}{prefix}/s", significant(value / scale))
}

/// A number of things: whole ones in full, digits grouped from 10 000 on.
fn number(value: f64) -> String {
    // Above 2^53 a floating-point number no longer holds every whole one.
    if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
        return match value as u64 {
            few @ ..=9999 => few.to_string(),
            many => count(many),
        };
    }
    significant(value)
}

/// Ratios that are a share of a whole, not a factor, by the beginning of their names.
const SHARES: [&str; 9] = [
    "fairness_",
    "recovered_",
    "trimmed_",
    "distinct_pages_",
    "work_at_",
    "achieved_",
    // Speeds as shares of that of the undisturbed machine.
    "fill_to_",
    "trim_to_",
    "restore_to_",
];

/// Whether a metric is a ratio that reads as percent.
pub fn is_share(name: &str) -> bool {
    name.ends_with("_ratio") && SHARES.iter().any(|share| name.starts_with(share))
}

/// A metric by its name, whose ending is its unit (`_bytes`, `_gb_per_s`, `_per_s`, `_percent`, `_ratio`, `_s`).
pub fn metric(name: &str, value: f64) -> String {
    if name.ends_with("_bytes") {
        bytes(value)
    } else if is_share(name) {
        format!("{}%", significant(100.0 * value))
    } else if name.ends_with("_gb_per_s") {
        format!("{} GB/s", significant(value))
    } else if name.ends_with("_per_s") {
        rate(value)
    } else if name.ends_with("_percent") {
        format!("{}%", significant(value))
    } else if name.ends_with("_s") {
        seconds(value)
    } else if name.ends_with("_ratio") || name == "ratio" {
        format!("{}\u{d7}", significant(value))
    } else {
        number(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_three_digits_at_every_unit() {
        assert_eq!(bytes(0.0), "0");
        assert_eq!(bytes(1023.0), "1.00 KiB");
        assert_eq!(bytes(256.0 * 1048576.0), "256 MiB");
        assert_eq!(bytes(-1.5 * 1048576.0), "\u{2212}1.50 MiB");
        assert_eq!(bytes(24.0 * 1073741824.0), "24.0 GiB");
    }

    #[test]
    fn seconds_choose_their_unit() {
        assert_eq!(seconds(1.5), "1.50 s");
        assert_eq!(seconds(0.31), "310 ms");
        assert_eq!(seconds(0.000042), "42.0 \u{b5}s");
        assert_eq!(seconds(0.000000085), "85.0 ns");
        assert_eq!(seconds(-0.01), "-10.0 ms");
    }

    #[test]
    fn metrics_take_the_unit_of_their_name() {
        for (name, value, text) in [
            ("trim_gb_per_s", 0.5, "0.50 GB/s"),
            ("writes_per_s", 850.0, "850/s"),
            ("writes_per_s", 12_345.0, "12.3k/s"),
            ("writes_per_s", 999_600.0, "1.00M/s"),
            ("writes_per_s", 114e6, "114M/s"),
            ("slowdown_ratio", 250.0, "250\u{d7}"),
            ("fair_percent", 99.5, "99.5%"),
            ("starts", 25.0, "25"),
            ("pages", 262_144.0, "262\u{202f}144"),
            ("steps", 2.5, "2.50"),
        ] {
            assert_eq!(metric(name, value), text, "{name} {value}");
        }
    }

    #[test]
    fn digits_are_not_lost_among_zeros() {
        assert_eq!(significant(0.000012), "1.20e-5");
        assert_eq!(significant(1e13), "1.00e13");
        assert_eq!(significant(0.0), "0.00");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234567), "1\u{202f}234\u{202f}567");
    }
}
