//! What a limiter has besides the counters of its store, as data: limits and bans.
//!
//! Counters belong to the text of a limit. With the limits that were active, a limiter whose rules
//! were edited while it was stopped finds what was spent under the former limits, as it does when
//! rules are replaced at run time.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tollgate_core::{Carry, Time};

use crate::actions::ladder_ban_list::{LadderBan, ban_text, parse_ban};
use crate::compile::domain::BoundLimit;
use crate::decide::active_rules::{ActiveRules, Group, LimitGroups, groups};
use crate::decide::limiter::RuleLimiter;
use tollgate::{CounterId, PreviousLimit, Store};

/// The limits and ladder bans of a limiter as data, which [`RuleLimiter::restore`] takes over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedLimiter {
    #[serde(default)]
    limits: Vec<SavedLimit>,
    #[serde(default)]
    bans: Vec<SavedBan>,
}

/// A limit of the active rules as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedLimit {
    domain: String,
    bucket: String,
    plan: Option<String>,
    counter: u64,
    limit: String,
    /// The limits that this one replaced, the latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    previous: Vec<SavedPreviousLimit>,
}

/// A replaced limit as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedPreviousLimit {
    counter: u64,
    limit: String,
    until_ns: u64,
}

/// A ban of a ladder as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SavedBan {
    text: String,
    until_ns: u64,
}

impl<S: Store + 'static> RuleLimiter<S> {
    /// Returns the active limits and the ladder bans given by this process.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    /// let before = RuleLimiter::new("rules: [{ name: api, limit: 10/h }]".parse()?);
    /// before.decide_now(&Request::empty());
    /// let mut snapshot = Vec::new();
    /// before.store().write_snapshot(b"", &mut snapshot)?;
    /// let saved = before.save();
    ///
    /// // The rules were edited while the process was stopped.
    /// let store = tollgate::MemoryStore::new().restore(snapshot.as_slice())?.store;
    /// let rules = "rules: [{ name: api, limit: 20/h }]".parse()?;
    /// let after = RuleLimiter::builder().store(store).build(rules);
    /// after.restore(saved);
    /// let left = after.decide_now(&Request::empty()).tightest().unwrap().verdict.remaining;
    /// assert_eq!(left, 18);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn save(&self) -> SavedLimiter {
        let now = self.0.clock.now();
        let bans = self.0.ban_list.all(self.0.date()).into_iter().map(save_ban).collect();
        SavedLimiter { limits: save_limits(&self.0.current.load(), now), bans }
    }

    /// Takes over the limits and bans of a limiter that used the same store before.
    pub fn restore(&self, saved: SavedLimiter) {
        let now = self.0.clock.now();
        let limits = RestoredLimits::new(saved.limits);
        self.0.current.rcu(|current| current.continuing(&limits.groups, &limits.previous, now));
        let bans = saved
            .bans
            .into_iter()
            .filter_map(|ban| parse_ban(ban.text.as_bytes(), Time::from_nanos(ban.until_ns)));
        let date = self.0.date();
        self.0.ban_list.restore(bans.filter(|ban| ban.until > date));
    }
}

fn save_ban(ban: LadderBan) -> SavedBan {
    let LadderBan { domain, rule, key, rung, until } = ban;
    let text = String::from_utf8_lossy(&ban_text(&domain, &rule, &key, rung)).into_owned();
    SavedBan { text, until_ns: until.as_nanos() }
}

fn save_limits(active: &ActiveRules, now: Time) -> Vec<SavedLimit> {
    let mut saved = Vec::new();
    for domain in active.rules.domains() {
        for ((bucket, plan), limits) in groups(domain) {
            saved.extend(limits.iter().map(|bound| SavedLimit {
                domain: domain.name.to_string(),
                bucket: bucket.to_string(),
                plan: plan.as_deref().map(str::to_owned),
                counter: bound.counter.number(),
                limit: bound.limit.to_string(),
                previous: save_previous(active.previous(bound.counter, now)),
            }));
        }
    }
    saved
}

fn save_previous(first: Option<&PreviousLimit>) -> Vec<SavedPreviousLimit> {
    let chain = std::iter::successors(first, |previous| previous.previous.as_deref());
    let save = |previous: &PreviousLimit| SavedPreviousLimit {
        counter: previous.counter.number(),
        limit: previous.limit.to_string(),
        until_ns: previous.until.as_nanos(),
    };
    chain.map(save).collect()
}

/// The limits of a former process.
#[derive(Debug, Default)]
struct RestoredLimits {
    groups: HashMap<Box<str>, LimitGroups>,
    previous: HashMap<u64, PreviousLimit>,
}

impl RestoredLimits {
    /// Reads the limits; one that this version cannot parse is left out.
    fn new(saved: Vec<SavedLimit>) -> RestoredLimits {
        let mut restored = RestoredLimits::default();
        for one in saved {
            let Ok(limit) = one.limit.parse() else { continue };
            let group: Group = (one.bucket.into(), one.plan.map(Into::into));
            let groups = restored.groups.entry(one.domain.into()).or_default();
            let bound = BoundLimit { limit, counter: CounterId::new(one.counter) };
            groups.entry(group).or_default().push(bound);
            if let Some(previous) = restore_previous(&one.previous) {
                restored.previous.insert(one.counter, previous);
            }
        }
        restored
    }
}

fn restore_previous(saved: &[SavedPreviousLimit]) -> Option<PreviousLimit> {
    let (first, older) = saved.split_first()?;
    Some(PreviousLimit {
        counter: CounterId::new(first.counter),
        limit: first.limit.parse().ok()?,
        carry: Carry::Spent,
        until: Time::from_nanos(first.until_ns),
        previous: restore_previous(older).map(Box::new),
    })
}
