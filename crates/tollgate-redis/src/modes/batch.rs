//! The same done to many counters, as few calls as possible.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use smallvec::SmallVec;
use tollgate::{Action, Call, Check, Limit, StoreError};

use super::name::Name;
use super::truth::Truth;
use crate::strict::Outcome;

/// So many counters are in one call, so that no script keeps a server for long.
const BATCH: usize = 64;
/// So many calls are under way at a time.
const CALLS: usize = 32;

/// A counter, and by how much.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) name: Name,
    pub(super) limit: Arc<Limit>,
    pub(super) cost: u64,
}

/// Does it to all of them; counters that share a call share its fate, and its place.
pub(super) async fn run_all<T: Truth>(
    truth: &T,
    action: Action,
    mut items: Vec<Item>,
) -> Vec<(Vec<Item>, Result<Outcome, StoreError>)> {
    let place = |item: &Item| truth.place(&item.name.check(&item.limit, 0));
    items.sort_by_cached_key(place);
    let mut batches: Vec<Vec<Item>> = Vec::new();
    let mut last = None;
    for item in items {
        let place = Some(place(&item));
        match batches.last_mut() {
            Some(batch) if place == last && batch.len() < BATCH => batch.push(item),
            _ => batches.push(vec![item]),
        }
        last = place;
    }
    let run = |batch: Vec<Item>| async move {
        let outcome = {
            let check = |item| {
                let Item { name, limit, cost }: &Item = item;
                name.check(limit, *cost)
            };
            let checks: SmallVec<[Check<'_>; 8]> = batch.iter().map(check).collect();
            truth.run(Call { action, checks: &checks }).await
        };
        (batch, outcome)
    };
    stream::iter(batches).map(run).buffer_unordered(CALLS).collect().await
}
