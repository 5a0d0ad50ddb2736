//! Speed and density of the compressed store, beside raw calls of its codecs in the same run.
//!
//! ```text
//! cargo run --release -p plimsoll-pager --example store_bench -- [--mib N] [--rounds N] [FILE...]
//! ```
//!
//! Data: pages that LZ4 compresses 2.5:1, the memory of a python3 that this program starts, and pages of each FILE. Times
//! are CPU times of one thread. A ratio is the median of those of the rounds, each of which makes both measurements, so
//! that the noise of the machine falls on both.

mod codecs;
mod data;
mod measure;

use data::Pages;
use measure::{Result, Tier, measure};

struct Options {
    mib: usize,
    rounds: usize,
    files: Vec<String>,
}

fn options() -> Options {
    let mut options = Options {
        mib: 64,
        rounds: 5,
        files: Vec::new(),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|number| number.parse().ok());
        match argument.as_str() {
            "--mib" => options.mib = number().expect("--mib takes a number"),
            "--rounds" => options.rounds = number().expect("--rounds takes a number"),
            _ => options.files.push(argument),
        }
    }
    options
}

fn print(name: &str, pages: &Pages, rounds: usize) {
    println!(
        "\n{name}: {} pages, {:.1} MiB",
        pages.len(),
        pages.len() as f64 / 256.0
    );
    println!(
        "{:<14} {:>13} {:>13} {:>8} {:>13} {:>13} {:>8} {:>9} {:>9} {:>8}",
        "tier",
        "raw pack MB/s",
        "put MB/s",
        "put/raw",
        "raw get MB/s",
        "get MB/s",
        "get/raw",
        "raw dens.",
        "density",
        "dens/raw"
    );
    for tier in [Tier::Lz4, Tier::ZstdFirst, Tier::Packed, Tier::Quads] {
        let Result {
            pack,
            get,
            raw_density,
            density,
        } = measure(tier, pages, rounds);
        println!(
            "{:<14} {:>13.0} {:>13.0} {:>8.2} {:>13.0} {:>13.0} {:>8.2} {:>9.3} {:>9.3} {:>8.3}",
            tier.name(),
            pack.raw,
            pack.store,
            pack.ratio,
            get.raw,
            get.store,
            get.ratio,
            raw_density,
            density,
            density / raw_density
        );
    }
}

fn main() {
    let options = options();
    let bytes = options.mib << 20;
    print("ratio=2.5", &data::of_ratio(2.5, bytes), options.rounds);
    print("python3", &data::of_python(bytes), options.rounds);
    for file in &options.files {
        print(file, &data::of_file(file, bytes), options.rounds);
    }
}
