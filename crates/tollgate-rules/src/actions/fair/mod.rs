//! Fair shares of limits: the recent tenants of each counter, and their claims.
//!
//! The arithmetic is in `tollgate_core::fair`. This module has one table in this process for each
//! counter of a rule with `fair`.

mod claims;
mod share_table;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_core::{Span, Time};

use crate::compile::domain::{CompiledDomain, Domain};
use crate::decide::active_rules::ActiveRules;
use crate::decide::decide_request::{Charging, MatchedRequest};
use crate::decide::decision::Decision;
use crate::decide::limiter::LimiterState;
use crate::matching::rule_checks::{LimitCheckKind, RuleChecks};
use tollgate::{Reserve, Store};

pub(crate) use claims::Claims;
use share_table::ShareTable;

/// The maximum number of counters that are shared fairly at once, first come, first served.
const MAX_COUNTERS: usize = 512;
/// How often tables without recent tenants are removed.
const BETWEEN_SWEEPS: Span = Span::from_secs(1);

/// The share tables of a limiter.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    tables: RwLock<ShareTables>,
    /// Seeded randomly in every process, so that no client can choose a colliding tenant.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct ShareTables {
    /// The tables by counter id and key hash.
    by_counter: HashMap<(u64, u64), Arc<ShareTable>>,
    next_sweep: Time,
}

/// The number of tenants that share a rule's limits.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
/// let rules = "attributes: [org]\nrules: [{ name: api, limit: 100/s, fair: { by: org } }]".parse()?;
/// let limiter = RuleLimiter::new(rules);
/// for org in ["acme", "umbrella", "acme"] {
///     assert!(limiter.decide_now(&Request::empty().attribute("org", org)).allowed);
/// }
/// let sharing = limiter.status().fair_tenants();
/// assert_eq!((&*sharing[0].rule, sharing[0].tenants), ("api", 2));
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FairTenants {
    /// The rule's domain.
    pub domain: String,
    /// The rule's name.
    pub rule: String,
    /// The number of tenants with a share, over all counters of the rule.
    pub tenants: usize,
}

impl Fairness {
    /// Returns the number of recent tenants of each rule with `fair`.
    pub(crate) fn tenants(&self, now: Time) -> Vec<FairTenants> {
        let mut found: Vec<FairTenants> = Vec::new();
        for table in self.tables.read().by_counter.values() {
            let (domain, rule) = (&*table.rules.domain, table.rule_name());
            let tenants = table.tenants(now);
            match found.iter_mut().find(|one| (&*one.domain, &*one.rule) == (domain, rule)) {
                Some(one) => one.tenants += tenants,
                None => {
                    let (domain, rule) = (domain.to_owned(), rule.to_owned());
                    found.push(FairTenants { domain, rule, tenants });
                }
            }
        }
        found.sort_unstable_by(|a, b| (&a.domain, &a.rule).cmp(&(&b.domain, &b.rule)));
        found
    }

    /// Returns the table of a counter; none if there are too many.
    fn table(
        &self,
        counter: (u64, u64),
        now: Time,
        new: impl FnOnce() -> ShareTable,
    ) -> Option<Arc<ShareTable>> {
        if let Some(table) = self.tables.read().by_counter.get(&counter) {
            return Some(table.clone());
        }
        let mut tables = self.tables.write();
        if tables.by_counter.len() >= MAX_COUNTERS {
            if now < tables.next_sweep {
                return None;
            }
            tables.next_sweep = now + BETWEEN_SWEEPS;
            tables.by_counter.retain(|_, table| table.tenants(now) > 0);
            if tables.by_counter.len() >= MAX_COUNTERS {
                return None;
            }
        }
        Some(tables.by_counter.entry(counter).or_insert_with(|| Arc::new(new())).clone())
    }

    /// Claims a share of each fair limit, and sets the reserve that each check must leave.
    fn claim(
        &self,
        rules: &Arc<CompiledDomain>,
        request_checks: &mut RuleChecks<'_>,
        nodes: u64,
        now: Time,
        charging: Charging,
    ) -> Claims {
        let mut claims = Claims::new(nodes);
        for limit_check in request_checks
            .limit_checks
            .iter_mut()
            .filter(|limit_check| limit_check.kind == LimitCheckKind::Limit)
        {
            let rule_check = &request_checks.rule_checks[limit_check.rule_check];
            let Some(tenant) = &rule_check.tenant else { continue };
            let limit = &limit_check.bound.limit;
            let tenant = self.hasher.hash_one(&request_checks.keys[tenant.clone()]);
            let key = self.hasher.hash_one(&request_checks.keys[limit_check.key.clone()]);
            let counter = (limit_check.bound.counter.number(), key);
            let new = || ShareTable::new(rules.clone(), rule_check.rule, limit);
            let Some(table) = self.table(counter, now, new) else { continue };
            let is_charged = charging == Charging::Real && rule_check.charged;
            let reserve = match is_charged {
                true => {
                    let claim = table.claim(now, tenant, limit_check.cost, nodes);
                    claims.add(table, rule_check.rule, claim);
                    claim.reserve
                }
                false => table.preview_claim(now, tenant, limit_check.cost, nodes).reserve,
            };
            let reserve = reserve.max(limit_check.reserve.amount(limit.capacity()));
            if reserve > 0 {
                limit_check.reserve = Reserve::Amount(reserve);
            }
        }
        claims
    }
}

/// Decides a request of a fair rule. Returns `false` if the rules were replaced meanwhile.
pub(crate) async fn decide<S: Store>(
    limiter: &LimiterState<S>,
    active: &Arc<ActiveRules>,
    domain: &Domain,
    request_checks: &mut RuleChecks<'_>,
    now: Time,
    charging: Charging,
    decision: &mut Decision,
) -> bool {
    let nodes = limiter.store.nodes();
    // Dropping the claims cancels them, unless the request passes.
    let mut claims = limiter.fair.claim(&domain.compiled, request_checks, nodes, now, charging);
    let matched = MatchedRequest::new(limiter, active, domain, request_checks, now, charging);
    let decided = matched.decide(limiter, decision).await;
    decision.tenant = tenant_of(request_checks, decision);
    if decided && decision.allowed {
        claims.confirm(decision, now);
        if let Some(held) = &mut decision.held {
            held.fair = Some(Arc::new(claims));
        }
    }
    decided
}

/// Returns the tenant of the request under the deciding rule.
fn tenant_of(request_checks: &RuleChecks<'_>, decision: &Decision) -> Option<Box<str>> {
    let rule_check = request_checks
        .rule_checks
        .iter()
        .find(|rule_check| Some(rule_check.rule) == decision.rule)?;
    let text = |range: &Range<usize>| std::str::from_utf8(&request_checks.keys[range.clone()]).ok();
    let tenant = text(rule_check.tenant.as_ref()?)?;
    Some(match text(&rule_check.key)? {
        "" => tenant.into(),
        key => format!("{key}|{tenant}").into(),
    })
}
