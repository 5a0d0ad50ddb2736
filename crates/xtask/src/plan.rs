//! The test programs of the workspace, and the jobs that run them.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules whose tests take the machine lock. They run real experiments, one after another, and leave the processor
/// mostly idle.
const HOLDERS: [&str; 12] = [
    "run::",
    "size_service::",
    "trim::",
    "environment::",
    "exec::kernel::",
    "workload::",
    "pager_swapped::",
    "sample::pressure::",
    "processes::storms::",
    "watch::core::pressure::",
    "hold::pressure::",
    "doctor::here::",
];
/// Modules of the same tests that keep all processors busy for minutes. Experiments beside them are not trustworthy.
const HEAVY: [&str; 1] = ["exec::programs::"];
/// The crate whose integration tests contain [`HOLDERS`].
const HOLDERS_CRATE: &str = "plimsoll";
/// The longest other tests: they start first.
const LONG: [&str; 2] = ["plimsoll-pager", "plimsoll-lfh"];

/// A test program that cargo built.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Program {
    /// Folder of its crate.
    folder: PathBuf,
    source: PathBuf,
    executable: PathBuf,
}

impl Program {
    fn crate_name(&self) -> &str {
        self.folder
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default()
    }

    fn is_integration(&self) -> bool {
        self.source.ends_with("tests/it/main.rs")
    }

    fn has_holders(&self) -> bool {
        self.crate_name() == HOLDERS_CRATE && self.is_integration()
    }

    fn job(&self, note: &str, arguments: &[&str]) -> Job {
        let source = self.source.strip_prefix(&self.folder).unwrap_or(&self.source);
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.folder)
            .env("CARGO_MANIFEST_DIR", &self.folder)
            .args(arguments);
        Job {
            name: format!("{} {}{note}", self.crate_name(), source.display()),
            command,
        }
    }
}

/// A command that passes or fails.
pub(crate) struct Job {
    pub(crate) name: String,
    pub(crate) command: Command,
}

/// The jobs of both lanes.
pub(crate) struct Jobs {
    /// The tests that hold the machine.
    pub(crate) machine: Job,
    /// The others, the longest first.
    pub(crate) others: VecDeque<Job>,
    /// The heavy tests, when both lanes have ended.
    pub(crate) after: Job,
}

/// Builds every test program.
pub(crate) fn build() -> Result<Vec<Program>, Box<dyn Error>> {
    let output = cargo()
        .args([
            "test",
            "--workspace",
            "--no-run",
            "--message-format",
            "json-render-diagnostics",
        ])
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err("cargo cannot build the tests".into());
    }
    let text = String::from_utf8(output.stdout)?;
    let programs: Vec<Program> = text.lines().filter_map(program).collect();
    if programs.is_empty() {
        return Err("cargo names no test program in its messages".into());
    }
    Ok(programs)
}

/// The jobs that run every test of these programs once, and the examples of the API documentation.
pub(crate) fn jobs(programs: &[Program]) -> Result<Jobs, Box<dyn Error>> {
    let holder = programs
        .iter()
        .find(|program| program.has_holders())
        .ok_or_else(|| format!("no integration tests of {HOLDERS_CRATE} were built"))?;
    let machine = holder.job(", tests that hold the machine", &HOLDERS);
    let after = holder.job(", programs in less RAM", &HEAVY);
    let elsewhere = HOLDERS.iter().chain(&HEAVY);
    let skips: Vec<&str> = elsewhere.flat_map(|module| ["--skip", module]).collect();
    let mut others = VecDeque::from([holder.job(", other tests", &skips)]);
    let (long, short): (Vec<&Program>, Vec<&Program>) = programs
        .iter()
        .filter(|program| !program.has_holders())
        .partition(|program| LONG.contains(&program.crate_name()));
    others.extend(long.into_iter().chain(short).map(|program| program.job("", &[])));
    let mut examples = cargo();
    examples.args(["test", "--workspace", "--doc"]);
    others.push_back(Job {
        name: "examples of the API documentation".into(),
        command: examples,
    });
    Ok(Jobs {
        machine,
        others,
        after,
    })
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The test program that a line of cargo's JSON messages names.
fn program(line: &str) -> Option<Program> {
    let is_test =
        line.contains(r#""reason":"compiler-artifact""#) && line.contains(r#""test":true},"features""#);
    let executable = text(line, "executable")?;
    let manifest = text(line, "manifest_path")?;
    let source = text(line, "src_path")?;
    is_test.then_some(Program {
        folder: Path::new(manifest).parent()?.to_path_buf(),
        source: source.into(),
        executable: executable.into(),
    })
}

/// A field that is text without escapes. Cargo writes no space between the key and the value.
fn text<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let (_, value) = line.split_once(&format!(r#""{key}":""#))?;
    value.split_once('"').map(|(text, _)| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(test: bool, executable: &str) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","package_id":"p","manifest_path":"/w/crates/plimsoll/Cargo.toml","target":{{"kind":["test"],"name":"it","src_path":"/w/crates/plimsoll/tests/it/main.rs","test":true}},"profile":{{"opt_level":"0","test":{test}}},"features":[],"executable":{executable},"fresh":true}}"#
        )
    }

    fn arguments(job: &Job) -> Vec<&str> {
        job.command
            .get_args()
            .filter_map(|argument| argument.to_str())
            .collect()
    }

    #[test]
    fn a_test_program_is_one_built_with_the_test_profile() {
        let built = program(&artifact(true, r#""/t/it-1""#)).expect("a test program");
        assert_eq!(built.folder, Path::new("/w/crates/plimsoll"));
        assert_eq!(built.executable, Path::new("/t/it-1"));
        assert!(built.has_holders());
        assert_eq!(program(&artifact(false, r#""/t/plimsoll""#)), None);
        assert_eq!(program(&artifact(true, "null")), None);
        assert_eq!(program(r#"{"reason":"build-finished","success":true}"#), None);
    }

    #[test]
    fn both_lanes_together_run_every_test_once() {
        let holder = program(&artifact(true, r#""/t/it-1""#)).expect("a test program");
        let other = Program {
            source: "/w/crates/plimsoll/src/lib.rs".into(),
            executable: "/t/lib-1".into(),
            ..holder.clone()
        };
        let planned = jobs(&[other, holder]).expect("a plan");
        assert_eq!(arguments(&planned.machine), HOLDERS);
        let rest = arguments(&planned.others[0]);
        assert_eq!(arguments(&planned.after), HEAVY);
        assert_eq!(rest.len(), 2 * (HOLDERS.len() + HEAVY.len()));
        assert!(
            rest.chunks(2)
                .zip(HOLDERS.into_iter().chain(HEAVY))
                .all(|(pair, module)| pair == ["--skip", module])
        );
        assert_eq!(planned.others[0].command.get_program(), "/t/it-1");
        assert_eq!(planned.others[1].command.get_program(), "/t/lib-1");
        assert!(arguments(&planned.others[1]).is_empty());
        assert!(arguments(&planned.others[2]).contains(&"--doc"));
        assert_eq!(planned.others.len(), 3);
    }

    #[test]
    fn without_the_tests_that_hold_the_machine_there_is_no_plan() {
        assert!(jobs(&[]).is_err());
    }
}
