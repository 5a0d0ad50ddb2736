//! The options of `plimsoll size` for a running service, and the parsers of their values.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::LONGEST;

/// The options of `plimsoll size` for a running service.
#[derive(Debug, Clone, Args)]
#[command(group = clap::ArgGroup::new("service").required(true).args(["cgroup", "pid"]))]
pub struct SizeService {
    /// Size the service in this memory cgroup: a path below the mount, or its folder
    #[arg(short, long, value_name = "PATH")]
    pub cgroup: Option<PathBuf>,
    /// Size the service in the cgroup of this process
    #[arg(short, long, value_name = "PID")]
    pub pid: Option<u32>,
    /// Lower the cap until tasks stall for memory in this share of the time
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = percent, requires = "service")]
    pub psi: f64,
    /// Size for this time: seconds, or a number with s, m, h or d; more time lowers the cap more slowly
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = time, requires = "service")]
    pub duration: Duration,
    /// Never set the cap below this, for instance 512M
    #[arg(long, value_name = "BYTES", requires = "service")]
    pub floor: Option<String>,
}

/// An option has an invalid value. Clap adds the option and the value.
#[derive(Debug, thiserror::Error)]
enum ValueError {
    #[error("not a time; give seconds, or for instance 90s, 10m or 2h, of at most {LONGEST} seconds")]
    Time,
    #[error("not a share; give a percentage above 0 and below 100, for instance 0.1%")]
    Percent,
}

/// Parses a time: seconds, or a number with a unit.
fn time(text: &str) -> Result<Duration, ValueError> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let unit = units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(unit)?, *seconds)));
    let (number, unit) = unit.unwrap_or((text, 1.0));
    let number: f64 = number.parse().map_err(|_| ValueError::Time)?;
    match number * unit {
        seconds if seconds > 0.0 && seconds <= LONGEST => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(ValueError::Time),
    }
}

/// Parses a percentage above 0 and below 100, with or without `%`. Returns percent.
fn percent(text: &str) -> Result<f64, ValueError> {
    let number: f64 = text
        .strip_suffix('%')
        .unwrap_or(text)
        .parse()
        .map_err(|_| ValueError::Percent)?;
    match number > 0.0 && number < 100.0 {
        true => Ok(number),
        false => Err(ValueError::Percent),
    }
}
