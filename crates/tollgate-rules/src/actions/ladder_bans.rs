//! Lists and lifts the bans given by ladders, for operators.

use std::sync::atomic::Ordering;

use crate::Request;
use crate::actions::ladder::{consistency, ladder_check};
use crate::actions::ladder_ban_list::{LadderBan, UNKNOWN_RUNG, ban_text, parse_ban};
use crate::decide::limiter::LimiterState;
use crate::read::document::MAX_RUNGS;
use tollgate::{Action, Key, SharedText, Store, StoreCall, StoreError};

/// The bans given by ladders. Returned by [`RuleLimiter::bans`](crate::RuleLimiter::bans).
#[derive(Debug)]
pub struct LadderBans<'l, S>(pub(crate) &'l LimiterState<S>);

impl<S: Store> LadderBans<'_, S> {
    /// Returns the bans that have not ended, in the order of their ends; of all nodes that share
    /// the store, at most 10,000.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 1/h, then: 'ban [2h, 1day]' }]";
    /// let limiter = RuleLimiter::new(rules.parse().unwrap());
    /// for _ in 0..2 {
    ///     limiter.decide_now(&Request::empty().attribute("user", "ann"));
    /// }
    /// let bans = limiter.bans().list().await.unwrap();
    /// assert_eq!((&*bans[0].rule, &*bans[0].key, bans[0].rung), ("api", "ann", 1));
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn list(&self) -> Result<Vec<LadderBan>, StoreError> {
        let now = self.0.date();
        let mut bans = match self.0.store.share_text(SharedText::All).await? {
            Some(texts) => {
                let bans = texts.iter().filter_map(|(text, until)| parse_ban(text, *until));
                let bans: Vec<LadderBan> = bans.filter(|ban| ban.until > now).collect();
                self.0.ban_list.keep_only(&bans);
                bans
            }
            None => self.0.ban_list.all(now),
        };
        bans.sort_by(|one, other| {
            (one.until, &one.rule, &one.key).cmp(&(other.until, &other.rule, &other.key))
        });
        Ok(bans)
    }

    /// Returns how many bans each rule has given in this process: domain, rule, number.
    pub fn given(&self) -> Vec<(Box<str>, Box<str>, u64)> {
        let given = self.0.ban_list.given.lock();
        given.iter().map(|((domain, rule), n)| (domain.clone(), rule.clone(), *n)).collect()
    }

    /// Returns the number of keys that this process has banned and that are still banned.
    pub fn banned_keys(&self) -> usize {
        match self.0.ban_list.count.load(Ordering::Relaxed) {
            0 => 0,
            _ => {
                let bans = self.0.ban_list.all(self.0.date());
                bans.iter().filter(|ban| ban.rung != UNKNOWN_RUNG).count()
            }
        }
    }

    /// Lifts the ban of a key and resets its denials. Returns whether it was banned; none if there
    /// is no such rule or it does not ban.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// # futures_lite(async {
    /// let rules = "attributes: [user]\nrules: [{ name: api, per: user, limit: 10/s, then: ban 1h }]";
    /// let limiter = RuleLimiter::new(rules.parse().unwrap());
    /// let ann = Request::empty().attribute("user", "ann");
    /// let many = ann.clone().cost(6);
    /// assert!(limiter.decide_now(&many).allowed && !limiter.decide_now(&many).allowed);
    /// assert!(!limiter.decide_now(&ann).allowed); // banned
    /// assert_eq!(limiter.bans().lift(None, "api", "ann").await.unwrap(), Some(true));
    /// assert!(limiter.decide_now(&ann).allowed);
    /// # });
    /// # fn futures_lite(future: impl Future<Output = ()>) {
    /// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
    /// # }
    /// ```
    pub async fn lift(
        &self,
        domain: Option<&str>,
        rule: &str,
        key: &str,
    ) -> Result<Option<bool>, StoreError> {
        let active = self.0.current.load_full();
        let request = Request { domain, ..Request::empty() };
        let Some(domain) = active.rules.domain_of(&request) else { return Ok(None) };
        let found = domain.compiled.by_name.get(rule);
        let key = &*found.map_or(key.into(), |number| domain.stored_key(*number, key));
        let rule = found.map(|number| &domain.compiled.rules[*number as usize]);
        let Some((rule, ladder)) = rule.and_then(|rule| Some((rule, rule.ladder.as_ref()?))) else {
            return Ok(None);
        };
        let consistency = consistency(rule.consistency);
        let check = |bound| ladder_check(bound, Key::Bytes(key.as_bytes()), 0, consistency);
        let ban = [check(&ladder.ban)];
        let action = Action::Try { max_wait: tollgate_core::Span::ZERO };
        let was_banned = !self.0.store.run(StoreCall { action, checks: &ban }).await?[0].allowed;
        let checks: Vec<_> = ladder.bounds().map(check).collect();
        self.0.store.run(StoreCall { action: Action::Reset, checks: &checks }).await?;
        self.0.ban_list.remove(&domain.name, &rule.name, key);
        let texts: Vec<Vec<u8>> = (1..=MAX_RUNGS as u32)
            .map(|rung| ban_text(&domain.name, &rule.name, key, rung))
            .collect();
        let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        self.0.store.share_text(SharedText::Drop { texts: &texts }).await?;
        Ok(Some(was_banned))
    }
}
