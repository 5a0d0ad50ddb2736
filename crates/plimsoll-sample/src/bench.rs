//! The cost of sampling, beside that of `vmstat`. The caller prints it.

use std::fs;
use std::io;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use plimsoll_proc::schedstat::Schedstat;
use serde::{Serialize, Serializer};

use super::sampler::{Sampler, SamplerConfig, monotonic_ns};
use plimsoll_model::columns::Row;

use super::{Reader, SampleError};
use plimsoll_model::recording::model::SamplerReport;

/// Samples read back to back for [`SamplerBench::back_to_back_us`].
const BACK_TO_BACK: u32 = 1000;

/// Time for a program to start before its CPU time is looked at: start-up is not the cost of a sample.
const START_UP: Duration = Duration::from_millis(500);

#[derive(Debug, Serialize)]
pub struct SamplerBench {
    /// CPU microseconds of a sample read straight after another, with caches warm: the least it can cost.
    pub back_to_back_us: f64,
    /// The sampler at each requested rate.
    pub rates: Vec<SamplerReport>,
    /// `vmstat 1`, if it is installed; if not, the reason.
    pub vmstat: Result<VmstatCost, VmstatError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct VmstatCost {
    pub samples: u64,
    /// CPU microseconds a sample.
    pub us_per_sample: f64,
    /// In percent of one core, at one sample a second.
    pub cpu_percent: f64,
}

/// The reason for a missing cost of `vmstat`. It serializes as its text.
#[derive(Debug, thiserror::Error)]
#[error("cannot measure `vmstat 1`: {0}; install procps")]
pub struct VmstatError(#[source] io::Error);

impl Serialize for VmstatError {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Runs the sampler for `seconds` at each of the rates `hz`, then `vmstat 1` for as long.
///
/// # Errors
/// When the sampler cannot be started.
pub fn bench(seconds: u32, hz: &[u32]) -> Result<SamplerBench, SampleError> {
    let back_to_back_us = back_to_back()?;
    let mut rates = Vec::new();
    for &hz in hz {
        let (sampler, batches) = Sampler::start(SamplerConfig::by_the_second(hz, monotonic_ns()))?;
        let consumer = thread::spawn(move || batches.iter().for_each(drop));
        thread::sleep(Duration::from_secs(seconds.into()));
        rates.push(sampler.stop());
        // The batches have ended with the sampler.
        let _ = consumer.join();
    }
    Ok(SamplerBench {
        back_to_back_us,
        rates,
        vmstat: vmstat(seconds).map_err(VmstatError),
    })
}

fn back_to_back() -> Result<f64, SampleError> {
    let mut reader = Reader::open()?;
    let mut row = Row::empty(0);
    reader.read(&mut row);
    let start_ns = super::sampler::thread_cpu_ns();
    for _ in 0..BACK_TO_BACK {
        reader.read(&mut row);
    }
    let cpu_ns = super::sampler::thread_cpu_ns() - start_ns;
    Ok(cpu_ns as f64 / 1000.0 / f64::from(BACK_TO_BACK))
}

fn vmstat(seconds: u32) -> io::Result<VmstatCost> {
    let mut vmstat = Command::new("vmstat")
        .args(["-n", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    // Half a second after the start is between two samples, and so is any whole number of seconds later.
    thread::sleep(START_UP);
    let before = cpu_ns(vmstat.id());
    thread::sleep(Duration::from_secs(seconds.into()));
    let after = cpu_ns(vmstat.id());
    let killed = vmstat.kill();
    vmstat.wait()?;
    killed?;
    let cpu_us = (after? - before?) as f64 / 1000.0;
    let seconds = f64::from(seconds.max(1));
    Ok(VmstatCost {
        samples: seconds as u64,
        us_per_sample: cpu_us / seconds,
        cpu_percent: cpu_us / seconds / 1e6 * 100.0,
    })
}

/// CPU time of a process of one thread.
fn cpu_ns(pid: u32) -> io::Result<i64> {
    let text = fs::read(format!("/proc/{pid}/schedstat"))?;
    Schedstat::parse(&text)
        .map(|spent| spent.on_cpu_ns)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "schedstat holds no number"))
}
