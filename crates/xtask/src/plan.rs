//! The test programs of the workspace, and the jobs that run them.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Modules whose tests take the machine lock, but for those of [`GROUPS`]. They run real experiments, one after another,
/// and leave the processor mostly idle.
const HOLDERS: [&str; 13] = [
    "run::",
    "trim::",
    "environment::",
    "exec::kernel::",
    "workload::",
    "pager_swapped::",
    "sample::pressure::",
    "processes::storms::",
    "watch::core::pressure::",
    "doctor::here::",
    "fleet::slurm::",
    "fleet::ssh::",
    "fleet::task::",
];
/// The crate whose integration tests contain [`HOLDERS`].
const HOLDERS_CRATE: &str = "plimsoll";
/// Tests that take minutes. Only the crates and files in `SECTIONS` of `.ci/inputs` can break them. `cargo xtask test` leaves
/// them out, and `.ci/run` skips a group whose inputs are those of its last green run.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    crates: &'static [&'static str],
    /// Modules of the integration tests of its crate. If empty, the group has all tests of its crates that no other group has.
    modules: &'static [&'static str],
}

const GROUPS: [Group; 5] = [
    // Real programs in less RAM than they need, and on the heap.
    Group {
        name: "programs",
        crates: &["plimsoll"],
        modules: &["exec::programs::", "heap::programs::", "heap::redis::"],
    },
    // The pager, its C interface, and the library of `exec`.
    Group {
        name: "pager",
        crates: &["plimsoll-pager", "plimsoll-pager-c", "plimsoll-exec"],
        modules: &[],
    },
    // Tests of the pager again, in each of its other modes.
    Group {
        name: "modes",
        crates: &["plimsoll-pager"],
        modules: &["modes::the_cap_and_forks_hold"],
    },
    // Guards, levels and searches for a size under real pressure, which take the machine lock: they wait for the seconds of
    // their control loops.
    Group {
        name: "control",
        crates: &["plimsoll"],
        modules: &[
            "guard::pressure::",
            "hold::pressure::",
            "run::thrash_guard::",
            "run::size::",
            "size_service::",
        ],
    },
    // Experiments on the pager as root and as another user, which take the machine lock.
    Group {
        name: "paging",
        crates: &["plimsoll"],
        modules: &[
            "run::pager::",
            "run::pager_options::",
            "run::thrash_pagers::",
            "run::contention_pager::",
            "run::tour::a_tour_",
        ],
    },
];
/// The longest other tests: they start first.
const LONG: [&str; 2] = ["plimsoll-report", "plimsoll-lfh"];

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

    /// Whether the group has some of its tests.
    fn is_of(&self, group: &Group) -> bool {
        group.crates.contains(&self.crate_name()) && (group.modules.is_empty() || self.is_integration())
    }

    /// Whether a group has all of its tests, except those of other groups.
    fn is_left_out(&self) -> bool {
        GROUPS
            .iter()
            .any(|group| group.modules.is_empty() && self.is_of(group))
    }

    /// Options that leave out these modules and those of the groups.
    fn left_out(&self, modules: &[&'static str]) -> Vec<&'static str> {
        let groups = GROUPS.iter().filter(|group| self.is_of(group));
        let of_groups = groups.flat_map(|group| group.modules);
        modules
            .iter()
            .chain(of_groups)
            .flat_map(|module| ["--skip", module])
            .collect()
    }

    /// Options that select the tests that hold the machine.
    fn holders(&self) -> Vec<&'static str> {
        [&HOLDERS[..], &self.left_out(&[])].concat()
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
    pub(crate) machine: Option<Job>,
    /// The others, the longest first.
    pub(crate) others: VecDeque<Job>,
}

pub(crate) fn group_names(separator: &str) -> String {
    GROUPS.map(|group| group.name).join(separator)
}

pub(crate) fn group(name: &str) -> Option<&'static Group> {
    GROUPS.iter().find(|group| group.name == name)
}

/// Builds every test program. A group has no build of its own: with the features of one crate alone, cargo would compile
/// most dependencies again.
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
    for program in &programs {
        let holders = HOLDERS.iter().filter(|_| program.has_holders());
        let of_groups = GROUPS.iter().filter(|group| program.is_of(group));
        for module in holders.chain(of_groups.flat_map(|group| group.modules)) {
            check_tests(&program.executable, module)?;
        }
    }
    Ok(programs)
}

pub(crate) fn group_jobs(programs: &[Program], group: &Group) -> Result<Jobs, Box<dyn Error>> {
    for name in group.crates {
        let has_tests = |program: &Program| program.crate_name() == *name && program.is_integration();
        if !programs.iter().any(has_tests) {
            return Err(format!("no integration tests of {name} were built").into());
        }
    }
    let own = programs.iter().filter(|program| program.is_of(group));
    // The integration tests take longest.
    let (long, short): (Vec<&Program>, Vec<&Program>) = own.partition(|program| program.is_integration());
    let job = |program: &Program| match group.modules {
        [] => program.job("", &program.left_out(&[])),
        modules => program.job(&format!(", {}", group.name), modules),
    };
    Ok(Jobs {
        machine: None,
        others: long.into_iter().chain(short).map(job).collect(),
    })
}

/// The jobs that run every test of these programs once, but those of the groups, and the examples of the API documentation.
pub(crate) fn jobs(programs: &[Program]) -> Result<Jobs, Box<dyn Error>> {
    let holder = programs
        .iter()
        .find(|program| program.has_holders())
        .ok_or_else(|| format!("no integration tests of {HOLDERS_CRATE} were built"))?;
    let machine = holder.job(", tests that hold the machine", &holder.holders());
    let mut others = VecDeque::from([holder.job(", other tests", &holder.left_out(&HOLDERS))]);
    let (long, short): (Vec<&Program>, Vec<&Program>) = programs
        .iter()
        .filter(|program| !program.has_holders() && !program.is_left_out())
        .partition(|program| LONG.contains(&program.crate_name()));
    let rest = long.into_iter().chain(short);
    others.extend(rest.map(|program| program.job("", &program.left_out(&[]))));
    let mut examples = cargo();
    examples.args(["test", "--workspace", "--doc"]);
    others.push_back(Job {
        name: "examples of the API documentation".into(),
        command: examples,
    });
    Ok(Jobs {
        machine: Some(machine),
        others,
    })
}

/// Fails if the program has no tests of this module: a run of them would pass.
fn check_tests(program: &Path, module: &str) -> Result<(), Box<dyn Error>> {
    let listed = Command::new(program)
        .args(["--list", module])
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let text = String::from_utf8_lossy(&listed.stdout);
    if !text.lines().any(|line| line.ends_with(": test")) {
        return Err(format!("{} has no test {module}", program.display()).into());
    }
    Ok(())
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
    fn both_lanes_and_the_groups_together_run_every_test_once() {
        let holder = program(&artifact(true, r#""/t/it-1""#)).expect("a test program");
        let library = Program {
            source: "/w/crates/plimsoll/src/lib.rs".into(),
            executable: "/t/lib-1".into(),
            ..holder.clone()
        };
        let pager = Program {
            folder: "/w/crates/plimsoll-pager".into(),
            source: "/w/crates/plimsoll-pager/tests/it/main.rs".into(),
            executable: "/t/it-2".into(),
        };
        let pager_library = Program {
            source: "/w/crates/plimsoll-pager/src/lib.rs".into(),
            executable: "/t/lib-2".into(),
            ..pager.clone()
        };
        let of_crate = |name: &str| Program {
            folder: format!("/w/crates/{name}").into(),
            source: format!("/w/crates/{name}/tests/it/main.rs").into(),
            executable: format!("/t/{name}").into(),
        };
        let others = ["plimsoll-pager-c", "plimsoll-exec"].map(of_crate);
        let all = [&[library, pager_library, holder, pager], &others[..]].concat();
        let mut planned = jobs(&all).expect("a plan");
        let machine = planned.machine.expect("tests that hold the machine");
        assert!(machine.command.get_program() == "/t/it-1");
        let in_group = |name| {
            let asked = group(name).expect("a group");
            let planned = group_jobs(&all, asked).expect("a plan");
            assert!(planned.machine.is_none() && planned.others.len() == 1);
            let job = &planned.others[0];
            assert_eq!(arguments(job), asked.modules);
            (job.command.get_program().to_owned(), asked.modules)
        };
        let left_out = |job: &Job, modules: &[&[&str]]| {
            let expected: Vec<&str> = modules.concat();
            let pairs: Vec<&str> = expected.iter().flat_map(|module| ["--skip", module]).collect();
            assert_eq!(arguments(job), pairs);
        };
        let [ours, library, examples] = planned.others.make_contiguous() else {
            panic!("{} jobs", planned.others.len());
        };
        let (program, programs) = in_group("programs");
        assert!(program == "/t/it-1" && ours.command.get_program() == "/t/it-1");
        let (program, control) = in_group("control");
        assert!(program == "/t/it-1");
        let (program, paging) = in_group("paging");
        assert!(program == "/t/it-1");
        left_out(ours, &[&HOLDERS, programs, control, paging]);
        let skipped = [programs, control, paging].concat();
        let skipped = skipped.iter().flat_map(|module| ["--skip", module]);
        let of_machine: Vec<&str> = HOLDERS.into_iter().chain(skipped).collect();
        assert_eq!(arguments(&machine), of_machine);
        let (program, modules) = in_group("modes");
        assert!(program == "/t/it-2");
        let mut planned = group_jobs(&all, group("pager").expect("a group")).expect("a plan");
        let [pagers, c_interface, preloaded, pager_library] = planned.others.make_contiguous() else {
            panic!("{} jobs", planned.others.len());
        };
        assert_eq!(pagers.command.get_program(), "/t/it-2");
        left_out(pagers, &[modules]);
        for (job, program) in [
            (c_interface, "/t/plimsoll-pager-c"),
            (preloaded, "/t/plimsoll-exec"),
            (pager_library, "/t/lib-2"),
        ] {
            assert_eq!(job.command.get_program(), program);
            assert!(arguments(job).is_empty());
        }
        assert_eq!(library.command.get_program(), "/t/lib-1");
        assert!(arguments(library).is_empty());
        assert!(arguments(examples).contains(&"--doc"));
    }

    #[test]
    fn a_group_has_a_recipe_a_section_of_ci_and_its_inputs() {
        let [run, inputs, recipes] = [".ci/run", ".ci/inputs", "justfile"].map(|name| {
            let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name);
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
        });
        for Group { name, .. } in &GROUPS {
            assert!(
                recipes.contains(&format!("\n{name}:\n    cargo xtask test {name}\n")),
                "{name}"
            );
            assert!(
                run.contains(&format!("    just {name}\n    record_green {name}\n")),
                "{name}"
            );
            assert!(inputs.contains(&format!("\n    \"{name}\": {{\n")), "{name}");
        }
    }

    #[test]
    fn a_module_without_tests_is_refused() {
        let program = std::env::current_exe().expect("this program has a path");
        assert!(check_tests(&program, "plan::tests::a_module").is_ok());
        assert!(check_tests(&program, "renamed::").is_err());
        assert!(check_tests(Path::new("/missing/program"), "plan::").is_err());
    }

    #[test]
    fn without_the_tests_of_a_job_there_is_no_plan() {
        assert!(jobs(&[]).is_err());
        assert!(GROUPS.iter().all(|group| group_jobs(&[], group).is_err()));
        assert!(group("nothing").is_none());
    }
}
