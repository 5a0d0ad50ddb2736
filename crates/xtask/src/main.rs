//! Tasks of this workspace that cargo has no command for. `cargo xtask test` runs every test in two lanes.

mod lanes;
mod plan;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask test";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments != ["test"] {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    }
    let planned = plan::build().and_then(|programs| plan::jobs(&programs));
    match planned {
        Ok(jobs) => lanes::run(jobs),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(1)
        }
    }
}
