//! The plan of checks for a request: pure data, so that any store can run it.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Span;

use super::descriptor_tree::{DescriptorNode, DescriptorTree};
use super::entry_writer::write_value;
use super::planned_check::{LimitSource, PlannedCheck};
use super::rate_limit::{CountedLimit, RateLimit};
use super::{Descriptor, DescriptorEntries, LimitOverride, Metadata, RateLimitRequest};
use crate::Request;
use crate::matching::key::{KeyBytes, KeyWriter};
use crate::matching::key_hasher::KeyHasher;
use tollgate::{Action, Check, Limit, StoreCall};

/// The checks of a request, and how their verdicts make a response.
///
/// ```
/// use tollgate_rules::{Source, envoy::{Code, Descriptor, Domains, RateLimitRequest}};
/// use tollgate::{MemoryStore, Store, Verdicts};
///
/// let file = "
/// domain: mongo
/// descriptors:
///   - key: database
///     rate_limit: { unit: second, requests_per_unit: 0 }
/// ";
/// let domains = Domains::read([Source::new("mongo.yaml", file)])?;
/// let descriptors = [Descriptor::new(&[("database", "users")])];
/// let plan = domains.plan(&RateLimitRequest::new("mongo", &descriptors));
///
/// # futures_lite(async {
/// let store = MemoryStore::new(); // or any other
/// let mut verdicts = Verdicts::new();
/// for call in plan.calls() {
///     verdicts.extend(store.run(call.as_call()).await.unwrap());
/// }
/// assert_eq!(plan.response(&verdicts, store.now()).overall, Code::OverLimit);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct CheckPlan<'t> {
    /// The plan of each descriptor.
    pub(super) items: SmallVec<[DescriptorPlan<'t>; 2]>,
    pub(super) steps: SmallVec<[PlannedCheck<'t>; 2]>,
    keys: KeyBytes,
}

/// The plan of a descriptor.
#[derive(Clone, Debug)]
pub(super) enum DescriptorPlan<'t> {
    /// No limit applies: none matches, or it is replaced.
    Free,
    /// The limit is `unlimited`.
    Unlimited,
    /// The range of its checks, and the descriptor of the file.
    Limited { steps: Range<usize>, of: Option<&'t DescriptorNode> },
}

/// Checks to run in one call.
#[derive(Clone, Debug)]
pub struct PlannedCall<'p> {
    action: Action,
    checks: SmallVec<[Check<'p>; 2]>,
}

impl CheckPlan<'_> {
    /// Iterates over the limits, one for each verdict.
    pub(crate) fn limit_summaries(&self) -> impl Iterator<Item = tollgate::LimitSummary> {
        self.steps.iter().map(|step| step.counted.get().limit.summary())
    }
}

impl PlannedCall<'_> {
    /// Returns the call for a store.
    pub fn as_call(&self) -> StoreCall<'_> {
        StoreCall { action: self.action, checks: &self.checks }
    }
}

impl DescriptorTree {
    /// Plans the checks of a request. A request for another domain is not limited.
    ///
    /// The keys contain all values in clear; a limiter hashes those of secrets.
    pub fn plan(&self, request: &RateLimitRequest<'_>) -> CheckPlan<'_> {
        self.plan_hashed(request, None)
    }

    /// Plans the checks of a request; secrets in keys are hashed.
    pub(crate) fn plan_hashed(
        &self,
        request: &RateLimitRequest<'_>,
        hasher: Option<&KeyHasher>,
    ) -> CheckPlan<'_> {
        let mut plan = CheckPlan::unlimited(request.descriptors.len());
        if *request.domain != *self.domain {
            return plan;
        }
        let found: SmallVec<[_; 4]> = request
            .descriptors
            .iter()
            .map(|descriptor| self.find(descriptor, &mut plan.keys, hasher))
            .collect();
        // A replaced limit still replaces others.
        let limits = found.iter().flat_map(|(node, _)| node.iter().flat_map(|node| &node.limits));
        let replaced: SmallVec<[&Arc<str>; 4]> = limits.flat_map(|limit| &limit.replaces).collect();
        for (item, (descriptor, (node, key))) in request.descriptors.iter().zip(found).enumerate() {
            let charge = descriptor.charge(item, key, request);
            match descriptor.limit {
                Some(limit) => plan.add_own(&charge, &self.domain, limit),
                None => plan.add(&charge, node, &replaced),
            }
        }
        plan
    }

    /// Plans the checks of a generic request, which is one descriptor.
    ///
    /// ```
    /// use tollgate::MemoryStore;
    /// use tollgate_rules::envoy::{Code, Domains};
    /// use tollgate_rules::{Request, Source};
    /// let file = "{ domain: auth, key: login, rate_limit: { unit: minute, requests: 1 } }";
    /// let domains = Domains::read([Source::new("auth.yaml", file)])?;
    /// let (tree, store) = (domains.get("auth").unwrap(), MemoryStore::new());
    /// let login = Request::empty().attribute("login", "ann");
    /// assert_eq!(tree.plan_request(&login).decide(&store).overall, Code::Ok);
    /// assert_eq!(tree.plan_request(&login).decide(&store).overall, Code::OverLimit);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn plan_request(&self, request: &Request<'_>) -> CheckPlan<'_> {
        self.plan_request_hashed(request, None)
    }

    /// Plans the checks of a generic request; secrets in keys are hashed.
    pub(crate) fn plan_request_hashed(
        &self,
        request: &Request<'_>,
        hasher: Option<&KeyHasher>,
    ) -> CheckPlan<'_> {
        let entries = self.request_entries(request);
        let pairs = entries.pairs();
        let descriptor = Descriptor { hits: Some(request.cost), ..Descriptor::new(&pairs) };
        self.plan_hashed(&RateLimitRequest::new(&self.domain, &[descriptor]), hasher)
    }

    /// Returns the entries of a generic request: `method`, `path`, `host` and `ip` if they are known,
    /// then its attributes in order.
    ///
    /// ```
    /// use tollgate_rules::{Request, Source, envoy::Domains};
    /// # let domains = Domains::read([Source::new("a.yaml", "{ domain: a, descriptors: [] }")])?;
    /// # let tree = domains.get("a").unwrap();
    /// let request = Request::new("POST", "/login?next=/").attribute("user", "ann");
    /// let entries = tree.request_entries(&request);
    /// assert_eq!(entries.pairs()[..], [("method", "POST"), ("path", "/login"), ("user", "ann")]);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn request_entries<'r>(&self, request: &'r Request<'_>) -> DescriptorEntries<'r> {
        DescriptorEntries::from_request(request)
    }

    /// Finds the descriptor of the file; a request with its own limit needs none. Writes the key of
    /// the counter: all entries, so that no client can use the counter of another. For a shared entry
    /// it writes the text of the file in place of the value, after a mark that no value has.
    fn find(
        &self,
        descriptor: &Descriptor<'_>,
        keys: &mut KeyBytes,
        hasher: Option<&KeyHasher>,
    ) -> (Option<&DescriptorNode>, Range<usize>) {
        let start = keys.len();
        let mut writer = KeyWriter::new(keys);
        if descriptor.limit.is_some() {
            descriptor.write_entries(&mut writer, hasher);
            return (None, start..keys.len());
        }
        let node = self.walk(descriptor.entries, |node, _, (key, value)| {
            writer.text(&[key]);
            match node.shared {
                true => {
                    writer.missing();
                    writer.text(&[&node.key]);
                    writer.text(&[&node.value]);
                }
                false => write_value(&mut writer, value, hasher.filter(|_| node.secret)),
            }
        });
        (node, start..keys.len())
    }
}

impl Descriptor<'_> {
    fn charge(
        &self,
        item: usize,
        key: Range<usize>,
        request: &RateLimitRequest<'_>,
    ) -> DescriptorCharge {
        DescriptorCharge {
            item,
            key,
            cost: self.cost(request.hits_addend),
            negative: self.negative,
        }
    }
}

/// The charge of one descriptor.
struct DescriptorCharge {
    /// The number of the descriptor.
    item: usize,
    key: Range<usize>,
    cost: u64,
    negative: bool,
}

impl DescriptorCharge {
    fn action(&self, extended: bool) -> Action {
        match (self.cost, self.negative) {
            (0, _) => Action::Peek,
            (_, true) => Action::Refund,
            _ if extended => Action::Take { max_wait: Span::ZERO },
            _ => Action::Spend,
        }
    }
}

impl<'t> CheckPlan<'t> {
    /// Creates a plan for descriptors none of which is limited.
    pub(crate) fn unlimited(descriptors: usize) -> CheckPlan<'t> {
        let items = smallvec::smallvec![DescriptorPlan::Free; descriptors];
        CheckPlan { items, steps: SmallVec::new(), keys: KeyBytes::new() }
    }

    /// Plans the checks of descriptors with a limit of their own; the others are not limited.
    pub(crate) fn from_overrides(
        request: &RateLimitRequest<'_>,
        hasher: &KeyHasher,
    ) -> CheckPlan<'t> {
        let mut plan = CheckPlan::unlimited(request.descriptors.len());
        for (item, descriptor) in request.descriptors.iter().enumerate() {
            let Some(limit) = descriptor.limit else { continue };
            let start = plan.keys.len();
            descriptor.write_entries(&mut KeyWriter::new(&mut plan.keys), Some(hasher));
            let charge = descriptor.charge(item, start..plan.keys.len(), request);
            plan.add_own(&charge, request.domain, limit);
        }
        plan
    }

    /// Adds the limits of the file.
    fn add(
        &mut self,
        charge: &DescriptorCharge,
        node: Option<&'t DescriptorNode>,
        replaced: &[&Arc<str>],
    ) {
        let Some(node) = node else { return };
        let first = self.steps.len();
        let is_replaced =
            |limit: &RateLimit| limit.name.as_ref().is_some_and(|name| replaced.contains(&name));
        for limit in &node.limits {
            match &limit.counted {
                None => self.items[charge.item] = DescriptorPlan::Unlimited,
                Some(_) if is_replaced(limit) => {}
                Some(counted) => {
                    let name = limit.name.as_ref();
                    self.push(
                        charge,
                        LimitSource::File(counted),
                        name,
                        charge.action(node.extended),
                    );
                }
            }
        }
        if self.steps.len() > first {
            let steps = first..self.steps.len();
            self.items[charge.item] = DescriptorPlan::Limited { steps, of: Some(node) };
        }
    }

    /// Adds the limit of the request itself.
    fn add_own(&mut self, charge: &DescriptorCharge, domain: &str, limit: LimitOverride) {
        // Every unit and every amount of 32 bits makes a limit.
        let Ok(counted) = CountedLimit::plain(domain, limit.requests_per_unit, limit.unit) else {
            return;
        };
        let step = self.steps.len();
        self.push(charge, LimitSource::Request(Box::new(counted)), None, charge.action(false));
        self.items[charge.item] = DescriptorPlan::Limited { steps: step..step + 1, of: None };
    }

    fn push(
        &mut self,
        charge: &DescriptorCharge,
        counted: LimitSource<'t>,
        name: Option<&'t Arc<str>>,
        action: Action,
    ) {
        let DescriptorCharge { item, cost, .. } = *charge;
        self.steps.push(PlannedCheck {
            key: charge.key.clone(),
            counted,
            name,
            cost,
            action,
            item,
        });
    }

    /// Converts the plan to one that tries the limits without charging them.
    pub(crate) fn without_charging(mut self) -> CheckPlan<'t> {
        for step in &mut self.steps {
            if matches!(step.action, Action::Take { .. } | Action::Spend) {
                step.action = Action::Try { max_wait: Span::ZERO };
            }
        }
        self
    }

    /// Sets the action and the cost of all checks.
    pub(crate) fn with_action(mut self, action: Action, cost: u64) -> CheckPlan<'t> {
        for step in &mut self.steps {
            (step.action, step.cost) = (action, cost);
        }
        self
    }

    /// Returns the key of a descriptor's counter, if it has one.
    pub(crate) fn counter_key(&self, item: usize) -> Option<&[u8]> {
        let step = self.steps.iter().find(|step| step.item == item)?;
        Some(&self.keys[step.key.clone()])
    }

    /// Iterates over the calls to run, in order. The verdicts of all calls, one after the other, make
    /// the [`response`](CheckPlan::response).
    pub fn calls(&self) -> impl Iterator<Item = PlannedCall<'_>> {
        // Checks that are all-or-none are so for each descriptor; the others share a call.
        let goes_with = |a: &PlannedCheck<'_>, b: &PlannedCheck<'_>| {
            a.action == b.action && (a.item == b.item || !matches!(a.action, Action::Take { .. }))
        };
        self.steps.chunk_by(goes_with).map(|steps| PlannedCall {
            action: steps[0].action,
            checks: steps.iter().map(|step| self.check(step)).collect(),
        })
    }

    fn check<'p>(&'p self, step: &'p PlannedCheck<'t>) -> Check<'p> {
        self.check_with(step, &step.counted.get().limit, step.cost)
    }

    /// Returns a check on the counter of a step, by another limit at another cost.
    pub(super) fn check_with<'p>(
        &'p self,
        step: &'p PlannedCheck<'_>,
        limit: &'p Limit,
        cost: u64,
    ) -> Check<'p> {
        Check::new(step.counted.get().counter, &self.keys[step.key.clone()], limit, cost)
    }

    /// Returns the metadata of a descriptor.
    pub(super) fn metadata(&self, item: &DescriptorPlan<'t>) -> Option<&'t Arc<Metadata>> {
        match item {
            DescriptorPlan::Limited { of, .. } => of.and_then(|node| node.metadata.as_ref()),
            _ => None,
        }
    }
}
