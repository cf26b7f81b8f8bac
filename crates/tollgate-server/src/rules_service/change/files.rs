//! RuleChanges of rules files.

use super::super::db::{DbState, files};
use super::super::diff::{self, RuleChanges};
use super::super::extract::Precondition;
use super::{AppliedChange, AuditRecord, Author, ChangeRequest, ChangeResult, commit_change};
use crate::problem::{Problem, Result};

/// The effect of a change on a file.
#[derive(Clone, Debug)]
pub(in super::super) struct FileChange {
    pub(in super::super) name: String,
    /// The new version; `None` if the file was removed.
    pub(in super::super) version: Option<u64>,
    pub(in super::super) etag: Option<String>,
    pub(in super::super) created: bool,
    pub(in super::super) rules: RuleChanges,
    /// The unified diff, only of a dry run.
    pub(in super::super) diff: Option<String>,
}

/// Checks the name of a rules file, which appears in paths and in diagnostics.
fn check_name(name: &str) -> Result<()> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let starts = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts && name.len() <= 128 && name.chars().all(fits) && name != "bundle" {
        return Ok(());
    }
    Err(Problem::bad_request(format!(
        "`{}` cannot be the name of a rules file: use letters, digits, - . _ and begin with a \
         letter or a digit; `bundle` is reserved",
        name.escape_debug()
    )))
}

fn no_file(name: &str) -> Problem {
    Problem::not_found(format_args!("rules file `{}`", name.escape_debug()))
}

/// Creates or replaces a file.
pub(in super::super) fn put(
    state: &mut DbState,
    request: &ChangeRequest,
    name: &str,
    text: &str,
    expected: &Precondition,
) -> Result<ChangeResult<FileChange>> {
    check_name(name)?;
    commit_change(state, request, |transaction, revision| {
        let current = files::current(transaction, name)?;
        expected.check(current.as_ref().map(files::CurrentFile::etag), request.dry_run)?;
        write(transaction, request, revision, (name, current, Some(text)), "rules.put")
    })
}

/// Removes a file.
pub(in super::super) fn remove(
    state: &mut DbState,
    request: &ChangeRequest,
    name: &str,
    expected: &Precondition,
) -> Result<ChangeResult<FileChange>> {
    commit_change(state, request, |transaction, revision| {
        let current = files::current(transaction, name)?.ok_or_else(|| no_file(name))?;
        expected.check(Some(current.etag()), request.dry_run)?;
        write(transaction, request, revision, (name, Some(current), None), "rules.remove")
    })
}

/// Makes the text of an earlier version the newest version.
pub(in super::super) fn rollback(
    state: &mut DbState,
    request: &ChangeRequest,
    name: &str,
    to: u64,
    expected: &Precondition,
) -> Result<ChangeResult<FileChange>> {
    commit_change(state, request, |transaction, revision| {
        let current = files::current(transaction, name)?;
        if expected.is_given() {
            expected.check(current.as_ref().map(files::CurrentFile::etag), request.dry_run)?;
        }
        let no_version = || {
            let name = name.escape_debug();
            Problem::not_found(format_args!("text of rules file `{name}` in version {to}"))
        };
        let (text, _) = files::version_text(transaction, name, to)?.ok_or_else(no_version)?;
        let change = (name, current, Some(text.as_str()));
        let mut applied = write(transaction, request, revision, change, "rules.rollback")?;
        for entry in &mut applied.entries {
            entry.detail = format!("to the text of version {to}");
        }
        Ok(applied)
    })
}

/// Imports files as one change, replacing files of the same name; returns how many changed.
pub(in super::super) fn import(state: &mut DbState, new: &[(String, String)]) -> Result<usize> {
    let author = Author { who: "import".into(), request_id: "import".into() };
    let request = ChangeRequest { author, dry_run: false };
    for (name, _) in new {
        check_name(name)?;
    }
    let result = commit_change(state, &request, |transaction, revision| {
        let mut entries = Vec::new();
        for (name, text) in new {
            let current = files::current(transaction, name)?;
            let change = (name.as_str(), current, Some(text.as_str()));
            let applied = write(transaction, &request, revision, change, "rules.import")?;
            entries.extend(applied.entries);
        }
        Ok(AppliedChange { value: entries.len(), entries })
    })?;
    Ok(result.value)
}

/// The name of a file, its current version and its new text; `None` removes the file.
type FileWrite<'a> = (&'a str, Option<files::CurrentFile>, Option<&'a str>);

fn write(
    transaction: &rusqlite::Transaction<'_>,
    request: &ChangeRequest,
    revision: u64,
    (name, current, text): FileWrite<'_>,
    action: &'static str,
) -> Result<AppliedChange<FileChange>> {
    let old = current.as_ref().map(|current| current.text.as_str());
    let from = current.as_ref().map(|current| current.version);
    let (before, after) = (old.unwrap_or_default(), text.unwrap_or_default());
    let diff = request.dry_run.then(|| diff::unified(name, before, after));
    let (name, created) = (name.to_owned(), old.is_none());
    if old == text {
        let etag = current.as_ref().map(files::CurrentFile::etag);
        let rules = RuleChanges::default();
        let value = FileChange { name, version: from, etag, created: false, rules, diff };
        return Ok(AppliedChange { entries: Vec::new(), value });
    }
    let rules = diff::changes(before, after);
    let (version, etag) = files::add(transaction, &name, text, &request.author, revision)?;
    let entry = AuditRecord {
        action,
        subject: format!("rules/{name}"),
        from,
        to: Some(version),
        detail: rules.summary(),
    };
    let (version, etag) = (text.map(|_| version), text.map(|_| etag));
    let value = FileChange { name, version, etag, created, rules, diff };
    Ok(AppliedChange { entries: vec![entry], value })
}
