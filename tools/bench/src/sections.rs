//! Sections of a report: printed at once as text, or at the end as JSON.

use serde_json::{Value, json};

use crate::options::Options;
use crate::report::Table;
use crate::targets::{self, Target};

/// The results of one measurement.
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) table: Table,
    pub(crate) targets: Vec<Target>,
    pub(crate) figures: Value,
}

/// Writes sections as text, or collects them for JSON.
pub(crate) struct ReportWriter {
    json: bool,
    figures: Vec<Value>,
    targets: Vec<Target>,
}

impl ReportWriter {
    pub(crate) fn new(options: &Options) -> ReportWriter {
        ReportWriter { json: options.json, figures: Vec::new(), targets: Vec::new() }
    }

    pub(crate) fn add(&mut self, section: Section) {
        if !self.json {
            println!("\n{}", section.title);
            section.table.print();
        }
        self.figures.push(section.figures);
        self.targets.extend(section.targets);
    }

    pub(crate) fn finish(self) {
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
