//! What a validation found, for people and for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tollgate::Rules;
use tollgate::rules::{Diagnostics, Door, Finding};

use crate::style::Style;
use crate::text;

/// Rules that were read, and what doors make of them.
pub(super) struct Checked {
    read: Result<Rules, Diagnostics>,
    doors: Vec<(Door, Diagnostics)>,
    /// Whether somebody asked for these doors.
    named: bool,
}

impl Checked {
    /// All doors are looked at unless some are named.
    pub(super) fn new(read: Result<Rules, Diagnostics>, named: &[Door]) -> Checked {
        let doors = if named.is_empty() { &Door::ALL[..] } else { named };
        let unsupported =
            |rules: &Rules| doors.iter().map(|door| (*door, rules.unsupported(*door))).collect();
        let doors = read.as_ref().map_or_else(|_| Vec::new(), unsupported);
        Checked { read, doors, named: !named.is_empty() }
    }

    fn findings(&self) -> &Diagnostics {
        match &self.read {
            Ok(rules) => rules.warnings(),
            Err(found) => found,
        }
    }

    /// What counts as a finding of its own: that of doors somebody asked for.
    fn of_named_doors(&self) -> impl Iterator<Item = &Diagnostics> {
        self.doors.iter().filter(|_| self.named).map(|(_, found)| found)
    }
}

/// The object `--json` prints. Names are a contract.
#[derive(Serialize)]
pub(super) struct Report<'r> {
    pub(super) ok: bool,
    domains: Vec<&'r str>,
    rules: usize,
    limits: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding<'r>>,
    /// By door.
    not_honoured: BTreeMap<&'static str, Vec<Finding<'r>>>,
}

impl<'r> Report<'r> {
    pub(super) fn of(checked: &'r Checked, strict: bool) -> Report<'r> {
        let found = checked.findings();
        let beyond: usize = checked.of_named_doors().map(Diagnostics::len).sum();
        let (errors, warnings) = (found.errors().count(), found.warnings().count() + beyond);
        let rules = checked.read.as_ref().ok();
        let of_door =
            |(door, found): &'r (Door, Diagnostics)| (door.as_str(), found.findings().collect());
        Report {
            ok: errors == 0 && !(strict && warnings > 0),
            domains: rules.map_or_else(Vec::new, |rules| rules.domain_names().collect()),
            rules: rules.map_or(0, Rules::len),
            limits: rules.map_or(0, Rules::limit_count),
            errors,
            warnings,
            findings: found.findings().collect(),
            not_honoured: checked.doors.iter().map(of_door).collect(),
        }
    }

    /// The findings with the lines they are about, then a line that sums up.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        style: Style,
        names: &[String],
        checked: &Checked,
    ) -> io::Result<()> {
        let all = [checked.findings()].into_iter().chain(checked.of_named_doors());
        for found in all.filter(|found| !found.is_empty()) {
            writeln!(out, "{}\n", found.render(style.is_on()))?;
        }
        let what = match names {
            [one] => one.clone(),
            several => text::count(several.len() as u64, "file"),
        };
        let count = |n: usize, noun: &str| text::count(n as u64, noun);
        let warnings = count(self.warnings, "warning");
        if self.errors > 0 {
            let errors = count(self.errors, "error");
            return writeln!(out, "{} {what}: {errors}, {warnings}", style.bad("✗"));
        }
        let mark = match self.ok {
            true => style.allowed("✓").to_string(),
            false => style.bad("✗").to_string(),
        };
        let [domains, rules, limits] = [
            count(self.domains.len(), "domain"),
            count(self.rules, "rule"),
            count(self.limits, "limit"),
        ];
        writeln!(out, "{mark} {what}: {domains}, {rules}, {limits}, {warnings}")?;
        if !checked.named {
            self.write_doors(out, style)?;
        }
        Ok(())
    }

    /// Which doors do not honour everything, in a line each.
    fn write_doors(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        for (door, found) in self.not_honoured.iter().filter(|(_, found)| !found.is_empty()) {
            let things = text::count(found.len() as u64, "thing");
            let note =
                format!("  the door {door} does not honour {things}: --door {door} says which");
            writeln!(out, "{}", style.denied(note))?;
        }
        Ok(())
    }
}
