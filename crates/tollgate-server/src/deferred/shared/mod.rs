//! The deferred queue in Redis, next to the counters. Nodes share the work, and take over the
//! requests of a node that died.
//!
//! Durability is up to the operator of Redis: with an append-only file that is flushed at every
//! write, a request that was answered 202 survives a power failure.

mod decode;
mod functions;
mod uncertain;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tollgate::StoreError;
use tollgate_redis::{RedisClient, ServerReply};

use super::item::{
    ItemDetails, ItemFilter, ItemId, ItemState, NewItem, QueueSummary, QueuedItem, StoredHead,
};
use super::options::{DeferOptions, millis};
use super::queue::{
    Completion, QueueError, Requeue, Result, ReviveSelection, StartedAttempt, report_expired,
};
use super::queue_index::QueueIndex;
use super::queue_key::DeferredQueueKey;
use crate::capacity_share::CapacityShare;
use crate::clock;
use crate::net::Drain;
use crate::random_id::RandomId;
use functions::QueueFunctions;

/// The interval at which nodes look for requests to send.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// The interval while no rule defers: earlier rules may have left requests behind.
const IDLE_POLL_INTERVAL: Duration = Duration::from_secs(5);
/// The maximum number of requests that a node takes at a time.
const BATCH: &str = "256";
/// The maximum number of requests that a node holds, so that other nodes get some.
const MAX_LOCAL: usize = 1024;

/// A handle to the queue. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct RedisQueue(Arc<RedisQueueInner>);

#[derive(Debug)]
struct RedisQueueInner {
    functions: QueueFunctions,
    /// The random name of this process among the nodes that share the queue.
    node: String,
    options: DeferOptions,
    /// The requests that this node is sending.
    in_flight: Mutex<HashSet<ItemId>>,
    /// Locked exclusively while this node compares its requests with those in the store.
    begin_lock: RwLock<()>,
    /// Requests that may or may not have been stored.
    uncertain: uncertain::UncertainRequests,
    /// Whether the current outage of the store was logged.
    outage_logged: AtomicBool,
}

impl RedisQueue {
    pub(crate) fn new(
        client: RedisClient,
        domain: &str,
        options: &DeferOptions,
    ) -> Result<RedisQueue, String> {
        let node = RandomId::new().map_err(|error| error.to_string())?.to_string();
        Ok(RedisQueue(Arc::new(RedisQueueInner {
            functions: QueueFunctions::new(client, domain),
            node,
            options: options.clone(),
            in_flight: Mutex::default(),
            begin_lock: RwLock::default(),
            uncertain: uncertain::UncertainRequests::default(),
            outage_logged: AtomicBool::new(false),
        })))
    }

    async fn call(&self, args: &[&[u8]]) -> Result<ServerReply> {
        self.0.functions.call(args).await.map_err(|error| store_error(&error))
    }

    fn keep_ms(&self) -> String {
        self.0.options.keep.as_millis().to_string()
    }

    pub(super) async fn add(&self, item: NewItem) -> Result<u64> {
        let NewItem { id, queue_key, head, body, added_ms } = item;
        let CapacityShare { capacity, percent } = self.0.options.capacity();
        let args: [&[u8]; 9] = [
            b"add",
            &id.to_string().into_bytes(),
            &decode::queue_key_text(&queue_key).into_bytes(),
            &head.text().into_bytes(),
            &body,
            &added_ms.to_string().into_bytes(),
            &capacity.count.to_string().into_bytes(),
            &capacity.bytes.to_string().into_bytes(),
            &percent.to_string().into_bytes(),
        ];
        let reply = self.call_until_answered(id, &args).await?;
        let [status, detail] = decode::texts(reply)?;
        match status.as_str() {
            "kept" => decode::seq(&detail),
            _ => Err(QueueError::Full(detail)),
        }
    }

    pub(super) async fn head(&self, id: ItemId) -> Result<Option<StoredHead>> {
        match self.call(&[b"head", id.to_string().as_bytes()]).await? {
            ServerReply::Bytes(head) => decode::head(&head).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<StartedAttempt>> {
        let _guard = self.0.begin_lock.read().await;
        self.0.in_flight.lock().insert(id);
        let started = self.begin_at_store(id, now_ms).await;
        if !matches!(started, Ok(Some(_))) {
            self.0.in_flight.lock().remove(&id);
        }
        started
    }

    async fn begin_at_store(&self, id: ItemId, now_ms: i64) -> Result<Option<StartedAttempt>> {
        let (id, now) = (id.to_string(), now_ms.to_string());
        let args = [b"begin", id.as_bytes(), now.as_bytes(), self.0.node.as_bytes()];
        match self.call(&args).await? {
            ServerReply::List(parts) => match &parts[..] {
                [ServerReply::Int(attempt), ServerReply::Bytes(head), ServerReply::Bytes(body)] => {
                    let attempt = u32::try_from(*attempt).unwrap_or(u32::MAX);
                    let body = Bytes::copy_from_slice(body);
                    Ok(Some(StartedAttempt { attempt, head: decode::head(head)?, body }))
                }
                _ => Err(decode::unexpected_reply()),
            },
            _ => Ok(None),
        }
    }

    pub(super) async fn requeue(&self, id: ItemId, requeue: Requeue, now_ms: i64) -> Result<()> {
        let unsent: &[u8] = if requeue.is_unsent { b"1" } else { b"0" };
        let args: [&[u8]; 6] = [
            b"back",
            &id.to_string().into_bytes(),
            &requeue.due_ms.to_string().into_bytes(),
            requeue.reason.as_bytes(),
            unsent,
            &now_ms.to_string().into_bytes(),
        ];
        self.call(&args).await?;
        self.0.in_flight.lock().remove(&id);
        Ok(())
    }

    pub(super) async fn complete(
        &self,
        id: ItemId,
        completion: Completion,
        now_ms: i64,
    ) -> Result<()> {
        let response = completion.response.unwrap_or_default();
        let status = match response.status {
            0 => String::new(),
            status => status.to_string(),
        };
        let args: [&[u8]; 9] = [
            b"end",
            &id.to_string().into_bytes(),
            completion.state.as_str().as_bytes(),
            completion.reason.as_deref().unwrap_or_default().as_bytes(),
            status.as_bytes(),
            response.content_type.as_deref().unwrap_or_default().as_bytes(),
            response.body.as_deref().unwrap_or_default(),
            &now_ms.to_string().into_bytes(),
            &self.keep_ms().into_bytes(),
        ];
        self.call(&args).await?;
        self.0.in_flight.lock().remove(&id);
        Ok(())
    }

    pub(super) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        let (id, now, keep) = (id.to_string(), now_ms.to_string(), self.keep_ms());
        let args = [b"cancel", id.as_bytes(), now.as_bytes(), keep.as_bytes()];
        Ok(self.call(&args).await? == ServerReply::Int(1))
    }

    /// Puts failed requests back into the queue, where any node finds them.
    pub(super) async fn revive(&self, selection: ReviveSelection, now_ms: i64) -> Result<usize> {
        let (only, part) = match selection {
            ReviveSelection::One(id) => (id.to_string(), String::new()),
            ReviveSelection::All(rule) => (String::new(), decode::rule_part(rule.as_deref())),
        };
        let now = now_ms.to_string();
        match self.call(&[b"revive", only.as_bytes(), part.as_bytes(), now.as_bytes()]).await? {
            ServerReply::Int(count) => Ok(usize::try_from(count).unwrap_or(0)),
            _ => Err(decode::unexpected_reply()),
        }
    }

    pub(super) async fn details(&self, id: ItemId) -> Result<Option<ItemDetails>> {
        match self.call(&[b"entry", id.to_string().as_bytes()]).await? {
            ServerReply::List(parts) => decode::details(parts).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) async fn list(&self, filter: ItemFilter) -> Result<Vec<ItemDetails>> {
        let state = filter.state.map_or("", ItemState::as_str);
        let part = decode::rule_part(filter.rule.as_deref());
        let limit = filter.limit.to_string();
        let args = [b"list", state.as_bytes(), part.as_bytes(), limit.as_bytes()];
        let mut found: Vec<ItemDetails> = match self.call(&args).await? {
            ServerReply::List(all) => all.into_iter().map(decode::listed).collect::<Result<_>>()?,
            _ => return Err(decode::unexpected_reply()),
        };
        found.sort_by_key(|details| std::cmp::Reverse(details.added_ms));
        Ok(found)
    }

    pub(super) async fn summary(&self) -> Result<QueueSummary> {
        decode::summary(self.call(&[b"summary"]).await?)
    }

    pub(super) async fn sweep(&self, now_ms: i64) -> Result<()> {
        let before = |age| now_ms.saturating_sub(millis(age)).to_string();
        let DeferOptions { keep, keep_dead, .. } = self.0.options;
        let (before, dead_before) = (before(keep), before(keep_dead));
        loop {
            let args = [b"sweep", before.as_bytes(), dead_before.as_bytes(), BATCH.as_bytes()];
            let ServerReply::Int(expired) = self.call(&args).await? else {
                return Err(decode::unexpected_reply());
            };
            if expired == 0 {
                return Ok(());
            }
            report_expired(u64::try_from(expired).unwrap_or(0));
        }
    }

    /// Takes requests from the store until the server closes; seldom while no rule `defers`.
    pub(super) async fn share(&self, index: &QueueIndex, drain: &Drain, defers: impl Fn() -> bool) {
        let heartbeat_interval = (self.0.options.take_over / 3).max(POLL_INTERVAL);
        let mut heartbeat_ms = 0;
        loop {
            let outcome = async {
                self.take_new(index).await?;
                self.withdraw_uncertain().await?;
                if clock::monotonic_ms().saturating_sub(heartbeat_ms)
                    >= heartbeat_interval.as_millis() as u64
                {
                    self.heartbeat(index).await?;
                    heartbeat_ms = clock::monotonic_ms();
                }
                Ok(())
            };
            let outcome: Result<()> = outcome.await;
            self.log_outage(&outcome);
            let is_idle = index.is_empty() && !defers();
            tokio::select! {
                () = tokio::time::sleep(if is_idle { IDLE_POLL_INTERVAL } else { POLL_INTERVAL }) => {}
                () = drain.closing() => break,
            }
        }
    }

    /// Releases the requests that this node did not send, for the other nodes.
    pub(super) async fn leave(&self) {
        let released = self.call(&[b"leave", self.0.node.as_bytes()]).await.map(drop);
        self.log_outage(&released);
        let withdrawn = self.withdraw_uncertain().await;
        self.log_outage(&withdrawn);
    }

    /// Takes requests that no node has, and reads the number of requests in each queue.
    pub(super) async fn take_new(&self, index: &QueueIndex) -> Result<()> {
        if index.len() < MAX_LOCAL {
            let silent = self.0.options.take_over.as_millis().to_string();
            let args = [b"take", self.0.node.as_bytes(), BATCH.as_bytes(), silent.as_bytes()];
            let ServerReply::List(taken) = self.call(&args).await? else {
                return Err(decode::unexpected_reply());
            };
            for taken in taken {
                index.insert(decode::queued_item(taken)?);
            }
        }
        let remote: HashMap<DeferredQueueKey, u64> =
            decode::queue_lengths(self.call(&[b"lines"]).await?)?;
        index.set_remote(remote);
        Ok(())
    }

    /// Renews the claims of this node. Drops requests that other nodes have taken over, and adds
    /// those whose reply was lost.
    pub(super) async fn heartbeat(&self, index: &QueueIndex) -> Result<()> {
        // A request that begins meanwhile would look like one whose reply was lost.
        let _guard = self.0.begin_lock.write().await;
        let before: Vec<QueuedItem> = index.all();
        let in_flight: Vec<String> =
            self.0.in_flight.lock().iter().map(ItemId::to_string).collect();
        let mut args: Vec<&[u8]> = vec![b"beat", self.0.node.as_bytes()];
        args.extend(in_flight.iter().map(String::as_bytes));
        let ServerReply::List(own) = self.call(&args).await? else {
            return Err(decode::unexpected_reply());
        };
        let own: Vec<QueuedItem> =
            own.into_iter().map(decode::queued_item).collect::<Result<_>>()?;
        let seqs: HashSet<u64> = own.iter().map(|item| item.seq).collect();
        for lost in before.into_iter().filter(|item| !seqs.contains(&item.seq)) {
            index.remove(lost.id);
        }
        own.into_iter().for_each(|item| index.insert(item));
        Ok(())
    }

    fn log_outage(&self, outcome: &Result<()>) {
        let (failed, was_logged) =
            (outcome.is_err(), self.0.outage_logged.swap(outcome.is_err(), Ordering::Relaxed));
        match outcome {
            Err(error) if !was_logged => {
                tracing::error!(%error, "cannot reach the deferred queue; its requests are sent later");
            }
            Ok(()) if was_logged && !failed => {
                tracing::info!("the deferred queue is reachable again")
            }
            _ => {}
        }
    }
}

fn store_error(error: &StoreError) -> QueueError {
    QueueError::Unavailable(format!("the shared store failed: {error}"))
}

#[cfg(test)]
mod tests;
