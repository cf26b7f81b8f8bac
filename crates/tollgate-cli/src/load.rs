//! Rules from files: what a command names, read and compiled.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use tollgate::Rules;
use tollgate::rules::{Diagnostics, Source};

use crate::style::Style;

/// The most that is read from standard input, in bytes. Who reads the text has tighter bounds;
/// this one keeps an endless stream out.
const MAX_STDIN: u64 = 16 << 20;

/// The texts at `paths`: files, directories of them, `-` for standard input.
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

/// The rules at `path`; findings are an error.
pub(crate) fn rules(path: &Path) -> anyhow::Result<Rules> {
    Rules::read(sources(&[path.to_owned()])?).map_err(|found| wrong(path, &found))
}

/// An error that shows every finding, for commands that need rules which are right.
pub(crate) fn wrong(path: &Path, found: &Diagnostics) -> anyhow::Error {
    let colour = Style::when(io::stderr().is_terminal()).is_on();
    anyhow!("{} is wrong:\n{}", path.display(), found.render(colour))
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
