//! The result of a validation, as text and as JSON.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use tollgate_rules::{Diagnostics, Door, Finding, Rules};

use crate::style::Style;
use crate::text;

/// The code of findings about attributes that a door cannot supply.
const NOT_SUPPLIED: &str = "not-supplied";

/// The rules or their errors, and what each door does not support.
pub(super) struct ValidatedRules {
    read: Result<Rules, Diagnostics>,
    doors: Vec<(Door, Diagnostics)>,
    /// Whether the doors were named on the command line.
    named: bool,
}

impl ValidatedRules {
    /// Checks the named doors, or all of them if none is named.
    pub(super) fn new(read: Result<Rules, Diagnostics>, named: &[Door]) -> ValidatedRules {
        let doors = if named.is_empty() { &Door::ALL[..] } else { named };
        let unsupported =
            |rules: &Rules| doors.iter().map(|door| (*door, rules.unsupported(*door))).collect();
        let doors = read.as_ref().map_or_else(|_| Vec::new(), unsupported);
        ValidatedRules { read, doors, named: !named.is_empty() }
    }

    fn findings(&self) -> &Diagnostics {
        match &self.read {
            Ok(rules) => rules.warnings(),
            Err(found) => found,
        }
    }

    /// Returns the findings of doors that were named; those count as warnings.
    fn named_door_findings(&self) -> impl Iterator<Item = &Diagnostics> {
        self.doors.iter().filter(|_| self.named).map(|(_, found)| found)
    }
}

/// The object that `--json` prints. Its field names are a contract.
#[derive(Serialize)]
pub(super) struct ValidationReport<'r> {
    pub(super) ok: bool,
    domains: Vec<&'r str>,
    rules: usize,
    limits: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding<'r>>,
    /// The settings that each door does not support.
    not_honoured: BTreeMap<&'static str, Vec<Finding<'r>>>,
}

impl<'r> ValidationReport<'r> {
    pub(super) fn new(validated: &'r ValidatedRules, strict: bool) -> ValidationReport<'r> {
        let found = validated.findings();
        let unsupported: usize = validated.named_door_findings().map(Diagnostics::len).sum();
        let (errors, warnings) = (found.errors().count(), found.warnings().count() + unsupported);
        let rules = validated.read.as_ref().ok();
        let of_door =
            |(door, found): &'r (Door, Diagnostics)| (door.as_str(), found.findings().collect());
        ValidationReport {
            ok: errors == 0 && !(strict && warnings > 0),
            domains: rules.map_or_else(Vec::new, |rules| rules.domain_names().collect()),
            rules: rules.map_or(0, Rules::len),
            limits: rules.map_or(0, Rules::limit_count),
            errors,
            warnings,
            findings: found.findings().collect(),
            not_honoured: validated.doors.iter().map(of_door).collect(),
        }
    }

    /// Writes the findings with their lines, then a summary line.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        style: Style,
        names: &[String],
        validated: &ValidatedRules,
    ) -> io::Result<()> {
        let all = [validated.findings()].into_iter().chain(validated.named_door_findings());
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
        if !validated.named {
            self.write_doors(out, style)?;
        }
        Ok(())
    }

    /// Writes one line for each door that does not support everything, and one for the attributes
    /// that doors cannot supply.
    fn write_doors(&self, out: &mut impl Write, style: Style) -> io::Result<()> {
        let mut unsupplied = Vec::new();
        for (door, found) in &self.not_honoured {
            let settings = found.iter().filter(|finding| finding.code != NOT_SUPPLIED).count();
            if settings < found.len() {
                unsupplied.push(*door);
            }
            if settings == 0 {
                continue;
            }
            let settings = text::count(settings as u64, "setting");
            let note =
                format!("  the {door} door does not honour {settings}: --door {door} lists them");
            writeln!(out, "{}", style.denied(note))?;
        }
        let Some(first) = unsupplied.first() else { return Ok(()) };
        let note = format!(
            "  these doors cannot supply every attribute that the rules read: {}; --door {first} \
             says which, and what happens there",
            unsupplied.join(", ")
        );
        writeln!(out, "{}", style.denied(note))
    }
}
