//! `watch --headless --serve` as a service: the page and metrics without a terminal, until a signal or a time.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use plimsoll_model::recording::Recording;
use plimsoll_testkit::{capability, open_metrics};
use rustix::process::{Pid, Signal, kill_process};

use super::client::{get, request};

const TOKEN: &str = "an-operators_own.token~1";

/// A file with [`TOKEN`].
fn token_file(folder: &Path, mode: u32) -> PathBuf {
    let path = folder.join(format!("token-{mode:o}"));
    std::fs::write(&path, format!("{TOKEN}\n")).unwrap();
    // Whatever this program's umask.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    path
}

fn service(arguments: &[&str]) -> std::process::Command {
    let mut command = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(["watch", "--headless", "--serve", "127.0.0.1:0"])
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// Runs it to its end.
fn ended(arguments: &[&str]) -> Output {
    service(arguments).output().expect("plimsoll starts")
}

/// A service at work, killed at the end of a failed test.
struct Service {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
    url: String,
}

impl Service {
    fn start(arguments: &[&str]) -> Service {
        let mut child = service(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("plimsoll starts");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let mut url = String::new();
        output.read_line(&mut url).expect("an address");
        Service { child, output, url }
    }

    fn address(&self) -> SocketAddr {
        let rest = self.url.strip_prefix("http://").expect("an address");
        let (address, _) = rest.split_once('/').expect("a path");
        address.parse().expect("an address")
    }

    /// Sends SIGTERM and waits for the end: the code, and all output.
    fn terminate(mut self) -> (Option<i32>, String, String) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        let (mut output, mut errors) = (self.url.clone(), String::new());
        self.output.read_to_string(&mut output).unwrap();
        let mut stderr = self.child.stderr.take().expect("piped");
        stderr.read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), output, errors)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_service_serves_until_sigterm_and_its_recording_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let (token, record) = (token_file(folder.path(), 0o640), folder.path().join("r"));
    let service = Service::start(&[
        "--json",
        "--token-file",
        token.to_str().unwrap(),
        "--record",
        record.to_str().unwrap(),
    ]);
    let address = service.address();
    let host = address.to_string();
    let bearer = format!("Bearer {TOKEN}");
    let headers = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    let (status, _, body) = request(address, "GET", "/metrics", &headers, "");
    assert_eq!(status, 200, "{body}");
    let metrics = open_metrics::parse(&body).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(metrics["plimsoll_sample_mem_total_bytes"].values()[0] > 0.0);
    assert_eq!(get(address, "/metrics", &headers[..1]), 401);
    assert_eq!(
        get(address, &format!("/?token={TOKEN}"), &headers[..1]),
        200,
        "the page"
    );
    let (code, output, errors) = service.terminate();
    assert_eq!(code, Some(0), "{output}{errors}");
    assert!(!output.contains(TOKEN) && !errors.contains(TOKEN));
    let (_, summary) = output.split_once('\n').expect("the address, then the summary");
    let summary: serde_json::Value = serde_json::from_str(summary).expect("one document");
    assert!(summary["samples"].as_u64() > Some(0), "{summary}");
    let recording = Recording::open(&record).unwrap();
    assert!(recording.complete, "{:?}", recording.warnings);
}

#[test]
fn a_service_ends_after_its_time_and_with_its_program() {
    let output = ended(&["--duration", "0.5"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let token = text.lines().next().and_then(|url| url.split_once("/?token="));
    assert_eq!(token.expect("an address with a new token").1.len(), 32);
    let output = ended(&["--", "sh", "-c", "echo to the output; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("to the output\n"));
}

#[test]
fn a_service_that_cannot_serve_ends_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let readable = token_file(folder.path(), 0o644);
    let readable = readable.to_str().unwrap();
    for (arguments, code) in [
        (&["watch", "--headless", "--serve", &address][..], 3),
        (&["watch", "--headless", "--serve", "192.0.2.1:8080"], 1),
        (
            &[
                "watch",
                "--headless",
                "--serve",
                "127.0.0.1:0",
                "--token-file",
                readable,
            ],
            1,
        ),
        (&["watch", "--headless", "--token-file", readable], 1),
    ] {
        let output = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
            .args(arguments)
            .args(["--duration", "60"])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {output:?}");
    }
}

/// The unit in the book, as systemd reads it.
#[test]
fn the_unit_of_the_book_is_valid() {
    let book = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/containers.md");
    let book = std::fs::read_to_string(book).unwrap();
    let unit = book
        .split("```ini\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .find(|block| block.contains("\nExecStart="))
        .expect("a unit of a service");
    let command = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="))
        .expect("a command");
    let arguments: Vec<&str> = command.split(' ').skip(1).chain(["--help"]).collect();
    let parsed = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(&arguments)
        .output()
        .unwrap();
    assert!(parsed.status.success(), "{arguments:?}: {parsed:?}");
    let analyze = |unit: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plimsoll-watch.service");
        std::fs::write(&path, unit).unwrap();
        plimsoll_testkit::command("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&path)
            .output()
    };
    let program = command.split(' ').next().expect("a program");
    let here = unit.replace(program, env!("CARGO_BIN_EXE_plimsoll"));
    match analyze(&here) {
        Ok(output) => {
            assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
            let wrong = analyze(&here.replace("\nNoNewPrivileges=", "\nNoNewPrivilege=")).unwrap();
            assert!(!wrong.stderr.is_empty(), "it would find a wrong key");
        }
        Err(error) => {
            capability("systemd-analyze", false, &error.to_string());
        }
    }
}
