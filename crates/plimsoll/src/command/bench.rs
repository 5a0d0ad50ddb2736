//! `plimsoll bench`: the cost of the sampler and the speed of the fills on this machine.

use std::fmt::Write;

use serde::Serialize;

use crate::cli::{Bench, BenchSubject};
use plimsoll_lab::workload::fill::{FillSpeed, fill_speed};
use plimsoll_model::exit::{Exit, Failure, OrExit};
use plimsoll_model::scenario::FillClass;
use plimsoll_sample::{SamplerBench, bench};

/// Seconds at each rate: a hundred samples at 10 Hz.
const SAMPLER_SECONDS: u32 = 10;
/// Bytes of one pass: larger than CPU caches, much smaller than memory.
const FILL_BYTES: usize = 256 << 20;
const FILL_REPEATS: usize = 7;

#[derive(Serialize)]
struct Document<T: Serialize> {
    schema: u32,
    benchmark: &'static str,
    result: T,
}

pub(super) fn bench_command(options: &Bench) -> Result<Exit, Failure> {
    match options.measurement {
        BenchSubject::Sampler => sampler(options.json),
        BenchSubject::Fill => fill(options.json),
    }
}

fn sampler(json: bool) -> Result<Exit, Failure> {
    let result = bench(SAMPLER_SECONDS, &[10, 100]).or_exit(Exit::Missing)?;
    if json {
        super::print_json(&Document {
            schema: 1,
            benchmark: "sampler",
            result,
        })?;
    } else {
        super::print(&render_sampler(&result))?;
    }
    Ok(Exit::Done)
}

fn render_sampler(result: &SamplerBench) -> String {
    let mut text = format!(
        "one sample, back to back  {:8.1} us of CPU\n",
        result.back_to_back_us
    );
    // Writing to a string cannot fail.
    for rate in &result.rates {
        let _ = writeln!(
            text,
            "at {:>3} Hz                 {:8.1} us of CPU a sample, {:.3}% of a core, {} samples, {} late, {} missed",
            rate.hz, rate.us_per_sample, rate.cpu_percent, rate.samples, rate.late, rate.missed
        );
    }
    let _ = match &result.vmstat {
        Ok(cost) => writeln!(
            text,
            "vmstat 1                  {:8.1} us of CPU a sample, {:.3}% of a core, {} samples",
            cost.us_per_sample, cost.cpu_percent, cost.samples
        ),
        Err(reason) => writeln!(text, "vmstat 1                  not measured: {reason}"),
    };
    text
}

fn fill(json: bool) -> Result<Exit, Failure> {
    let classes = [
        FillClass::Constant,
        FillClass::Random,
        FillClass::Runs20,
        FillClass::Ratio(2.5),
    ];
    let speeds: Vec<FillSpeed> = classes
        .iter()
        .map(|class| fill_speed(class, FILL_BYTES, FILL_REPEATS))
        .collect::<Result<_, _>>()
        .or_exit(Exit::Missing)?;
    if json {
        super::print_json(&Document {
            schema: 1,
            benchmark: "fill",
            result: speeds,
        })?;
        return Ok(Exit::Done);
    }
    let mut text = "class         GB/s min  median     max   of memset just before\n".to_owned();
    for speed in &speeds {
        let _ = writeln!(
            text,
            "{:12} {:9.2} {:7.2} {:7.2}   {:.2}",
            speed.class.to_string(),
            speed.fill.min,
            speed.fill.median,
            speed.fill.max,
            speed.ratio
        );
    }
    super::print(&text)?;
    Ok(Exit::Done)
}
