//! The served page over real connections: the answered clients, the sent state, and that no client delays another.

mod client;
mod crowds;
mod metrics;
mod service;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use client::{Events, get, head_of, request};
use plimsoll_monitor::watch::serve::{MAX_CLIENTS, ServeError, ServeOptions, Server};
use plimsoll_monitor::watch::{Monitor, Options, Source, TargetChoice};
use plimsoll_sample::stop::Stop;

/// The cause with which the test ends the server.
const OVER: &str = "the test is over";

/// A server of this machine at work. Dropping it stops it.
struct Served {
    address: std::net::SocketAddr,
    token: String,
    monitor: Arc<Monitor>,
    stop: Arc<Stop>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Served {
    fn start(allow_actions: bool, hz: u32) -> Served {
        let options = Options {
            hz,
            ..Options::of(Source::Live(TargetChoice::None))
        };
        Served::start_with(allow_actions, &options)
    }

    fn start_with(allow_actions: bool, options: &Options) -> Served {
        let server = Server::bind(&ServeOptions {
            address: "127.0.0.1:0".parse().unwrap(),
            allow_actions,
            token: None,
        })
        .expect("a free port");
        let (address, url) = (server.address(), server.url());
        let monitor = Arc::new(Monitor::start(options).expect("samples"));
        let stop = Arc::new(Stop::default());
        let (served, asked) = (Arc::clone(&monitor), Arc::clone(&stop));
        let thread = std::thread::spawn(move || server.run(&served, &asked, None));
        Served {
            address,
            token: url
                .split_once("token=")
                .expect("the address holds the token")
                .1
                .to_owned(),
            monitor,
            stop,
            thread: Some(thread),
        }
    }

    fn host(&self) -> String {
        self.address.to_string()
    }

    fn events(&self, more: &[(&str, &str)]) -> Events {
        let host = self.host();
        let mut headers = vec![("Host", host.as_str()), ("X-Plimsoll", self.token.as_str())];
        headers.extend(more);
        Events::open(self.address, &headers)
    }

    /// Times of the frames that the monitor took after `t_ns`, in milliseconds, as clients get them.
    fn frame_times(&self, t_ns: u64) -> Vec<u64> {
        let state = self.monitor.state();
        let frames = state.history.after(t_ns);
        frames.map(|frame| frame.t_ns / 1_000_000).collect()
    }

    /// Waits until the monitor took `count` frames after `t_ns`.
    fn await_frames(&self, t_ns: u64, count: usize) {
        await_that(&format!("{count} frames"), || {
            self.frame_times(t_ns).len() >= count
        });
    }

    fn act(&self, name: &str, headers: &[(&str, &str)], body: &str) -> u16 {
        request(self.address, "POST", &format!("/actions/{name}"), headers, body).0
    }

    fn end(&mut self) -> Result<(), ServeError> {
        self.stop.trip(OVER.to_owned());
        let thread = self.thread.take().expect("ended once");
        thread.join().expect("no panic")
    }
}

/// Waits until `holds`, at most a minute.
fn await_that(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < deadline, "no {what} in a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The time of a row in milliseconds.
fn time_of(row: &[serde_json::Value]) -> u64 {
    row[0].as_u64().expect("a time")
}

impl Drop for Served {
    fn drop(&mut self) {
        if self.thread.is_some() {
            let _ = self.end();
        }
    }
}

#[test]
fn the_page_needs_the_token_and_the_local_host_name() {
    let served = Served::start(false, 10);
    let host = served.host();
    let with_token = format!("/?token={}", served.token);
    let port = served.address.port();

    let (status, head, page) = request(served.address, "GET", &with_token, &[("Host", &host)], "");
    assert_eq!(status, 200);
    assert!(page.starts_with("<!doctype html>"), "{page:.60}");
    assert!(!page.contains(&served.token), "the page does not hold the token");
    let policy = head_of(&head, "content-security-policy").expect("a policy");
    for words in [
        "default-src 'none'",
        "frame-ancestors 'none'",
        "script-src 'sha256-",
    ] {
        assert!(policy.contains(words), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(head_of(&head, "cache-control"), Some("no-store"));
    assert_eq!(head_of(&head, "x-content-type-options"), Some("nosniff"));
    assert_eq!(head_of(&head, "access-control-allow-origin"), None);
    assert_eq!(head_of(&head, "set-cookie"), None);

    let wrong = format!("/?token={}", "0".repeat(32));
    let short = format!("/?token={}", &served.token[..31]);
    for path in ["/", "/?token=", &wrong, &short, "/events", "/?TOKEN=x"] {
        assert_eq!(get(served.address, path, &[("Host", &host)]), 403, "{path}");
    }
    for name in ["localhost", "[::1]"] {
        let host = format!("{name}:{port}");
        assert_eq!(
            get(served.address, &with_token, &[("Host", &host)]),
            200,
            "{name}"
        );
    }
    let rebound = format!("evil.example:{port}");
    let next_port = format!("127.0.0.1:{}", port ^ 1);
    for host in [
        &rebound,
        &next_port,
        "127.0.0.1",
        "localhost",
        "",
        "127.0.0.1.evil.example",
    ] {
        assert_eq!(get(served.address, &with_token, &[("Host", host)]), 403, "{host}");
    }
    assert_eq!(
        get(served.address, &with_token, &[("Host", &host), ("Host", &host)]),
        403,
        "two names"
    );
}

#[test]
fn pages_of_other_sites_are_refused() {
    let served = Served::start(true, 10);
    let host = served.host();
    let with_token = format!("/?token={}", served.token);
    let own = format!("http://{host}");
    let neighbour = format!("http://127.0.0.1:{}", served.address.port() ^ 1);
    let secure = format!("https://{host}");
    for (origin, expected) in [
        (own.as_str(), 200),
        (&neighbour, 403),
        (&secure, 403),
        ("http://evil.example", 403),
        ("null", 403),
    ] {
        let headers = [("Host", host.as_str()), ("Origin", origin)];
        assert_eq!(get(served.address, &with_token, &headers), expected, "{origin}");
    }
    for (site, expected) in [
        ("none", 200),
        ("same-origin", 200),
        ("same-site", 403),
        ("cross-site", 403),
    ] {
        let headers = [("Host", host.as_str()), ("Sec-Fetch-Site", site)];
        assert_eq!(get(served.address, &with_token, &headers), expected, "{site}");
    }
    let headers = [
        ("Host", host.as_str()),
        ("X-Plimsoll", &served.token),
        ("Origin", "http://evil.example"),
    ];
    assert_eq!(served.act("mark", &headers, "1"), 403);
    assert!(served.monitor.state().marks.is_empty());
}

#[test]
fn actions_are_posts_with_the_token_in_a_header_and_off_unless_allowed() {
    let served = Served::start(false, 10);
    let host = served.host();
    let headers = [("Host", host.as_str()), ("X-Plimsoll", served.token.as_str())];
    for name in [
        "mark",
        "note",
        "trim",
        "release",
        "release-plan",
        "page-flags",
        "nonsense",
    ] {
        assert_eq!(served.act(name, &headers, "1"), 403, "{name}");
    }
    drop(served);

    let served = Served::start(true, 10);
    let host = served.host();
    let headers = [("Host", host.as_str()), ("X-Plimsoll", served.token.as_str())];
    let path = format!("/actions/mark?token={}", served.token);
    assert_eq!(get(served.address, &path, &headers), 405, "by GET");
    let without = request(served.address, "POST", &path, &headers[..1], "1").0;
    assert_eq!(without, 403, "the token in the address is not enough");
    assert_eq!(served.act("mark", &headers, "5"), 400);
    assert_eq!(served.act("mark", &headers, "no number"), 400);
    assert_eq!(served.act("note", &headers, "  "), 400);
    assert_eq!(served.act("nonsense", &headers, ""), 404);
    assert_eq!(served.act("note", &headers, &"x".repeat(5000)), 413);
    assert_eq!(get(served.address, "/nonsense", &headers), 404);
    assert!(served.monitor.state().marks.is_empty());

    let mut events = served.events(&[]);
    assert_eq!(served.act("mark", &headers, "3"), 204);
    assert_eq!(served.act("note", &headers, "<b>\u{1b}[2J"), 204);
    let told = events
        .until(|event| event.name == "marks" && event.data.as_array().is_some_and(|list| list.len() == 2));
    let marks = &told.expect("the marks are told").data;
    assert_eq!(marks[0]["symbol"], "3");
    assert_eq!(marks[1]["kind"], "note");
    assert!(!marks[1]["text"].as_str().expect("text").contains('\u{1b}'));
}

#[test]
fn the_first_events_have_the_state_and_frames_follow_at_rate() {
    let served = Served::start(false, 20);
    served.await_frames(0, 10);
    let mut events = served.events(&[]);
    let hello = events.next().expect("an event");
    assert_eq!(hello.name, "hello");
    assert_eq!(hello.data["hz"], 20);
    assert_eq!(hello.data["actions"], false);
    let width = 1
        + hello.data["layers"].as_array().expect("layers").len()
        + hello.data["gauges"].as_array().expect("gauges").len();
    let history = events.until(|event| event.name == "history").expect("a history");
    assert!(!history.rows().is_empty());
    let total = hello.data["memTotal"].as_i64().expect("a number");
    let mut times: Vec<u64> = history.rows().iter().map(|row| time_of(row)).collect();
    let after_history = times.len();
    while times.len() < after_history + 60 {
        let event = events.next().expect("events go on");
        if event.name != "frames" {
            continue;
        }
        for row in event.rows() {
            assert_eq!(row.len(), width);
            let layers: i64 = row[1..11].iter().filter_map(serde_json::Value::as_i64).sum();
            assert_eq!(layers, total, "the layers sum to MemTotal");
            times.push(time_of(&row));
        }
    }
    // Every frame that the monitor took is told once, in order, from the first one on.
    let taken: Vec<u64> = served.frame_times(0);
    assert_eq!(times, taken[..times.len()]);
}

#[test]
fn a_reconnected_client_gets_missed_frames_once() {
    let served = Served::start(false, 20);
    let mut events = served.events(&[]);
    let first = events.until(|event| event.name == "frames").expect("frames");
    let id = first.id.expect("an id");
    let last = first.rows().last().expect("a row")[0].as_u64().expect("a time");
    drop(events);
    served.await_frames(id, 20);
    let expected = served.frame_times(id);
    let mut events = served.events(&[("Last-Event-ID", &id.to_string())]);
    let missed = events
        .until(|event| ["frames", "history"].contains(&event.name.as_str()))
        .expect("what was missed");
    assert_eq!(missed.name, "frames");
    let times: Vec<u64> = missed.rows().iter().map(|row| time_of(row)).collect();
    assert!(times[0] > last, "{times:?} after {last}");
    assert_eq!(times[..expected.len()], expected, "nothing is left out");

    // An id from the future, as of another run, cannot be gone on from.
    let mut events = served.events(&[("Last-Event-ID", &u64::MAX.to_string())]);
    let all = events.until(|event| ["frames", "history"].contains(&event.name.as_str()));
    assert_eq!(all.expect("a history").name, "history");
}

/// The buffers of the kernel and the server for a client are full after some seconds at this rate, so stuck clients are held
/// up; when they read at last, they get the remaining samples, once and in order.
#[test]
fn a_client_that_does_not_read_delays_no_other() {
    assert!(
        (0..5).any(|_| stuck_clients_are_passed()),
        "1000 frames at 100 Hz took more than 18 s, five times over"
    );
}

/// False where the machine is so slow that the server drops the stuck clients, as it does after 20 s.
fn stuck_clients_are_passed() -> bool {
    let served = Served::start(false, 100);
    let began = Instant::now();
    let host = served.host();
    let headers = [("Host", host.as_str()), ("X-Plimsoll", served.token.as_str())];
    let mut stuck: Vec<Events> = (0..4)
        .map(|_| Events::open_narrow(served.address, &headers))
        .collect();
    let mut reader = served.events(&[]);
    let history = reader.until(|event| event.name == "history");
    let mut told: Vec<u64> = history
        .expect("a history")
        .rows()
        .iter()
        .map(|row| time_of(row))
        .collect();
    let (until, mut silent) = (told.len() + 1000, 0);
    while told.len() < until {
        let event = reader.next().expect("events go on");
        if event.name == "frames" {
            let rows = event.rows();
            silent = silent.max(rows.len());
            told.extend(rows.iter().map(|row| time_of(row)));
        }
    }
    // The clock of this test is the feed, at 100 Hz: a busy machine slows both down.
    assert_eq!(
        told,
        served.frame_times(0)[..told.len()],
        "each frame is told once"
    );
    assert!(silent < 200, "{silent} frames were fed between two events");
    if began.elapsed() > Duration::from_secs(18) {
        return false;
    }

    let (mut times, mut largest) = (Vec::new(), 0);
    while times.last() < told.last() {
        let event = stuck[0].next().expect("it was not dropped");
        if ["frames", "history"].contains(&event.name.as_str()) {
            largest = largest.max(event.rows().len());
            times.extend(event.rows().iter().map(|row| time_of(row)));
        }
    }
    assert!(times.is_sorted(), "in order");
    assert!(
        largest > 100,
        "what was missed came in pieces of {largest}: it was never held up"
    );
    true
}

#[test]
fn further_clients_are_refused_until_one_has_vanished() {
    let served = Served::start(false, 10);
    let mut clients: Vec<Events> = (0..MAX_CLIENTS).map(|_| served.events(&[])).collect();
    for client in &mut clients {
        assert_eq!(client.next().expect("hello").name, "hello");
    }
    let host = served.host();
    let headers = [("Host", host.as_str()), ("X-Plimsoll", served.token.as_str())];
    assert_eq!(get(served.address, "/events", &headers), 503);
    // Closed without a word, with unread events in its buffer.
    clients.pop();
    let began = Instant::now();
    while served.events(&[]).status() == 503 {
        assert!(began.elapsed() < Duration::from_secs(60), "its place is not free");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn clients_get_the_end_event_and_a_stuck_one_does_not_delay_it() {
    let mut served = Served::start(false, 10);
    let _stuck = served.events(&[]);
    let mut events = served.events(&[]);
    events.until(|event| event.name == "history").expect("a history");
    let began = Instant::now();
    served.end().expect("a good end");
    // A stuck client keeps its place for 20 s.
    assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
    let end = events
        .until(|event| event.name == "end")
        .expect("the end is told");
    assert!(
        end.data["reason"]
            .as_str()
            .is_some_and(|reason| reason.contains(OVER)),
        "{:?}",
        end.data
    );
    assert!(events.next().is_none());
}

#[test]
fn addresses_that_cannot_be_served_at_are_explained() {
    let bind = |address: &str| {
        Server::bind(&ServeOptions {
            address: address.parse().expect("an address"),
            allow_actions: false,
            token: None,
        })
    };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound").to_string();
    let error = bind(&address).expect_err("in use");
    assert!(matches!(error, ServeError::InUse { .. }), "{error:?}");
    assert!(error.to_string().contains(&address), "{error}");
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:8080"] {
        let error = bind(address).expect_err("not our own");
        assert!(matches!(error, ServeError::NotLoopback { .. }), "{error:?}");
    }
    let (one, other) = (
        bind("127.0.0.1:0").expect("free"),
        bind("127.0.0.1:0").expect("free"),
    );
    assert_ne!(one.url().split_once("token="), other.url().split_once("token="));
    assert_eq!(one.url().split_once("token=").expect("a token").1.len(), 32);
}
