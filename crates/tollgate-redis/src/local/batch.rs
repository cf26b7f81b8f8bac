//! Runs an action on many counters in as few calls as possible.

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream;
use smallvec::SmallVec;
use tollgate::{Action, Check, Limit, StoreCall, StoreError};

use crate::backend::Backend;
use crate::local::counter_name::CounterName;
use crate::strict::Outcome;

/// The maximum number of counters in a call, so that no script blocks a server for long.
const MAX_BATCH: usize = 64;
/// The maximum number of concurrent calls.
const MAX_CALLS: usize = 32;

/// A counter and the cost to apply to it.
#[derive(Clone, Debug)]
pub(crate) struct BatchItem {
    pub(crate) name: CounterName,
    pub(crate) limit: Arc<Limit>,
    pub(crate) cost: u64,
}

/// Runs an action on all items. Counters with the same route share calls, and the result of their
/// call.
pub(crate) async fn run_all<T: Backend>(
    backend: &T,
    action: Action,
    mut items: Vec<BatchItem>,
) -> Vec<(Vec<BatchItem>, Result<Outcome, StoreError>)> {
    let route = |item: &BatchItem| backend.route(&item.name.check(&item.limit, 0));
    items.sort_by_cached_key(route);
    let mut batches: Vec<Vec<BatchItem>> = Vec::new();
    let mut last = None;
    for item in items {
        let route = Some(route(&item));
        match batches.last_mut() {
            Some(batch) if route == last && batch.len() < MAX_BATCH => batch.push(item),
            _ => batches.push(vec![item]),
        }
        last = route;
    }
    let run = |batch: Vec<BatchItem>| async move {
        let outcome = {
            let check = |item| {
                let BatchItem { name, limit, cost }: &BatchItem = item;
                name.check(limit, *cost)
            };
            let checks: SmallVec<[Check<'_>; 8]> = batch.iter().map(check).collect();
            backend.run(StoreCall { action, checks: &checks }).await
        };
        (batch, outcome)
    };
    stream::iter(batches).map(run).buffer_unordered(MAX_CALLS).collect().await
}
