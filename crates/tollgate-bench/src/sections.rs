//! What measurements of servers have to say, and who is told: people at once, machines at the end.

use serde_json::{Value, json};

use crate::options::Options;
use crate::report::Table;
use crate::targets::{self, Target};

/// What one measurement has to say.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) table: Table,
    pub(crate) targets: Vec<Target>,
    pub(crate) figures: Value,
}

/// What was told so far.
pub(crate) struct Told {
    json: bool,
    figures: Vec<Value>,
    targets: Vec<Target>,
}

impl Told {
    pub(crate) fn new(options: &Options) -> Told {
        Told { json: options.json, figures: Vec::new(), targets: Vec::new() }
    }

    pub(crate) fn tell(&mut self, section: Section) {
        if !self.json {
            println!("\n{}", section.title);
            section.table.print();
        }
        self.figures.push(section.figures);
        self.targets.extend(section.targets);
    }

    pub(crate) fn end(self) {
        if !self.json {
            println!("\nTargets (CPU: median over rounds of the ratio within a round)");
            targets::table(&self.targets);
            return;
        }
        let target = |target: &Target| json!({ "target": target.what, "measured": target.measured, "at_most": target.most });
        let targets: Vec<Value> = self.targets.iter().map(target).collect();
        println!("{:#}", json!({ "figures": self.figures, "targets": targets }));
    }
}
