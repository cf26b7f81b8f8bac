//! Deferred requests in Redis, next to the counters: nodes share the work, and take over what a node
//! that died had to send.
//!
//! How durable it is, is up to whoever runs Redis: an append-only file that is flushed at every
//! write keeps what was answered 202, also if the machine loses power.

mod doubt;
mod read;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::RwLock;
use tollgate::StoreError;
use tollgate::rules::DeferLine;
use tollgate_redis::{Desk, DeskReply};

use super::item::{Entry, Head, ItemId, NewItem, State, Summary, Waiting, Wanted};
use super::lines::Lines;
use super::options::DeferOptions;
use super::queue::{Back, Begun, End, QueueError, Result, Which};
use crate::clock;
use crate::net::Drain;
use crate::unguessable::Unguessable;

/// How often nodes look for something to send.
const LOOK: Duration = Duration::from_millis(100);
/// The same where no rule defers: there may be something left of rules that did.
const LOOK_FOR_REST: Duration = Duration::from_secs(5);
/// How many requests a node takes at a time.
const BATCH: &str = "256";
/// How many a node holds for itself; others may be quicker.
const MOST_HELD: usize = 1024;

/// A way to the store. Clones lead to the same one.
#[derive(Clone, Debug)]
pub(crate) struct InRedis(Arc<Inside>);

#[derive(Debug)]
struct Inside {
    desk: Desk,
    /// This process among those that share the work.
    node: String,
    options: DeferOptions,
    /// What this node is sending.
    on_the_way: Mutex<HashSet<ItemId>>,
    /// Closed while this node compares what it has to send with what the store says.
    beginning: RwLock<()>,
    /// Requests of which nobody knows whether they were kept.
    unheard: doubt::Unheard,
    /// Whether it was said that the store is in trouble.
    said: AtomicBool,
}

impl InRedis {
    pub(crate) fn new(desk: Desk, options: &DeferOptions) -> Result<InRedis, String> {
        let node = Unguessable::new().map_err(|error| error.to_string())?.to_string();
        Ok(InRedis(Arc::new(Inside {
            desk,
            node,
            options: options.clone(),
            on_the_way: Mutex::default(),
            beginning: RwLock::default(),
            unheard: doubt::Unheard::default(),
            said: AtomicBool::new(false),
        })))
    }

    async fn call(&self, words: &[&[u8]]) -> Result<DeskReply> {
        self.0.desk.call(words).await.map_err(|error| trouble(&error))
    }

    fn keep_ms(&self) -> String {
        self.0.options.keep.as_millis().to_string()
    }

    pub(super) async fn add(&self, item: NewItem) -> Result<u64> {
        let NewItem { id, line, head, body, added_ms } = item;
        let DeferOptions { count, bytes, .. } = &self.0.options;
        let words: [&[u8]; 8] = [
            b"add",
            &id.to_string().into_bytes(),
            &read::line_text(&line).into_bytes(),
            &head.text().into_bytes(),
            &body,
            &added_ms.to_string().into_bytes(),
            &count.to_string().into_bytes(),
            &bytes.to_string().into_bytes(),
        ];
        let reply = self.call_until_heard(id, &words).await?;
        let [how, what] = read::texts(reply)?;
        match how.as_str() {
            "kept" => read::seq(&what),
            _ => Err(QueueError::Full(what)),
        }
    }

    pub(super) async fn head(&self, id: ItemId) -> Result<Option<Head>> {
        match self.call(&[b"head", id.to_string().as_bytes()]).await? {
            DeskReply::Bytes(head) => read::head(&head).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) async fn begin(&self, id: ItemId, now_ms: i64) -> Result<Option<Begun>> {
        let _open = self.0.beginning.read().await;
        self.0.on_the_way.lock().insert(id);
        let begun = self.begin_one(id, now_ms).await;
        if !matches!(begun, Ok(Some(_))) {
            self.0.on_the_way.lock().remove(&id);
        }
        begun
    }

    async fn begin_one(&self, id: ItemId, now_ms: i64) -> Result<Option<Begun>> {
        let (id, now) = (id.to_string(), now_ms.to_string());
        let words = [b"begin", id.as_bytes(), now.as_bytes(), self.0.node.as_bytes()];
        match self.call(&words).await? {
            DeskReply::List(parts) => match &parts[..] {
                [DeskReply::Number(attempt), DeskReply::Bytes(head), DeskReply::Bytes(body)] => {
                    let attempt = u32::try_from(*attempt).unwrap_or(u32::MAX);
                    let body = Bytes::copy_from_slice(body);
                    Ok(Some(Begun { attempt, head: read::head(head)?, body }))
                }
                _ => Err(read::strange()),
            },
            _ => Ok(None),
        }
    }

    pub(super) async fn back(&self, id: ItemId, back: Back, now_ms: i64) -> Result<()> {
        let unsent: &[u8] = if back.is_unsent { b"1" } else { b"0" };
        let words: [&[u8]; 6] = [
            b"back",
            &id.to_string().into_bytes(),
            &back.due_ms.to_string().into_bytes(),
            back.why.as_bytes(),
            unsent,
            &now_ms.to_string().into_bytes(),
        ];
        self.call(&words).await?;
        self.0.on_the_way.lock().remove(&id);
        Ok(())
    }

    pub(super) async fn end(&self, id: ItemId, end: End, now_ms: i64) -> Result<()> {
        let answer = end.answer.unwrap_or_default();
        let status = match answer.status {
            0 => String::new(),
            status => status.to_string(),
        };
        let words: [&[u8]; 9] = [
            b"end",
            &id.to_string().into_bytes(),
            end.state.as_str().as_bytes(),
            end.why.as_deref().unwrap_or_default().as_bytes(),
            status.as_bytes(),
            answer.kind.as_deref().unwrap_or_default().as_bytes(),
            answer.body.as_deref().unwrap_or_default(),
            &now_ms.to_string().into_bytes(),
            &self.keep_ms().into_bytes(),
        ];
        self.call(&words).await?;
        self.0.on_the_way.lock().remove(&id);
        Ok(())
    }

    pub(super) async fn cancel(&self, id: ItemId, now_ms: i64) -> Result<bool> {
        let (id, now, keep) = (id.to_string(), now_ms.to_string(), self.keep_ms());
        let words = [b"cancel", id.as_bytes(), now.as_bytes(), keep.as_bytes()];
        Ok(self.call(&words).await? == DeskReply::Number(1))
    }

    /// Whoever looks for something to send finds them.
    pub(super) async fn revive(&self, which: Which, now_ms: i64) -> Result<usize> {
        let (only, part) = match which {
            Which::One(id) => (id.to_string(), String::new()),
            Which::All(rule) => (String::new(), read::rule_part(rule.as_deref())),
        };
        let now = now_ms.to_string();
        match self.call(&[b"revive", only.as_bytes(), part.as_bytes(), now.as_bytes()]).await? {
            DeskReply::Number(count) => Ok(usize::try_from(count).unwrap_or(0)),
            _ => Err(read::strange()),
        }
    }

    pub(super) async fn entry(&self, id: ItemId) -> Result<Option<Entry>> {
        match self.call(&[b"entry", id.to_string().as_bytes()]).await? {
            DeskReply::List(parts) => read::entry(parts).map(Some),
            _ => Ok(None),
        }
    }

    pub(super) async fn list(&self, wanted: Wanted) -> Result<Vec<Entry>> {
        let state = wanted.state.map_or("", State::as_str);
        let part = read::rule_part(wanted.rule.as_deref());
        let limit = wanted.limit.to_string();
        let words = [b"list", state.as_bytes(), part.as_bytes(), limit.as_bytes()];
        let mut found: Vec<Entry> = match self.call(&words).await? {
            DeskReply::List(all) => all.into_iter().map(read::listed).collect::<Result<_>>()?,
            _ => return Err(read::strange()),
        };
        found.sort_by_key(|entry| std::cmp::Reverse(entry.added_ms));
        Ok(found)
    }

    pub(super) async fn summary(&self) -> Result<Summary> {
        read::summary(self.call(&[b"summary"]).await?)
    }

    pub(super) async fn sweep(&self, now_ms: i64) -> Result<()> {
        let keep_ms = i64::try_from(self.0.options.keep.as_millis()).unwrap_or(i64::MAX);
        let before = now_ms.saturating_sub(keep_ms).to_string();
        self.call(&[b"sweep", before.as_bytes()]).await.map(drop)
    }

    /// Looks for something to send until the server closes; then others may have the rest. Seldom,
    /// while no rule `defers`.
    pub(super) async fn share(&self, lines: &Lines, drain: &Drain, defers: impl Fn() -> bool) {
        let every = (self.0.options.take_over / 3).max(LOOK);
        let mut beaten_ms = 0;
        loop {
            let looked = async {
                self.look(lines).await?;
                self.take_back().await?;
                if clock::monotonic_ms().saturating_sub(beaten_ms) >= every.as_millis() as u64 {
                    self.beat(lines).await?;
                    beaten_ms = clock::monotonic_ms();
                }
                Ok(())
            };
            let looked: Result<()> = looked.await;
            self.say(&looked);
            let is_idle = lines.here() == 0 && !defers();
            tokio::select! {
                () = tokio::time::sleep(if is_idle { LOOK_FOR_REST } else { LOOK }) => {}
                () = drain.closing() => break,
            }
        }
    }

    /// Others may have what this node did not send.
    pub(super) async fn leave(&self) {
        let left = self.call(&[b"leave", self.0.node.as_bytes()]).await.map(drop);
        self.say(&left);
        let taken_back = self.take_back().await;
        self.say(&taken_back);
    }

    /// Takes what nobody else has, and hears of the lines there are.
    pub(super) async fn look(&self, lines: &Lines) -> Result<()> {
        if lines.here() < MOST_HELD {
            let silent = self.0.options.take_over.as_millis().to_string();
            let words = [b"take", self.0.node.as_bytes(), BATCH.as_bytes(), silent.as_bytes()];
            let DeskReply::List(taken) = self.call(&words).await? else {
                return Err(read::strange());
            };
            for taken in taken {
                lines.join(read::waiting(taken)?);
            }
        }
        let elsewhere: HashMap<DeferLine, u64> = read::lines(self.call(&[b"lines"]).await?)?;
        lines.hear(elsewhere);
        Ok(())
    }

    /// Says that this node is there, lets go of what others have taken over meanwhile, and learns
    /// of what it was given without hearing of it.
    pub(super) async fn beat(&self, lines: &Lines) -> Result<()> {
        // What begins meanwhile would be taken for what was begun unheard.
        let _closed = self.0.beginning.write().await;
        let before: Vec<Waiting> = lines.everybody();
        let on_the_way: Vec<String> =
            self.0.on_the_way.lock().iter().map(ItemId::to_string).collect();
        let mut words: Vec<&[u8]> = vec![b"beat", self.0.node.as_bytes()];
        words.extend(on_the_way.iter().map(String::as_bytes));
        let DeskReply::List(own) = self.call(&words).await? else {
            return Err(read::strange());
        };
        let own: Vec<Waiting> = own.into_iter().map(read::waiting).collect::<Result<_>>()?;
        let seqs: HashSet<u64> = own.iter().map(|waiting| waiting.seq).collect();
        for lost in before.into_iter().filter(|waiting| !seqs.contains(&waiting.seq)) {
            lines.leave(lost.id);
        }
        own.into_iter().for_each(|waiting| lines.join(waiting));
        Ok(())
    }

    fn say(&self, outcome: &Result<()>) {
        let (failed, said) =
            (outcome.is_err(), self.0.said.swap(outcome.is_err(), Ordering::Relaxed));
        match outcome {
            Err(error) if !said => {
                tracing::error!(%error, "deferred requests are not sent for now");
            }
            Ok(()) if said && !failed => tracing::info!("deferred requests are sent again"),
            _ => {}
        }
    }
}

fn trouble(error: &StoreError) -> QueueError {
    QueueError::Trouble(format!("the shared store: {error}"))
}

#[cfg(test)]
mod tests;
