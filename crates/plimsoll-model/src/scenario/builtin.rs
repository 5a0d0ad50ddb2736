//! A scenario that the binary carries.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Builtin {
    /// The name that `plimsoll run` takes.
    pub name: &'static str,
    /// One line; the file has the same.
    pub title: &'static str,
    pub text: &'static str,
}

/// Scenarios by name and title; the text of `NAME` is that of `scenarios/NAME.toml`.
macro_rules! builtins {
    ($($name:literal $title:literal;)*) => {
        &[$($crate::scenario::builtin::Builtin {
            name: $name,
            title: $title,
            text: include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/", $name, ".toml")),
        },)*]
    };
}
pub(super) use builtins;
