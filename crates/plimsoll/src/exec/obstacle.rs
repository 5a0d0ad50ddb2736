//! Programs whose memory the pager cannot manage, detected from their files.

use std::path::PathBuf;

use crate::program::{Image, Kind};

/// The reason that the preloaded library would not manage a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    #[error("{} is statically linked, so no dynamic linker can load the library", .0.display())]
    Static(PathBuf),
    /// It has set-user-ID, set-group-ID or capabilities that the caller lacks.
    #[error("{} has set-user-ID, set-group-ID or file capabilities, so the dynamic linker ignores LD_PRELOAD; run it as its owner", .0.display())]
    Privileged(PathBuf),
    #[error("{} is for another processor or word size than the library", .0.display())]
    OtherMachine(PathBuf),
    /// Its C library is not glibc.
    #[error("{} uses the dynamic linker {}, but the library needs glibc", path.display(), linker.display())]
    OtherLibc { path: PathBuf, linker: PathBuf },
}

impl Obstacle {
    /// The stable name in JSON.
    pub fn code(&self) -> &'static str {
        match self {
            Obstacle::Static(_) => "static",
            Obstacle::Privileged(_) => "privileged",
            Obstacle::OtherMachine(_) => "other-machine",
            Obstacle::OtherLibc { .. } => "other-libc",
        }
    }
}

/// The names of glibc's dynamic linker begin so.
const GLIBC: [&str; 5] = ["ld-linux", "ld-lsb", "ld-2.", "ld64.so", "ld.so"];

/// The obstacle to managing a program, if any.
pub fn obstacle(image: Image) -> Option<Obstacle> {
    let path = image.path;
    if image.is_privileged {
        return Some(Obstacle::Privileged(path));
    }
    match image.kind? {
        Kind::OtherMachine => Some(Obstacle::OtherMachine(path)),
        Kind::Static => Some(Obstacle::Static(path)),
        Kind::Dynamic(linker) => {
            let name = linker.file_name().and_then(|name| name.to_str());
            let is_glibc = name.is_some_and(|name| GLIBC.iter().any(|start| name.starts_with(start)));
            (!is_glibc).then_some(Obstacle::OtherLibc { path, linker })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_of_glibc_have_no_obstacle() {
        let of = |linker: &str| {
            obstacle(Image {
                path: "/p".into(),
                is_privileged: false,
                kind: Some(Kind::Dynamic(linker.into())),
            })
        };
        for linker in [
            "/lib64/ld-linux-x86-64.so.2",
            "/nix/store/x-glibc-2.40/lib/ld-linux-x86-64.so.2",
            "/lib64/ld-lsb-x86-64.so.3",
        ] {
            assert_eq!(of(linker), None, "{linker}");
        }
        for linker in ["/lib/ld-musl-x86_64.so.1", "/system/bin/linker64", ""] {
            let found = of(linker);
            assert!(matches!(found, Some(Obstacle::OtherLibc { .. })), "{linker}");
        }
    }
}
