//! The pager as a subject: its codec and its options.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::size::{SizeExpr, size_text};

/// The name of the subject.
const NAME: &str = "pager";

/// The settings of a pager under test. As text: `pager`, `pager:lz4`, `pager:auto,pagefile`,
/// `pager:zstd,store-cap=512M,trim=per-fault`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct PagerOptions {
    /// The codec of saved copies; `None` is the library's default.
    pub codec: Option<PagerCodec>,
    /// Whether a page file was asked for; see [`PagerOptions::page_file_bytes`].
    pub page_file: bool,
    /// The most bytes of the compressed store.
    pub store_cap: Option<u64>,
    pub trim: PagerTrim,
    /// Whether the pager acts on thrashing; else it reports it.
    pub controls_thrash: bool,
}

/// A codec of saved copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PagerCodec {
    Lz4,
    Zstd,
    /// LZ4 first, Zstandard for copies that stay idle.
    Auto,
}

/// The rule by which a pager trims at its cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum PagerTrim {
    /// A thread trims in batches.
    #[default]
    BalanceSet,
    /// Each fault trims one page.
    PerFault,
}

impl PagerCodec {
    pub const ALL: &'static [(PagerCodec, &'static str)] = &[
        (PagerCodec::Lz4, "lz4"),
        (PagerCodec::Zstd, "zstd"),
        (PagerCodec::Auto, "auto"),
    ];

    pub fn name(self) -> &'static str {
        let named = PagerCodec::ALL.iter().find(|(codec, _)| *codec == self);
        named.map_or("", |(_, name)| name)
    }
}

/// An option of the subject, after its codec.
pub struct PagerOption {
    /// The option as it is written, with an example of its value.
    pub example: &'static str,
    pub meaning: &'static str,
    name: &'static str,
    /// Sets the value; `None` of one that it does not take.
    set: fn(&mut PagerOptions, &str) -> Option<()>,
    /// The text of the value; `None` of the default.
    text: fn(&PagerOptions) -> Option<String>,
}

/// Every option, in the order in which a subject's text has them.
pub const PAGER_OPTIONS: &[PagerOption] = &[
    PagerOption {
        example: "pagefile",
        meaning: "copies that the store cannot hold go to a page file in `swap-dir`",
        name: "pagefile",
        set: |options, value| {
            options.page_file = true;
            value.is_empty().then_some(())
        },
        text: |options| options.page_file.then(String::new),
    },
    PagerOption {
        example: "store-cap=512M",
        meaning: "the compressed store has at most these bytes, 1M or more; further copies go to a page file, as with `pagefile`",
        name: "store-cap",
        set: |options, value| match value.parse() {
            Ok(SizeExpr::Bytes(bytes)) if bytes >= LEAST_STORE_CAP => {
                options.store_cap = Some(bytes);
                Some(())
            }
            _ => None,
        },
        text: |options| options.store_cap.map(size_text),
    },
    PagerOption {
        example: "trim=per-fault",
        meaning: "each fault at the cap trims one page, as a hard limit does; else a thread trims in batches",
        name: "trim",
        set: |options, value| {
            options.trim = match value {
                "per-fault" => PagerTrim::PerFault,
                "balance-set" => PagerTrim::BalanceSet,
                _ => return None,
            };
            Some(())
        },
        text: |options| (options.trim == PagerTrim::PerFault).then(|| "per-fault".to_owned()),
    },
    PagerOption {
        example: "thrash-control=on",
        meaning: "the pager tries measures while it thrashes, and keeps those that help; else it only reports that",
        name: "thrash-control",
        set: |options, value| {
            options.controls_thrash = match value {
                "on" => true,
                "off" => false,
                _ => return None,
            };
            Some(())
        },
        text: |options| options.controls_thrash.then(|| "on".to_owned()),
    },
];

/// The least cap of a store: its tables and buffers.
const LEAST_STORE_CAP: u64 = 1 << 20;
const LEAST_PAGE_FILE: u64 = 64 << 20;

/// Texts of subjects to offer, and the options after the name of the subject.
static KNOWN: LazyLock<String> = LazyLock::new(|| {
    let codecs = PagerCodec::ALL.iter().map(|(_, name)| format!("{NAME}:{name}"));
    let names: Vec<String> = [NAME.to_owned()].into_iter().chain(codecs).collect();
    let options: Vec<&str> = PAGER_OPTIONS.iter().map(|option| option.example).collect();
    format!("{}; after a comma {}", names.join(", "), options.join(", "))
});

/// Text after `pager` that is no codec and no option.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PagerTextError {
    #[error("`{0}` is not a codec of the pager")]
    Codec(String),
    #[error("{} is not an option of the pager", or_nothing(.0))]
    Option(String),
    #[error("{} is not a value of the pager's option `{option}`", or_nothing(.given))]
    Value { option: &'static str, given: String },
    #[error("the pager's option `{0}` occurs twice")]
    Twice(&'static str),
}

fn or_nothing(text: &str) -> String {
    match text.is_empty() {
        true => "nothing".to_owned(),
        false => format!("`{text}`"),
    }
}

impl PagerOptions {
    /// The options of a subject's text; `None` of another subject.
    pub fn of_text(text: &str) -> Option<Result<PagerOptions, PagerTextError>> {
        let after = text.strip_prefix(NAME)?;
        matches!(after.chars().next(), None | Some(':' | ',')).then(|| after.parse())
    }

    /// The most bytes of the page file of a pager that manages `memory` bytes; `None` without one. A cap of the store needs
    /// one, as pages beyond it would stay in RAM. Blocks of the file take disk only while they are in use.
    pub fn page_file_bytes(&self, memory: u64) -> Option<u64> {
        let has_one = self.page_file || self.store_cap.is_some();
        has_one.then(|| memory.saturating_mul(2).max(LEAST_PAGE_FILE))
    }

    /// Codecs and options, as text.
    pub fn known() -> &'static str {
        &KNOWN
    }

    /// Whether `item`, after a comma in a list of subjects, is an option of `subject` before it, and no subject.
    pub fn continues(subject: &str, item: &str) -> bool {
        let name = item.split_once('=').map_or(item, |(name, _)| name);
        let is_pager = PagerOptions::of_text(subject.trim().trim_start_matches(['"', '\''])).is_some();
        is_pager && PAGER_OPTIONS.iter().any(|option| option.name == name.trim())
    }
}

impl FromStr for PagerOptions {
    type Err = PagerTextError;

    /// Of the text after the name of the subject.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut options = PagerOptions::default();
        let (codec, rest) = text.split_once(',').unwrap_or((text, ""));
        if let Some(name) = codec.strip_prefix(':') {
            let known = PagerCodec::ALL.iter().find(|(_, known)| *known == name);
            let (codec, _) = known.ok_or_else(|| PagerTextError::Codec(name.to_owned()))?;
            options.codec = Some(*codec);
        } else if !codec.is_empty() {
            return Err(PagerTextError::Codec(codec.to_owned()));
        }
        let mut seen: Vec<&'static str> = Vec::new();
        let items = text.contains(',').then(|| rest.split(','));
        for item in items.into_iter().flatten() {
            let (name, value) = item.split_once('=').unwrap_or((item, ""));
            let option = PAGER_OPTIONS.iter().find(|option| option.name == name.trim());
            let option = option.ok_or_else(|| PagerTextError::Option(item.to_owned()))?;
            if seen.contains(&option.name) {
                return Err(PagerTextError::Twice(option.name));
            }
            seen.push(option.name);
            (option.set)(&mut options, value.trim()).ok_or_else(|| PagerTextError::Value {
                option: option.name,
                given: value.to_owned(),
            })?;
        }
        Ok(options)
    }
}

impl fmt::Display for PagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)?;
        if let Some(codec) = self.codec {
            write!(f, ":{}", codec.name())?;
        }
        for option in PAGER_OPTIONS {
            match (option.text)(self) {
                Some(value) if value.is_empty() => write!(f, ",{}", option.name)?,
                Some(value) => write!(f, ",{}={value}", option.name)?,
                None => {}
            }
        }
        Ok(())
    }
}

impl Serialize for PagerOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PagerOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let options = PagerOptions::of_text(&text).unwrap_or(Err(PagerTextError::Option(text)));
        options.map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::select;

    fn parse(text: &str) -> Option<Result<PagerOptions, PagerTextError>> {
        PagerOptions::of_text(text)
    }

    pub(crate) fn options() -> impl Strategy<Value = PagerOptions> {
        let codecs: Vec<Option<PagerCodec>> = [None]
            .into_iter()
            .chain(PagerCodec::ALL.iter().map(|(codec, _)| Some(*codec)))
            .collect();
        let trims = vec![PagerTrim::BalanceSet, PagerTrim::PerFault];
        let caps = proptest::option::of(LEAST_STORE_CAP..=u64::MAX);
        (select(codecs), any::<bool>(), caps, select(trims), any::<bool>()).prop_map(
            |(codec, page_file, store_cap, trim, controls_thrash)| PagerOptions {
                codec,
                page_file,
                store_cap,
                trim,
                controls_thrash,
            },
        )
    }

    proptest! {
        #[test]
        fn options_read_back_from_their_text(options in options()) {
            prop_assert_eq!(parse(&options.to_string()), Some(Ok(options)));
        }

        /// With any text after the name, a subject is refused, or equals the one parsed from its own text.
        #[test]
        fn no_text_is_read_as_another(after in "[:,=a-z0-9-]{0,24}") {
            if let Some(Ok(options)) = parse(&format!("pager{after}")) {
                prop_assert_eq!(parse(&options.to_string()), Some(Ok(options)));
            }
        }
    }

    #[test]
    fn a_text_that_is_no_codec_or_option_is_an_error_of_its_own() {
        let error = |text: &str| parse(text).and_then(Result::err);
        assert_eq!(error("pager:lzo"), Some(PagerTextError::Codec("lzo".to_owned())));
        assert_eq!(error("pager:"), Some(PagerTextError::Codec(String::new())));
        assert_eq!(error("pager,"), Some(PagerTextError::Option(String::new())));
        assert_eq!(
            error("pager:lz4,fast"),
            Some(PagerTextError::Option("fast".to_owned()))
        );
        let value = PagerTextError::Value {
            option: "trim",
            given: "never".to_owned(),
        };
        assert_eq!(error("pager,trim=never"), Some(value));
        for (option, given) in [
            ("pagefile", "yes"),
            ("store-cap", ""),
            ("store-cap", "0"),
            ("store-cap", "1023K"),
            ("store-cap", "25%"),
            ("store-cap", "-1M"),
            ("store-cap", "much"),
            ("thrash-control", "yes"),
        ] {
            let given = given.to_owned();
            let text = format!("pager:lz4,{option}={given}");
            assert_eq!(
                error(&text),
                Some(PagerTextError::Value { option, given }),
                "{text}"
            );
        }
        assert_eq!(
            error("pager,pagefile,store-cap=1M,pagefile"),
            Some(PagerTextError::Twice("pagefile"))
        );
        assert_eq!(
            error("pager,trim=per-fault,trim=per-fault"),
            Some(PagerTextError::Twice("trim"))
        );
        for other in ["pagers", "page", "zram", "", "pager-x"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn options_have_one_order_and_a_cap_implies_a_page_file() {
        let options = |text: &str| parse(text).unwrap().unwrap();
        let any_order = options("pager:auto,thrash-control=on,trim=per-fault,store-cap=1024K,pagefile");
        assert_eq!(
            any_order.to_string(),
            "pager:auto,pagefile,store-cap=1M,trim=per-fault,thrash-control=on"
        );
        assert_eq!(options("pager,thrash-control=off"), PagerOptions::default());
        for (text, has_file) in [
            ("pager", false),
            ("pager:zstd,trim=per-fault", false),
            ("pager,pagefile", true),
            ("pager:lz4,store-cap=512M", true),
        ] {
            let bytes = options(text).page_file_bytes(1 << 30);
            assert_eq!(bytes, has_file.then_some(2 << 30), "{text}");
        }
    }

    #[test]
    fn every_example_of_an_option_is_one() {
        for option in PAGER_OPTIONS {
            let text = format!("{NAME},{}", option.example);
            assert_eq!(parse(&text).unwrap().unwrap().to_string(), text);
            assert!(PagerOptions::continues("pager:lz4", option.example));
            assert!(!PagerOptions::continues("zram:lz4", option.example));
            assert!(PagerOptions::known().contains(option.example));
        }
        assert!(!PagerOptions::continues("pager", "zram") && !PagerOptions::continues("pager", "pager"));
    }
}
