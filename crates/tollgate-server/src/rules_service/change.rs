//! Changes of rules and data: one transaction that is validated as a whole.

mod data;
mod files;

pub(super) use data::{
    ListChange, add_element, add_entries, no_stored_list, remove_element, remove_entries,
    remove_list, replace_element, set_list,
};
pub(super) use files::{FileChange, import, put, remove, rollback};

use rusqlite::{Transaction, TransactionBehavior};
use serde_json::Value;

use super::db::{self, DbState, audit};
use crate::problem::{Result, findings};

/// The user who makes a change, and the id of the request.
#[derive(Clone, Debug)]
pub(crate) struct Author {
    pub(crate) who: String,
    pub(crate) request_id: String,
}

/// The audit record of a change.
#[derive(Clone, Debug)]
pub(super) struct AuditRecord {
    pub(super) action: &'static str,
    pub(super) subject: String,
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    pub(super) detail: String,
}

/// The parameters of a change.
#[derive(Clone, Debug)]
pub(super) struct ChangeRequest {
    pub(super) author: Author,
    /// Whether the transaction is rolled back.
    pub(super) dry_run: bool,
}

/// The effect of a change inside its transaction; without records, nothing changed.
struct AppliedChange<T> {
    entries: Vec<AuditRecord>,
    value: T,
}

/// The result of a validated change or dry run.
#[derive(Clone, Debug)]
pub(super) struct ChangeResult<T> {
    pub(super) value: T,
    /// The new revision, or the current one if nothing changed.
    pub(super) revision: u64,
    pub(super) changed: bool,
    pub(super) dry_run: bool,
    pub(super) warnings: Vec<Value>,
}

/// Applies a change, validates the outcome as a limiter would, and commits it if it is valid.
fn commit_change<T>(
    state: &mut DbState,
    request: &ChangeRequest,
    apply: impl FnOnce(&Transaction<'_>, u64) -> Result<AppliedChange<T>>,
) -> Result<ChangeResult<T>> {
    let DbState { connection, checker, publisher, .. } = state;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let before = db::revision(&transaction)?;
    let revision = before + 1;
    let AppliedChange { entries, value } = apply(&transaction, revision)?;
    let dry_run = request.dry_run;
    if entries.is_empty() {
        let (revision, warnings) = (before, Vec::new());
        return Ok(ChangeResult { value, revision, changed: false, dry_run, warnings });
    }
    for entry in &entries {
        audit::add(&transaction, entry, &request.author, revision)?;
    }
    db::set_revision(&transaction, revision)?;
    let bundle = db::load(&transaction, checker.external())?;
    let rules = checker.check(&bundle)?;
    let published = db::publishable(&bundle, Ok(rules.clone()))?;
    // Warnings concern files, so that a change of data does not repeat them.
    let about_files = entries.iter().any(|entry| entry.action.starts_with("rules."));
    let warnings = if about_files { findings(rules.warnings()) } else { Vec::new() };
    if dry_run {
        transaction.rollback()?;
    } else {
        transaction.commit()?;
        checker.commit();
        publisher.publish(published);
        for AuditRecord { action, subject, .. } in &entries {
            let Author { who, request_id } = &request.author;
            tracing::info!(
                action,
                subject,
                who,
                request_id,
                revision,
                "changed the rules or their data"
            );
        }
    }
    Ok(ChangeResult { value, revision, changed: true, dry_run, warnings })
}
