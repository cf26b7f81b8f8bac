//! Changes of rules files.

use super::super::db::{Keeper, files};
use super::super::diff::{self, Changes};
use super::super::problem::{Problem, Result};
use super::super::reading::Precondition;
use super::{Applied, Author, Entry, Request, Settled, settle};

/// What a change does to a file.
#[derive(Clone, Debug)]
pub(in super::super) struct FileChange {
    pub(in super::super) name: String,
    /// The version it made; none if the file is gone.
    pub(in super::super) version: Option<u64>,
    pub(in super::super) etag: Option<String>,
    pub(in super::super) created: bool,
    pub(in super::super) rules: Changes,
    /// Only of a dry run: nobody reads it otherwise.
    pub(in super::super) diff: Option<String>,
}

/// Names appear in paths and in findings.
fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= 128 && name.chars().all(fits) && name != "bundle" {
        return Ok(());
    }
    Err(Problem::bad_request(format!(
        "`{}` cannot be the name of a rules file: letters, digits, - . _ make one, a letter or a \
         digit comes first, and `bundle` is taken",
        name.escape_debug()
    )))
}

fn no_file(name: &str) -> Problem {
    Problem::not_found(format_args!("rules file `{}`", name.escape_debug()))
}

/// Creates or replaces a file.
pub(in super::super) fn put(
    keeper: &mut Keeper,
    request: &Request,
    name: &str,
    text: &str,
    expected: &Precondition,
) -> Result<Settled<FileChange>> {
    check_name(name)?;
    settle(keeper, request, |transaction, revision| {
        let current = files::current(transaction, name)?;
        expected.check(current.as_ref().map(files::Current::etag), request.dry_run)?;
        write(transaction, request, revision, (name, current, Some(text)), "rules.put")
    })
}

/// Removes a file.
pub(in super::super) fn remove(
    keeper: &mut Keeper,
    request: &Request,
    name: &str,
    expected: &Precondition,
) -> Result<Settled<FileChange>> {
    settle(keeper, request, |transaction, revision| {
        let current = files::current(transaction, name)?.ok_or_else(|| no_file(name))?;
        expected.check(Some(current.etag()), request.dry_run)?;
        write(transaction, request, revision, (name, Some(current), None), "rules.remove")
    })
}

/// Makes an earlier text the newest version.
pub(in super::super) fn rollback(
    keeper: &mut Keeper,
    request: &Request,
    name: &str,
    to: u64,
    expected: &Precondition,
) -> Result<Settled<FileChange>> {
    settle(keeper, request, |transaction, revision| {
        let current = files::current(transaction, name)?;
        if expected.is_given() {
            expected.check(current.as_ref().map(files::Current::etag), request.dry_run)?;
        }
        let no_version = || {
            let name = name.escape_debug();
            Problem::not_found(format_args!("text of rules file `{name}` in version {to}"))
        };
        let (text, _) = files::text_of(transaction, name, to)?.ok_or_else(no_version)?;
        let change = (name, current, Some(text.as_str()));
        let mut applied = write(transaction, request, revision, change, "rules.rollback")?;
        for entry in &mut applied.entries {
            entry.detail = format!("to the text of version {to}");
        }
        Ok(applied)
    })
}

/// Takes over files in one change, replacing what has the same name. Says how many it changed.
pub(in super::super) fn import(keeper: &mut Keeper, new: &[(String, String)]) -> Result<usize> {
    let author = Author { who: "import".into(), request_id: "import".into() };
    let request = Request { author, dry_run: false };
    for (name, _) in new {
        check_name(name)?;
    }
    let settled = settle(keeper, &request, |transaction, revision| {
        let mut entries = Vec::new();
        for (name, text) in new {
            let current = files::current(transaction, name)?;
            let change = (name.as_str(), current, Some(text.as_str()));
            let applied = write(transaction, &request, revision, change, "rules.import")?;
            entries.extend(applied.entries);
        }
        Ok(Applied { value: entries.len(), entries })
    })?;
    Ok(settled.value)
}

/// A file, what it is and what it is to be; nothing if it is to be gone.
type Rewrite<'a> = (&'a str, Option<files::Current>, Option<&'a str>);

fn write(
    transaction: &rusqlite::Transaction<'_>,
    request: &Request,
    revision: u64,
    (name, current, text): Rewrite<'_>,
    action: &'static str,
) -> Result<Applied<FileChange>> {
    let old = current.as_ref().map(|current| current.text.as_str());
    let from = current.as_ref().map(|current| current.version);
    let (before, after) = (old.unwrap_or_default(), text.unwrap_or_default());
    let diff = request.dry_run.then(|| diff::unified(name, before, after));
    let (name, created) = (name.to_owned(), old.is_none());
    if old == text {
        let etag = current.as_ref().map(files::Current::etag);
        let rules = Changes::default();
        let value = FileChange { name, version: from, etag, created: false, rules, diff };
        return Ok(Applied { entries: Vec::new(), value });
    }
    let rules = diff::changes(before, after);
    let (version, etag) = files::add(transaction, &name, text, &request.author, revision)?;
    let entry = Entry {
        action,
        subject: format!("rules/{name}"),
        from,
        to: Some(version),
        detail: rules.summary(),
    };
    let (version, etag) = (text.map(|_| version), text.map(|_| etag));
    let value = FileChange { name, version, etag, created, rules, diff };
    Ok(Applied { entries: vec![entry], value })
}
