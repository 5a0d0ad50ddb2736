//! A report of plain values that another crate computes: sections of notes, facts, tables and charts, with the look, the
//! escaping and the content policy of every report.

use std::io;

use askama::Template;

use super::parts::{SORTABLE, Shell, look};
use crate::analysis::MetricUnit;
use crate::drawing::strip;
pub use crate::drawing::strip::{Strip, StripDot};
pub use crate::drawing::table::{Cell, Column, Rows, Table};

const STYLE: &str = include_str!("../../assets/report/compare.css");
const STRIP_STYLE: &str = include_str!("../../assets/report/strip.css");

pub struct Document {
    pub title: String,
    /// The kind of the report, beside the program's name.
    pub kind: &'static str,
    pub tone: Tone,
    /// The verdict in two or three words.
    pub status: String,
    /// The result in a sentence.
    pub finding: String,
    pub sections: Vec<Section>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Good,
    Doubt,
    Bad,
}

pub struct Section {
    pub id: &'static str,
    /// Its name in the list of sections.
    pub name: &'static str,
    pub title: String,
    pub hint: String,
    pub blocks: Vec<Block>,
}

pub enum Block {
    Text(String),
    Heading(String),
    Notes(Vec<Note>),
    Facts(Vec<(&'static str, String)>),
    Table(Table<'static>),
    Charts(Vec<Chart>),
}

pub struct Note {
    pub tone: Tone,
    pub strong: String,
    pub text: String,
}

/// A drawing with its caption.
pub struct Chart {
    pub caption: String,
    pub hint: String,
    svg: String,
}

impl Chart {
    /// The values of hosts, a row per class; `None` without a value.
    pub fn strips(caption: String, hint: String, unit: MetricUnit, strips: &[Strip]) -> Option<Chart> {
        let svg = strip::chart(&caption, unit, strips)?;
        Some(Chart { caption, hint, svg })
    }

    pub(crate) fn drawn(caption: String, hint: String, svg: String) -> Chart {
        Chart { caption, hint, svg }
    }
}

impl Tone {
    /// The CSS class of a status.
    fn colour(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Good => "good",
            Tone::Doubt => "doubt",
            Tone::Bad => "bad",
        }
    }

    /// The CSS class of a note.
    fn note(self) -> &'static str {
        match self {
            Tone::Plain | Tone::Good => "known",
            Tone::Doubt => "warning",
            Tone::Bad => "spoils",
        }
    }
}

#[derive(Template)]
#[template(path = "document.html")]
struct View<'a> {
    document: &'a Document,
    shell: Shell,
    status: (&'static str, &'a str),
}

/// Writes the report as one HTML file that works without network and without scripts.
///
/// # Errors
/// Those of `output`.
pub fn write(document: &Document, output: &mut impl io::Write) -> io::Result<()> {
    let style = format!("{}{STYLE}{STRIP_STYLE}", look());
    let view = View {
        document,
        shell: Shell::new(style, SORTABLE.to_owned()),
        status: (document.tone.colour(), &document.status),
    };
    view.write_into(output)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\"'&";

    #[test]
    fn hostile_texts_stay_texts() {
        let text = || HOSTILE.to_owned();
        let strip = Strip {
            label: text(),
            dots: vec![StripDot {
                name: text(),
                value: 1.0,
                outlier: true,
                doubtful: true,
            }],
            quartiles: None,
        };
        let chart = Chart::strips(text(), text(), MetricUnit::Seconds, &[strip]);
        let table = Table {
            id: "table",
            title: "A table",
            columns: vec![Column::new(text(), false)],
            rows: [vec![Cell::text(text())]].into_iter().collect(),
        };
        let blocks = vec![
            Block::Text(text()),
            Block::Heading(text()),
            Block::Notes(vec![Note {
                tone: Tone::Bad,
                strong: text(),
                text: text(),
            }]),
            Block::Facts(vec![("Fact", text())]),
            Block::Table(table),
            Block::Charts(chart.into_iter().collect()),
        ];
        let document = Document {
            title: text(),
            kind: "fleet",
            tone: Tone::Doubt,
            status: text(),
            finding: text(),
            sections: vec![Section {
                id: "all",
                name: "All",
                title: text(),
                hint: text(),
                blocks,
            }],
        };
        let mut html = Vec::new();
        write(&document, &mut html).unwrap();
        let html = String::from_utf8(html).unwrap();
        assert_eq!(
            html.matches("<script").count(),
            1,
            "the script of the report alone"
        );
        assert!(
            !html.contains("<img") && !html.contains("<script>alert"),
            "{html}"
        );
        let policy = format!("script-src {};", super::super::parts::source(SORTABLE)).replace('\'', "&#39;");
        assert!(html.contains(&policy), "{policy}");
        // Each of the texts stands on the page.
        assert!(html.matches("alert(1)").count() >= 2 * 14, "{html}");
    }
}
