//! Real programs on the heap: their output equals that on the C library's malloc.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use super::{HEAPS, compiled, has, heap_run, scratch, source};

/// Waits for a command, which is killed after `seconds`.
pub(super) fn finished(command: &mut Command, seconds: u64) -> Output {
    let command =
        assert_cmd::Command::from_std(std::mem::replace(command, plimsoll_testkit::command("true")));
    let mut command = command;
    let output = command.timeout(Duration::from_secs(seconds)).output();
    output.expect("the program starts and ends")
}

/// A program on one of [`HEAPS`], in a folder.
pub(super) fn on_heap(heap: &str, folder: &Path) -> Command {
    let mut command = heap_run();
    command.args([heap, "--"]).current_dir(folder);
    command
}

/// The output of a program, which is the same on the C library's malloc and on all [`HEAPS`].
fn as_on_glibc<S: AsRef<OsStr>>(name: &str, arguments: &[S], variables: &[(&str, &str)]) -> String {
    let run = |what: &str, mut command: Command| {
        let output = finished(command.envs(variables.iter().copied()), 300);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success(),
            "{name}, {what}: {}: {errors}",
            output.status
        );
        (String::from_utf8_lossy(&output.stdout).into_owned(), errors)
    };
    let folder = scratch(&format!("as-on-glibc-{name}"));
    let mut plain = plimsoll_testkit::command(&arguments[0]);
    plain
        .args(&arguments[1..])
        .current_dir(&folder)
        .env_remove("LD_PRELOAD");
    let expected = run("glibc", plain);
    for heap in HEAPS {
        let folder = scratch(&format!("as-on-glibc-{name}"));
        let mut command = on_heap(heap, &folder);
        command.args(arguments);
        assert_eq!(run(heap, command), expected, "{name} with {heap}");
    }
    expected.0
}

#[test]
fn python_makes_the_same_of_an_everyday_script() {
    if !has("python3") {
        return;
    }
    let script = source("everyday.py");
    let arguments = [OsStr::new("python3"), script.as_os_str()];
    let digest = as_on_glibc("python", &arguments, &[]);
    // Without its own pools for small objects, each is a block of malloc.
    assert_eq!(
        as_on_glibc("python-malloc", &arguments, &[("PYTHONMALLOC", "malloc")]),
        digest
    );
    assert_eq!(digest.trim().len(), 64);
}

#[test]
fn python_passes_its_own_tests() {
    if !has("python3") {
        return;
    }
    let installed = plimsoll_testkit::command("python3")
        .args(["-c", "import test.test_list"])
        .output();
    let installed = installed.is_ok_and(|output| output.status.success());
    if !plimsoll_testkit::capability(
        "python-tests",
        installed,
        "Python's package `test` is not installed",
    ) {
        return;
    }
    let folder = scratch("python-tests");
    let mut command = on_heap("--front-end=lfh", &folder);
    command.args(["python3", "-m", "test", "--timeout", "240", "-q", "-W"]);
    // It fails wherever a package of the installation is loaded at the start and uses threads, on any malloc.
    command.args(["-i", "test_import_from_another_thread"]);
    command.args(["test_list", "test_dict", "test_threading"]);
    let output = finished(command.env("PYTHONMALLOC", "malloc"), 400);
    assert!(
        output.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn sqlite_answers_the_same() {
    if !has("sqlite3") {
        return;
    }
    let read = format!(".read {}", source("tables.sql").display());
    let answer = as_on_glibc("sqlite3", &["sqlite3", "data.db", &read], &[]);
    assert!(
        answer.starts_with("25714|") && answer.ends_with("ok\n"),
        "{answer}"
    );
}

/// Functions that call each other, of all that a compiler has a pass for.
fn large_c_program() -> String {
    let mut program = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n".to_owned();
    program += "struct s { int a; long b[8]; const char *c; };\nstatic int f0(struct s *p, int x) { return x ^ p->a; }\n";
    for n in 1..=200 {
        let (count, divisor, caller) = (n % 7 + 1, n % 11 + 2, n - 1);
        program += &format!(
            "static struct s v{n} = {{{n}, {{{count}}}, \"text {n}\"}};\n\
             static int f{n}(struct s *p, int x) {{\n\
                 for (int i = 0; i < {count}; i++) {{\n\
                     p->b[i] = (long)x * i + {n};\n\
                     if (p->b[i] % {divisor} == 0) {{ x += (int)strlen(v{n}.c); continue; }}\n\
                     switch (x % 5) {{\n\
                     case 0: x ^= v{n}.a; break;\n\
                     case 3: p->a += abs(x) % {n}; break;\n\
                     default: p->a ^= (int)(p->b[i] >> 3); }}\n\
                 }}\n\
                 return f{caller}(&v{n}, x & 0xFFFFFF);\n\
             }}\n"
        );
    }
    program + "int main(void) { printf(\"%d\\n\", f200(&v1, 7)); }\n"
}

/// All of the library's templates are read, some are made into code.
const LARGE_CPP_PROGRAM: &str = "#include <bits/stdc++.h>\n\
    int main(int count, char **words) {\n\
        std::map<std::string, std::vector<std::function<bool(const std::string &)>>> found;\n\
        for (int at = 0; at < count + 3; at++)\n\
            found[std::to_string(at)].push_back([at](const std::string &word) {\n\
                return std::regex_match(word, std::regex(\"[0-9]+\")) && std::stoi(word) == at; });\n\
        for (auto &[word, checks] : found) std::cout << word << checks.front()(word) << words[0][0];\n\
    }\n";

#[test]
fn compilers_write_the_same_code() {
    if !has("gcc") || !has("g++") {
        return;
    }
    let sources = scratch("large-programs");
    let (c, cpp) = (sources.join("large.c"), sources.join("large.cpp"));
    std::fs::write(&c, large_c_program()).expect("written");
    std::fs::write(&cpp, LARGE_CPP_PROGRAM).expect("written");
    let script = format!(
        "gcc -O1 -g -o c '{}' && g++ -std=c++17 -g -o cpp '{}' && ./c && ./cpp && sha256sum c cpp",
        c.display(),
        cpp.display()
    );
    let written = as_on_glibc("gcc", &["sh", "-c", &script], &[]);
    assert!(written.contains("\n01.11.21.31."), "{written}");
}

/// A rustc on the malloc that it is given: that of most builds brings one of its own, which stands before any that is
/// preloaded, while all else of it is in a library. None where that is not there.
fn rustc_on_any_malloc() -> Option<PathBuf> {
    let text = |command: &mut Command| {
        let output = command.output().expect("the program starts");
        String::from_utf8(output.stdout).expect("text")
    };
    let root = text(plimsoll_testkit::command("rustc").args(["--print", "sysroot"]));
    let folder = Path::new(root.trim()).join("lib");
    let files = std::fs::read_dir(&folder).into_iter().flatten().flatten();
    let is_driver = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name.starts_with("librustc_driver-") && name.ends_with(".so"))
    };
    let driver = files.map(|file| file.path()).find(is_driver);
    let symbols = driver
        .iter()
        .map(|driver| text(plimsoll_testkit::command("nm").arg("-D").arg(driver)));
    let symbols: String = symbols.collect();
    let main = symbols
        .split_whitespace()
        .find(|symbol| symbol.ends_with("17rustc_driver_impl4main"));
    let why = "the installation's librustc_driver has no rustc_driver_impl::main";
    if !plimsoll_testkit::capability("rustc-driver", main.is_some(), why) {
        return None;
    }
    let main = format!("-DRUSTC_MAIN=\"{}\"", main?);
    let path = format!("-Wl,-rpath,{}", folder.display());
    Some(compiled(
        "gcc",
        "rustc.c",
        "c",
        &[&main, driver?.to_str()?, &path],
    ))
}

/// Programs below the heap, with a build script and the linker.
#[test]
fn cargo_and_rustc_build_the_same_libraries() {
    if !has("rustc") || !has("gcc") || !has("nm") {
        return;
    }
    let Some(rustc) = rustc_on_any_malloc() else {
        return;
    };
    let script = format!(
        "'{}' build --offline --locked --quiet --manifest-path '{}/../../Cargo.toml' -p plimsoll-os 2> errors || \
            {{ cat errors; exit 1; }}; cd target/debug && sha256sum *.rlib deps/*.rmeta",
        env!("CARGO"),
        env!("CARGO_MANIFEST_DIR"),
    );
    let variables = [
        ("RUSTC", rustc.to_str().expect("text")),
        ("CARGO_TARGET_DIR", "target"),
        ("CARGO_INCREMENTAL", "0"),
    ];
    let built = as_on_glibc("rustc", &["sh", "-c", &script], &variables);
    assert!(built.contains("libplimsoll_os.rlib"), "{built}");
}

#[test]
fn git_makes_the_same_repository() {
    if !has("git") {
        return;
    }
    let script = "git init -q -b main . && for n in $(seq 40); do \
            seq $n $((n * 200)) > file$((n % 7)) && git add . && git commit -q -m \"Change $n\"; done && \
        git gc -q --aggressive && git fsck --strict && git log --stat --format='%H %s' && git diff HEAD~20 | sha256sum && \
        git blame file3 | sha256sum";
    let who = [
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.org"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.org"),
        ("GIT_AUTHOR_DATE", "2024-01-01T00:00:00Z"),
        ("GIT_COMMITTER_DATE", "2024-01-01T00:00:00Z"),
        ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ("GIT_CONFIG_SYSTEM", "/dev/null"),
    ];
    let log = as_on_glibc("git", &["sh", "-c", script], &who);
    assert!(log.contains("Change 40"), "{log}");
}

/// The output of a program, which is the same on all [`HEAPS`].
fn on_all_heaps(program: &Path, arguments: &[&str]) -> String {
    let written = HEAPS.map(|heap| {
        let mut command = on_heap(heap, program.parent().expect("a folder"));
        let output = finished(command.arg(program).args(arguments), 300);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{heap}: {}: {text}{}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        );
        text
    });
    let [first, others @ ..] = written;
    assert!(others.iter().all(|text| *text == first), "{first} {others:?}");
    first
}

fn stressed(mode: &str) -> String {
    on_all_heaps(&compiled("gcc", "stress.c", "c", &[]), &[mode])
}

#[test]
fn forks_in_the_middle_of_malloc_leave_no_lock_behind() {
    if has("gcc") {
        assert_eq!(stressed("fork"), "100 forks\n");
    }
}

#[test]
fn signals_in_the_middle_of_malloc_harm_nothing() {
    if has("gcc") {
        assert_eq!(stressed("signals"), "interrupted\n");
    }
}

#[test]
fn threads_of_short_lives_leave_their_blocks_to_others() {
    if has("gcc") {
        assert_eq!(stressed("churn"), "4800 threads\n");
    }
}

/// LLVM's optimiser did, with bytes that `malloc` had left: its blocks were reported as freed twice.
#[test]
#[cfg(target_arch = "x86_64")]
fn a_program_may_keep_what_calls_leave_in_registers() {
    if has("g++") {
        let program = compiled("g++", "registers.cpp", "c++", &[]);
        assert_eq!(on_all_heaps(&program, &[]), "all blocks freed\n");
    }
}

#[test]
fn a_limit_of_address_space_is_survived() {
    if !has("gcc") || !has("python3") {
        return;
    }
    let program = compiled("gcc", "stress.c", "c", &[]);
    let folder = scratch("limits");
    for heap in HEAPS {
        let script = format!("ulimit -v 131072 && exec '{}' exhaustion", program.display());
        let output = finished(on_heap(heap, &folder).args(["sh", "-c", &script]), 120);
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            text,
            "ran out and recovered\n",
            "{heap}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let script = format!(
        "ulimit -v 1500000 && exec python3 '{}'",
        source("everyday.py").display()
    );
    as_on_glibc("limit", &["sh", "-c", &script], &[]);
}
