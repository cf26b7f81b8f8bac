//! Who stands in which line: what is known of deferred requests without asking where they are kept.
//!
//! A line belongs to a rule and a key. Whoever has been tried in vain stands aside until its next
//! attempt is due: a request that its upstream cannot take must not hold up those behind it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};
use tollgate::rules::DeferLine;

use super::item::{ItemId, Waiting};

/// All lines.
#[derive(Debug)]
pub(crate) struct Lines {
    inside: Mutex<Inside>,
    /// How many stand in lines at all, so that most requests need not look further.
    count: AtomicUsize,
    /// Told of every line that begins.
    begun: mpsc::UnboundedSender<Arc<DeferLine>>,
}

#[derive(Debug, Default)]
struct Inside {
    lines: HashMap<Arc<DeferLine>, Line>,
    by_id: HashMap<ItemId, (Arc<DeferLine>, u64)>,
    /// Requests of other nodes that were not tried yet, by their lines.
    elsewhere: HashMap<DeferLine, u64>,
}

#[derive(Debug, Default)]
struct Line {
    waiting: BTreeMap<u64, Waiting>,
    /// How many of them were not tried yet.
    fresh: usize,
    /// Rings when somebody joins or leaves.
    bell: Arc<Notify>,
}

/// Who is next in a line.
#[derive(Debug)]
pub(super) enum Next {
    Now(Waiting),
    /// Nobody before this time, or until the bell rings.
    At(i64, Arc<Notify>),
    /// Nobody is left: the line is over.
    Nobody,
}

impl Lines {
    /// No line at all, and who is told of those that begin.
    pub(super) fn new() -> (Lines, mpsc::UnboundedReceiver<Arc<DeferLine>>) {
        let (begun, lines) = mpsc::unbounded_channel();
        (Lines { inside: Mutex::default(), count: AtomicUsize::new(0), begun }, lines)
    }

    /// Whether nobody waits anywhere.
    #[inline]
    pub(crate) fn are_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Whether somebody waits in a line who was not tried yet: newcomers go behind them.
    pub(crate) fn is_waiting(&self, line: &DeferLine) -> bool {
        let inside = self.inside.lock();
        inside.lines.get(line).is_some_and(|line| line.fresh > 0)
            || inside.elsewhere.contains_key(line)
    }

    /// How many are before a request in its line; none if it does not wait here.
    pub(crate) fn position(&self, id: ItemId) -> Option<usize> {
        let inside = self.inside.lock();
        let (line, seq) = inside.by_id.get(&id)?;
        Some(inside.lines.get(line)?.waiting.range(..seq).count())
    }

    /// How many wait in a line.
    pub(crate) fn length(&self, line: &DeferLine) -> usize {
        self.inside.lock().lines.get(line).map_or(0, |line| line.waiting.len())
    }

    /// How many wait here.
    pub(super) fn here(&self) -> usize {
        self.inside.lock().by_id.len()
    }

    /// Somebody joins.
    pub(super) fn join(&self, waiting: Waiting) {
        let mut inside = self.inside.lock();
        let (line, seq) = (waiting.line.clone(), waiting.seq);
        if inside.by_id.insert(waiting.id, (line.clone(), seq)).is_some() {
            return;
        }
        let is_new = !inside.lines.contains_key(&line);
        let joined = inside.lines.entry(line.clone()).or_default();
        joined.fresh += usize::from(waiting.failures == 0);
        joined.waiting.insert(seq, waiting);
        joined.bell.notify_one();
        self.count(&inside);
        if is_new {
            // Nobody listens only while the server goes down.
            let _ = self.begun.send(line);
        }
    }

    /// Somebody leaves, if they were there.
    pub(super) fn leave(&self, id: ItemId) {
        let mut inside = self.inside.lock();
        let Some((line, seq)) = inside.by_id.remove(&id) else { return };
        if let Some(line) = inside.lines.get_mut(&line) {
            let left = line.waiting.remove(&seq);
            line.fresh -= usize::from(left.is_some_and(|left| left.failures == 0));
            line.bell.notify_one();
        }
        self.count(&inside);
    }

    /// Who is next in a line: of those that are due, who came first.
    pub(super) fn next(&self, line: &Arc<DeferLine>, now_ms: i64) -> Next {
        let mut inside = self.inside.lock();
        let Some(found) = inside.lines.get(line) else { return Next::Nobody };
        let mut waiting = found.waiting.values();
        if let Some(next) = waiting.find(|waiting| waiting.due_ms <= now_ms) {
            return Next::Now(next.clone());
        }
        match found.waiting.values().map(|waiting| waiting.due_ms).min() {
            Some(due_ms) => Next::At(due_ms, found.bell.clone()),
            None => {
                inside.lines.remove(line);
                Next::Nobody
            }
        }
    }

    /// Everybody who waits here.
    pub(super) fn everybody(&self) -> Vec<Waiting> {
        let inside = self.inside.lock();
        inside.lines.values().flat_map(|line| line.waiting.values()).cloned().collect()
    }

    /// Somebody joined a line, wherever they are sent from.
    pub(super) fn expect(&self, line: &DeferLine) {
        let mut inside = self.inside.lock();
        *inside.elsewhere.entry(line.clone()).or_default() += 1;
        self.count(&inside);
    }

    /// Hears of the lines of other nodes.
    pub(super) fn hear(&self, elsewhere: HashMap<DeferLine, u64>) {
        let mut inside = self.inside.lock();
        inside.elsewhere = elsewhere;
        self.count(&inside);
    }

    fn count(&self, inside: &Inside) {
        self.count.store(inside.by_id.len() + inside.elsewhere.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str) -> Arc<DeferLine> {
        Arc::new(DeferLine { domain: "shop".into(), rule: "report".into(), key: key.into() })
    }

    fn waiting(seq: u64, key: &str, due_ms: i64, failures: u32) -> Waiting {
        let id = crate::unguessable::Unguessable(seq.into());
        Waiting { seq, id, line: line(key), added_ms: 0, due_ms, failures }
    }

    #[test]
    fn who_was_tried_in_vain_stands_aside() {
        let (lines, mut begun) = Lines::new();
        lines.join(waiting(1, "a", 500, 1));
        lines.join(waiting(2, "a", 0, 0));
        lines.join(waiting(3, "b", 0, 0));
        assert_eq!([begun.try_recv().unwrap(), begun.try_recv().unwrap()], [line("a"), line("b")]);
        let next = |now_ms| lines.next(&line("a"), now_ms);
        assert!(matches!(next(0), Next::Now(Waiting { seq: 2, .. })));
        assert!(matches!(next(500), Next::Now(Waiting { seq: 1, .. })));
        assert_eq!(lines.position(crate::unguessable::Unguessable(2)), Some(1));
        lines.leave(crate::unguessable::Unguessable(2));
        assert!(matches!(next(0), Next::At(500, _)));
        assert!(!lines.is_waiting(&line("a")), "newcomers need not wait for a retry");
        lines.leave(crate::unguessable::Unguessable(1));
        lines.leave(crate::unguessable::Unguessable(1));
        assert!(matches!(next(0), Next::Nobody));
        assert!(lines.is_waiting(&line("b")) && !lines.are_empty());
        lines.join(waiting(4, "a", 0, 0));
        assert_eq!(begun.try_recv().unwrap(), line("a"), "a line that was over begins again");
    }
}
