//! Changes of overrides, bans, modes and lists.

use super::super::db::elements::{self, Element};
use super::super::db::{Keeper, lists};
use super::super::problem::{Problem, Result};
use super::super::reading::Precondition;
use super::{Applied, Entry, Request, Settled, settle};

fn entry(action: &'static str, subject: String, detail: String) -> Entry {
    Entry { action, subject, from: None, to: None, detail }
}

/// Adds an element; says its id.
pub(in super::super) fn add_element<T: Element>(
    keeper: &mut Keeper,
    request: &Request,
    what: &T,
) -> Result<Settled<u64>> {
    settle(keeper, request, |transaction, revision| {
        let (id, entry) = insert(transaction, request, what, revision)?;
        Ok(Applied { entries: vec![entry], value: id })
    })
}

fn insert<T: Element>(
    transaction: &rusqlite::Transaction<'_>,
    request: &Request,
    what: &T,
    revision: u64,
) -> Result<(u64, Entry)> {
    let id = elements::add(transaction, what, &request.author, revision)?;
    let detail = serde_json::to_string(what).unwrap_or_default();
    Ok((id, entry(T::ADD, format!("{}/{id}", T::TABLE), detail)))
}

/// Adds an element instead of some others: of those it replaces, and those that are over, so that
/// they do not pile up.
pub(in super::super) fn replace_element<T: Element>(
    keeper: &mut Keeper,
    request: &Request,
    what: &T,
    is_replaced: impl Fn(&T) -> bool,
) -> Result<Settled<u64>> {
    settle(keeper, request, |transaction, revision| {
        for stored in elements::all::<T>(transaction)? {
            if is_replaced(&stored.what) {
                elements::remove::<T>(transaction, stored.id)?;
            }
        }
        let (id, entry) = insert(transaction, request, what, revision)?;
        Ok(Applied { entries: vec![entry], value: id })
    })
}

/// Removes an element.
pub(in super::super) fn remove_element<T: Element>(
    keeper: &mut Keeper,
    request: &Request,
    id: u64,
) -> Result<Settled<u64>> {
    settle(keeper, request, |transaction, _| {
        let none = || Problem::not_found(format_args!("{} {id}", T::NAME));
        let stored = elements::get::<T>(transaction, id)?.ok_or_else(none)?;
        elements::remove::<T>(transaction, id)?;
        let detail = serde_json::to_string(&stored.what).unwrap_or_default();
        let entries = vec![entry(T::REMOVE, format!("{}/{id}", T::TABLE), detail)];
        Ok(Applied { entries, value: id })
    })
}

/// What a change does to a list.
#[derive(Clone, Debug)]
pub(in super::super) struct ListChange {
    pub(in super::super) name: String,
    /// None if the list is gone.
    pub(in super::super) etag: Option<String>,
    pub(in super::super) created: bool,
    /// How many entries it has now.
    pub(in super::super) entries: usize,
    /// How many were added or removed.
    pub(in super::super) touched: usize,
}

/// A list in a domain; `""` is the only domain there is.
type Which<'a> = (&'a str, &'a str);

fn subject((domain, name): Which<'_>) -> String {
    if domain.is_empty() { format!("lists/{name}") } else { format!("lists/{domain}/{name}") }
}

fn counted(which: Which<'_>, action: &'static str, changed: usize) -> Entry {
    let entries = if changed == 1 { "entry" } else { "entries" };
    entry(action, subject(which), format!("{changed} {entries}"))
}

/// A list that must be there. One that only a file has is not: adding to it would hide the file's.
fn existing(
    transaction: &rusqlite::Transaction<'_>,
    (domain, name): Which<'_>,
    expected: &Precondition,
) -> Result<lists::Stored> {
    let stored = lists::get(transaction, domain, name)?;
    if expected.is_given() {
        expected.check(stored.as_ref().map(lists::Stored::etag), false)?;
    }
    stored.ok_or_else(|| {
        let name = name.escape_debug();
        Problem::not_found(format_args!(
            "list `{name}` as data; PUT all its entries first (from then on those in the rules \
             file no longer count)"
        ))
    })
}

/// Replaces all entries of a list, or makes it.
pub(in super::super) fn set_list(
    keeper: &mut Keeper,
    request: &Request,
    which: Which<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<Settled<ListChange>> {
    settle(keeper, request, |transaction, revision| {
        let stored = lists::get(transaction, which.0, which.1)?;
        if expected.is_given() {
            expected.check(stored.as_ref().map(lists::Stored::etag), request.dry_run)?;
        }
        let created = stored.is_none();
        let same = stored.as_ref().filter(|stored| stored.what.entries == entries);
        let etag = same.map_or_else(|| lists::etag(revision), lists::Stored::etag);
        let mut audited = Vec::new();
        if same.is_none() {
            lists::set(transaction, which.0, which.1, entries, revision)?;
            audited.push(counted(which, "list.set", entries.len()));
        }
        let (name, touched) = (which.1.to_owned(), audited.len() * entries.len());
        let count = lists::get(transaction, which.0, which.1)?;
        let count = count.map_or(0, |stored| stored.what.entries.len());
        let value = ListChange { name, etag: Some(etag), created, entries: count, touched };
        Ok(Applied { entries: audited, value })
    })
}

/// Removes a list: the one in the rules file counts again.
pub(in super::super) fn remove_list(
    keeper: &mut Keeper,
    request: &Request,
    which: Which<'_>,
    expected: &Precondition,
) -> Result<Settled<ListChange>> {
    settle(keeper, request, |transaction, _| {
        let stored = existing(transaction, which, expected)?;
        lists::remove(transaction, &stored)?;
        let (name, touched) = (which.1.to_owned(), stored.what.entries.len());
        let value = ListChange { name, etag: None, created: false, entries: 0, touched };
        Ok(Applied { entries: vec![counted(which, "list.remove", touched)], value })
    })
}

/// Adds entries to a list.
pub(in super::super) fn add_entries(
    keeper: &mut Keeper,
    request: &Request,
    which: Which<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<Settled<ListChange>> {
    settle(keeper, request, |transaction, revision| {
        let stored = existing(transaction, which, expected)?;
        let added = lists::add_entries(transaction, &stored, entries, revision)?;
        let count = stored.what.entries.len() + added;
        Ok(touched(which, &stored, count, added, revision, "list.add-entries"))
    })
}

/// Removes entries from a list.
pub(in super::super) fn remove_entries(
    keeper: &mut Keeper,
    request: &Request,
    which: Which<'_>,
    entries: &[String],
    expected: &Precondition,
) -> Result<Settled<ListChange>> {
    settle(keeper, request, |transaction, revision| {
        let stored = existing(transaction, which, expected)?;
        let removed = lists::remove_entries(transaction, &stored, entries, revision)?;
        let count = stored.what.entries.len() - removed;
        Ok(touched(which, &stored, count, removed, revision, "list.remove-entries"))
    })
}

fn touched(
    which: Which<'_>,
    stored: &lists::Stored,
    count: usize,
    touched: usize,
    revision: u64,
    action: &'static str,
) -> Applied<ListChange> {
    let changed = touched > 0;
    let etag = if changed { lists::etag(revision) } else { stored.etag() };
    let name = which.1.to_owned();
    let value = ListChange { name, etag: Some(etag), created: false, entries: count, touched };
    let entries = if changed { vec![counted(which, action, touched)] } else { Vec::new() };
    Applied { entries, value }
}
