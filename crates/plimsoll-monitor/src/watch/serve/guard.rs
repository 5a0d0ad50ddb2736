//! Access control: requests must address this server by a name of its own, come from its own page, and carry the token
//! of this run.
//!
//! Other users of the machine can connect, and any page in the user's browser can send requests. Other users do not
//! know the token. Three checks reject foreign pages: the token; the Host header, which holds the attacker's name after
//! DNS rebinding; and the Origin and Sec-Fetch-Site headers, which the browser sets and a page cannot. There is no
//! cookie, because browsers send cookies to every port of a host, so to the servers of other users too. Scrapers send the
//! token as `Authorization: Bearer`, which no browser adds by itself.

use std::net::SocketAddr;

use axum::http::{HeaderMap, Uri, header};

use super::token::Token;

pub(super) const TOKEN_HEADER: &str = "x-plimsoll";

/// Expected values of a request.
#[derive(Debug)]
pub(super) struct Guard {
    token: Token,
    hosts: Vec<String>,
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
    pub(super) fn new(address: SocketAddr, token: Token) -> Guard {
        Guard {
            token,
            hosts: own_hosts(address),
        }
    }

    pub(super) fn token(&self) -> &Token {
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

    /// Checks the token in a header, `X-Plimsoll` or `Authorization: Bearer`, or in the address.
    pub(super) fn check_token(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let in_address = uri
            .query()
            .and_then(|query| query.split('&').find_map(|pair| pair.strip_prefix("token=")));
        match only(headers, TOKEN_HEADER).or(bearer(headers)).or(in_address) {
            Some(token) if self.token.is(token) => Ok(()),
            _ => Err(
                "The token is missing or belongs to another run: open the address that `plimsoll watch` printed.",
            ),
        }
    }

    /// Checks the token in the header, which a page of another site cannot set.
    pub(super) fn check_token_header(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        match only(headers, TOKEN_HEADER) {
            Some(token) if self.token.is(token) => Ok(()),
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

/// The token of `Authorization: Bearer TOKEN`; the scheme's case does not matter.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = only(headers, header::AUTHORIZATION.as_str())?.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim_matches(' '))
}
