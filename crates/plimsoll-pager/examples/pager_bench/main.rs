//! One measurement of the pager, or of the kernel's swap, with the same accesses to the same bytes.
//!
//! ```text
//! cargo run --release -p plimsoll-pager --example pager_bench -- CASE SUBJECT [OPTION...]
//! ```
//!
//! `benchmarks/pager/run.py` starts it once for each value, and gives the kernel a swap device and a cgroup.
//!
//! | case | measurement |
//! |---|---|
//! | `copies` | trim of a region, its sequential restore, random faults, and bytes held per byte of RAM |
//! | `uniform` | accesses to uniformly random pages of a region that is `--load` times as large as the RAM |
//! | `sequential` | as `uniform`, in ascending order |
//!
//! | subject | memory |
//! |---|---|
//! | `pager:lz4`, `pager:zstd` | a region of a pager |
//! | `kernel` | an anonymous mapping, in the cgroup and with the swap that the process has |
//!
//! | option | meaning |
//! |---|---|
//! | `--mib N` | size of the region of `copies`, the RAM of the other cases; 64 |
//! | `--load L` | size of the region over the RAM; 1.5 |
//! | `--accesses N` | measured accesses of `uniform` and `sequential`, faults of `copies`; 100000 |
//! | `--data ratio=R`, `--data file=PATH` | contents: pages that LZ4 compresses R:1, or those of a file, repeated; `ratio=2.5` |
//! | `--used FILE:FIELD` | the swap device's use of RAM: the field with that number, from 0, in bytes, or the line with that name, in KiB |
//! | `--cgroup FOLDER` | memory cgroup (v1) of this process, whose limit and device together get the RAM |
//!
//! The result is one line of JSON. Times are CPU times of the whole process, the pager's thread included; those of single
//! faults are wall-clock times.

mod contents;
mod measure;
mod memory;

use std::error::Error;
use std::path::PathBuf;

use contents::Contents;
use memory::{Gauge, Memory};

/// The options of a measurement.
pub(crate) struct Options {
    pub(crate) case: String,
    pub(crate) subject: String,
    pub(crate) mib: usize,
    pub(crate) load: f64,
    pub(crate) accesses: usize,
    pub(crate) data: String,
    pub(crate) used: Option<Gauge>,
    pub(crate) cgroup: Option<PathBuf>,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut options = Options {
        case: String::new(),
        subject: String::new(),
        mib: 64,
        load: 1.5,
        accesses: 100_000,
        data: "ratio=2.5".to_owned(),
        used: None,
        cgroup: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
        match argument.as_str() {
            "--mib" => options.mib = value()?.parse()?,
            "--load" => options.load = value()?.parse()?,
            "--accesses" => options.accesses = value()?.parse()?,
            "--data" => options.data = value()?,
            "--cgroup" => options.cgroup = Some(value()?.into()),
            "--used" => options.used = Some(Gauge::of(&value()?).ok_or("--used takes FILE:FIELD")?),
            _ if options.case.is_empty() => options.case = argument,
            _ if options.subject.is_empty() => options.subject = argument,
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    Ok(options)
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = options()?;
    let contents = Contents::of(&options.data, options.mib << 20)?;
    let values = match options.case.as_str() {
        "copies" => measure::copies(&options, &contents)?,
        "uniform" | "sequential" => measure::overcommit(&options, &contents)?,
        other => {
            return Err(format!("unknown case {other:?}; there are copies, uniform and sequential").into());
        }
    };
    let fields: Vec<String> = values
        .iter()
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    println!("{{{}}}", fields.join(", "));
    Ok(())
}
