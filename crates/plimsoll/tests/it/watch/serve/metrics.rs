//! Metrics over real connections: the values of the latest sample, for scrapers with the token alone.

use std::collections::BTreeMap;
use std::time::Duration;

use plimsoll_model::columns::col;
use plimsoll_monitor::watch::serve::{ServeOptions, Server};
use plimsoll_monitor::watch::{Options, Program, Source};
use plimsoll_testkit::open_metrics::{self, Family};

use super::client::{head_of, request};
use super::{Served, await_that};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

impl Served {
    /// Status, head and body of a scrape with these headers besides Host.
    fn scrape(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
        let host = self.host();
        let mut all = vec![("Host", host.as_str())];
        all.extend(headers);
        request(self.address, "GET", path, &all, "")
    }

    fn metrics(&self) -> BTreeMap<String, Family> {
        let bearer = format!("Bearer {}", self.token);
        let (status, head, body) = self.scrape("/metrics", &[("Authorization", &bearer)]);
        assert_eq!(status, 200, "{body}");
        assert_eq!(head_of(&head, "content-type"), Some(OPEN_METRICS));
        open_metrics::parse(&body).unwrap_or_else(|violation| panic!("{violation}"))
    }
}

#[test]
fn a_scrape_is_open_metrics_of_the_latest_sample() {
    let served = Served::start(false, 20);
    served.await_frames(0, 2);
    let first = served.metrics();
    let one = |metrics: &BTreeMap<String, Family>, name: &str| {
        let values = metrics[name].values();
        assert_eq!(values.len(), 1, "{name}");
        values[0]
    };
    let row = served.monitor.latest_sample().expect("a live machine");
    let total = row.get(col::MEM_TOTAL).expect("every Linux has it") as f64;
    assert_eq!(one(&first, "plimsoll_sample_mem_total_bytes"), total);
    assert_eq!(first["plimsoll_memory_bytes"].values().iter().sum::<f64>(), total);
    let hostname = &first["plimsoll_watch"].samples[0].labels["hostname"];
    assert_eq!(*hostname, served.monitor.state().facts.hostname);
    assert!(!first.contains_key("plimsoll_target"));
    let now_ns = served.monitor.now_ns();
    served.await_frames(now_ns, 2);
    let second = served.metrics();
    for name in ["plimsoll_sample_pgfault", "plimsoll_sample_cpu_user_seconds"] {
        assert!(one(&first, name) <= one(&second, name), "{name}");
    }
    let sampler = "plimsoll_sample_sampler_cpu_seconds";
    assert!(one(&first, sampler) < one(&second, sampler));
    assert!(one(&second, "plimsoll_watch_sample_age_seconds") >= 0.0);
}

#[test]
fn a_scrape_needs_the_token() {
    let served = Served::start(true, 10);
    let bearer = format!("Bearer {}", served.token);
    let lower = format!("bearer  {} ", served.token);
    let basic = format!("Basic {}", served.token);
    let short = format!("Bearer {}", &served.token[..31]);
    let in_address = format!("/metrics?token={}", served.token);
    for (path, headers) in [
        ("/metrics", &[("Authorization", bearer.as_str())][..]),
        ("/metrics", &[("Authorization", &lower)]),
        ("/metrics", &[("X-Plimsoll", &served.token)]),
        (&in_address, &[]),
    ] {
        assert_eq!(served.scrape(path, headers).0, 200, "{path} {headers:?}");
    }
    for (path, headers) in [
        ("/metrics", &[][..]),
        ("/metrics?token=", &[]),
        ("/metrics", &[("Authorization", basic.as_str())]),
        ("/metrics", &[("Authorization", &short)]),
        ("/metrics", &[("Authorization", "Bearer")]),
        ("/metrics", &[("Authorization", &served.token)]),
        (
            "/metrics",
            &[("Authorization", &bearer), ("Authorization", &bearer)],
        ),
    ] {
        let (status, head, body) = served.scrape(path, headers);
        assert_eq!(status, 401, "{path} {headers:?}");
        assert!(head_of(&head, "www-authenticate").is_some_and(|value| value.starts_with("Bearer ")));
        assert!(!body.contains("plimsoll_sample"), "{body}");
    }
    for foreign in [
        ("Origin", "http://evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
    ] {
        let headers = [("Authorization", bearer.as_str()), foreign];
        assert_eq!(served.scrape("/metrics", &headers).0, 403, "{foreign:?}");
    }
    let host = served.host();
    let headers = [("Host", host.as_str()), ("Authorization", bearer.as_str())];
    assert_eq!(
        request(served.address, "GET", "/", &headers, "").0,
        200,
        "the page"
    );
    assert_eq!(
        served.act("mark", &headers, "1"),
        403,
        "actions have a header of their own"
    );
}

#[test]
fn a_scraper_of_prometheus_text_gets_it() {
    let served = Served::start(false, 10);
    let headers = [
        ("X-Plimsoll", served.token.as_str()),
        ("Accept", "text/plain;version=0.0.4;q=0.9,*/*;q=0.1"),
    ];
    let (status, head, body) = served.scrape("/metrics", &headers);
    assert_eq!(status, 200);
    assert_eq!(
        head_of(&head, "content-type"),
        Some("text/plain; version=0.0.4; charset=utf-8")
    );
    assert_eq!(head_of(&head, "vary"), Some("Accept"));
    assert!(body.contains("\n# TYPE plimsoll_sample_pgfault_total counter\nplimsoll_sample_pgfault_total "));
    assert!(!body.contains("# EOF") && !body.contains("# UNIT"));
}

/// Any user can name a program so that its name looks like metrics.
#[test]
fn the_name_of_a_program_is_a_label_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let name = "a\"} 1\nplimsoll_evil 7\n# EOF\\";
    let path = folder.path().join(name);
    plimsoll_testkit::copy_program("/bin/sleep", &path);
    let served = Served::start_with(
        false,
        &Options::of(Source::Program(Program {
            command: vec![path.into(), "60".into()],
            passes_through: true,
        })),
    );
    await_that("a sample of the program", || {
        let row = served.monitor.latest_sample();
        row.is_some_and(|row| row.get(col::TARGET_RESIDENT).is_some())
    });
    let metrics = served.metrics();
    let title = served.monitor.state().target.clone().expect("a program").title;
    let label = &metrics["plimsoll_target"].samples[0].labels["title"];
    assert_eq!(*label, title);
    assert!(label.contains("a\"} 1") && label.contains("# EOF\\"), "{label}");
    assert!(!metrics.contains_key("plimsoll_evil"));
    assert!(metrics["plimsoll_sample_target_resident_bytes"].values()[0] > 0.0);
    served.monitor.signal_program(9);
    assert!(served.monitor.wait(Duration::from_secs(60)));
}

#[test]
fn a_replay_has_no_metrics() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("r");
    let output = plimsoll_testkit::command(env!("CARGO_BIN_EXE_plimsoll"))
        .args(["watch", "--headless", "--duration", "0.3", "--record"])
        .arg(&record)
        .output()
        .expect("plimsoll starts");
    assert!(output.status.success(), "{output:?}");
    let served = Served::start_with(false, &Options::of(Source::Replay(record)));
    let headers = [("X-Plimsoll", served.token.as_str())];
    assert_eq!(served.scrape("/metrics", &headers).0, 404);
}

#[test]
fn a_server_with_a_known_token_does_not_print_it() {
    use std::os::unix::fs::OpenOptionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("token");
    let text = "an-operators_own.token~1";
    let mut file = std::fs::File::options();
    let mut file = file.write(true).create(true).mode(0o600).open(&path).unwrap();
    std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
    let token = plimsoll_monitor::watch::serve::Token::read(&path).expect("a token");
    let options = ServeOptions {
        address: "127.0.0.1:0".parse().unwrap(),
        allow_actions: false,
        token: Some(token),
    };
    let server = Server::bind(&options).expect("a free port");
    assert!(server.url().ends_with("/?token="), "{}", server.url());
    assert!(!format!("{server:?} {options:?}").contains(text));
}
