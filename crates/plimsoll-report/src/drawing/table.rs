//! A sortable table: the text of each cell and the value that it is sorted by.

use std::borrow::Cow;

use plimsoll_model::quantity;

/// A table as the template prints it.
pub(crate) struct Table {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<Cell>>,
}

pub(crate) struct Column {
    pub(crate) title: Cow<'static, str>,
    pub(crate) numeric: bool,
}

impl Column {
    pub(crate) fn new(title: impl Into<Cow<'static, str>>, numeric: bool) -> Column {
        Column {
            title: title.into(),
            numeric,
        }
    }
}

/// A cell: its text, and the value that it is sorted by.
pub(crate) struct Cell {
    pub(crate) text: String,
    pub(crate) sort: String,
    pub(crate) class: &'static str,
}

impl Cell {
    pub(crate) fn text(text: impl Into<String>) -> Cell {
        let text = text.into();
        Cell {
            sort: text.clone(),
            text,
            class: "",
        }
    }

    pub(crate) fn number(value: f64, text: String) -> Cell {
        Cell {
            text,
            sort: value.to_string(),
            class: "number",
        }
    }

    pub(crate) fn missing() -> Cell {
        Cell {
            text: "\u{2013}".to_owned(),
            sort: String::new(),
            class: "number",
        }
    }

    /// The cell, marked if its value is not trustworthy.
    pub(crate) fn doubtful(mut self, doubtful: bool) -> Cell {
        if doubtful {
            self.text = marked(self.text, true);
            self.class = "number untrustworthy";
        }
        self
    }

    /// A figure in the unit that its name says, or a dash.
    pub(crate) fn metric(name: &str, value: Option<f64>) -> Cell {
        value.map_or_else(Cell::missing, |value| {
            Cell::number(value, quantity::metric(name, value))
        })
    }
}

/// The text of a value, with a mark if it is untrustworthy.
pub(crate) fn marked(text: String, untrustworthy: bool) -> String {
    if untrustworthy { format!("! {text}") } else { text }
}

pub(crate) fn columns(titles: &[(&'static str, bool)]) -> Vec<Column> {
    titles
        .iter()
        .map(|&(title, numeric)| Column::new(title, numeric))
        .collect()
}
