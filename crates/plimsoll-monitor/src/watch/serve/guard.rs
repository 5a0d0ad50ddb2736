//! Access control: requests must address this server by a name of its own, come from its own page, and carry the token
//! of this run.
//!
//! Other users of the machine can connect, and any page in the user's browser can send requests. Other users do not
//! know the token. Three checks reject foreign pages: the token; the Host header, which holds the attacker's name after
//! DNS rebinding; and the Origin and Sec-Fetch-Site headers, which the browser sets and a page cannot. There is no
//! cookie, because browsers send cookies to every port of a host, so to the servers of other users too.

use std::io;
use std::net::SocketAddr;

use axum::http::{HeaderMap, Uri, header};

pub(super) const TOKEN_HEADER: &str = "x-plimsoll";

/// Length of a token in bytes.
const TOKEN_BYTES: usize = 16;

/// Expected values of a request.
pub(super) struct Guard {
    token: String,
    hosts: Vec<String>,
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("hosts", &self.hosts)
            .finish_non_exhaustive()
    }
}

/// Valid Host headers: the address and the names of the loopback. Browsers omit HTTP's default port.
fn own_hosts(address: SocketAddr) -> Vec<String> {
    let port = address.port();
    let literal = match address {
        SocketAddr::V4(address) => address.ip().to_string(),
        SocketAddr::V6(address) => format!("[{}]", address.ip()),
    };
    let names = [literal.as_str(), "127.0.0.1", "localhost", "[::1]"];
    let with_port = names.iter().map(|name| format!("{name}:{port}"));
    let without = names.iter().filter(|_| port == 80).map(|name| (*name).to_owned());
    with_port.chain(without).collect()
}

/// Reason for a refusal, as a sentence for the response.
pub(super) type Refusal = &'static str;

impl Guard {
    /// Creates a guard for the address with a new token.
    pub(super) fn new(address: SocketAddr) -> io::Result<Guard> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Guard {
            token: bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
            hosts: own_hosts(address),
        })
    }

    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks the Host header and, if present, the headers that name the requesting page.
    pub(super) fn check_way(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let host = only(headers, header::HOST.as_str());
        if !host.is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return Err("The Host header names another server: use 127.0.0.1 or localhost, with the port.");
        }
        if headers.contains_key(header::ORIGIN) {
            let origin =
                only(headers, header::ORIGIN.as_str()).and_then(|origin| origin.strip_prefix("http://"));
            if origin.is_none() || origin != host {
                return Err("The request comes from another site's page.");
            }
        }
        match only(headers, "sec-fetch-site") {
            None | Some("same-origin" | "none") => Ok(()),
            Some(_) => Err("The request comes from another site's page."),
        }
    }

    /// Checks the token in a header or in the address.
    pub(super) fn check_token(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let in_address = uri
            .query()
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("token=")));
        match only(headers, TOKEN_HEADER).or(in_address) {
            Some(token) if same(token, &self.token) => Ok(()),
            _ => Err(
                "The token is missing or belongs to another run: open the address that `plimsoll watch` printed.",
            ),
        }
    }

    /// Checks the token in the header, which a page of another site cannot set.
    pub(super) fn check_token_header(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match only(headers, TOKEN_HEADER) {
            Some(token) if same(token, &self.token) => Ok(()),
            _ => Err("Actions need the token in the header X-Plimsoll."),
        }
    }
}

/// The value of a header that occurs once. A repeated header cannot be trusted.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    match values.next() {
        None => value.to_str().ok(),
        Some(_) => None,
    }
}

/// Compares two texts in a time that does not depend on the place of the first difference. Their length is not secret.
fn same(given: &str, own: &str) -> bool {
    let differences = given
        .bytes()
        .zip(own.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    given.len() == own.len() && std::hint::black_box(differences) == 0
}
