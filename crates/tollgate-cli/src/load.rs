//! Loading of the rules that a command names.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use tollgate_rules::{Diagnostics, Rules, Source};

use crate::style::Style;

/// The maximum size of standard input in bytes. The parser has tighter bounds; this one stops an
/// endless stream.
const MAX_STDIN: u64 = 16 << 20;

/// The rules file that commands use if none is named.
const DEFAULT_RULES: &str = "tollgate.yaml";

/// Returns the default rules file, if it exists.
pub(crate) fn default_rules() -> Option<PathBuf> {
    Some(PathBuf::from(DEFAULT_RULES)).filter(|path| path.is_file())
}

/// Returns the paths that are named, or the default rules file.
pub(crate) fn paths_or_default(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    if !paths.is_empty() {
        return Ok(paths.to_vec());
    }
    let default = default_rules().map(|path| vec![path]);
    default.ok_or_else(|| {
        anyhow!(
            "no rules are named, and there is no {DEFAULT_RULES} in this folder: name a file, or \
             write one with `tollgate init`"
        )
    })
}

/// Reads the texts at `paths`: files, directories of files, or `-` for standard input.
pub(crate) fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        match path.as_os_str() == "-" {
            true => sources.push(stdin()?),
            false => sources.extend(Source::load(path)?),
        }
    }
    Ok(sources)
}

/// Loads the rules at `path`; invalid rules are an error.
pub(crate) fn rules(path: &Path) -> anyhow::Result<Rules> {
    rules_merged(path, false)
}

/// Loads the rules at `path`, of which several files of Envoy's may describe one domain if
/// `merge_domains` is set.
pub(crate) fn rules_merged(path: &Path, merge_domains: bool) -> anyhow::Result<Rules> {
    let read = read(sources(&[path.to_owned()])?, merge_domains);
    read.map_err(|found| invalid_rules(path, &found))
}

/// Reads rules, of which several files of Envoy's may describe one domain if `merge_domains` is set.
pub(crate) fn read(sources: Vec<Source>, merge_domains: bool) -> Result<Rules, Diagnostics> {
    if merge_domains { Rules::read_merged(sources) } else { Rules::read(sources) }
}

/// Returns an error that shows every finding, for commands that need valid rules.
pub(crate) fn invalid_rules(path: &Path, found: &Diagnostics) -> anyhow::Error {
    let colour = Style::when(io::stderr().is_terminal()).is_on();
    anyhow!("{} is not valid:\n{}", path.display(), found.render(colour))
}

fn stdin() -> anyhow::Result<Source> {
    let mut text = String::new();
    let read = io::stdin().take(MAX_STDIN + 1).read_to_string(&mut text);
    read.context("cannot read the rules from stdin")?;
    if text.len() as u64 > MAX_STDIN {
        bail!("cannot read the rules from stdin: more than {} MiB", MAX_STDIN >> 20);
    }
    Ok(Source::new("stdin", text))
}
