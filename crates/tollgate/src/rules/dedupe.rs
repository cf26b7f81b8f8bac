//! `dedupe`: a request that comes again under the same id is charged once.
//!
//! An id that was charged is remembered by a counter of its own: it holds one, and takes as long to
//! get it back as the id is remembered. It is taken together with the limits, all or none, so that
//! a refused request is not remembered, and of two that come at the same time one is charged.

use std::time::Duration;

use smallvec::SmallVec;

use super::compile::bind;
use super::compiled::Bound;
use super::decide::Asked;
use super::demand::{Line, LineKind};
use super::expr::Expr;
use super::key::{KeyBytes, KeyWriter};
use super::value::Value;
use crate::Limit;
use crate::limit::InvalidLimit;
use crate::store::Store;

/// How long an id is remembered unless the rule says.
pub(crate) const REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// What tells a request from another, and the counter that remembers it.
#[derive(Clone, Debug)]
pub(crate) struct Dedupe {
    pub(crate) of: Expr,
    pub(crate) seen: Bound,
}

impl Dedupe {
    pub(crate) fn new(
        of: Expr,
        remembered_for: Duration,
        domain: &str,
        bucket: &str,
    ) -> Result<Dedupe, InvalidLimit> {
        let limit = Limit::new(1, remembered_for)?;
        Ok(Dedupe { of, seen: bind(limit, domain, &format!("{bucket} once")) })
    }
}

/// Writes a key that is part of another: of one of its ids or values.
pub(super) fn write_key_within(
    keys: &mut KeyBytes,
    of: std::ops::Range<usize>,
    value: Option<&Value<'_>>,
) {
    let key: SmallVec<[u8; 64]> = keys[of].into();
    keys.extend_from_slice(&key);
    keys.push(b'|');
    let mut writer = KeyWriter::new(keys);
    match value {
        Some(value) => writer.value(value),
        None => writer.missing(),
    }
}

impl<S: Store> Asked<'_, '_, S> {
    /// Whether a line need not be asked, given the values and ids that were seen before: of a value
    /// neither it nor the count right after it, of an id nothing of its rule but whether the key is
    /// banned.
    pub(super) fn is_known(&self, known: &[usize], line: usize) -> bool {
        let lines = &self.demands.lines;
        known.iter().any(|seen| match lines[*seen].kind {
            LineKind::Once => {
                lines[*seen].demand == lines[line].demand && lines[line].kind != LineKind::Ban
            }
            _ => line == *seen || line == seen + 1,
        })
    }
}

/// Whether a line says that something was seen before.
pub(super) fn remembers(line: &Line<'_>) -> bool {
    matches!(line.kind, LineKind::Seen | LineKind::Once)
}
