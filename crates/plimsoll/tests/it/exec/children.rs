//! Children of a managed program that the command would refuse: it does not examine them.

use std::process::Command;

use plimsoll_testkit::{capability, copy_program};

use super::programs::Place;
use super::{built_by, built_by_musl, exec, give_capability, ran, text};
use crate::heap::has;

/// Prints whether the kernel gave the program rights that its caller lacks, and what it has of the library.
const RIGHTS: &str = "#define _GNU_SOURCE\n#include <link.h>\n#include <stdio.h>\n#include <stdlib.h>\n\
    #include <string.h>\n#include <sys/auxv.h>\n\
    static int is_library(struct dl_phdr_info *object, size_t size, void *unused) {\n\
    return strstr(object->dlpi_name, \"libplimsoll_exec.so\") != NULL;\n\
    }\n\
    int main(void) {\n\
    printf(\"secure %lu, library %d, LD_PRELOAD %d, PLIMSOLL_EXEC %d\\n\", getauxval(AT_SECURE),\n\
    dl_iterate_phdr(is_library, NULL), getenv(\"LD_PRELOAD\") != NULL, getenv(\"PLIMSOLL_EXEC\") != NULL);\n\
    return 0;\n\
    }\n";

/// The dynamic linker ignores `LD_PRELOAD` in it. With a filter of system calls, it gains no capability (`no_new_privs`), but the
/// kernel sets AT_SECURE all the same.
#[test]
fn a_child_with_file_capabilities_runs_without_the_library_and_its_settings() {
    if !has("gcc") {
        return;
    }
    let place = Place::new();
    let program = place.work().join("capable");
    copy_program(built_by("gcc", RIGHTS, &[]).expect("gcc builds it"), &program);
    if !give_capability(&program) {
        return;
    }
    let script = "./capable; echo $?; env | grep -c PLIMSOLL_EXEC; true";
    let shell = |mut command: Command| {
        let output = ran(command.args(["sh", "-c", script]));
        (text(&output.stdout), text(&output.stderr), output.status.code())
    };
    let without = |settings: u32| {
        let shown = format!("secure 1, library 0, LD_PRELOAD 0, PLIMSOLL_EXEC 0\n0\n{settings}\n");
        (shown, String::new(), Some(0))
    };
    let mut native = place.native("env");
    native.arg("--");
    let native = shell(native);
    let is_secure = native.0.starts_with("secure 1, ");
    let reason = format!("the program prints {:?} {:?}", native.0, native.1);
    if !capability("file-capabilities", is_secure, &reason) {
        return;
    }
    assert_eq!(native, without(0));
    let mut managed = place.native(place.plimsoll().to_str().expect("text"));
    managed.args(["-q", "exec", "--engine", "pager", "--ram", "64M", "--"]);
    // The shell and its other children keep the settings.
    assert_eq!(shell(managed), without(1));
}

/// musl's dynamic linker loads the libraries of `LD_PRELOAD` too, and fails for one that needs glibc. A static program has none.
#[test]
fn a_dynamic_child_of_musl_is_refused_by_its_dynamic_linker() {
    if !has("musl-gcc") {
        return;
    }
    for (flags, shown) in [(&[][..], "127\n"), (&["-static"][..], "ran\n0\n")] {
        let script = format!("{}; echo $?", built_by_musl(flags).display());
        let options = ["--engine", "pager", "--ram", "64M", "--", "sh", "-c"];
        let output = ran(exec().args(options).arg(&script));
        let said = text(&output.stderr);
        assert_eq!(text(&output.stdout), shown, "{said}");
        // The message names the library.
        assert_eq!(said.contains("libplimsoll_exec.so"), shown == "127\n", "{said}");
        // Without the library, it runs.
        let script = format!("LD_PRELOAD= {script}");
        let output = ran(exec().args(options).arg(&script));
        assert_eq!(text(&output.stdout), "ran\n0\n", "{}", text(&output.stderr));
    }
}
