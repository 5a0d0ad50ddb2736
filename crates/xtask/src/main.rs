//! Tasks of this workspace that cargo has no command for. `cargo xtask test` runs the tests in two lanes, `cargo xtask test
//! GROUP` one of the groups that it leaves out.

mod lanes;
mod plan;

use std::process::ExitCode;

fn usage() -> ExitCode {
    eprintln!("usage: cargo xtask test [{}]", plan::group_names("|"));
    ExitCode::from(2)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let group = match arguments[..] {
        ["test"] => None,
        ["test", name] => match plan::group(name) {
            Some(group) => Some(group),
            None => return usage(),
        },
        _ => return usage(),
    };
    let planned = plan::build().and_then(|programs| match group {
        Some(group) => plan::group_jobs(&programs, group),
        None => plan::jobs(&programs),
    });
    let note = match group {
        Some(_) => String::new(),
        None => format!(
            "; `cargo xtask test GROUP` runs those of the groups {}",
            plan::group_names(", ")
        ),
    };
    match planned {
        Ok(jobs) => lanes::run(jobs, &note),
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::from(1)
        }
    }
}
