//! The hosts file: one line per host, `[user@]name[:port] [class=WORD]`, with comments after `#`.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{FleetError, Folder};

/// Longest hosts file: about 100,000 hosts.
const MOST_BYTES: u64 = 1 << 23;
const CLASS: &str = "class=";

/// A host that ssh reaches.
///
/// Invariant: each field is one word of a command, needs no quoting and is no option. Checked by
/// `a_host_is_words_of_a_command_and_parses_back`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// `[user@]name`, as ssh takes it.
    pub destination: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Class in the report, in place of the one derived from the hardware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
}

impl Host {
    /// Its name without the user.
    pub fn name(&self) -> &str {
        self.destination
            .rsplit_once('@')
            .map_or(&self.destination, |(_, name)| name)
    }

    /// `[user@]name[:port]`.
    pub fn address(&self) -> String {
        let port = self.port.map(|port| format!(":{port}"));
        format!("{}{}", self.destination, port.unwrap_or_default())
    }

    /// Whether its fields are as [`Host::from_str`] makes them.
    pub fn is_valid(&self) -> bool {
        self.to_string().parse().as_ref() == Ok(self)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address())?;
        if let Some(class) = &self.class {
            write!(f, " {CLASS}{class}")?;
        }
        Ok(())
    }
}

/// Defect of a line of a hosts file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HostError {
    #[error(
        "the name of the host is missing, or has characters other than letters, digits and `.`, `_`, `-`"
    )]
    Name,
    #[error("the user has characters other than letters, digits and `.`, `_`, `-`")]
    User,
    #[error(
        "the port is not a number from 1 to 65535; for an IPv6 address, use a Host alias in ~/.ssh/config"
    )]
    Port,
    #[error("the class has characters other than letters, digits and `.`, `_`, `-`")]
    Class,
    #[error("expected `[user@]name[:port] [class=WORD]`")]
    Stray,
}

impl FromStr for Host {
    type Err = HostError;

    /// A line without its comment.
    fn from_str(line: &str) -> Result<Host, HostError> {
        let mut words = line.split_ascii_whitespace();
        let first = words.next().ok_or(HostError::Name)?;
        let class = match words.next() {
            None => None,
            Some(word) => Some(word.strip_prefix(CLASS).ok_or(HostError::Stray)?),
        };
        if words.next().is_some() {
            return Err(HostError::Stray);
        }
        let (destination, port) = match first.split_once(':') {
            None => (first, None),
            Some((destination, port)) => (destination, Some(parse_port(port)?)),
        };
        let (user, name) = match destination.rsplit_once('@') {
            None => (None, destination),
            Some((user, name)) => (Some(user), name),
        };
        if !is_plain(name) {
            return Err(HostError::Name);
        }
        if user.is_some_and(|user| !is_plain(user)) {
            return Err(HostError::User);
        }
        if class.is_some_and(|class| !is_plain(class)) {
            return Err(HostError::Class);
        }
        Ok(Host {
            destination: destination.to_owned(),
            port,
            class: class.map(str::to_owned),
        })
    }
}

fn parse_port(text: &str) -> Result<u16, HostError> {
    // `parse` would accept `+22`, and a leading zero would not be written back.
    match text.parse() {
        Ok(port) if port > 0 && !text.starts_with(['+', '0']) => Ok(port),
        _ => Err(HostError::Port),
    }
}

fn is_plain(word: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    crate::text::is_word(word) && word.bytes().all(allowed)
}

/// Reads a hosts file.
///
/// # Errors
/// [`FleetError::Format`] with the number of the line; a file without hosts; a host twice.
pub fn read(path: &Path) -> Result<Vec<Host>, FleetError> {
    let name = path
        .file_name()
        .ok_or_else(|| FleetError::format(path, "it is a folder"))?;
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let bytes = Folder::open(parent)?.read(name, MOST_BYTES)?;
    let bytes = bytes.ok_or_else(|| FleetError::io("open", path, rustix::io::Errno::NOENT))?;
    let text = String::from_utf8(bytes).map_err(|error| FleetError::format(path, error))?;
    parse(&text).map_err(|reason| FleetError::format(path, reason))
}

/// The hosts of a text, in its order.
///
/// # Errors
/// The number of the line and its defect.
pub fn parse(text: &str) -> Result<Vec<Host>, String> {
    let mut hosts: Vec<Host> = Vec::new();
    let mut seen = std::collections::BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let host: Host = line.parse().map_err(|error| format!("line {number}: {error}"))?;
        // Two users of a host are one machine.
        let key = (host.name().to_ascii_lowercase(), host.port.unwrap_or(22));
        if let Some(before) = seen.insert(key, number) {
            return Err(format!("line {number}: the host is on line {before}, too"));
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return Err("it has no host; write a line `[user@]name[:port]` for each".to_owned());
    }
    Ok(hosts)
}
