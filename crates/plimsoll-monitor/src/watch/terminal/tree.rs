//! The tree of cgroups, in a box over the main screen.

use std::collections::BTreeSet;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use unicode_width::UnicodeWidthStr;

use super::action::Action;
use super::boxes::{boxed, columns_inside};
use super::numbers;
use super::theme::{Ink, Theme};
use super::words::put;
use crate::processes::{CgroupListing, CgroupRow, branches, cap};

/// Rows of a page.
const PAGE: usize = 10;

/// The user's view of the tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeView {
    /// Paths of the cgroups whose children are hidden.
    collapsed: BTreeSet<String>,
    /// Path of the selected cgroup; None for the first one.
    chosen: Option<String>,
}

/// A visible row.
struct Shown<'a> {
    row: &'a CgroupRow,
    has_children: bool,
}

impl TreeView {
    /// The rows that no collapsed ancestor hides.
    fn shown<'a>(&self, listing: &'a CgroupListing) -> Vec<Shown<'a>> {
        let mut shown = Vec::new();
        let mut hidden_below = usize::MAX;
        for (place, row) in listing.cgroups.iter().enumerate() {
            if row.depth > hidden_below {
                continue;
            }
            hidden_below = match self.collapsed.contains(&row.path) {
                true => row.depth,
                false => usize::MAX,
            };
            let next = listing.cgroups.get(place + 1);
            shown.push(Shown {
                row,
                has_children: next.is_some_and(|next| next.depth > row.depth),
            });
        }
        shown
    }

    /// Place of the selected row. If it has disappeared, that of its nearest visible ancestor.
    fn place(&self, shown: &[Shown<'_>]) -> usize {
        let chosen = self.chosen.as_deref().unwrap_or("/");
        let holds = |path: &str| {
            let rest = chosen.strip_prefix(path.trim_end_matches('/'));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        shown
            .iter()
            .rposition(|shown| holds(&shown.row.path))
            .unwrap_or(0)
    }

    pub(super) fn act(&mut self, action: Action, listing: &CgroupListing) {
        let shown = self.shown(listing);
        let place = self.place(&shown);
        let Some(chosen) = shown.get(place) else { return };
        let last = shown.len() - 1;
        let path = chosen.row.path.clone();
        let is_open = chosen.has_children && !self.collapsed.contains(&path);
        let to = match action {
            Action::Up => place.saturating_sub(1),
            Action::Down => (place + 1).min(last),
            Action::PageUp => place.saturating_sub(PAGE),
            Action::PageDown => (place + PAGE).min(last),
            Action::Oldest => 0,
            Action::Newest => last,
            Action::Collapse if is_open => {
                self.collapsed.insert(path);
                place
            }
            // A cgroup without visible children: to its parent.
            Action::Collapse => {
                let above = shown[..place].iter();
                let depth = chosen.row.depth;
                above
                    .into_iter()
                    .rposition(|other| other.row.depth < depth)
                    .unwrap_or(0)
            }
            Action::Expand => {
                self.collapsed.remove(&path);
                place
            }
            Action::Confirm => {
                if !self.collapsed.remove(&path) && chosen.has_children {
                    self.collapsed.insert(path);
                }
                place
            }
            _ => place,
        };
        self.chosen = Some(shown[to].row.path.clone());
    }
}

/// A number of a row: heading, width, least width of the box, text.
struct Number {
    heading: &'static str,
    width: usize,
    from: u16,
    text: fn(&CgroupRow) -> String,
}

const NUMBERS: &[Number] = &[
    Number {
        heading: "memory",
        width: 6,
        from: 0,
        text: |row| known(row.usage.map(|bytes| numbers::bytes(bytes as f64))),
    },
    Number {
        heading: "swap",
        width: 6,
        from: 34,
        text: |row| known(row.swap.map(|bytes| numbers::bytes(bytes as f64))),
    },
    Number {
        heading: "limit",
        width: 10,
        from: 48,
        text: |row| cap(row, numbers::bytes),
    },
    Number {
        heading: "refault",
        width: 8,
        from: 60,
        text: |row| known(row.refaults_per_s.map(numbers::events)),
    },
    Number {
        heading: "stall",
        width: 5,
        from: 66,
        text: |row| known(row.stalled_percent.map(numbers::percent)),
    },
];

fn known(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".to_owned())
}

pub(super) fn draw_tree(
    buffer: &mut Buffer,
    theme: &Theme,
    tree: &TreeView,
    listing: Option<&CgroupListing>,
) {
    let page = *buffer.area();
    let Some(listing) = listing else {
        let inside = boxed(buffer, theme, ("cgroups", "Esc closes"), 30, 1);
        put(
            buffer,
            theme,
            inside,
            "reading the cgroups ...",
            theme.ink(Ink::Dim),
        );
        return;
    };
    let shown = tree.shown(listing);
    let place = tree.place(&shown);
    let title = match listing.version {
        "" => "cgroups".to_owned(),
        version => format!("cgroups, {version}, {}", listing.mount),
    };
    let hidden = listing.cgroups.len() - shown.len();
    let count = match hidden {
        0 => format!("{} cgroups   ", listing.cgroups.len()),
        hidden => format!("{} cgroups, {hidden} folded   ", listing.cgroups.len()),
    };
    let keys = "arrows fold   Esc closes";
    let below = match count.width() + keys.width() <= usize::from(columns_inside(page)) - 2 {
        true => count + keys,
        false => keys.to_owned(),
    };
    let notes = listing.notes.len().min(2);
    // Folding does not change the height, so that the rows stay in place.
    let height = u16::try_from(listing.cgroups.len() + 1 + notes).unwrap_or(u16::MAX);
    let inside = boxed(buffer, theme, (&title, &below), page.width, height);
    let rows = usize::from(inside.height).saturating_sub(1 + notes);
    draw_rows(buffer, theme, inside, (&shown, place, rows), tree);
    for (row, note) in listing.notes.iter().take(notes).enumerate() {
        let y = inside.bottom() - (notes - row) as u16;
        let area = Rect::new(inside.x, y, inside.width, 1);
        put(buffer, theme, area, note, theme.ink(Ink::Dim));
    }
}

fn draw_rows(
    buffer: &mut Buffer,
    theme: &Theme,
    inside: Rect,
    (shown, place, rows): (&[Shown<'_>], usize, usize),
    tree: &TreeView,
) {
    let numbers = || NUMBERS.iter().filter(|number| inside.width >= number.from);
    let depths: Vec<usize> = shown.iter().map(|shown| shown.row.depth).collect();
    let lines = branches(&depths, theme.unicode);
    let (folded, open) = match theme.unicode {
        true => ('\u{25b8}', '\u{25be}'),
        false => ('+', '-'),
    };
    let mut write = |y: u16, cells: Vec<String>, name: &str, style: Style| {
        let mut x = inside.x;
        for (number, cell) in numbers().zip(cells) {
            let area = Rect::new(x, y, number.width as u16, 1);
            put(buffer, theme, area, &format!("{cell:>0$}", number.width), style);
            x += number.width as u16 + 1;
        }
        let rest = Rect::new(x + 1, y, inside.right().saturating_sub(x + 1), 1);
        put(buffer, theme, rest, name, style);
        buffer.set_style(Rect::new(inside.x, y, inside.width, 1), style);
    };
    let headings = numbers().map(|number| number.heading.to_owned()).collect();
    write(inside.y, headings, "cgroup", theme.ink(Ink::Dim));
    // Keep the selected row visible, and rows after it in sight.
    let top = (place + 1 + rows / 4).min(shown.len()).saturating_sub(rows);
    for (row, (at, line)) in shown
        .iter()
        .enumerate()
        .zip(&lines)
        .skip(top)
        .take(rows)
        .enumerate()
    {
        let (number, shown) = at;
        let symbol = match (shown.has_children, tree.collapsed.contains(&shown.row.path)) {
            (false, _) => "".to_owned(),
            (true, true) => format!("{folded} "),
            (true, false) => format!("{open} "),
        };
        let style = match number == place {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let cells = numbers().map(|number| (number.text)(shown.row)).collect();
        let name = format!("{line}{symbol}{}", shown.row.name);
        write(inside.y + 1 + row as u16, cells, &name, style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(paths: &[&str]) -> CgroupListing {
        let row = |path: &&str| CgroupRow {
            folder: path.into(),
            path: (*path).to_owned(),
            name: path.rsplit('/').next().unwrap_or_default().to_owned(),
            depth: match *path {
                "/" => 0,
                path => path.matches('/').count(),
            },
            usage: Some(1 << 20),
            swap: None,
            caps: Vec::new(),
            refaults_per_s: None,
            stalled_percent: None,
        };
        CgroupListing {
            cgroups: paths.iter().map(row).collect(),
            notes: Vec::new(),
            ..CgroupListing::impossible(String::new())
        }
    }

    fn paths<'a>(tree: &TreeView, listing: &'a CgroupListing) -> Vec<&'a str> {
        tree.shown(listing)
            .iter()
            .map(|shown| shown.row.path.as_str())
            .collect()
    }

    fn chosen<'a>(tree: &TreeView, listing: &'a CgroupListing) -> &'a str {
        let shown = tree.shown(listing);
        &shown[tree.place(&shown)].row.path
    }

    #[test]
    fn a_cgroup_is_folded_and_unfolded_and_the_selection_stays_with_its_path() {
        let full = listing(&["/", "/a", "/a/b", "/a/b/c", "/ab", "/d"]);
        let mut tree = TreeView::default();
        assert_eq!(chosen(&tree, &full), "/");
        for action in [Action::Down, Action::Down, Action::Collapse] {
            tree.act(action, &full);
        }
        assert_eq!(paths(&tree, &full), ["/", "/a", "/a/b", "/ab", "/d"]);
        assert_eq!(chosen(&tree, &full), "/a/b");
        tree.act(Action::Collapse, &full);
        assert_eq!(
            chosen(&tree, &full),
            "/a",
            "a folded cgroup gives way to its parent"
        );
        tree.act(Action::Confirm, &full);
        assert_eq!(paths(&tree, &full), ["/", "/a", "/ab", "/d"]);
        tree.act(Action::Expand, &full);
        assert_eq!(paths(&tree, &full), ["/", "/a", "/a/b", "/ab", "/d"]);
        tree.act(Action::Newest, &full);
        assert_eq!(chosen(&tree, &full), "/d");
        // Another reading, in another order, without some of them.
        let later = listing(&["/", "/d", "/a"]);
        assert_eq!(chosen(&tree, &later), "/d");
        let without = listing(&["/", "/a"]);
        assert_eq!(chosen(&tree, &without), "/");
        tree.act(Action::PageDown, &listing(&[]));
        assert_eq!(paths(&tree, &listing(&[])), [""; 0]);
    }

    #[test]
    fn a_removed_cgroup_gives_way_to_its_nearest_ancestor() {
        let mut tree = TreeView {
            chosen: Some("/a/b/c".to_owned()),
            ..TreeView::default()
        };
        assert_eq!(chosen(&tree, &listing(&["/", "/a", "/a/b", "/a/bc"])), "/a/b");
        tree.act(Action::Up, &listing(&["/", "/a"]));
        assert_eq!(tree.chosen.as_deref(), Some("/"));
    }
}
