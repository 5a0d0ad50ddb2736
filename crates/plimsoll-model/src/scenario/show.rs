//! A plan as a scenario file.

use super::assignment::Key;
use super::keys;
use super::kind::{Kind, SYSTEM};
use super::plan::{Plan, SectionPlan};
use super::value::{Value, quoted};
use super::workload_kind::WorkloadKind;

impl Plan {
    /// The plan as a scenario file with every value resolved; resolved again on the same machine (with `--quick`
    /// exactly when this plan is quick) it gives the same plan.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "[scenario]\nname = {}\ntitle = {}\ndescription = {}\n\n[global]\nseed = {}\norder = {}\ntime-limit = {}\n",
            quoted(&self.scenario),
            quoted(&self.title),
            quoted(&self.description),
            self.seed,
            quoted(self.order.name()),
            Value::Seconds(self.time_limit()),
        );
        for section in &self.sections {
            text.push_str(&section_toml(section));
        }
        if self.quick {
            text.push_str("\n# The values above include the changes of --quick.\n[quick]\n");
        }
        text
    }
}

fn section_toml(section: &SectionPlan) -> String {
    let mut text = format!("\n[{}]\n", section.name);
    for (name, values) in &section.keys {
        let values: Vec<String> = values.iter().map(|value| right_side(name, value)).collect();
        let values = match values.as_slice() {
            [single] => single.clone(),
            several => format!("[{}]", several.join(", ")),
        };
        text += &format!("{name} = {values}\n");
    }
    let workload = section.keys.iter().find(|(name, _)| name == "workload");
    let kind = workload
        .and_then(|(_, values)| WorkloadKind::of_name(values.first()?))
        .unwrap_or_default();
    for key in keys::of(kind).filter(|key| key.kind == Kind::Size && !key.optional) {
        if !section.keys.iter().any(|(name, _)| name == key.name) {
            let default = key.default().replace('`', "");
            text += &format!("# {} follows from the other keys: {default}\n", key.name);
        }
    }
    text
}

/// Numbers are written bare, everything else as text.
fn right_side(name: &str, value: &str) -> String {
    let number = matches!(
        Key::find(name).map(|key| key.kind),
        Some(Kind::Integer { .. } | Kind::Seconds { .. } | Kind::Number { .. } | Kind::Flag)
    );
    if number && value != SYSTEM {
        value.to_owned()
    } else {
        quoted(value)
    }
}
