//! Clients without the token, and clients with it that ask for too much: neither keeps the others out.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::client::get;
use super::{Served, await_that};

/// More connections than the server has places, whichever kind.
const CROWD: usize = 200;
/// The beginning of a request whose head never ends.
const BEGINNING: &[u8] = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ";

/// Connections of another user of the machine, each of which sends a byte of its head now and then.
struct Crowd {
    rounds: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Crowd {
    fn around(address: SocketAddr) -> Crowd {
        let (rounds, stop) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, asked) = (Arc::clone(&rounds), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut crowd: Vec<TcpStream> = Vec::new();
            while !asked.load(Ordering::Relaxed) {
                crowd.retain_mut(|stream| stream.write_all(b"a").is_ok());
                while crowd.len() < CROWD {
                    let mut stream = TcpStream::connect(address).expect("the server listens");
                    let _ = stream.write_all(BEGINNING);
                    crowd.push(stream);
                }
                counted.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Crowd {
            rounds,
            stop,
            thread: Some(thread),
        }
    }

    /// Waits until the whole crowd has come back after this call.
    fn await_rounds(&self) {
        let seen = self.rounds.load(Ordering::Relaxed);
        await_that("three rounds of the crowd", || {
            self.rounds.load(Ordering::Relaxed) >= seen + 3
        });
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// 64 connections that never ended their request's head once kept everyone out for as long as they liked.
#[test]
fn a_crowd_without_the_token_keeps_no_client_with_it_out() {
    let served = Served::start(false, 10);
    let crowd = Crowd::around(served.address);
    crowd.await_rounds();
    let host = served.host();
    let with_token = format!("/?token={}", served.token);
    assert_eq!(get(served.address, &with_token, &[("Host", &host)]), 200);
    let mut events = served.events(&[]);
    assert_eq!(events.next().expect("an event").name, "hello");
    // The stream keeps its place while the crowd comes back again and again.
    for _ in 0..3 {
        crowd.await_rounds();
        events
            .until(|event| event.name == "frames")
            .expect("frames go on");
    }
    assert_eq!(get(served.address, &with_token, &[("Host", &host)]), 200);
}

#[test]
fn the_head_of_a_request_has_a_deadline_however_its_bytes_arrive() {
    let served = Served::start(false, 10);
    let mut stream = TcpStream::connect(served.address).expect("the server listens");
    stream.write_all(BEGINNING).expect("sent");
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("a timeout");
    let began = Instant::now();
    loop {
        // A deadline for each read alone would begin again with this byte.
        let sent = stream.write_all(b"a");
        let read = stream.read(&mut [0; 512]);
        let waits = |kind: ErrorKind| matches!(kind, ErrorKind::WouldBlock | ErrorKind::TimedOut);
        let open = sent.is_ok() && matches!(&read, Err(error) if waits(error.kind()));
        if !open {
            return;
        }
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "the head never ended, and nor did the connection"
        );
    }
}

#[test]
fn notes_are_bounded_in_length_and_marks_in_number() {
    let served = Served::start(true, 10);
    let host = served.host();
    let headers = [("Host", host.as_str()), ("X-Plimsoll", served.token.as_str())];
    let letters = |count| "\u{e9}".repeat(count);
    assert_eq!(served.act("note", &headers, &letters(501)), 400);
    assert_eq!(served.act("note", &headers, &letters(500)), 204);
    while served.monitor.mark(1) {}
    let marks = served.monitor.state().marks.len();
    assert_eq!(marks, 10_000);
    assert_eq!(served.act("note", &headers, "one more"), 409);
    assert_eq!(served.act("mark", &headers, "1"), 409);
    let state = served.monitor.state();
    assert_eq!(state.marks.len(), marks);
    assert!(
        state
            .messages
            .iter()
            .any(|message| message.text.contains("10000"))
    );
}
