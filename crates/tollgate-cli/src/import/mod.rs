//! `tollgate import`: a rules file that says what another system's configuration says.
//!
//! Each reader fills a [`Draft`]; writing it down, checking that it is valid, and saying what was
//! lost on the way is done once, here.

mod area;
mod args;
mod condition;
mod draft;
mod envoy;
mod glob;
mod kong;
mod limitador;
mod nginx;
mod note;
mod rate;
mod yaml;

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::Serialize;
use tollgate::rules::{Rules, Source};

use args::From;
pub(crate) use args::ImportArgs;
use condition::Condition;
use draft::{Draft, Rule};
use note::{Note, Origin, Severity};

use crate::Outcome;
use crate::style::Style;

/// The longest file that is read.
const MAX_BYTES: u64 = 16 << 20;

/// What `--json` prints.
#[derive(Serialize)]
struct Answer<'a> {
    rules: &'a str,
    notes: &'a [Note],
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
    let notes: Vec<Note> = drafts.into_iter().flat_map(|draft| draft.notes).collect();
    match args.json {
        true => {
            let answer = Answer { rules: &texts.concat(), notes: &notes };
            writeln!(io::stdout(), "{}", serde_json::to_string(&answer)?)?;
        }
        false => tell(&notes)?,
    }
    Ok(Outcome::found(notes.iter().any(|note| note.severity == Severity::LeftOut)))
}

/// One draft for each domain the files hold.
fn read(args: &ImportArgs) -> anyhow::Result<Vec<Draft>> {
    let mut texts = Vec::new();
    for path in &args.files {
        texts.push(Source::new(path.display().to_string(), text_of(path)?));
    }
    match args.from {
        From::Envoy => envoy::import(&texts),
        From::Limitador => limitador::import(&texts),
        From::Kong => kong::import(&texts).map(|draft| vec![draft]),
        From::Nginx => nginx::import(&texts).map(|draft| vec![draft]),
    }
}

/// A file's text, or standard input's.
fn text_of(path: &Path) -> anyhow::Result<String> {
    if path == Path::new("-") {
        let all = io::read_to_string(io::stdin().take(MAX_BYTES + 1)).context("standard input")?;
        if all.len() as u64 > MAX_BYTES {
            bail!("standard input: too long: at most {MAX_BYTES} bytes");
        }
        return Ok(all);
    }
    let about = || path.display().to_string();
    let length = std::fs::metadata(path).with_context(about)?.len();
    if length > MAX_BYTES {
        bail!("{}: {length} bytes are too many: at most {MAX_BYTES}", path.display());
    }
    std::fs::read_to_string(path).with_context(about)
}

/// A rules file holds one domain: several need a folder, or one of them has to be chosen.
fn choose(drafts: Vec<Draft>, args: &ImportArgs) -> anyhow::Result<Vec<Draft>> {
    let name = |draft: &Draft| draft.domain.clone().unwrap_or_default();
    let names = drafts.iter().map(name).collect::<Vec<_>>().join(", ");
    if let Some(wanted) = &args.domain {
        let chosen: Vec<Draft> =
            drafts.into_iter().filter(|draft| name(draft) == *wanted).collect();
        return match chosen.is_empty() {
            true => bail!("no domain {wanted:?} here, only {names}"),
            false => Ok(chosen),
        };
    }
    if drafts.len() > 1 && !args.out.as_deref().is_some_and(is_folder) {
        bail!(
            "these are several domains ({names}), and a rules file holds one: choose one with \
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

/// The draft as text. If that is not valid, it is we who are wrong, not the file.
fn checked(draft: &Draft) -> anyhow::Result<String> {
    let text = draft.to_string();
    match Rules::read([Source::new("imported.yaml", text.clone())]) {
        Ok(_) => Ok(text),
        Err(found) => bail!(
            "what came out is not a valid rules file. That is a bug of tollgate: please report \
             it with the configuration.\n\n{found}\n{text}"
        ),
    }
}

/// Notes for people, on standard error.
fn tell(notes: &[Note]) -> io::Result<()> {
    let mut err = io::stderr().lock();
    let style = Style::when(err.is_terminal());
    for note in notes {
        let severity = note.severity.as_str();
        match note.severity {
            Severity::LeftOut => write!(err, "{}", style.bad(severity))?,
            Severity::Differs => write!(err, "{}", style.denied(severity))?,
            Severity::Note => write!(err, "{}", style.dim(severity))?,
        }
        match note.line {
            Some(line) => writeln!(err, ": {}:{line}: {}", note.file, note.message)?,
            None => writeln!(err, ": {}: {}", note.file, note.message)?,
        }
    }
    Ok(())
}

/// Whether rules can have a regular expression: that is best asked of them.
fn is_regex(regex: &str) -> bool {
    let origin = Origin::new("", 0);
    let mut rule = Rule::new("regex", &origin, "");
    rule.when = Condition::Matches("path".to_owned(), regex.to_owned());
    rule.then = Some("deny".to_owned());
    let rules = vec![rule];
    invalid(&Draft { rules, ..Draft::default() }).is_none()
}

/// What is wrong with a draft, in short.
fn invalid(draft: &Draft) -> Option<String> {
    let found = Rules::read([Source::new("imported.yaml", draft.to_string())]).err()?;
    let first = found.errors().next().map(|error| error.message().to_owned());
    Some(first.unwrap_or_else(|| found.to_string()))
}

/// A path beside the file that mentions it.
fn beside(file: &str, mentioned: &str) -> PathBuf {
    Path::new(file).parent().unwrap_or(Path::new("")).join(mentioned)
}
