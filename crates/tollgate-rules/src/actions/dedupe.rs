//! `dedupe`: a request that comes again under the same id is charged once.
//!
//! Each charged id has a counter of capacity one that refills when the id is forgotten. It is
//! charged together with the limits, all or none. So a refused request is not remembered, and of
//! two concurrent requests with one id only one is charged.

use std::time::Duration;

use smallvec::SmallVec;

use crate::compile::compiler::bind;
use crate::compile::domain::BoundLimit;
use crate::compile::expr::Expr;
use crate::compile::value::Value;
use crate::decide::decide_request::MatchedRequest;
use crate::matching::key::{KeyBytes, KeyWriter};
use crate::matching::key_hasher::KeyHasher;
use crate::matching::rule_checks::{LimitCheck, LimitCheckKind};
use tollgate::limit::InvalidLimit;
use tollgate::{Action, Limit, Store, StoreError};
use tollgate_core::Span;

/// How long an id is remembered by default.
pub(crate) const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// The expression for the id of a request, and the counter that remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Dedupe {
    pub(crate) id: Expr,
    pub(crate) seen: BoundLimit,
}

impl Dedupe {
    pub(crate) fn new(
        id: Expr,
        remembered_for: Duration,
        domain: &str,
        bucket: &str,
    ) -> Result<Dedupe, InvalidLimit> {
        let limit = Limit::new(1, remembered_for)?;
        Ok(Dedupe { id, seen: bind(limit, domain, &format!("{bucket} once")) })
    }
}

/// Writes the key of an id or value under another key; `hasher` is given if it is a secret.
pub(crate) fn write_key_within(
    keys: &mut KeyBytes,
    of: std::ops::Range<usize>,
    value: Option<&Value<'_>>,
    hasher: Option<&KeyHasher>,
) {
    let key: SmallVec<[u8; 64]> = keys[of].into();
    keys.extend_from_slice(&key);
    keys.push(b'|');
    let mut writer = KeyWriter::new(keys);
    let start = writer.next_part();
    match (value, hasher) {
        (Some(value), None) => writer.value(value),
        (Some(value), Some(hasher)) => {
            writer.value(value);
            writer.hash_part(start, hasher);
        }
        (None, _) => writer.missing(),
    }
}

impl<S: Store> MatchedRequest<'_, '_, S> {
    /// Returns the checks of values and ids that were seen before; `None` if the rules were replaced.
    pub(crate) async fn seen_before(
        &self,
        lease: u64,
    ) -> Result<Option<SmallVec<[usize; 2]>>, StoreError> {
        let seen = self.indices_where(is_seen_check);
        if seen.is_empty() {
            return Ok(Some(SmallVec::new()));
        }
        let action = Action::Try { max_wait: Span::ZERO };
        let Some(verdicts) = self.run(action, &seen, lease).await? else { return Ok(None) };
        let known = seen.iter().zip(verdicts).filter(|(_, verdict)| !verdict.allowed);
        Ok(Some(known.map(|(index, _)| *index).collect()))
    }

    /// Whether a check is skipped, given the values and ids that were seen before. A seen value
    /// skips its own check and the count after it; a seen id skips all checks of its rule except
    /// the ban.
    pub(crate) fn is_skipped(&self, known: &[usize], index: usize) -> bool {
        let limit_checks = &self.checks.limit_checks;
        known.iter().any(|seen| match limit_checks[*seen].kind {
            LimitCheckKind::Dedupe => {
                limit_checks[*seen].rule_check == limit_checks[index].rule_check
                    && limit_checks[index].kind != LimitCheckKind::Ban
            }
            _ => index == *seen || index == seen + 1,
        })
    }
}

/// Whether a check remembers that a value or id was seen.
pub(crate) fn is_seen_check(limit_check: &LimitCheck<'_>) -> bool {
    matches!(limit_check.kind, LimitCheckKind::DistinctSeen | LimitCheckKind::Dedupe)
}
