//! The list of bans given by ladders. Counters do not contain keys, so bans are listed separately
//! for operators.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tollgate_core::Time;

use tollgate::{SharedText, Store};

/// The maximum number of listed bans; those that end first are dropped.
pub(crate) const MAX_BANS: usize = 10_000;
/// The maximum number of rules whose bans are counted.
const MAX_COUNTED_RULES: usize = 1000;
/// The rung of a ban that another node has given.
pub(super) const UNKNOWN_RUNG: u32 = 0;
/// The length up to which a banned key is listed.
const MAX_KEY_LENGTH: usize = 1024;

/// A ban that the ladder of a rule has given.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
///
/// # futures_lite(async {
/// let rules = "rules: [{ name: login, per: ip, limit: 1/h, then: 'ban [1min, 1h]' }]";
/// let limiter = RuleLimiter::new(rules.parse().unwrap());
/// let request = Request::empty().attribute("ip", "192.0.2.1");
/// assert!(limiter.decide_now(&request).allowed);
/// assert!(!limiter.decide_now(&request).allowed);
/// let bans = limiter.bans().list().await.unwrap();
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
    /// The name of the rule.
    pub rule: Box<str>,
    /// The banned key: the values of the rule's `per`, as [one text](crate::encode_key).
    pub key: Box<str>,
    /// The rung of the ladder; the first ban is 1.
    pub rung: u32,
    /// The end of the ban, as a date.
    pub until: Time,
}

/// A domain and the name of a rule.
type RuleName = (Box<str>, Box<str>);
/// A domain, the name of a rule, and a key.
pub(crate) type BanName = (Box<str>, Box<str>, Box<str>);

/// The bans that this process has given, or met in a shared store. Usually empty.
#[derive(Debug, Default)]
pub(crate) struct LadderBanList {
    pub(super) count: AtomicUsize,
    bans: Mutex<HashMap<BanName, (u32, Time)>>,
    /// The number of bans by rule.
    pub(super) given: Mutex<BTreeMap<RuleName, u64>>,
}

fn ban_name(domain: &str, rule: &str, key: &str) -> BanName {
    (domain.into(), rule.into(), key.into())
}

/// Formats a ban for a shared store. The key comes last because it may contain any text.
pub(crate) fn ban_text(domain: &str, rule: &str, key: &str, rung: u32) -> Vec<u8> {
    format!("{rung}\n{domain}\n{rule}\n{key}").into_bytes()
}

pub(crate) fn parse_ban(text: &[u8], until: Time) -> Option<LadderBan> {
    let mut parts = std::str::from_utf8(text).ok()?.splitn(4, '\n');
    let rung = parts.next()?.parse().ok()?;
    let mut part = || parts.next().map(Box::from);
    Some(LadderBan { domain: part()?, rule: part()?, key: part()?, rung, until })
}

impl LadderBanList {
    /// Records a ban, here and in a shared store. A ban that cannot be recorded is still in force.
    pub(crate) async fn add<S: Store>(&self, store: &S, ban: LadderBan, now: Time) {
        self.count_one(&ban.domain, &ban.rule);
        if ban.key.len() > MAX_KEY_LENGTH {
            return;
        }
        let LadderBan { domain, rule, key, rung, until } = &ban;
        {
            let mut bans = self.bans.lock();
            if bans.len() >= MAX_BANS {
                bans.retain(|_, (_, until)| *until > now);
            }
            if bans.len() >= MAX_BANS
                && let Some(first) =
                    bans.iter().min_by_key(|(_, (_, until))| *until).map(|(name, _)| name.clone())
            {
                bans.remove(&first);
            }
            bans.insert(ban_name(domain, rule, key), (*rung, *until));
            self.count.store(bans.len(), Ordering::Relaxed);
        }
        let text = ban_text(domain, rule, key, *rung);
        let _ = store.share_text(SharedText::Keep { text: &text, until: *until }).await;
    }

    fn count_one(&self, domain: &str, rule: &str) {
        let mut given = self.given.lock();
        let name = (Box::from(domain), Box::from(rule));
        if given.len() < MAX_COUNTED_RULES || given.contains_key(&name) {
            *given.entry(name).or_default() += 1;
        }
    }

    /// Notes a ban that the store reported: another node may have given it.
    pub(crate) fn note(&self, name: BanName, until: Time, date: Time) {
        let mut bans = self.bans.lock();
        if let Some((_, known_until)) = bans.get_mut(&name) {
            *known_until = until;
            return;
        }
        if bans.len() >= MAX_BANS {
            bans.retain(|_, (_, until)| *until > date);
        }
        if bans.len() < MAX_BANS && name.2.len() <= MAX_KEY_LENGTH {
            bans.insert(name, (UNKNOWN_RUNG, until));
        }
        self.count.store(bans.len(), Ordering::Relaxed);
    }

    /// Returns the end of a ban that has not ended.
    pub(crate) fn end(&self, name: &BanName, date: Time) -> Option<Time> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.bans.lock().get(name).map(|(_, until)| *until).filter(|until| *until > date)
    }

    pub(super) fn remove(&self, domain: &str, rule: &str, key: &str) {
        let mut bans = self.bans.lock();
        bans.remove(&ban_name(domain, rule, key));
        self.count.store(bans.len(), Ordering::Relaxed);
    }

    /// Returns the bans that have not ended.
    pub(crate) fn all(&self, now: Time) -> Vec<LadderBan> {
        let mut bans = self.bans.lock();
        bans.retain(|_, (_, until)| *until > now);
        self.count.store(bans.len(), Ordering::Relaxed);
        let to_ban = |((domain, rule, key), (rung, until)): (&BanName, &(u32, Time))| LadderBan {
            domain: domain.clone(),
            rule: rule.clone(),
            key: key.clone(),
            rung: *rung,
            until: *until,
        };
        bans.iter().map(to_ban).collect()
    }

    /// Lists the bans that a former process gave, up to the maximum.
    pub(crate) fn restore(&self, former: impl Iterator<Item = LadderBan>) {
        let mut bans = self.bans.lock();
        for LadderBan { domain, rule, key, rung, until } in former.take(MAX_BANS) {
            bans.entry((domain, rule, key)).or_insert((rung, until));
        }
        self.count.store(bans.len(), Ordering::Relaxed);
    }

    /// Removes bans that other nodes have lifted.
    pub(super) fn keep_only(&self, known: &[LadderBan]) {
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let known: std::collections::HashSet<(&str, &str, &str)> =
            known.iter().map(|ban| (&*ban.domain, &*ban.rule, &*ban.key)).collect();
        let mut bans = self.bans.lock();
        bans.retain(|(domain, rule, key), _| known.contains(&(&**domain, &**rule, &**key)));
        self.count.store(bans.len(), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::ready::ready;
    use tollgate::MemoryStore;

    fn ban(key: usize, until: u64) -> LadderBan {
        let (domain, rule, key) = ("shop".into(), "login".into(), key.to_string().into());
        LadderBan { domain, rule, key, rung: 1, until: Time::from_nanos(until) }
    }

    #[test]
    fn bans_that_end_first_are_dropped() {
        let (list, store) = (LadderBanList::default(), MemoryStore::new());
        for key in 0..MAX_BANS + 5 {
            ready(list.add(&store, ban(key, 100 + key as u64), Time::from_nanos(0)));
        }
        let all = list.all(Time::from_nanos(0));
        assert_eq!(all.len(), MAX_BANS);
        assert!(all.iter().all(|ban| ban.until >= Time::from_nanos(105)));
        assert!(list.all(Time::from_nanos(200_000)).is_empty());
        assert_eq!(list.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_formatted_ban_is_parsed_with_any_key() {
        let until = Time::from_nanos(7);
        let key = "a\n|\u{e9}%00";
        let text = ban_text("shop", "login", key, 3);
        let ban = parse_ban(&text, until).unwrap();
        assert_eq!((&*ban.domain, &*ban.rule, &*ban.key), ("shop", "login", key));
        assert_eq!((ban.rung, ban.until), (3, until));
        assert_eq!(parse_ban(b"nothing of ours", until), None);
    }
}
