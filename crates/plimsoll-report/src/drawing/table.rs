//! A sortable table: the text of each cell and the value that it is sorted by.

use std::borrow::Cow;

use plimsoll_model::quantity;
use plimsoll_model::recording::model::{Trial, TrialStatus};

/// A table as the template prints it.
pub struct Table<'a> {
    pub id: &'static str,
    pub title: &'static str,
    pub columns: Vec<Column>,
    pub rows: Rows<'a>,
}

pub enum Rows<'a> {
    Made(Vec<Vec<Cell>>),
    /// Made one by one when they are printed: the cells of 10,000 trials take more memory than the trials.
    OnDemand {
        count: usize,
        row: Box<dyn Fn(usize) -> Vec<Cell> + 'a>,
    },
}

impl<'a> Rows<'a> {
    /// A row of each item, made by `row` when it is printed.
    pub fn of<T: 'a>(items: Vec<T>, row: impl Fn(&T) -> Vec<Cell> + 'a) -> Rows<'a> {
        Rows::OnDemand {
            count: items.len(),
            row: Box::new(move |index| row(&items[index])),
        }
    }

    fn count(&self) -> usize {
        match self {
            Rows::Made(rows) => rows.len(),
            Rows::OnDemand { count, .. } => *count,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = Cow<'_, [Cell]>> {
        (0..self.count()).map(|index| match self {
            Rows::Made(rows) => Cow::Borrowed(rows[index].as_slice()),
            Rows::OnDemand { row, .. } => Cow::Owned(row(index)),
        })
    }
}

impl FromIterator<Vec<Cell>> for Rows<'_> {
    fn from_iter<T: IntoIterator<Item = Vec<Cell>>>(rows: T) -> Self {
        Rows::Made(rows.into_iter().collect())
    }
}

pub struct Column {
    pub title: Cow<'static, str>,
    pub numeric: bool,
}

impl Column {
    pub fn new(title: impl Into<Cow<'static, str>>, numeric: bool) -> Column {
        Column {
            title: title.into(),
            numeric,
        }
    }
}

/// A cell: its text, and the value that it is sorted by.
#[derive(Clone)]
pub struct Cell {
    pub text: String,
    /// `None` if the cell is sorted by its text.
    pub sort: Option<String>,
    pub class: &'static str,
}

impl Cell {
    pub fn text(text: impl Into<String>) -> Cell {
        Cell {
            text: text.into(),
            sort: None,
            class: "",
        }
    }

    pub fn number(value: f64, text: String) -> Cell {
        let sort = value.to_string();
        Cell {
            sort: (sort != text).then_some(sort),
            text,
            class: "number",
        }
    }

    pub fn missing() -> Cell {
        Cell {
            text: "\u{2013}".to_owned(),
            sort: Some(String::new()),
            class: "number",
        }
    }

    /// The cell, marked if its value is untrustworthy.
    pub(crate) fn doubtful(mut self, doubtful: bool) -> Cell {
        if doubtful {
            self.sort.get_or_insert_with(|| self.text.clone());
            self.text = marked(self.text, true);
            self.class = "number doubt";
        }
        self
    }

    /// A value in the unit that its name says, or a dash.
    pub fn metric(name: &str, value: Option<f64>) -> Cell {
        value.map_or_else(Cell::missing, |value| {
            Cell::number(value, quantity::metric(name, value))
        })
    }

    /// The value of a metric of a trial.
    pub(crate) fn metric_of(trial: &Trial, name: &str) -> Cell {
        let value = trial.metrics.get(name).copied();
        let doubtful = value.is_some() && trial.status_of(name) == TrialStatus::Untrustworthy;
        Cell::metric(name, value).doubtful(doubtful)
    }

    /// The status of a trial with a symbol, so that it does not depend on colour.
    pub(crate) fn status(trial: &Trial) -> Cell {
        let (words, class) = match trial.status {
            TrialStatus::Ok => ("\u{2713} ok", "good"),
            TrialStatus::Failed => ("\u{2717} failed", "bad"),
            TrialStatus::Untrustworthy => ("! untrustworthy", "doubt"),
        };
        Cell {
            class,
            ..Cell::text(words)
        }
    }

    pub(crate) fn verified(trial: &Trial) -> Cell {
        Cell::text(if trial.verified { "yes" } else { "no" })
    }

    /// The reasons why a trial is not ok.
    pub(crate) fn reasons(trial: &Trial) -> Cell {
        Cell {
            class: "reasons",
            ..Cell::text(trial.reasons.join("; "))
        }
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
