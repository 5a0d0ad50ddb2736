//! The section of the HTML report: the curve of each engine with its knee and its need, and the table of engines.

use super::words::{HEADS, TITLE, conditions, notes, row};
use crate::analysis::MetricUnit;
use crate::analysis::statistics::median;
use crate::drawing::table::{Cell, Column, Table};
use crate::drawing::values;
use crate::drawing::xy::{Axis, Chart, Line};
use crate::workloads::section::{Drawing, Section};
use plimsoll_model::quantity::bytes;
use plimsoll_model::recording::size::{EngineSize, ProgramSize};

pub(crate) const ID: &str = "size";

pub(crate) fn section(size: &ProgramSize) -> Section {
    let mut details = vec![format!("{}.", conditions(size))];
    details.extend(notes(size));
    Section {
        id: ID,
        title: TITLE,
        details,
        drawings: curves(size).into_iter().collect(),
        tables: vec![engines(size)],
    }
}

/// The cost over the limit, a line for each engine.
fn curves(size: &ProgramSize) -> Option<Drawing> {
    let marks = size.engines.iter().flat_map(|engine| {
        let mark = |value: Option<u64>, words: &str| {
            value.map(|value| {
                let text = format!("{} {words} {}", engine.engine, bytes(value as f64));
                (value as f64, text)
            })
        };
        [
            mark(engine.knee_bytes, "knee"),
            mark(engine.recommended_bytes, "needs"),
        ]
    });
    let chart = Chart {
        title: "Cost over the memory limit".to_owned(),
        x: Axis {
            title: "memory limit".to_owned(),
            unit: MetricUnit::Bytes,
            log: true,
        },
        y: Axis {
            title: "cost, over that without pressure".to_owned(),
            unit: MetricUnit::Ratio,
            log: true,
        },
        lines: size
            .engines
            .iter()
            .enumerate()
            .map(|(ink, engine)| line(ink, engine))
            .collect(),
        marks: marks.flatten().collect(),
        levels: vec![(1.0 + size.tolerance, "tolerated".to_owned())],
    };
    Some(Drawing {
        caption: "Cost over the memory limit".to_owned(),
        hint: "Time of the program, or its metric so that less is better, over that without pressure; the median of the \
               repeats. A line ends where the program no longer ends as it does without pressure. Marks: the knee, and \
               the RAM that the program needs."
            .to_owned(),
        svg: values::draw(&chart)?,
    })
}

/// The medians of an engine by limit; a limit without a cost breaks the line.
fn line(ink: usize, engine: &EngineSize) -> Line {
    let mut line = Line {
        label: engine.engine.clone(),
        ink,
        dots: true,
        ..Line::default()
    };
    // The points descend.
    for of_limit in engine
        .points
        .chunk_by(|a, b| a.limit_bytes == b.limit_bytes)
        .rev()
    {
        let ended = of_limit.iter().filter(|point| point.status == "ok");
        let costs: Vec<f64> = ended.filter_map(|point| Some(1.0 + point.slowdown?)).collect();
        let limit = of_limit[0].limit_bytes as f64;
        line.points.push((limit, median(&costs)));
        let least = costs.iter().copied().reduce(f64::min);
        let most = costs.iter().copied().reduce(f64::max);
        line.band
            .extend(least.zip(most).map(|(least, most)| (limit, least, most)));
    }
    line
}

fn engines(size: &ProgramSize) -> Table<'static> {
    let columns = HEADS.iter().enumerate();
    let numbers = |engine: &EngineSize| {
        [
            engine.recommended_bytes,
            engine.recommended_bytes,
            engine.knee_bytes,
            engine.knee_low_bytes,
            engine.swap_bytes,
            Some(u64::from(engine.repeats)),
        ]
    };
    let rows = size.engines.iter().map(|engine| {
        let [name, others @ ..] = row(size, engine);
        let numbers = others.into_iter().zip(numbers(engine));
        let numbers = numbers.map(|(text, value)| match value {
            Some(value) => Cell::number(value as f64, text),
            None => Cell::missing(),
        });
        std::iter::once(Cell::text(name)).chain(numbers).collect()
    });
    Table {
        id: "engines",
        title: "Engines",
        columns: columns
            .map(|(place, head)| Column::new(*head, place > 0))
            .collect(),
        rows: rows.collect(),
    }
}
