//! What has to be asked of a store to answer a request: pure data, so that any store will do.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Span;

use super::limit::{Counted, RateLimit};
use super::tree::{Node, Tree};
use super::{Descriptor, Entries, LimitOverride, Metadata, RateLimitRequest};
use crate::rules::Request;
use crate::rules::key::{KeyBytes, KeyWriter};
use crate::{Action, Call, Check, Limit};

/// The checks of a request, and what to make of the verdicts on them.
///
/// ```
/// use tollgate::rules::{Source, envoy::{Code, Descriptor, Domains, RateLimitRequest}};
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
/// assert_eq!(plan.answer(&verdicts, store.now()).overall, Code::OverLimit);
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
#[derive(Clone, Debug)]
pub struct Plan<'t> {
    /// One for each descriptor.
    pub(super) items: SmallVec<[Item<'t>; 2]>,
    pub(super) steps: SmallVec<[Step<'t>; 2]>,
    keys: KeyBytes,
}

/// What a descriptor came to.
#[derive(Clone, Debug)]
pub(super) enum Item<'t> {
    /// No limit: nothing matches, or what does was replaced.
    Free,
    /// A limit that says there is none.
    Unlimited,
    /// Limits: these steps.
    Limited { steps: Range<usize>, of: Option<&'t Node> },
}

/// One check.
#[derive(Clone, Debug)]
pub(super) struct Step<'t> {
    key: Range<usize>,
    pub(super) counted: Limited<'t>,
    pub(super) name: Option<&'t Arc<str>>,
    cost: u64,
    pub(super) action: Action,
    /// Number of the descriptor.
    item: usize,
}

/// A limit of the file, or one the request brought along.
#[derive(Clone, Debug)]
pub(super) enum Limited<'t> {
    File(&'t Counted),
    Request(Box<Counted>),
}

impl Limited<'_> {
    pub(super) fn get(&self) -> &Counted {
        match self {
            Limited::File(counted) => counted,
            Limited::Request(counted) => counted,
        }
    }
}

/// Checks to be run together.
#[derive(Clone, Debug)]
pub struct PlannedCall<'p> {
    action: Action,
    checks: SmallVec<[Check<'p>; 2]>,
}

impl Plan<'_> {
    /// The limits that are asked, one for each verdict.
    pub(crate) fn quotas(&self) -> impl Iterator<Item = crate::Quota> {
        self.steps.iter().map(|step| step.counted.get().limit.quota())
    }
}

impl PlannedCall<'_> {
    /// The call, as a store takes it.
    pub fn as_call(&self) -> Call<'_> {
        Call { action: self.action, checks: &self.checks }
    }
}

impl Tree {
    /// What to ask a store about a request. One for another domain is not limited here.
    pub fn plan(&self, request: &RateLimitRequest<'_>) -> Plan<'_> {
        let mut plan = Plan::unlimited(request.descriptors.len());
        if *request.domain != *self.domain {
            return plan;
        }
        let found: SmallVec<[_; 4]> = request
            .descriptors
            .iter()
            .map(|descriptor| self.find(descriptor, &mut plan.keys))
            .collect();
        // Replaced limits replace others all the same.
        let limits = found.iter().flat_map(|(node, _)| node.iter().flat_map(|node| &node.limits));
        let replaced: SmallVec<[&Arc<str>; 4]> = limits.flat_map(|limit| &limit.replaces).collect();
        for (item, (descriptor, (node, key))) in request.descriptors.iter().zip(found).enumerate() {
            let asked = descriptor.asked(item, key, request);
            match descriptor.limit {
                Some(limit) => plan.add_own(&asked, &self.domain, limit),
                None => plan.add(&asked, node, &replaced),
            }
        }
        plan
    }

    /// What to ask a store about a generic request, as the one descriptor it amounts to.
    ///
    /// ```
    /// use tollgate::{MemoryStore, Request, rules::{Source, envoy::{Code, Domains}}};
    /// let file = "{ domain: auth, key: login, rate_limit: { unit: minute, requests: 1 } }";
    /// let domains = Domains::read([Source::new("auth.yaml", file)])?;
    /// let (tree, store) = (domains.get("auth").unwrap(), MemoryStore::new());
    /// let login = Request::empty().attribute("login", "ann");
    /// assert_eq!(tree.plan_of(&login).decide(&store).overall, Code::Ok);
    /// assert_eq!(tree.plan_of(&login).decide(&store).overall, Code::OverLimit);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn plan_of(&self, request: &Request<'_>) -> Plan<'_> {
        let entries = self.descriptor_of(request);
        let pairs = entries.pairs();
        let descriptor = Descriptor { hits: Some(request.cost), ..Descriptor::new(&pairs) };
        self.plan(&RateLimitRequest::new(&self.domain, &[descriptor]))
    }

    /// The entries of a generic request: `method`, `path`, `host` and `ip` if they are known, then
    /// its attributes in order.
    ///
    /// ```
    /// use tollgate::{Request, rules::{Source, envoy::Domains}};
    /// # let domains = Domains::read([Source::new("a.yaml", "{ domain: a, descriptors: [] }")])?;
    /// # let tree = domains.get("a").unwrap();
    /// let request = Request::new("POST", "/login?next=/").attribute("user", "ann");
    /// let entries = tree.descriptor_of(&request);
    /// assert_eq!(entries.pairs()[..], [("method", "POST"), ("path", "/login"), ("user", "ann")]);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    pub fn descriptor_of<'r>(&self, request: &'r Request<'_>) -> Entries<'r> {
        Entries::of(request)
    }

    /// The descriptor of the file that limits; one that brings its own limit needs none. Writes
    /// whose counter it is: all entries, so that nobody can pose as another. A shared entry is what
    /// is written in the file instead of the value, behind a mark no value has.
    fn find(
        &self,
        descriptor: &Descriptor<'_>,
        keys: &mut KeyBytes,
    ) -> (Option<&Node>, Range<usize>) {
        let start = keys.len();
        let mut writer = KeyWriter::new(keys);
        if descriptor.limit.is_some() {
            descriptor.write_entries(&mut writer);
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
                false => writer.text(&[value]),
            }
        });
        (node, start..keys.len())
    }
}

impl Descriptor<'_> {
    fn write_entries(&self, writer: &mut KeyWriter<'_>) {
        for (key, value) in self.entries {
            writer.text(&[key]);
            writer.text(&[value]);
        }
    }

    fn asked(&self, item: usize, key: Range<usize>, request: &RateLimitRequest<'_>) -> Asked {
        Asked { item, key, cost: self.cost(request.hits_addend), negative: self.negative }
    }
}

/// What one descriptor asks for.
struct Asked {
    /// Its number.
    item: usize,
    key: Range<usize>,
    cost: u64,
    negative: bool,
}

impl Asked {
    fn action(&self, extended: bool) -> Action {
        match (self.cost, self.negative) {
            (0, _) => Action::Peek,
            (_, true) => Action::Refund,
            _ if extended => Action::Take { max_wait: Span::ZERO },
            _ => Action::Spend,
        }
    }
}

impl<'t> Plan<'t> {
    /// A plan for so many descriptors, none of which is limited.
    pub(crate) fn unlimited(descriptors: usize) -> Plan<'t> {
        let items = smallvec::smallvec![Item::Free; descriptors];
        Plan { items, steps: SmallVec::new(), keys: KeyBytes::new() }
    }

    /// A plan for the descriptors that bring a limit of their own; the others are not limited.
    pub(crate) fn of_overrides(request: &RateLimitRequest<'_>) -> Plan<'t> {
        let mut plan = Plan::unlimited(request.descriptors.len());
        for (item, descriptor) in request.descriptors.iter().enumerate() {
            let Some(limit) = descriptor.limit else { continue };
            let start = plan.keys.len();
            descriptor.write_entries(&mut KeyWriter::new(&mut plan.keys));
            let asked = descriptor.asked(item, start..plan.keys.len(), request);
            plan.add_own(&asked, request.domain, limit);
        }
        plan
    }

    /// Adds the limits of the file.
    fn add(&mut self, asked: &Asked, node: Option<&'t Node>, replaced: &[&Arc<str>]) {
        let Some(node) = node else { return };
        let first = self.steps.len();
        let is_replaced =
            |limit: &RateLimit| limit.name.as_ref().is_some_and(|name| replaced.contains(&name));
        for limit in &node.limits {
            match &limit.counted {
                None => self.items[asked.item] = Item::Unlimited,
                Some(_) if is_replaced(limit) => {}
                Some(counted) => {
                    let name = limit.name.as_ref();
                    self.push(asked, Limited::File(counted), name, asked.action(node.extended));
                }
            }
        }
        if self.steps.len() > first {
            let steps = first..self.steps.len();
            self.items[asked.item] = Item::Limited { steps, of: Some(node) };
        }
    }

    /// Adds the limit that the request brought along.
    fn add_own(&mut self, asked: &Asked, domain: &str, limit: LimitOverride) {
        // Every unit and every amount of 32 bits makes a limit.
        let Ok(counted) = Counted::plain(domain, limit.requests_per_unit, limit.unit) else {
            return;
        };
        let step = self.steps.len();
        self.push(asked, Limited::Request(Box::new(counted)), None, asked.action(false));
        self.items[asked.item] = Item::Limited { steps: step..step + 1, of: None };
    }

    fn push(
        &mut self,
        asked: &Asked,
        counted: Limited<'t>,
        name: Option<&'t Arc<str>>,
        action: Action,
    ) {
        let Asked { item, cost, .. } = *asked;
        self.steps.push(Step { key: asked.key.clone(), counted, name, cost, action, item });
    }

    /// The same, but what would be charged is only asked about.
    pub(crate) fn without_charging(mut self) -> Plan<'t> {
        for step in &mut self.steps {
            if matches!(step.action, Action::Take { .. } | Action::Spend) {
                step.action = Action::Try { max_wait: Span::ZERO };
            }
        }
        self
    }

    /// The same counters, with something else done to them.
    pub(crate) fn doing(mut self, action: Action, cost: u64) -> Plan<'t> {
        for step in &mut self.steps {
            (step.action, step.cost) = (action, cost);
        }
        self
    }

    /// Whose counter a descriptor is counted by, if any.
    pub(crate) fn key_of(&self, item: usize) -> Option<&[u8]> {
        let step = self.steps.iter().find(|step| step.item == item)?;
        Some(&self.keys[step.key.clone()])
    }

    /// The calls to run, in order. Each answers its checks in order; all answers, one after the
    /// other, are what [`answer`](Plan::answer) wants.
    pub fn calls(&self) -> impl Iterator<Item = PlannedCall<'_>> {
        // What is all or none is so for each descriptor; the rest goes together.
        let goes_with = |a: &Step<'_>, b: &Step<'_>| {
            a.action == b.action && (a.item == b.item || !matches!(a.action, Action::Take { .. }))
        };
        self.steps.chunk_by(goes_with).map(|steps| PlannedCall {
            action: steps[0].action,
            checks: steps.iter().map(|step| self.check(step)).collect(),
        })
    }

    fn check<'p>(&'p self, step: &'p Step<'t>) -> Check<'p> {
        let Counted { bucket, limit, .. } = step.counted.get();
        let limit: &Limit = limit;
        Check::new(*bucket, &self.keys[step.key.clone()], limit, step.cost)
    }

    /// The metadata of the descriptor behind an item.
    pub(super) fn metadata(&self, item: &Item<'t>) -> Option<&'t Arc<Metadata>> {
        match item {
            Item::Limited { of, .. } => of.and_then(|node| node.metadata.as_ref()),
            _ => None,
        }
    }
}
