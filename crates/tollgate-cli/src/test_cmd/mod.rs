//! `tollgate test`: runs the cases written beside the rules, under virtual time.

mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate::Rules;
use tollgate::rules::{CaseResult, Source};

use crate::style::Style;
use crate::{Outcome, load};

const TEST_HELP: &str = "\
A case is steps: a request, when (since the case began), how often, and what is expected.
  tests:
    - name: five logins a minute
      steps:
        - { request: POST /login ip=203.0.113.7, times: 5, expect: allow }
        - { request: POST /login ip=203.0.113.7, expect: { deny: true, rule: login } }
        - { at: 12s, request: POST /login ip=203.0.113.7, expect: allow }

Cases stand in the rules file, or beside it: shop.test.yaml for shop.yaml.

Examples:
  tollgate test tollgate.yaml
  tollgate test rules/ --json

Exit codes: 0 every case is as expected, 1 one is not, 2 error.";

#[derive(Args, Debug)]
#[command(after_long_help = TEST_HELP)]
#[command(after_help = "How to write cases: tollgate test --help")]
pub(crate) struct TestArgs {
    /// Files or directories of rules; "-" is standard input
    #[arg(value_name = "FILE|DIR", required = true)]
    paths: Vec<PathBuf>,

    /// Answer in JSON, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// The cases of one file.
struct Ran {
    file: String,
    cases: Vec<CaseResult>,
}

pub(crate) fn run(args: &TestArgs) -> anyhow::Result<Outcome> {
    let mut ran = Vec::new();
    // Every file is a domain of its own, so each is run by itself.
    for source in load::sources(&rules_of(&args.paths))? {
        run_file(source, &mut ran)?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => report::json(&mut out, &ran)?,
        false => report::write(&mut out, Style::when(io::stdout().is_terminal()), &ran)?,
    }
    out.flush()?;
    let failed = ran.iter().flat_map(|file| &file.cases).any(|case| !case.passed());
    Ok(Outcome::found(failed))
}

fn run_file(source: Source, ran: &mut Vec<Ran>) -> anyhow::Result<()> {
    let file = source.name.clone();
    let wrong = |found| load::wrong(Path::new(&file), &found);
    let rules = Rules::read([source]).map_err(wrong)?;
    let beside = beside(Path::new(&file));
    let inside = rules.run_cases();
    if !inside.is_empty() || beside.is_none() {
        ran.push(Ran { file: file.clone(), cases: inside });
    }
    for source in load::sources(beside.as_slice())? {
        let file = source.name.clone();
        let wrong = |found| load::wrong(Path::new(&file), &found);
        let cases = rules.run_cases_of(source).map_err(wrong)?;
        ran.push(Ran { file, cases });
    }
    Ok(())
}

/// The file of cases for a file of rules, if there is one.
fn beside(rules: &Path) -> Option<PathBuf> {
    ["test.yaml", "test.yml"].map(|end| rules.with_extension(end)).into_iter().find(|p| p.is_file())
}

/// Whoever names the cases means the rules they are for.
fn rules_of(paths: &[PathBuf]) -> Vec<PathBuf> {
    let rules = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".test.yaml").or_else(|| name.strip_suffix(".test.yml"));
        let beside = stem
            .map(|stem| [".yaml", ".yml"].map(|end| path.with_file_name(format!("{stem}{end}"))));
        beside.into_iter().flatten().find(|p| p.is_file()).unwrap_or_else(|| path.clone())
    };
    paths.iter().map(rules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_rules_find_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shop.yaml", "shop.test.yaml", "alone.yml", "lost.test.yml"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(beside(&at("shop.yaml")), Some(at("shop.test.yaml")));
        assert_eq!((beside(&at("alone.yml")), beside(Path::new("stdin"))), (None, None));
        let named = ["shop.test.yaml", "lost.test.yml", "alone.yml"].map(at);
        assert_eq!(rules_of(&named), ["shop.yaml", "lost.test.yml", "alone.yml"].map(at));
    }
}
