//! User names.

use std::collections::HashMap;
use std::fs;

/// The users of `/etc/passwd` by uid. Users of other directories appear as their uid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Users(HashMap<u32, String>);

impl Users {
    /// Reads the file. If it cannot be read, every user appears as a uid.
    pub fn read() -> Users {
        Self::parse(&fs::read_to_string("/etc/passwd").unwrap_or_default())
    }

    fn parse(text: &str) -> Users {
        let users = text.lines().filter_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?.to_owned();
            Some((fields.nth(1)?.parse().ok()?, name))
        });
        // The first of two names for one uid counts, as in the C library.
        let mut names = HashMap::new();
        for (uid, name) in users {
            names.entry(uid).or_insert(name);
        }
        Users(names)
    }

    pub fn name(&self, uid: u32) -> String {
        self.0.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_users_appear_as_uids() {
        let users =
            Users::parse("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0::/:\n\nbad\nnobody:x:65534:65534::/:\n");
        assert_eq!(
            (users.name(0), users.name(65534), users.name(7)),
            ("root".into(), "nobody".into(), "7".into())
        );
    }
}
