//! Colours, fills and names of all series, in one table.
//!
//! The layers' colours stay apart for protan, deutan and tritan readers; the target and unaccounted memory
//! carry a hatch as well, and everything that is drawn is labelled where it is drawn.

use plimsoll_model::categories::CATEGORIES;

/// How a layer of the memory stack looks.
#[derive(Debug, Clone, Copy)]
pub struct Paint {
    pub key: &'static str,
    pub label: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
    /// Whether a hatch is drawn over the colour.
    pub hatched: bool,
    /// Whether the experiment moves this layer.
    pub moves: bool,
}

const PLAIN: bool = false;
const HATCHED: bool = true;
const STAYS: bool = false;
const MOVES: bool = true;

/// The layers, bottom to top: in the order of [`CATEGORIES`], whose names and colours they take.
pub const LAYERS: &[Paint] = &[
    paint(0, PLAIN, STAYS),
    paint(1, HATCHED, MOVES),
    paint(2, PLAIN, STAYS),
    paint(3, PLAIN, MOVES),
    paint(4, PLAIN, MOVES),
    paint(5, PLAIN, MOVES),
    paint(6, PLAIN, STAYS),
    paint(7, PLAIN, STAYS),
    paint(8, PLAIN, STAYS),
    paint(9, HATCHED, STAYS),
];
const _: () = assert!(LAYERS.len() == CATEGORIES.len());

/// How a line or a bar looks.
#[derive(Debug, Clone, Copy)]
pub struct Ink {
    pub key: &'static str,
    pub light: &'static str,
    pub dark: &'static str,
    /// Dashes of a line, in pixels; none for a solid one.
    pub dash: &'static [u8],
}

/// Lines and bars, by key. A series that is not listed takes one of [`SPARE_INKS`].
pub const INKS: &[Ink] = &[
    ink("swap-total", "#59616B", "#A3ACB6", &[1, 3]),
    ink("compressed-holds", "#AA3377", "#DD77B0", &[6, 3]),
    ink("fill", "#0072B2", "#56A5DB", &[]),
    ink("trim", "#D55E00", "#F08A3C", &[]),
    ink("restore", "#009E73", "#2DBE94", &[]),
    ink("swap-in", "#0072B2", "#56A5DB", &[]),
    ink("swap-out", "#D55E00", "#F08A3C", &[6, 3]),
    ink("zero-filled", "#009E73", "#2DBE94", &[1, 3]),
    ink("disk-in", "#5B6770", "#A9B4BD", &[2, 2]),
    ink("disk-out", "#9A6FB0", "#C39BD6", &[8, 3, 2, 3]),
    ink("minor", "#5B6770", "#A9B4BD", &[2, 2]),
    ink("major", "#D55E00", "#F08A3C", &[]),
    ink("refault", "#0072B2", "#56A5DB", &[6, 3]),
    ink("refault-file", "#009E73", "#2DBE94", &[8, 3, 2, 3]),
    ink("memory-some", "#D55E00", "#F08A3C", &[]),
    ink("memory-full", "#AA3377", "#DD77B0", &[6, 3]),
    ink("io-some", "#0072B2", "#56A5DB", &[2, 2]),
    ink("io-full", "#004488", "#8FB8EE", &[8, 3, 2, 3]),
    ink("cpu-some", "#5B6770", "#A9B4BD", &[1, 3]),
    ink("user", "#0072B2", "#56A5DB", &[]),
    ink("nice", "#8FC1E3", "#2F6E9E", &[]),
    ink("system", "#D55E00", "#F08A3C", &[]),
    ink("iowait", "#E3C800", "#E3C800", &[]),
    ink("interrupts", "#009E73", "#2DBE94", &[]),
    ink("steal", "#AA3377", "#DD77B0", &[]),
    ink("pager-active", "#0072B2", "#56A5DB", &[]),
    ink("pager-modified", "#D55E00", "#F08A3C", &[]),
    ink("pager-standby", "#009E73", "#2DBE94", &[]),
    ink("pager-standby-low", "#8FD3BC", "#1E6E58", &[]),
    ink("pager-compressed", "#AA3377", "#DD77B0", &[]),
    ink("pager-page-file", "#8A7A1C", "#DDAA33", &[]),
    ink("pager-metadata", "#5B6770", "#A9B4BD", &[]),
];

/// For series that the table does not know, such as swap devices, by their order.
pub const SPARE_INKS: &[Ink] = &[
    ink("device0", "#004488", "#6FA3E8", &[]),
    ink("device1", "#BB5566", "#E08594", &[6, 3]),
    ink("device2", "#8A7A1C", "#DDAA33", &[2, 2]),
    ink("device3", "#5B6770", "#A9B4BD", &[8, 3, 2, 3]),
];

/// Colours and dashes of lines without a colour of their own, by number.
pub const LINES: &[Ink] = &[
    ink("line0", "#0072B2", "#56A5DB", &[]),
    ink("line1", "#D55E00", "#F08A3C", &[6, 3]),
    ink("line2", "#009E73", "#2DBE94", &[2, 2]),
    ink("line3", "#AA3377", "#DD77B0", &[8, 3, 2, 3]),
    ink("line4", "#8A7A1C", "#DDAA33", &[10, 4]),
    ink("line5", "#004488", "#8FB8EE", &[1, 3]),
    ink("line6", "#BB5566", "#E08594", &[8, 2, 2, 2, 2, 2]),
    ink("line7", "#5B6770", "#A9B4BD", &[4, 4]),
];

const fn paint(category: usize, hatched: bool, moves: bool) -> Paint {
    let category = &CATEGORIES[category];
    Paint {
        key: category.name,
        label: category.title,
        light: category.color,
        dark: category.dark_color,
        hatched,
        moves,
    }
}

const fn ink(key: &'static str, light: &'static str, dark: &'static str, dash: &'static [u8]) -> Ink {
    Ink {
        key,
        light,
        dark,
        dash,
    }
}

/// The paint of a layer; a layer that the table does not know is painted as unaccounted.
pub fn paint_of(key: &str) -> &'static Paint {
    LAYERS
        .iter()
        .find(|paint| paint.key == key)
        .unwrap_or(&LAYERS[LAYERS.len() - 1])
}

/// The ink of a series, by its key or else by its place among its neighbours.
pub fn ink_of(key: &str, place: usize) -> &'static Ink {
    INKS.iter()
        .find(|ink| ink.key == key)
        .unwrap_or(&SPARE_INKS[place % SPARE_INKS.len()])
}

/// The colour of a numbered line and its dashes; a number beyond the colours takes one again, with other dashes.
pub fn line(number: usize) -> (&'static str, &'static [u8]) {
    let count = LINES.len();
    (
        LINES[number % count].key,
        LINES[(number + number / count) % count].dash,
    )
}

/// Declarations of every colour as CSS variables: `--KEY`, and for a layer `--on-KEY`, the colour of text on it.
pub fn css_variables(dark: bool) -> String {
    let mut css = String::new();
    for paint in LAYERS {
        let colour = if dark { paint.dark } else { paint.light };
        let on = if luminance(colour) > 0.3 { "#111" } else { "#fff" };
        css += &format!("--{0}:{colour};--on-{0}:{on};", paint.key);
    }
    for ink in INKS.iter().chain(SPARE_INKS).chain(LINES) {
        css += &format!("--{}:{};", ink.key, if dark { ink.dark } else { ink.light });
    }
    css
}

/// Relative luminance of `#RRGGBB` as WCAG 2 defines it, 0 to 1.
fn luminance(colour: &str) -> f64 {
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap_or(0)) / 255.0;
        if value <= 0.03928 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
}
