//! The data that the script of a comparison draws: the timelines of each group, packed as those of a report.

use serde_json::{Value, json};

use super::multiples::{LAYER, Strand};
use crate::drawing::palette::{self, Paint};
use crate::drawing::panel::{MOVED, WHOLE};
use crate::html::data::{script_safe, series, times};

/// The data of groups, each a label and its strands, as JSON that is safe inside a `<script>` element.
pub(super) fn document<'a>(groups: impl Iterator<Item = (&'a str, &'a [Strand<'a>])>) -> String {
    let groups: Vec<Value> = groups
        .map(|(label, strands)| {
            let runs: Vec<Value> = strands.iter().enumerate().map(run).collect();
            json!({ "label": label, "runs": runs })
        })
        .collect();
    let offered = palette::LAYERS.iter().filter(|paint| is_offered(paint));
    let layers: Vec<Value> = offered
        .map(|paint| json!({ "ink": paint.key, "label": paint.label, "hatched": paint.hatched }))
        .collect();
    let document = json!({ "groups": groups, "layer": LAYER, "layers": layers, "panel": MOVED });
    script_safe(&document.to_string())
}

/// Layers to compare: those that an experiment moves, and their source.
fn is_offered(paint: &Paint) -> bool {
    paint.moves || matches!(paint.key, "page_cache" | "free")
}

fn run((place, strand): (usize, &Strand<'_>)) -> Value {
    let (ink, dash) = palette::line(place);
    json!({
        "layers": series(WHOLE, strand.timeline),
        "letter": strand.letter,
        "line": { "ink": ink, "dash": dash },
        "marks": strand.marks,
        "t": times(strand.timeline),
        "title": strand.title(),
    })
}
