//! A small client: one request a connection, and a reader of events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Longest that a test waits for the server.
const PATIENCE: Duration = Duration::from_secs(60);

fn send(address: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("the server listens");
    send_over(stream, method, path, headers, body)
}

/// A connection that takes little before it is read from.
fn narrow(address: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt};
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    sockopt::set_socket_recv_buffer_size(&socket, 4096).expect("a small buffer");
    connect(&socket, &address).expect("the server listens");
    socket.into()
}

fn send_over(
    mut stream: TcpStream,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut text = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    text += "Connection: close\r\n\r\n";
    stream.write_all(text.as_bytes()).expect("sent");
    // The server may answer before it has read a body that is too large.
    let _ = stream.write_all(body.as_bytes());
    stream
}

/// Status, head and body of an answer.
pub(super) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String, String) {
    let mut reader = BufReader::new(send(address, method, path, headers, body));
    let (status, head) = read_head(&mut reader);
    let mut body = Vec::new();
    let _ = reader.read_to_end(&mut body);
    (status, head, String::from_utf8_lossy(&body).into_owned())
}

/// Status of the answer to a GET with any body.
pub(super) fn get(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> u16 {
    read_head(&mut BufReader::new(send(address, "GET", path, headers, ""))).0
}

/// Value of a header in a head.
pub(super) fn head_of<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .filter_map(|line| line.split_once(": "))
        .find(|(own, _)| own.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
}

fn read_head(reader: &mut impl BufRead) -> (u16, String) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let read = reader.read_line(&mut head).expect("an answer in time");
        assert!(read > 0, "the answer ends in its head: {head:?}");
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("a status"), head)
}

#[derive(Debug, Clone)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) id: Option<u64>,
    pub(super) data: Value,
}

impl Event {
    pub(super) fn rows(&self) -> Vec<Vec<Value>> {
        serde_json::from_value(self.data["rows"].clone()).expect("rows")
    }
}

/// A client that gets events.
pub(super) struct Events {
    reader: BufReader<TcpStream>,
    status: Option<u16>,
    text: Vec<u8>,
}

impl Events {
    pub(super) fn open(address: SocketAddr, headers: &[(&str, &str)]) -> Events {
        Events {
            reader: BufReader::new(send(address, "GET", "/events", headers, "")),
            status: None,
            text: Vec::new(),
        }
    }

    /// As [`Events::open`], on a connection that takes little before it is read from.
    pub(super) fn open_narrow(address: SocketAddr, headers: &[(&str, &str)]) -> Events {
        Events {
            reader: BufReader::new(send_over(narrow(address), "GET", "/events", headers, "")),
            status: None,
            text: Vec::new(),
        }
    }

    pub(super) fn status(&mut self) -> u16 {
        *self.status.get_or_insert_with(|| read_head(&mut self.reader).0)
    }

    /// The next event; None after the last.
    pub(super) fn next(&mut self) -> Option<Event> {
        assert_eq!(self.status(), 200);
        loop {
            if let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let text: Vec<u8> = self.text.drain(..end + 2).collect();
                match parse(&String::from_utf8(text).expect("events are text")) {
                    Some(event) => return Some(event),
                    None => continue,
                }
            }
            if !self.read_chunk() {
                return None;
            }
        }
    }

    /// The first event from here on that is `wanted`.
    pub(super) fn until(&mut self, wanted: impl Fn(&Event) -> bool) -> Option<Event> {
        loop {
            let event = self.next()?;
            if wanted(&event) {
                return Some(event);
            }
        }
    }

    fn read_chunk(&mut self) -> bool {
        let mut size = String::new();
        if self.reader.read_line(&mut size).expect("events in time") == 0 {
            return false;
        }
        let size = usize::from_str_radix(size.trim(), 16).expect("the size of a chunk");
        let mut chunk = vec![0; size + 2];
        self.reader.read_exact(&mut chunk).expect("a whole chunk");
        self.text.extend_from_slice(&chunk[..size]);
        size > 0
    }
}

/// None for a comment.
fn parse(text: &str) -> Option<Event> {
    let field = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")))
    };
    Some(Event {
        name: field("event")?.to_owned(),
        id: field("id").map(|id| id.parse().expect("a number")),
        data: serde_json::from_str(field("data").expect("an event has data")).expect("JSON"),
    })
}
