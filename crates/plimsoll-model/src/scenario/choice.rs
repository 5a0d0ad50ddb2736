//! Choices by name: the values of a key that has a list of names.

/// An enum that a scenario file names the variants of.
pub(super) trait Choice: Sized {
    fn of_name(name: &str) -> Option<Self>;
}

/// Gives an enum of choices the names that a scenario file has for them.
macro_rules! named {
    ($noun:ty, $($name:literal = $variant:expr,)*) => {
        impl $noun {
            pub const NAMES: &'static [&'static str] = &[$($name),*];

            pub fn name(self) -> &'static str {
                const CHOICES: &[($noun, &str)] = &[$(($variant, $name)),*];
                CHOICES.iter().find(|(choice, _)| *choice == self).map_or("", |(_, name)| name)
            }
        }

        impl $crate::scenario::choice::Choice for $noun {
            fn of_name(name: &str) -> Option<Self> {
                match name {
                    $($name => Some($variant),)*
                    _ => None,
                }
            }
        }
    };
}
pub(super) use named;
