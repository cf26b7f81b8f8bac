//! What has to be asked of a store to answer a request: pure data, so that any store will do.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;
use tollgate_core::Span;

use super::limit::{Counted, RateLimit};
use super::tree::{Node, Tree};
use super::{Descriptor, Entries, Metadata, RateLimitRequest};
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
        let found: SmallVec<[_; 4]> =
            request.descriptors.iter().map(|descriptor| self.find(descriptor)).collect();
        // Replaced limits replace others all the same.
        let limits = found.iter().flat_map(|node| node.iter().flat_map(|node| &node.limits));
        let replaced: SmallVec<[&Arc<str>; 4]> = limits.flat_map(|limit| &limit.replaces).collect();
        for (item, (descriptor, node)) in request.descriptors.iter().zip(found).enumerate() {
            let cost = descriptor.hits.unwrap_or(u64::from(request.hits_addend.max(1)));
            plan.add(self, item, descriptor, cost, node, &replaced);
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

    /// The descriptor of the file that limits; one that brings its own limit needs none.
    fn find(&self, descriptor: &Descriptor<'_>) -> Option<&Node> {
        match descriptor.limit {
            Some(_) => None,
            None => self.walk(descriptor.entries, |_, _, _| ()),
        }
    }

    /// Writes whose counter it is: the entries, so that nobody can pose as another. A shared
    /// entry is what is written in the file instead of the value, behind a mark no value has.
    fn write_key(&self, keys: &mut KeyBytes, descriptor: &Descriptor<'_>) -> Range<usize> {
        let start = keys.len();
        let mut writer = KeyWriter::new(keys);
        let entry =
            |writer: &mut KeyWriter<'_>, node: Option<&Node>, (key, value): (&str, &str)| {
                writer.text(&[key]);
                match node.filter(|node| node.shared) {
                    Some(node) => {
                        writer.missing();
                        writer.text(&[&node.key]);
                        writer.text(&[&node.value]);
                    }
                    None => writer.text(&[value]),
                }
            };
        match descriptor.limit {
            Some(_) => descriptor.entries.iter().for_each(|pair| entry(&mut writer, None, *pair)),
            None => {
                self.walk(descriptor.entries, |node, _, pair| entry(&mut writer, Some(node), pair));
            }
        }
        start..keys.len()
    }
}

impl<'t> Plan<'t> {
    /// A plan for so many descriptors, none of which is limited.
    pub(super) fn unlimited(descriptors: usize) -> Plan<'t> {
        let items = smallvec::smallvec![Item::Free; descriptors];
        Plan { items, steps: SmallVec::new(), keys: KeyBytes::new() }
    }

    fn add(
        &mut self,
        tree: &Tree,
        item: usize,
        descriptor: &Descriptor<'_>,
        cost: u64,
        node: Option<&'t Node>,
        replaced: &[&Arc<str>],
    ) {
        let first = self.steps.len();
        let extended = node.is_some_and(|node| node.extended);
        let action = match (cost, descriptor.negative) {
            (0, _) => Action::Peek,
            (_, true) => Action::Refund,
            _ if extended => Action::Take { max_wait: Span::ZERO },
            _ => Action::Spend,
        };
        let mut limits: SmallVec<[(Limited<'t>, Option<&'t Arc<str>>); 2]> = SmallVec::new();
        if let Some(limit) = descriptor.limit {
            // No length of any unit and no amount of 32 bits is refused.
            let counted = Counted::plain(&tree.domain, limit.requests_per_unit, limit.unit);
            limits.extend(counted.ok().map(|counted| (Limited::Request(Box::new(counted)), None)));
        }
        let is_replaced = |limit: &RateLimit| {
            limit.name.as_ref().is_some_and(|name| replaced.iter().any(|other| *other == name))
        };
        for limit in node.iter().flat_map(|node| &node.limits) {
            match &limit.counted {
                None => self.items[item] = Item::Unlimited,
                Some(_) if is_replaced(limit) => {}
                Some(counted) => limits.push((Limited::File(counted), limit.name.as_ref())),
            }
        }
        if limits.is_empty() {
            return;
        }
        let key = tree.write_key(&mut self.keys, descriptor);
        let steps = limits.into_iter().map(|(counted, name)| Step {
            key: key.clone(),
            counted,
            name,
            cost,
            action,
            item,
        });
        self.steps.extend(steps);
        self.items[item] = Item::Limited { steps: first..self.steps.len(), of: node };
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
