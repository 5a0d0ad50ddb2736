//! Quantities as text, with three significant digits and their unit.

/// Bytes with a binary unit: `256 MiB`, `1.21 GiB`, `0`.
pub fn bytes(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = value.abs();
    let mut unit = 0;
    // 999.5 rounds to four digits, so it belongs to the next unit.
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let sign = if value < 0.0 { "\u{2212}" } else { "" };
    format!("{sign}{} {}", significant(scaled), UNITS[unit])
}

/// Bytes with a sign on both sides of zero, for a change.
pub fn change_of_bytes(value: f64) -> String {
    if value > 0.0 {
        format!("+{}", bytes(value))
    } else {
        bytes(value)
    }
}

/// Seconds with a fitting unit: `1.24 s`, `310 ms`, `42 us`.
pub fn seconds(value: f64) -> String {
    if value == 0.0 {
        return "0 s".to_owned();
    }
    let (scaled, unit) = if value >= 0.9995 {
        (value, "s")
    } else if value >= 0.000_999_5 {
        (value * 1e3, "ms")
    } else {
        (value * 1e6, "\u{b5}s")
    };
    format!("{} {unit}", significant(scaled))
}

/// Three significant digits, without a decimal point from 100 on.
pub fn significant(value: f64) -> String {
    if !value.is_finite() {
        return "\u{2013}".to_owned();
    }
    let magnitude = value.abs();
    if magnitude >= 99.95 {
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

/// A metric by its name, whose ending is its unit (`_bytes`, `_gb_per_s`, `_ratio`, `_s`).
pub fn metric(name: &str, value: f64) -> String {
    if name.ends_with("_bytes") {
        bytes(value)
    } else if name.ends_with("_gb_per_s") {
        format!("{} GB/s", significant(value))
    } else if name.ends_with("_per_s") {
        format!("{}/s", significant(value))
    } else if name.ends_with("_percent") {
        format!("{}%", significant(value))
    } else if name.ends_with("_s") {
        seconds(value)
    } else if name.ends_with("_ratio") || name == "ratio" {
        format!("{}\u{d7}", significant(value))
    } else {
        significant(value)
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
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(7), "7");
        assert_eq!(count(1234567), "1\u{202f}234\u{202f}567");
    }
}
