//! Names that become parts of paths.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::text;

/// A name has the wrong characters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "must be 1 to 63 characters of `a-z 0-9 . _ -`, start with a letter or digit, not contain `..`, and not \
     end in `.attempts`"
)]
pub struct NameError;

/// Defines a name with the grammar of [`NameError`].
macro_rules! name {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(String);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<$name, NameError> {
                text.to_owned().try_into()
            }
        }

        impl TryFrom<String> for $name {
            type Error = NameError;

            fn try_from(text: String) -> Result<$name, NameError> {
                match text::is_name(&text) {
                    true => Ok($name(text)),
                    false => Err(NameError),
                }
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
    };
}

name! {
    /// Name of a task in its fleet, and of the folder of its result.
    TaskId
}
name! {
    /// Name of a fleet's run, and of its part of a data set.
    RunName
}
