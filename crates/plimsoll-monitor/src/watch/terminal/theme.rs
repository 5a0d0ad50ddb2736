//! Colours for the capabilities of the terminal; letters and hatches without colours.

use ratatui::style::{Color, Modifier, Style};

use plimsoll_model::categories::CATEGORIES;
use plimsoll_report::html::palette;

/// Index of the target among the layers.
pub(super) const TARGET: usize = 1;
/// Index of free memory among the layers.
pub(super) const FREE: usize = 8;

/// A letter per layer, for terminals without colours.
const LETTERS: [char; CATEGORIES.len()] = ['k', 't', 'o', 'c', 's', 'd', 'p', 'r', 'f', 'u'];

/// The layers in sixteen colours.
const SIXTEEN: [Color; CATEGORIES.len()] = [
    Color::DarkGray,
    Color::LightRed,
    Color::Yellow,
    Color::Magenta,
    Color::LightMagenta,
    Color::Red,
    Color::Blue,
    Color::LightCyan,
    Color::Black,
    Color::Gray,
];

/// Swap devices by slot: on a dark terminal, on a light one, and in sixteen colours.
const DEVICES: [(&str, &str, Color); 4] = [
    ("#6FA3E8", "#004488", Color::Blue),
    ("#E08594", "#BB5566", Color::LightMagenta),
    ("#DDAA33", "#8A7A1C", Color::Yellow),
    ("#A9B4BD", "#5B6770", Color::Gray),
];

/// States of pagers in sixteen colours.
const PAGERS: [(&str, Color); 7] = [
    ("pager-active", Color::Blue),
    ("pager-modified", Color::Yellow),
    ("pager-standby", Color::Green),
    ("pager-standby-low", Color::LightGreen),
    ("pager-compressed", Color::Magenta),
    ("pager-page-file", Color::LightYellow),
    ("pager-metadata", Color::Gray),
];

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Colours {
    /// As the terminal allows, none if `NO_COLOR` is set.
    #[default]
    Auto,
    /// As the terminal allows, even if `NO_COLOR` is set.
    Always,
    Never,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// None: letters instead.
    Mono,
    /// The sixteen ANSI colours, which the user can configure.
    Sixteen,
    /// The 256 of xterm.
    Indexed,
    /// 24 bits.
    True,
}

/// Capabilities of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub depth: Depth,
    pub light: bool,
    /// Whether characters beyond ASCII are available.
    pub unicode: bool,
}

/// Role of a piece of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Plain,
    Dim,
    Strong,
    /// Keys and selections.
    Accent,
    Warning,
    /// Errors, and the symbol of a running recording.
    Alarm,
    In,
    Out,
    /// Faults and stalls.
    Stall,
    Cpu,
}

impl Theme {
    /// Reads the capabilities from `NO_COLOR`, `COLORTERM`, `TERM`, `COLORFGBG` and the locale.
    pub fn of_environment(colours: Colours, variable: impl Fn(&str) -> Option<String>) -> Theme {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        let none = colours == Colours::Never || (colours == Colours::Auto && set("NO_COLOR").is_some());
        Theme {
            depth: if none { Depth::Mono } else { depth(set) },
            light: set("COLORFGBG").is_some_and(|pair| pair.ends_with(";7") || pair.ends_with(";15")),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    pub(super) fn layer(&self, layer: usize) -> Color {
        let category = &CATEGORIES[layer];
        let rgb = if self.light {
            category.color
        } else {
            category.dark_color
        };
        match self.depth {
            Depth::Sixteen if self.light && layer == FREE => Color::White,
            _ => self.colour(rgb, SIXTEEN[layer]),
        }
    }

    pub(super) fn letter(&self, layer: usize) -> char {
        LETTERS[layer]
    }

    /// Character that fills a cell of a layer in colours: the target is hatched.
    pub(super) fn fill(&self, layer: usize) -> char {
        match (layer == TARGET, self.unicode) {
            (false, _) => ' ',
            (true, true) => '\u{2571}',
            (true, false) => '/',
        }
    }

    /// Colour of the target's hatch.
    pub(super) fn hatch(&self) -> Color {
        self.colour("#FF8A70", Color::White)
    }

    pub(super) fn device(&self, slot: usize) -> Color {
        let (dark, light, sixteen) = DEVICES[slot % DEVICES.len()];
        self.colour(if self.light { light } else { dark }, sixteen)
    }

    /// The colour of a series that the reports' palette knows.
    pub(super) fn series(&self, key: &str) -> Color {
        let ink = palette::ink_of(key, 0);
        let sixteen = PAGERS.iter().find(|(of, _)| *of == key);
        self.colour(
            if self.light { ink.light } else { ink.dark },
            sixteen.map_or(Color::Gray, |(_, colour)| *colour),
        )
    }

    pub(super) fn ink(&self, ink: Ink) -> Style {
        if self.depth == Depth::Mono {
            return match ink {
                Ink::Dim => Style::new().add_modifier(Modifier::DIM),
                Ink::Strong | Ink::Accent | Ink::Warning | Ink::Alarm => {
                    Style::new().add_modifier(Modifier::BOLD)
                }
                Ink::Plain | Ink::In | Ink::Out | Ink::Stall | Ink::Cpu => Style::new(),
            };
        }
        let pick = |dark, light, sixteen| {
            Style::new().fg(self.colour(if self.light { light } else { dark }, sixteen))
        };
        match ink {
            Ink::Plain => Style::new(),
            Ink::Dim => pick("#8A939B", "#5B6770", Color::DarkGray),
            Ink::Strong => Style::new().add_modifier(Modifier::BOLD),
            Ink::Accent => pick("#56A5DB", "#0072B2", Color::LightCyan).add_modifier(Modifier::BOLD),
            Ink::Warning => pick("#E3C800", "#8A7A1C", Color::Yellow),
            Ink::Alarm => pick("#FF6B57", "#CC3311", Color::LightRed).add_modifier(Modifier::BOLD),
            Ink::In => pick("#56A5DB", "#0072B2", Color::LightBlue),
            Ink::Out => pick("#F08A3C", "#D55E00", Color::Yellow),
            Ink::Stall => pick("#DD77B0", "#AA3377", Color::LightMagenta),
            Ink::Cpu => pick("#2DBE94", "#009E73", Color::Green),
        }
    }

    /// `rgb` or the nearest available colour; `sixteen` if there are only sixteen.
    fn colour(&self, rgb: &str, sixteen: Color) -> Color {
        match self.depth {
            Depth::Mono => Color::Reset,
            Depth::Sixteen => sixteen,
            Depth::Indexed => Color::Indexed(nearest_indexed(channels(rgb))),
            Depth::True => {
                let [red, green, blue] = channels(rgb);
                Color::Rgb(red, green, blue)
            }
        }
    }
}

fn depth(set: impl Fn(&str) -> Option<String>) -> Depth {
    let term = set("TERM").unwrap_or_default();
    let named = set("COLORTERM").is_some_and(|value| value == "truecolor" || value == "24bit");
    if named || term.ends_with("-direct") {
        Depth::True
    } else if term.contains("256color") {
        Depth::Indexed
    } else if term.starts_with("vt") || term.ends_with("-mono") || term.ends_with("-m") {
        Depth::Mono
    } else {
        Depth::Sixteen
    }
}

/// Red, green and blue of `#RRGGBB`.
fn channels(rgb: &str) -> [u8; 3] {
    let channel = |at| {
        rgb.get(at..at + 2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .unwrap_or(0)
    };
    [channel(1), channel(3), channel(5)]
}

/// The nearest xterm colour from 16 on: a cube of 6 steps per channel, then 24 greys.
fn nearest_indexed(rgb: [u8; 3]) -> u8 {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let distance = |other: [u8; 3]| -> u32 {
        let squares = rgb
            .iter()
            .zip(other)
            .map(|(a, b)| u32::from(a.abs_diff(b)).pow(2));
        squares.sum()
    };
    let cube = (0..216_u8).map(|index| {
        let step = |place: u8| STEPS[usize::from(index / place % 6)];
        (16 + index, [step(36), step(6), step(1)])
    });
    let greys = (0..24_u8).map(|index| (232 + index, [8 + 10 * index; 3]));
    cube.chain(greys)
        .min_by_key(|(_, other)| distance(*other))
        .map_or(16, |(index, _)| index)
}
