//! Fair shares of limits: who asked lately under which counter, and what each has been promised.
//!
//! The arithmetic is `tollgate_core::fair`; here are the tables, one for each counter of a rule that
//! says `fair`, in this process.

mod claims;
mod table;

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::RwLock;
use tollgate_core::{Span, Time};

use super::compiled::{Compiled, Domain};
use super::decide::{Asked, Charging};
use super::decision::Decision;
use super::demand::{Demands, LineKind};
use super::installed::Installed;
use super::limiter::{RuleLimiter, Shared};
use crate::{Reserve, Store};

pub(crate) use claims::Claims;
use table::Table;

/// So many counters are shared fairly at once. Of more, those that come first have it first.
const MOST: usize = 512;
/// Those that nobody asks for are looked for so often.
const BETWEEN_SWEEPS: Span = Span::from_secs(1);

/// The tables of a limiter.
#[derive(Debug, Default)]
pub(crate) struct Fairness {
    tables: RwLock<Tables>,
    /// New with every process: nobody can choose whose share to have.
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Tables {
    /// By the bucket and the hash of the key.
    by_counter: HashMap<(u64, u64), Arc<Table>>,
    next_sweep: Time,
}

/// How many share a rule's limits.
///
/// ```
/// use tollgate::{Limiter, Request};
/// let rules = "rules: [{ name: api, limit: 100/s, fair: { by: org } }]".parse()?;
/// let limiter = Limiter::from_rules(rules);
/// for org in ["acme", "umbrella", "acme"] {
///     assert!(limiter.decide(&Request::empty().attribute("org", org)).allowed);
/// }
/// let sharing = limiter.fair_tenants();
/// assert_eq!((&*sharing[0].rule, sharing[0].tenants), ("api", 2));
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FairTenants {
    /// The rule's domain.
    pub domain: String,
    /// The rule's name.
    pub rule: String,
    /// How many have a share, of all its counters together.
    pub tenants: usize,
}

impl<S> RuleLimiter<S> {
    /// For each rule that says `fair`: how many asked it lately and have a share, as this process
    /// sees it.
    pub fn fair_tenants(&self) -> Vec<FairTenants> {
        let now = self.0.clock.now();
        let mut found: Vec<FairTenants> = Vec::new();
        for table in self.0.fair.tables.read().by_counter.values() {
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
}

impl Fairness {
    /// The table of a counter; none if there are too many.
    fn table(
        &self,
        counter: (u64, u64),
        now: Time,
        new: impl FnOnce() -> Table,
    ) -> Option<Arc<Table>> {
        if let Some(table) = self.tables.read().by_counter.get(&counter) {
            return Some(table.clone());
        }
        let mut tables = self.tables.write();
        if tables.by_counter.len() >= MOST {
            if now < tables.next_sweep {
                return None;
            }
            tables.next_sweep = now + BETWEEN_SWEEPS;
            tables.by_counter.retain(|_, table| table.tenants(now) > 0);
            if tables.by_counter.len() >= MOST {
                return None;
            }
        }
        Some(tables.by_counter.entry(counter).or_insert_with(|| Arc::new(new())).clone())
    }

    /// Claims a share of each limit that is shared fairly, and tells each line what it must leave.
    fn claim(
        &self,
        rules: &Arc<Compiled>,
        demands: &mut Demands<'_>,
        nodes: u64,
        now: Time,
        charging: Charging,
    ) -> Claims {
        let mut claims = Claims::among(nodes);
        for line in demands.lines.iter_mut().filter(|line| line.kind == LineKind::Limit) {
            let demand = &demands.demands[line.demand];
            let Some(tenant) = &demand.tenant else { continue };
            let limit = &line.bound.limit;
            let tenant = self.hasher.hash_one(&demands.keys[tenant.clone()]);
            let key = self.hasher.hash_one(&demands.keys[line.key.clone()]);
            let counter = (line.bound.bucket.number(), key);
            let new = || Table::new(rules.clone(), demand.rule, limit);
            let Some(table) = self.table(counter, now, new) else { continue };
            let is_kept = charging == Charging::Real && demand.charged;
            let reserve = match is_kept {
                true => {
                    let claim = table.ask(now, tenant, line.cost, nodes);
                    claims.add(table, demand.rule, claim);
                    claim.reserve
                }
                false => table.would_ask(now, tenant, line.cost, nodes).reserve,
            };
            let reserve = reserve.max(line.reserve.amount(limit.capacity()));
            if reserve > 0 {
                line.reserve = Reserve::Amount(reserve);
            }
        }
        claims
    }
}

/// Decides a request that has a share of something. Whether it was decided: not if the rules were
/// replaced meanwhile.
pub(super) async fn decide<S: Store>(
    limiter: &Shared<S>,
    installed: &Arc<Installed>,
    domain: &Domain,
    demands: &mut Demands<'_>,
    now: Time,
    charging: Charging,
    decision: &mut Decision,
) -> bool {
    let nodes = limiter.store.nodes();
    // Given back when dropped, unless the request passes.
    let mut claims = limiter.fair.claim(&domain.compiled, demands, nodes, now, charging);
    let asked = Asked::new(limiter, installed, domain, demands, now, charging);
    let decided = asked.decide(limiter, decision).await;
    decision.tenant = tenant_of(demands, decision);
    if decided && decision.allowed {
        claims.passed(decision, now);
        if let Some(held) = &mut decision.held {
            held.fair = Some(Arc::new(claims));
        }
    }
    decided
}

/// Who asked, if the deciding rule's limits are shared.
fn tenant_of(demands: &Demands<'_>, decision: &Decision) -> Option<Box<str>> {
    let demand = demands.demands.iter().find(|demand| Some(demand.rule) == decision.rule)?;
    let text = |range: &Range<usize>| std::str::from_utf8(&demands.keys[range.clone()]).ok();
    let tenant = text(demand.tenant.as_ref()?)?;
    Some(match text(&demand.key)? {
        "" => tenant.into(),
        key => format!("{key}|{tenant}").into(),
    })
}
