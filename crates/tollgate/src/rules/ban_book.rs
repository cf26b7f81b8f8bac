//! The bans that ladders have given: counters do not know the names of keys, so these are kept
//! apart to be listed and lifted.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::Time;

use super::Request;
use super::ladder::{checked, consistency};
use super::limiter::RuleLimiter;
use super::read::MAX_RUNGS;
use crate::Key;
use crate::store::{Action, Call, Note, Store};
use crate::store_error::StoreError;

/// So many bans are listed at most; those that end first give way.
pub(crate) const MOST: usize = 10_000;
/// Bans of so many rules are counted.
const MOST_RULES: usize = 1000;
/// Longer keys are banned like others, and not listed.
const LONGEST_KEY: usize = 1024;

/// A ban that the ladder of a rule has given.
///
/// ```
/// use tollgate::{Limiter, Request};
///
/// # futures_lite(async {
/// let rules = "rules: [{ name: login, per: ip, limit: 1/h, then: ban [1min, 1h] }]";
/// let limiter = Limiter::from_rules(rules.parse().unwrap());
/// let request = Request::empty().attribute("ip", "192.0.2.1");
/// assert!(limiter.decide(&request).allowed);
/// assert!(!limiter.decide(&request).allowed);
/// let bans = limiter.bans().await.unwrap();
/// assert_eq!((&*bans[0].rule, &*bans[0].key, bans[0].rung), ("login", "192.0.2.1", 1));
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LadderBan {
    /// The domain of the rule.
    pub domain: Box<str>,
    /// The rule.
    pub rule: Box<str>,
    /// Whose requests it refuses: the values of the rule's `per`, as [one text](super::encode_key).
    pub key: Box<str>,
    /// How far up the ladder it is: 1 is the first ban.
    pub rung: u32,
    /// When it ends.
    pub until: Time,
}

/// A domain and a rule of it.
type RuleName = (Box<str>, Box<str>);
/// The same and a key.
type Name = (Box<str>, Box<str>, Box<str>);

/// The bans this process has given. Empty most of the time.
#[derive(Debug, Default)]
pub(crate) struct Book {
    count: AtomicUsize,
    bans: Mutex<HashMap<Name, (u32, Time)>>,
    /// How many bans each rule has given.
    given: Mutex<BTreeMap<RuleName, u64>>,
}

fn name(domain: &str, rule: &str, key: &str) -> Name {
    (domain.into(), rule.into(), key.into())
}

/// The text of a ban in a store that others share. The key comes last: it may be anything.
fn text(domain: &str, rule: &str, key: &str, rung: u32) -> Vec<u8> {
    format!("{rung}\n{domain}\n{rule}\n{key}").into_bytes()
}

fn read(text: &[u8], until: Time) -> Option<LadderBan> {
    let mut parts = std::str::from_utf8(text).ok()?.splitn(4, '\n');
    let rung = parts.next()?.parse().ok()?;
    let mut part = || parts.next().map(Box::from);
    Some(LadderBan { domain: part()?, rule: part()?, key: part()?, rung, until })
}

impl Book {
    /// Notes a ban, here and in a store that others share. One that cannot be noted is a ban all
    /// the same.
    pub(super) async fn add<S: Store>(&self, store: &S, given: LadderBan, now: Time) {
        self.count_one(&given.domain, &given.rule);
        if given.key.len() > LONGEST_KEY {
            return;
        }
        let LadderBan { domain, rule, key, rung, until } = &given;
        {
            let mut bans = self.bans.lock();
            if bans.len() >= MOST {
                bans.retain(|_, (_, until)| *until > now);
            }
            if bans.len() >= MOST
                && let Some(first) =
                    bans.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone())
            {
                bans.remove(&first);
            }
            bans.insert(name(domain, rule, key), (*rung, *until));
            self.count.store(bans.len(), Ordering::Relaxed);
        }
        let text = text(domain, rule, key, *rung);
        let _ = store.note(Note::Keep { text: &text, until: *until }).await;
    }

    fn count_one(&self, domain: &str, rule: &str) {
        let mut given = self.given.lock();
        let name = (Box::from(domain), Box::from(rule));
        if given.len() < MOST_RULES || given.contains_key(&name) {
            *given.entry(name).or_default() += 1;
        }
    }

    fn remove(&self, domain: &str, rule: &str, key: &str) {
        let mut bans = self.bans.lock();
        bans.remove(&name(domain, rule, key));
        self.count.store(bans.len(), Ordering::Relaxed);
    }

    /// Those that are not over.
    fn all(&self, now: Time) -> Vec<LadderBan> {
        let mut bans = self.bans.lock();
        bans.retain(|_, (_, until)| *until > now);
        self.count.store(bans.len(), Ordering::Relaxed);
        let given = |((domain, rule, key), (rung, until)): (&Name, &(u32, Time))| LadderBan {
            domain: domain.clone(),
            rule: rule.clone(),
            key: key.clone(),
            rung: *rung,
            until: *until,
        };
        bans.iter().map(given).collect()
    }

    /// What others have lifted is not there any more.
    fn keep_only(&self, known: &[LadderBan]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let known: std::collections::HashSet<(&str, &str, &str)> =
            known.iter().map(|given| (&*given.domain, &*given.rule, &*given.key)).collect();
        let mut bans = self.bans.lock();
        bans.retain(|(domain, rule, key), _| known.contains(&(&**domain, &**rule, &**key)));
        self.count.store(bans.len(), Ordering::Relaxed);
    }
}

impl<S: Store> RuleLimiter<S> {
    /// The bans that ladders have given and that are not over, those that end first at first: of
    /// all nodes where they share a store, at most 10,000.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// # futures_lite(async {
    /// let rules = "rules: [{ name: api, per: user, limit: 1/h, then: 'ban [2h, 1day]' }]";
    /// let limiter = Limiter::from_rules(rules.parse().unwrap());
    /// for _ in 0..2 {
    ///     limiter.decide(&Request::empty().attribute("user", "ann"));
    /// }
    /// let bans = limiter.bans().await.unwrap();
    /// assert_eq!((&*bans[0].rule, &*bans[0].key, bans[0].rung), ("api", "ann", 1));
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn bans(&self) -> Result<Vec<LadderBan>, StoreError> {
        let now = self.0.clock.now();
        let mut bans = match self.0.store.note(Note::All).await? {
            Some(notes) => {
                let noted = notes.iter().filter_map(|(text, until)| read(text, *until));
                let noted: Vec<LadderBan> = noted.filter(|given| given.until > now).collect();
                self.0.book.keep_only(&noted);
                noted
            }
            None => self.0.book.all(now),
        };
        bans.sort_by(|one, other| {
            (one.until, &one.rule, &one.key).cmp(&(other.until, &other.rule, &other.key))
        });
        Ok(bans)
    }

    /// How many bans each rule has given in this process: its domain, its name, and how many.
    pub fn bans_given(&self) -> Vec<(Box<str>, Box<str>, u64)> {
        let given = self.0.book.given.lock();
        given.iter().map(|((domain, rule), n)| (domain.clone(), rule.clone(), *n)).collect()
    }

    /// How many keys this process has banned that are still banned, as far as it knows.
    pub fn banned_keys(&self) -> usize {
        match self.0.book.count.load(Ordering::Relaxed) {
            0 => 0,
            _ => self.0.book.all(self.0.clock.now()).len(),
        }
    }

    /// Lifts the ban that the ladder of a rule has given to a key, and forgets what led to it.
    /// Whether there was one; none if there is no such rule, or it does not ban.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// # futures_lite(async {
    /// let rules = "rules: [{ name: api, per: user, limit: 10/s, then: ban 1h }]";
    /// let limiter = Limiter::from_rules(rules.parse().unwrap());
    /// let ann = Request::empty().attribute("user", "ann");
    /// let many = ann.clone().cost(6);
    /// assert!(limiter.decide(&many).allowed && !limiter.decide(&many).allowed);
    /// assert!(!limiter.decide(&ann).allowed); // banned
    /// assert_eq!(limiter.lift_ban(None, "api", "ann").await.unwrap(), Some(true));
    /// assert!(limiter.decide(&ann).allowed);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn lift_ban(
        &self,
        domain: Option<&str>,
        rule: &str,
        key: &str,
    ) -> Result<Option<bool>, StoreError> {
        let installed = self.0.current.load_full();
        let request = Request { domain, ..Request::empty() };
        let Some(domain) = installed.rules.domain_of(&request) else { return Ok(None) };
        let found = domain.compiled.by_name.get(rule);
        let rule = found.map(|number| &domain.compiled.rules[*number as usize]);
        let Some((rule, ladder)) = rule.and_then(|rule| Some((rule, rule.ladder.as_ref()?))) else {
            return Ok(None);
        };
        let consistency = consistency(rule.consistency);
        let check = |bound| checked(bound, Key::Bytes(key.as_bytes()), 0, consistency);
        let ban = [check(&ladder.ban)];
        let action = Action::Try { max_wait: tollgate_core::Span::ZERO };
        let was = !self.0.store.run(Call { action, checks: &ban }).await?[0].allowed;
        let checks: Vec<_> = ladder.bounds().map(check).collect();
        self.0.store.run(Call { action: Action::Reset, checks: &checks }).await?;
        self.0.book.remove(&domain.name, &rule.name, key);
        let texts: Vec<Vec<u8>> =
            (1..=MAX_RUNGS as u32).map(|rung| text(&domain.name, &rule.name, key, rung)).collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        self.0.store.note(Note::Drop { texts: &texts }).await?;
        Ok(Some(was))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemoryStore;
    use crate::counters::ready;

    fn given(key: usize, until: u64) -> LadderBan {
        let (domain, rule, key) = ("shop".into(), "login".into(), key.to_string().into());
        LadderBan { domain, rule, key, rung: 1, until: Time::from_nanos(until) }
    }

    #[test]
    fn those_that_end_first_give_way() {
        let (book, store) = (Book::default(), MemoryStore::new());
        for key in 0..MOST + 5 {
            ready(book.add(&store, given(key, 100 + key as u64), Time::from_nanos(0)));
        }
        let all = book.all(Time::from_nanos(0));
        assert_eq!(all.len(), MOST);
        assert!(all.iter().all(|given| given.until >= Time::from_nanos(105)));
        assert!(book.all(Time::from_nanos(200_000)).is_empty());
        assert_eq!(book.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn what_is_written_down_is_read_again_whatever_the_key() {
        let until = Time::from_nanos(7);
        let key = "a\n|\u{e9}%00";
        let text = text("shop", "login", key, 3);
        let given = read(&text, until).unwrap();
        assert_eq!((&*given.domain, &*given.rule, &*given.key), ("shop", "login", key));
        assert_eq!((given.rung, given.until), (3, until));
        assert_eq!(read(b"nothing of ours", until), None);
    }
}
