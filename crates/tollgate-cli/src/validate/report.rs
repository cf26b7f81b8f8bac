//! What a validation found, for people and for programs.

use std::io::{self, Write};

use serde::Serialize;
use tollgate::Rules;
use tollgate::rules::{Diagnostics, Finding};

use crate::style::Style;
use crate::text;

/// The object `--json` prints. Names are a contract.
#[derive(Serialize)]
pub(super) struct Report<'r> {
    pub(super) ok: bool,
    domains: Vec<&'r str>,
    rules: usize,
    errors: usize,
    warnings: usize,
    findings: Vec<Finding<'r>>,
}

impl<'r> Report<'r> {
    pub(super) fn of(read: &'r Result<Rules, Diagnostics>, strict: bool) -> Report<'r> {
        let found = findings(read);
        let (errors, warnings) = (found.errors().count(), found.warnings().count());
        let rules = read.as_ref().ok();
        Report {
            ok: errors == 0 && !(strict && warnings > 0),
            domains: rules.map_or_else(Vec::new, |rules| rules.domain_names().collect()),
            rules: rules.map_or(0, Rules::len),
            errors,
            warnings,
            findings: found.findings().collect(),
        }
    }

    /// The findings with the lines they are about, then a line that sums up.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        style: Style,
        names: &[String],
        read: &Result<Rules, Diagnostics>,
    ) -> io::Result<()> {
        let found = findings(read);
        if !found.is_empty() {
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
        let (domains, rules) = (count(self.domains.len(), "domain"), count(self.rules, "rule"));
        writeln!(out, "{mark} {what}: {domains}, {rules}, {warnings}")
    }
}

fn findings(read: &Result<Rules, Diagnostics>) -> &Diagnostics {
    match read {
        Ok(rules) => rules.warnings(),
        Err(found) => found,
    }
}
