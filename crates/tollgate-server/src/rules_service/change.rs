//! A change: one transaction that is checked as a whole, or nothing.

mod data;
mod files;

pub(super) use data::{
    ListChange, add_element, add_entries, remove_element, remove_entries, remove_list,
    replace_element, set_list,
};
pub(super) use files::{FileChange, import, put, remove, rollback};

use rusqlite::{Transaction, TransactionBehavior};
use serde_json::Value;

use super::db::{self, Keeper, audit};
use super::problem::{Result, findings};

/// On whose behalf a change is made, and by which request.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) who: String,
    pub(crate) request_id: String,
}

/// What a change is in the audit.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) action: &'static str,
    pub(super) subject: String,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) detail: String,
}

/// How a change is made.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) author: Author,
    /// Whether everything is undone at the end.
    pub(super) dry_run: bool,
}

/// What was done inside a transaction; without entries, nothing was.
struct Applied<T> {
    entries: Vec<Entry>,
    value: T,
}

/// A change that was checked, and made unless it was a dry run.
#[derive(Clone, Debug)]
pub(super) struct Settled<T> {
    pub(super) value: T,
    /// The revision it made; the one there was if nothing changed.
    pub(super) revision: u64,
    pub(super) changed: bool,
    pub(super) dry_run: bool,
    pub(super) warnings: Vec<Value>,
}

/// Applies a change, reads the outcome as a limiter would, and keeps it if it is right.
fn settle<T>(
    keeper: &mut Keeper,
    request: &Request,
    apply: impl FnOnce(&Transaction<'_>, u64) -> Result<Applied<T>>,
) -> Result<Settled<T>> {
    let Keeper { connection, checker, publisher, .. } = keeper;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = db::revision(&transaction)?;
    let revision = before + 1;
    let Applied { entries, value } = apply(&transaction, revision)?;
    let dry_run = request.dry_run;
    if entries.is_empty() {
        let (revision, warnings) = (before, Vec::new());
        return Ok(Settled { value, revision, changed: false, dry_run, warnings });
    }
    for entry in &entries {
        audit::add(&transaction, entry, &request.author, revision)?;
    }
    db::set_revision(&transaction, revision)?;
    let bundle = db::load(&transaction, checker.outside())?;
    let rules = checker.check(&bundle)?;
    let published = db::publishable(&bundle, Ok(rules.clone()))?;
    // They are about files: who changed data is not told again.
    let about_files = entries.iter().any(|entry| entry.action.starts_with("rules."));
    let warnings = if about_files { findings(rules.warnings()) } else { Vec::new() };
    if dry_run {
        transaction.rollback()?;
    } else {
        transaction.commit()?;
        checker.commit();
        publisher.publish(published);
        for Entry { action, subject, .. } in &entries {
            let Author { who, request_id } = &request.author;
            tracing::info!(action, subject, who, request_id, revision, "changed");
        }
    }
    Ok(Settled { value, revision, changed: true, dry_run, warnings })
}
