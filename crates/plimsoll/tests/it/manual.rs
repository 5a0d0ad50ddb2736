//! The man pages: every command has one, with every section, and a formatter accepts it.

use std::fs;
use std::path::Path;
use std::process::Stdio;

use clap::CommandFactory;
use plimsoll::{cli::Cli, manual};
use plimsoll_testkit::capability;

const PLIMSOLL: &str = env!("CARGO_BIN_EXE_plimsoll");

/// The pages that `plimsoll man DIR` writes.
fn written() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let status = plimsoll_testkit::command(PLIMSOLL)
        .arg("man")
        .arg(folder.path())
        .status()
        .expect("plimsoll");
    assert!(status.success());
    folder
}

#[test]
fn every_command_has_a_page_with_every_section() {
    let folder = written();
    let mut root = Cli::command();
    root.build();
    let commands = manual::commands(&root);
    let pages: Vec<String> = commands.iter().map(|command| manual::name(command)).collect();
    let mut files: Vec<String> = fs::read_dir(folder.path())
        .expect("the folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    files.sort();
    let mut expected: Vec<String> = pages.iter().map(|page| format!("{page}.1")).collect();
    expected.sort();
    assert_eq!(files, expected);
    let hidden = |page: &String| page.ends_with("-worker") || page.ends_with("-complete");
    assert!(!pages.iter().any(hidden), "{pages:?}");
    for page in &pages {
        let text = fs::read_to_string(folder.path().join(format!("{page}.1"))).expect("a page");
        let titles = [
            "NAME",
            "SYNOPSIS",
            "OPTIONS",
            "EXAMPLES",
            "EXIT STATUS",
            "ENVIRONMENT",
            "SEE ALSO",
        ];
        for title in titles {
            let plain = text.replace('"', "");
            assert!(
                plain.contains(&format!("\n.SH {title}\n")),
                "{page} lacks {title}"
            );
        }
        assert!(!text.contains(".SH EXTRA"), "{page}");
        // Of an unknown page the contents are those of the program.
        let own = manual::page(page).examples[0].command;
        let program = manual::page("plimsoll").examples[0].command;
        let is_known = page == "plimsoll" || page == "plimsoll-doctor" || own != program;
        assert!(is_known, "{page} has no contents");
        let others = manual::page(page).see_also.iter().map(|(name, _)| *name);
        for name in others.filter(|name| name.starts_with("plimsoll")) {
            assert!(pages.iter().any(|known| known == name), "{page} refers to {name}");
        }
    }
    for page in [
        "plimsoll.1",
        "plimsoll-run.1",
        "plimsoll-report.1",
        "plimsoll-cleanup.1",
    ] {
        let text = fs::read_to_string(folder.path().join(page)).expect("a page");
        assert!(text.contains("\n.SH FILES\n"), "{page}");
    }
    let printed = plimsoll_testkit::command(PLIMSOLL)
        .arg("man")
        .output()
        .expect("plimsoll");
    assert_eq!(
        printed.stdout,
        fs::read(folder.path().join("plimsoll.1")).expect("a page")
    );
}

/// Root wrote a page through a link that another user had put into a shared folder.
#[test]
fn a_link_in_place_of_a_page_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let (target, page) = (folder.path().join("target"), folder.path().join("plimsoll.1"));
    fs::write(&target, "of another").expect("a file");
    std::os::unix::fs::symlink(&target, &page).expect("a link");
    let mut root = Cli::command();
    root.build();
    manual::write_all(&root, folder.path()).expect("the folder is writable");
    assert_eq!(fs::read_to_string(&target).expect("the file"), "of another");
    assert!(!fs::symlink_metadata(&page).expect("a page").is_symlink());
}

#[test]
fn groff_formats_every_page_without_a_warning() {
    let groff = Path::new("/usr/bin/groff").exists();
    if !capability("groff", groff, "groff formats man pages") {
        return;
    }
    let folder = written();
    for entry in fs::read_dir(folder.path()).expect("the folder") {
        let path = entry.expect("an entry").path();
        let output = plimsoll_testkit::command("groff")
            .args(["-man", "-Tutf8", "-ww", "-z"])
            .arg(&path)
            .stdin(Stdio::null())
            .output()
            .expect("groff");
        let warnings = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && warnings.is_empty(),
            "{}: {warnings}",
            path.display()
        );
    }
}
