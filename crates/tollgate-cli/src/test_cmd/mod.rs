//! `tollgate test`: runs the test cases of rules, under virtual time.

mod report;

use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::BoolishValueParser;
use tollgate_rules::{CaseResult, Rules, Source};

use crate::style::Style;
use crate::{Outcome, load};

const TEST_HELP: &str = "\
A case has steps: a request, its time since the start, how often it is sent, and what is expected.
  tests:
    - name: five logins a minute
      steps:
        - { request: POST /login ip=203.0.113.7, times: 5, expect: allow }
        - { request: POST /login ip=203.0.113.7, expect: { deny: true, rule: login } }
        - { at: 12s, request: POST /login ip=203.0.113.7, expect: allow }

Cases are in the rules file, or in a file beside it: shop.test.yaml for shop.yaml.

Examples:
  tollgate test
  tollgate test rules/ --json

Exit codes: 0 all cases passed, 1 a case failed, 2 error.";

/// The arguments of `tollgate test`.
#[derive(Args, Debug)]
#[command(after_long_help = TEST_HELP)]
#[command(after_help = "How to write cases: tollgate test --help")]
pub(crate) struct TestArgs {
    /// Files or directories of rules; "-" is standard input [default: tollgate.yaml]
    #[arg(value_name = "FILE|DIR")]
    paths: Vec<PathBuf>,

    /// JSON output, one object
    #[arg(long, env = "TOLLGATE_JSON", value_parser = BoolishValueParser::new())]
    json: bool,
}

/// The results of the cases of one file.
struct FileCases {
    file: String,
    cases: Vec<CaseResult>,
}

pub(crate) fn run(args: &TestArgs) -> anyhow::Result<Outcome> {
    let mut results = Vec::new();
    // Every file is its own domain, so each is run separately.
    for source in load::sources(&rules_paths(&load::paths_or_default(&args.paths)?))? {
        run_file(source, &mut results)?;
    }
    let mut out = BufWriter::new(io::stdout().lock());
    match args.json {
        true => report::json(&mut out, &results)?,
        false => report::write(&mut out, Style::when(io::stdout().is_terminal()), &results)?,
    }
    out.flush()?;
    let failed = results.iter().flat_map(|file| &file.cases).any(|case| !case.passed());
    Ok(Outcome::found(failed))
}

fn run_file(source: Source, results: &mut Vec<FileCases>) -> anyhow::Result<()> {
    let file = source.name.clone();
    let wrong = |found| load::invalid_rules(Path::new(&file), &found);
    let rules = Rules::read([source]).map_err(wrong)?;
    let cases_file = cases_file(Path::new(&file));
    let own_cases = rules.run_cases();
    if !own_cases.is_empty() || cases_file.is_none() {
        results.push(FileCases { file: file.clone(), cases: own_cases });
    }
    for source in load::sources(cases_file.as_slice())? {
        let file = source.name.clone();
        let wrong = |found| load::invalid_rules(Path::new(&file), &found);
        let cases = rules.run_cases_of(source).map_err(wrong)?;
        results.push(FileCases { file, cases });
    }
    Ok(())
}

/// Returns the file of cases for a file of rules, if there is one.
fn cases_file(rules: &Path) -> Option<PathBuf> {
    ["test.yaml", "test.yml"].map(|end| rules.with_extension(end)).into_iter().find(|p| p.is_file())
}

/// Replaces the path of a file of cases by that of its rules.
fn rules_paths(paths: &[PathBuf]) -> Vec<PathBuf> {
    let rules = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".test.yaml").or_else(|| name.strip_suffix(".test.yml"));
        let candidates = stem
            .map(|stem| [".yaml", ".yml"].map(|end| path.with_file_name(format!("{stem}{end}"))));
        candidates.into_iter().flatten().find(|p| p.is_file()).unwrap_or_else(|| path.clone())
    };
    paths.iter().map(rules).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_rules_are_found_from_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["shop.yaml", "shop.test.yaml", "alone.yml", "lost.test.yml"] {
            std::fs::write(at(name), "").unwrap();
        }
        assert_eq!(cases_file(&at("shop.yaml")), Some(at("shop.test.yaml")));
        assert_eq!((cases_file(&at("alone.yml")), cases_file(Path::new("stdin"))), (None, None));
        let named = ["shop.test.yaml", "lost.test.yml", "alone.yml"].map(at);
        assert_eq!(rules_paths(&named), ["shop.yaml", "lost.test.yml", "alone.yml"].map(at));
    }
}
