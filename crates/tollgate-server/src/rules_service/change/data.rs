//! Changes of overrides, bans, modes and lists.

use hyper::StatusCode;
use tollgate_rules::yaml::YamlFile;
use tollgate_rules::{Rules, Source};

use super::super::db::elements::{self, Element};
use super::super::db::{self, DbState, lists};
use super::super::extract::Precondition;
use super::{AppliedChange, AuditRecord, ChangeRequest, ChangeResult, commit_change};
use crate::bundle::Bundle;
use crate::problem::{Problem, Result};

fn entry(action: &'static str, subject: String, detail: String) -> AuditRecord {
    AuditRecord { action, subject, from: None, to: None, detail }
}

/// Adds an element and returns its id.
pub(in super::super) fn add_element<T: Element>(
    state: &mut DbState,
    request: &ChangeRequest,
    data: &T,
) -> Result<ChangeResult<u64>> {
    let mut element = String::new();
    let result = commit_change(state, request, |transaction, revision| {
        let (id, entry) = insert(transaction, request, data, revision)?;
        element = last_element::<T>(transaction)?;
        Ok(AppliedChange { entries: vec![entry], value: id })
    });
    result.map_err(|problem| problem.about_new_element(&element))
}

/// Returns the path of the newest element in errors.
fn last_element<T: Element>(transaction: &rusqlite::Transaction<'_>) -> Result<String> {
    let count = elements::all::<T>(transaction)?.len();
    Ok(format!("{}[{}]", T::TABLE, count.saturating_sub(1)))
}

fn insert<T: Element>(
    transaction: &rusqlite::Transaction<'_>,
    request: &ChangeRequest,
    data: &T,
    revision: u64,
) -> Result<(u64, AuditRecord)> {
    let id = elements::add(transaction, data, &request.author, revision)?;
    let detail = serde_json::to_string(data).unwrap_or_default();
    Ok((id, entry(T::ADD, format!("{}/{id}", T::TABLE), detail)))
}

/// Adds an element and removes those that it replaces and those that have expired.
pub(in super::super) fn replace_element<T: Element>(
    state: &mut DbState,
    request: &ChangeRequest,
    data: &T,
    is_replaced: impl Fn(&T) -> bool,
) -> Result<ChangeResult<u64>> {
    let mut element = String::new();
    let result = commit_change(state, request, |transaction, revision| {
        for stored in elements::all::<T>(transaction)? {
            if is_replaced(&stored.data) {
                elements::remove::<T>(transaction, stored.id)?;
            }
        }
        let (id, entry) = insert(transaction, request, data, revision)?;
        element = last_element::<T>(transaction)?;
        Ok(AppliedChange { entries: vec![entry], value: id })
    });
    result.map_err(|problem| problem.about_new_element(&element))
}

/// Removes an element.
pub(in super::super) fn remove_element<T: Element>(
    state: &mut DbState,
    request: &ChangeRequest,
    id: u64,
) -> Result<ChangeResult<u64>> {
    commit_change(state, request, |transaction, _| {
        let none = || Problem::not_found(format_args!("{} {id}", T::NAME));
        let stored = elements::get::<T>(transaction, id)?.ok_or_else(none)?;
        elements::remove::<T>(transaction, id)?;
        let detail = serde_json::to_string(&stored.data).unwrap_or_default();
        let entries = vec![entry(T::REMOVE, format!("{}/{id}", T::TABLE), detail)];
        Ok(AppliedChange { entries, value: id })
    })
}

/// The effect of a change on a list.
#[derive(Clone, Debug)]
pub(in super::super) struct ListChange {
    pub(in super::super) name: String,
    /// The entity tag; `None` if the list was removed.
    pub(in super::super) etag: Option<String>,
    pub(in super::super) created: bool,
    /// The number of entries after the change.
    pub(in super::super) entries: usize,
    /// The number of entries added or removed.
    pub(in super::super) touched: usize,
}

/// The domain and name of a list; the domain `""` stands for the only domain.
type ListId<'a> = (&'a str, &'a str);

fn subject((domain, name): ListId<'_>) -> String {
    if domain.is_empty() { format!("lists/{name}") } else { format!("lists/{domain}/{name}") }
}

fn counted(list: ListId<'_>, action: &'static str, changed: usize) -> AuditRecord {
    let entries = if changed == 1 { "entry" } else { "entries" };
    entry(action, subject(list), format!("{changed} {entries}"))
}

/// Returns a list that must exist as data.
///
/// A list that is only in a file does not count, because adding to it would hide the file's entries.
fn existing(
    transaction: &rusqlite::Transaction<'_>,
    external: Option<&Rules>,
    (domain, name): ListId<'_>,
    expected: &Precondition,
) -> Result<lists::StoredList> {
    let stored = lists::get(transaction, domain, name)?;
    if expected.is_given() {
        expected.check(stored.as_ref().map(lists::StoredList::etag), false)?;
    }
    match stored {
        Some(stored) => Ok(stored),
        None => Err(no_stored_list(&db::load(transaction, external)?, (domain, name))),
    }
}

/// Returns the file that defines a list, and the number of its entries there.
fn file_list(bundle: &Bundle, (domain, name): ListId<'_>) -> Option<(String, usize)> {
    for file in &bundle.files {
        let source = Source::new(&file.name, &file.text);
        let Ok(parsed) = YamlFile::read(&source) else { continue };
        for document in parsed.documents() {
            let document = serde_json::to_value(document).unwrap_or_default();
            let is_meant = domain.is_empty() || document["domain"] == domain;
            let entries = document["lists"][name].as_array().filter(|_| is_meant);
            if let Some(entries) = entries {
                return Some((file.name.clone(), entries.len()));
            }
        }
    }
    None
}

/// Returns the problem of a list that does not exist as data: where it is instead, and what to do.
pub(in super::super) fn no_stored_list(bundle: &Bundle, list: ListId<'_>) -> Problem {
    let name = list.1.escape_debug();
    let Some((file, count)) = file_list(bundle, list) else {
        return Problem::not_found(format_args!(
            "list `{name}`: declare it under `lists:` in a rules file, empty if need be"
        ));
    };
    let detail = format!(
        "the list `{name}` is defined in {} ({count} entries), and is not data: edit that file, or \
         set all its entries as data (`tollgate lists set {name} …`); from then on those in the \
         file no longer count",
        file.escape_debug(),
    );
    Problem::new(StatusCode::NOT_FOUND, "list-in-file", detail)
}

/// Replaces all entries of a list, or creates the list.
pub(in super::super) fn set_list(
    state: &mut DbState,
    request: &ChangeRequest,
    list: ListId<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<ChangeResult<ListChange>> {
    let mut element = String::new();
    let result = commit_change(state, request, |transaction, revision| {
        let stored = lists::get(transaction, list.0, list.1)?;
        if expected.is_given() {
            expected.check(stored.as_ref().map(lists::StoredList::etag), request.dry_run)?;
        }
        let created = stored.is_none();
        let same = stored.as_ref().filter(|stored| stored.data.entries == entries);
        let etag = same.map_or_else(|| lists::etag(revision), lists::StoredList::etag);
        let mut audited = Vec::new();
        if same.is_none() {
            lists::set(transaction, list.0, list.1, entries, revision)?;
            audited.push(counted(list, "list.set", entries.len()));
        }
        let (name, touched) = (list.1.to_owned(), audited.len() * entries.len());
        let count = lists::get(transaction, list.0, list.1)?;
        let count = count.map_or(0, |stored| stored.data.entries.len());
        let value = ListChange { name, etag: Some(etag), created, entries: count, touched };
        let is_this = |other: &lists::StoredList| {
            let domain = other.data.domain.as_deref().unwrap_or_default();
            (domain, other.data.name.as_str()) == list
        };
        let position = lists::all(transaction)?.iter().position(is_this);
        element = format!("lists[{}]", position.unwrap_or_default());
        Ok(AppliedChange { entries: audited, value })
    });
    result.map_err(|problem| problem.about_new_element(&element))
}

/// Removes a list, so that the list of the rules file applies again.
pub(in super::super) fn remove_list(
    state: &mut DbState,
    request: &ChangeRequest,
    list: ListId<'_>,
    expected: &Precondition,
) -> Result<ChangeResult<ListChange>> {
    let external = state.checker.external().cloned();
    commit_change(state, request, |transaction, _| {
        let stored = existing(transaction, external.as_ref(), list, expected)?;
        lists::remove(transaction, &stored)?;
        let (name, touched) = (list.1.to_owned(), stored.data.entries.len());
        let value = ListChange { name, etag: None, created: false, entries: 0, touched };
        Ok(AppliedChange { entries: vec![counted(list, "list.remove", touched)], value })
    })
}

/// Adds entries to a list.
pub(in super::super) fn add_entries(
    state: &mut DbState,
    request: &ChangeRequest,
    list: ListId<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<ChangeResult<ListChange>> {
    let external = state.checker.external().cloned();
    commit_change(state, request, |transaction, revision| {
        if lists::get(transaction, list.0, list.1)?.is_none()
            && !expected.is_given()
            && let Some((_, 0)) = file_list(&db::load(transaction, external.as_ref())?, list)
        {
            // The file declares the list without entries, so that nothing in it is hidden.
            lists::set(transaction, list.0, list.1, &[], revision)?;
        }
        let stored = existing(transaction, external.as_ref(), list, expected)?;
        let added = lists::add_entries(transaction, &stored, entries, revision)?;
        let count = stored.data.entries.len() + added;
        Ok(touched(list, &stored, count, added, revision, "list.add-entries"))
    })
}

/// Removes entries from a list.
pub(in super::super) fn remove_entries(
    state: &mut DbState,
    request: &ChangeRequest,
    list: ListId<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<ChangeResult<ListChange>> {
    let external = state.checker.external().cloned();
    commit_change(state, request, |transaction, revision| {
        let stored = existing(transaction, external.as_ref(), list, expected)?;
        let removed = lists::remove_entries(transaction, &stored, entries, revision)?;
        let count = stored.data.entries.len() - removed;
        Ok(touched(list, &stored, count, removed, revision, "list.remove-entries"))
    })
}

fn touched(
    list: ListId<'_>,
    stored: &lists::StoredList,
    count: usize,
    touched: usize,
    revision: u64,
    action: &'static str,
) -> AppliedChange<ListChange> {
    let changed = touched > 0;
    let etag = if changed { lists::etag(revision) } else { stored.etag() };
    let name = list.1.to_owned();
    let value = ListChange { name, etag: Some(etag), created: false, entries: count, touched };
    let entries = if changed { vec![counted(list, action, touched)] } else { Vec::new() };
    AppliedChange { entries, value }
}
