//! The token of a server: new for every run, or from a file that the operator keeps.

use std::fs::File;
use std::io::{self, Read};
use std::ops::RangeInclusive;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Length of a new token in bytes, each two characters.
const TOKEN_BYTES: usize = 16;
/// Characters of a token of a file.
const LENGTH: RangeInclusive<usize> = 16..=256;
/// Permission of all users to read a file.
const OTHERS_READ: u32 = 0o004;

/// A secret that gives access to a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    #[error("cannot read the token file {path}; check its name and its permissions")]
    Read {
        path: PathBuf,
        #[source]
        error: io::Error,
    },
    #[error("cannot use the token file {path}: it is not a regular file; name a file that holds the token")]
    Kind { path: PathBuf },
    #[error("cannot use the token file {path}: every user can read it; run `chmod o-r {path}`")]
    Readable { path: PathBuf },
    #[error(
        "cannot use the token file {path}: it must hold one line of {} to {} letters, digits, `-`, `.`, `_` or `~`; \
         `openssl rand -hex 16` makes one",
        LENGTH.start(), LENGTH.end()
    )]
    Content { path: PathBuf },
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A new token of random bytes.
    ///
    /// # Errors
    ///
    /// If the kernel has no random numbers.
    pub(super) fn random() -> io::Result<Token> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        Ok(Token(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Reads a token from a file.
    ///
    /// # Errors
    ///
    /// If the file is unreadable, readable by every user, or holds no token.
    pub fn read(path: &Path) -> Result<Token, TokenError> {
        let path = || path.to_owned();
        let failed = |error| TokenError::Read { path: path(), error };
        // A pipe must not keep the monitor waiting; the open file is examined, not its name.
        let file = File::options()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path())
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(TokenError::Kind { path: path() });
        }
        if metadata.mode() & OTHERS_READ != 0 {
            return Err(TokenError::Readable { path: path() });
        }
        let mut text = Vec::new();
        // One byte more than the longest line: a longer file is refused.
        let most = *LENGTH.end() as u64 + 2;
        file.take(most).read_to_end(&mut text).map_err(failed)?;
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        let of_url = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
        match str::from_utf8(line) {
            Ok(token) if LENGTH.contains(&token.len()) && line.iter().all(of_url) => {
                Ok(Token(token.to_owned()))
            }
            _ => Err(TokenError::Content { path: path() }),
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.0
    }

    /// Compares in a time that does not depend on the place of the first difference. The length is not secret.
    pub(super) fn is(&self, given: &str) -> bool {
        let differences = given
            .bytes()
            .zip(self.0.bytes())
            .fold(0, |all, (a, b)| all | (a ^ b));
        given.len() == self.0.len() && std::hint::black_box(differences) == 0
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(folder: &Path, text: &str, mode: u32) -> PathBuf {
        let path = folder.join("token");
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_token_of_a_file_is_one_line_that_an_address_can_hold() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["0123456789abcdef", "0123456789abcdef\n", &"x-._~".repeat(50)] {
            let token = Token::read(&file(folder.path(), text, 0o640)).expect("a token");
            assert_eq!(token.text(), text.trim_end());
            assert!(token.is(text.trim_end()));
            assert!(!token.is(&text.trim_end()[1..]) && !token.is(""));
            assert!(!format!("{token:?}").contains(text.trim_end()));
        }
        for text in [
            "",
            "\n",
            "0123456789abcde",
            "0123456789abcdef\n\n",
            "0123456789abcdef&",
            "0123456789 abcdef",
            "0123456789abcdef\u{e9}",
            &"x".repeat(257),
            &"x".repeat(100_000),
        ] {
            let refused = Token::read(&file(folder.path(), text, 0o600));
            assert!(matches!(refused, Err(TokenError::Content { .. })), "{refused:?}");
        }
    }

    #[test]
    fn a_token_that_every_user_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = Token::read(&file(folder.path(), "0123456789abcdef", 0o644));
        assert!(matches!(refused, Err(TokenError::Readable { .. })), "{refused:?}");
        let refused = Token::read(folder.path());
        assert!(matches!(refused, Err(TokenError::Kind { .. })), "{refused:?}");
        let refused = Token::read(&folder.path().join("none"));
        assert!(matches!(refused, Err(TokenError::Read { .. })), "{refused:?}");
    }
}
