//! `tollgate import`: converts the configuration of another system to a rules file.
//!
//! Each reader fills a [`RulesDraft`]. Whatever a reader leaves out or approximates is an
//! [`ImportFinding`] with its [`Effect`]. This module writes the draft, checks that it is valid, and
//! prints the findings; the exit code tells whether the rules are more permissive than the original.

mod area;
mod args;
mod condition;
mod draft;
mod envoy;
mod finding;
mod format;
mod glob;
mod kong;
mod limitador;
mod nginx;
mod rate;

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use serde::Serialize;
use tollgate_rules::yaml::YamlFile;
use tollgate_rules::{Diagnostics, Rules, Source};

pub(crate) use args::ImportArgs;
use args::SourceSystem;
use condition::Condition;
use draft::{DraftRule, RulesDraft};
use finding::{Effect, ImportFinding, Origin};

use crate::Outcome;
use crate::style::Style;

/// The maximum length of a file in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The output of `--json`.
#[derive(Serialize)]
struct ImportOutput<'a> {
    rules: &'a str,
    findings: &'a [ImportFinding],
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<Outcome> {
    let drafts = read(args)?;
    let drafts = choose(drafts, args)?;
    let mut texts = Vec::new();
    for draft in &drafts {
        texts.push(checked(draft)?);
    }
    match &args.out {
        Some(folder) if is_folder(folder) => {
            for (draft, text) in drafts.iter().zip(&texts) {
                let name = draft::slug(draft.domain.as_deref().unwrap_or("rules"));
                write(&folder.join(format!("{name}.yaml")), text)?;
            }
        }
        Some(path) => write(path, &texts.concat())?,
        None if !args.json => io::stdout().write_all(texts.concat().as_bytes())?,
        None => {}
    }
    let findings: Vec<ImportFinding> =
        drafts.into_iter().flat_map(|draft| draft.findings).collect();
    match args.json {
        true => {
            let output = ImportOutput { rules: &texts.concat(), findings: &findings };
            writeln!(io::stdout(), "{}", serde_json::to_string(&output)?)?;
        }
        false => print_findings(&findings)?,
    }
    Ok(Outcome::found(findings.iter().any(|finding| finding.effect == Effect::MorePermissive)))
}

/// Reads the files into one draft for each domain.
fn read(args: &ImportArgs) -> anyhow::Result<Vec<RulesDraft>> {
    let mut texts = Vec::new();
    for path in &args.files {
        texts.push(Source::new(path.display().to_string(), text_of(path)?));
    }
    format::check(&texts, args.from)?;
    match args.from {
        SourceSystem::Envoy => envoy::import(&texts),
        SourceSystem::Limitador => limitador::import(&texts),
        SourceSystem::Kong => kong::import(&texts).map(|draft| vec![draft]),
        SourceSystem::Nginx => nginx::import(&texts).map(|draft| vec![draft]),
    }
}

/// Reads a file, or standard input for `-`.
fn text_of(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let all = io::read_to_string(io::stdin().take(MAX_BYTES + 1)).context("standard input")?;
        if all.len() as u64 > MAX_BYTES {
            bail!("standard input is longer than {MAX_BYTES} bytes");
        }
        return Ok(all);
    }
    let about = || path.display().to_string();
    let length = std::fs::metadata(path).with_context(about)?.len();
    if length > MAX_BYTES {
        bail!("{} has {length} bytes; at most {MAX_BYTES} are read", path.display());
    }
    std::fs::read_to_string(path).with_context(about)
}

/// Parses YAML files.
fn yaml_files(sources: &[Source]) -> anyhow::Result<Vec<YamlFile<'_>>> {
    let parse = |source| YamlFile::read(source).map_err(|found| anyhow!(first_error(&found)));
    sources.iter().map(parse).collect()
}

/// Returns the first finding with its place and its help.
fn first_error(found: &Diagnostics) -> String {
    let Some(first) = found.findings().next() else { return found.to_string() };
    let help = first.help.map_or(String::new(), |help| format!("; {help}"));
    format!("{}:{}: {}{help}", first.file, first.line, first.message)
}

/// Picks the domains to write: a rules file holds one, so several need a folder or a choice.
fn choose(drafts: Vec<RulesDraft>, args: &ImportArgs) -> anyhow::Result<Vec<RulesDraft>> {
    let name = |draft: &RulesDraft| draft.domain.clone().unwrap_or_default();
    let names = drafts.iter().map(name).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = &args.domain {
        let chosen: Vec<RulesDraft> =
            drafts.into_iter().filter(|draft| name(draft) == *wanted).collect();
        return match chosen.is_empty() {
            true => bail!("the files have no domain {wanted:?}; choose one of {names}"),
            false => Ok(chosen),
        };
    }
    if drafts.len() > 1 && !args.out.as_deref().is_some_and(is_folder) {
        bail!(
            "the files have several domains ({names}), and a rules file holds one: choose one with \
             --domain, or write all of them into a folder with --out FOLDER/"
        );
    }
    Ok(drafts)
}

fn is_folder(path: &Path) -> bool {
    path.is_dir() || path.as_os_str().to_string_lossy().ends_with('/')
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(path, text).with_context(|| path.display().to_string())
}

/// Returns the text of a draft, checked: invalid rules are a bug of tollgate, not of the file.
fn checked(draft: &RulesDraft) -> anyhow::Result<String> {
    let text = draft.to_string();
    match Rules::read([Source::new("imported.yaml", text.clone())]) {
        Ok(_) => Ok(text),
        Err(found) => bail!(
            "the imported rules are not valid. This is a bug of tollgate: please report it with the \
             configuration.\n\n{found}\n{text}"
        ),
    }
}

/// Prints findings to standard error.
fn print_findings(findings: &[ImportFinding]) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let style = Style::when(err.is_terminal());
    for finding in findings {
        let effect = finding.effect.as_str();
        match finding.effect {
            Effect::MorePermissive => write!(err, "{}", style.bad(effect))?,
            Effect::Stricter => write!(err, "{}", style.denied(effect))?,
            Effect::Equal => write!(err, "{}", style.dim(effect))?,
        }
        writeln!(err, ": {}{}", finding.place(), finding.message)?;
    }
    Ok(())
}

/// Returns whether rules accept a regular expression.
fn is_regex(regex: &str) -> bool {
    let origin = Origin::new("", 0);
    let mut rule = DraftRule::new("regex", &origin, "");
    rule.when = Condition::Matches("path".to_owned(), regex.to_owned());
    rule.then = Some("deny".to_owned());
    let rules = vec![rule];
    invalid(&RulesDraft { rules, ..RulesDraft::default() }).is_none()
}

/// Returns the first error of a draft.
fn invalid(draft: &RulesDraft) -> Option<String> {
    let found = Rules::read([Source::new("imported.yaml", draft.to_string())]).err()?;
    let first = found.errors().next().map(|error| error.message().to_owned());
    Some(first.unwrap_or_else(|| found.to_string()))
}

/// Resolves a path relative to the file that mentions it.
fn beside(file: &str, mentioned: &str) -> PathBuf {
    Path::new(file).parent().unwrap_or(Path::new("")).join(mentioned)
}
