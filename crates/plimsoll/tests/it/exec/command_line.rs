//! The command line: mistakes, and programs that do not start.

use std::fs;

use super::{assert_engine, document, documents, exec, ran, scratch, text};

#[test]
fn a_mistake_in_the_command_line_ends_with_1_and_starts_nothing() {
    for arguments in [
        &[][..],
        &["--", "true"],
        &["--ram", "64M"],
        &["--ram", "64M", "--"],
        &["--ram", "0", "--", "true"],
        &["--ram", "lots", "--", "true"],
        &["--ram", "0%", "--", "true"],
        &["--ram", "101%", "--", "true"],
        &["--ram", "50% size", "--", "true"],
        &["--ram", "64M", "--engine", "swap", "--", "true"],
        &["--ram", "64M", "--codec", "lzo", "--", "true"],
        &["--ram", "64M", "--page-file", "", "--", "true"],
        &["--ram", "64M", "--page-file", ",1G", "--", "true"],
        &["--ram", "64M", "--swap", "zswap", "--", "true"],
        &["--ram", "64M", "--swap", "zram,lots", "--", "true"],
        &["--ram", "64M", "--swap", "zram", "--codec", "lz4", "--", "true"],
        &[
            "--ram", "64M", "--engine", "pager", "--swap", "zram", "--", "true",
        ],
        &[
            "--ram", "64M", "--engine", "kernel", "--codec", "lz4", "--", "true",
        ],
        &[
            "--ram",
            "64M",
            "--engine",
            "kernel",
            "--page-file",
            "/var/tmp",
            "--",
            "true",
        ],
    ] {
        let output = ran(exec().args(arguments));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty() && !said.is_empty(), "{arguments:?}");
    }
}

/// The smallest budget holds the tables of the pager.
#[test]
fn too_little_ram_is_a_mistake_that_no_option_allows() {
    let output = ran(exec().args([
        "--engine",
        "pager",
        "--ram",
        "64K",
        "--allow-unmanaged",
        "--json",
        "--",
        "true",
    ]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_engine(&document(&said, "refused"), "pager", None, "ram-too-small");
}

#[test]
fn a_program_that_cannot_be_started_is_told_as_a_shell_does() {
    let folder = scratch("not-started");
    let plain = folder.join("plain");
    fs::write(&plain, "text").expect("written");
    for (program, code) in [
        ("no-such-program-anywhere", 127),
        ("/no/such/program", 127),
        (plain.to_str().expect("text"), 126),
        (folder.to_str().expect("text"), 126),
    ] {
        let output = ran(exec().args(["--engine", "pager", "--ram", "64M", "--", program]));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(said.contains(program), "{said}");
    }
}

#[test]
fn errors_before_the_choice_of_the_engine_print_no_document() {
    for (arguments, code) in [
        ("--ram 0 -- true", 1),
        ("--ram 64M --engine kernel --codec lz4 -- true", 1),
        ("--ram 64M --engine pager -- no-such-program-anywhere", 127),
        ("--ram 64M --engine pager -- /etc", 126),
    ] {
        let output = ran(exec().arg("--json").args(arguments.split(' ')));
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {said}");
        assert!(documents(&said).is_empty() && !said.is_empty(), "{said}");
    }
}
