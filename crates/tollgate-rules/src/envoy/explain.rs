//! Explains how the descriptors of a file apply to a request.

use super::check_plan::{CheckPlan, DescriptorPlan};
use super::descriptor_tree::{DescriptorNode, DescriptorTree};
use super::{Code, Descriptor, RateLimitRequest, RateLimitResponse};
use crate::decide::ask_envoy::run;
use crate::decide::decision::Reason;
use crate::decide::explain::{LimitExplanation, millis_up};
use crate::decide::limiter::LimiterState;
use crate::matching::key_hasher::KeyHasher;
use crate::{Explanation, Request, RuleExplanation, RuleLimiter};
use tollgate::{HumanDuration, Store};
use tollgate_core::Verdict;

/// Explains how a domain that was written for Envoy decides a request, and charges nothing.
///
/// The result is none if the domain is not of that kind. Each descriptor of the request is explained
/// in place of a rule.
///
/// ```
/// use tollgate_rules::RuleLimiter;
/// use tollgate_rules::envoy::{self, Descriptor, RateLimitRequest};
///
/// # futures_lite(async {
/// let rules = "{ domain: auth, key: login, rate_limit: { unit: minute, requests: 5 } }";
/// let limiter = RuleLimiter::new(rules.parse().unwrap());
/// let descriptors = [Descriptor::new(&[("login", "ann")]), Descriptor::new(&[("logout", "ann")])];
/// let request = RateLimitRequest::new("auth", &descriptors);
/// let explanation = envoy::explain(&limiter, &request).await.unwrap();
/// assert_eq!(explanation.rules[0].name, "auth.login");
/// assert_eq!(explanation.rules[0].limits[0].remaining, 4);
/// assert!(explanation.rules[1].why_not.as_ref().unwrap().contains("logout"));
/// # });
/// # fn futures_lite(future: impl Future<Output = ()>) {
/// #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
/// #     assert!(std::pin::pin!(future).poll(&mut context).is_ready());
/// # }
/// ```
pub async fn explain<S: Store>(
    limiter: &RuleLimiter<S>,
    request: &RateLimitRequest<'_>,
) -> Option<Explanation> {
    let active = limiter.0.current.load_full();
    let tree = active.rules.tree(request.domain)?;
    Some(explain_tree(&limiter.0, (tree, &active.hasher), request).await)
}

impl DescriptorTree {
    /// Explains how this tree decides a generic request, which is one descriptor.
    pub(crate) async fn explain_request<S: Store>(
        &self,
        limiter: &LimiterState<S>,
        hasher: &KeyHasher,
        request: &Request<'_>,
    ) -> Explanation {
        let entries = self.request_entries(request);
        let pairs = entries.pairs();
        let descriptor = Descriptor { hits: Some(request.cost), ..Descriptor::new(&pairs) };
        let descriptors = [descriptor];
        let request = RateLimitRequest::new(self.domain(), &descriptors);
        explain_tree(limiter, (self, hasher), &request).await
    }
}

/// Explains how a tree decides a request.
async fn explain_tree<S: Store>(
    limiter: &LimiterState<S>,
    (tree, hasher): (&DescriptorTree, &KeyHasher),
    request: &RateLimitRequest<'_>,
) -> Explanation {
    let plan = tree.plan_hashed(request, Some(hasher)).without_charging();
    let is_disabled = limiter.current.load().rules.is_tree_disabled(tree, limiter.date());
    let plan = if is_disabled { CheckPlan::unlimited(request.descriptors.len()) } else { plan };
    let (verdicts, reason) = match run(limiter, &plan).await {
        Ok(verdicts) => (verdicts, None),
        Err(_) => (Default::default(), Some(Reason::StoreFailed)),
    };
    let response = plan.response(&verdicts, limiter.clock.now());
    let explained = request.descriptors.iter().enumerate().map(|(index, descriptor)| {
        let mut rule = explain_descriptor(tree, &plan, &verdicts, index, descriptor);
        if is_disabled {
            rule.why_not = Some("its domain is switched off".to_owned());
        }
        rule
    });
    let rules: Vec<RuleExplanation> = explained.collect();
    let denied = deciding(&response).filter(|_| response.overall == Code::OverLimit);
    let retry_after = denied.and_then(|index| response.statuses[index].retry_after);
    let rule = denied.map(|index| rules[index].name.clone());
    let allowed = response.overall == Code::Ok;
    let reason = reason.unwrap_or(match (allowed, verdicts.is_empty()) {
        (false, _) => Reason::OverLimit,
        (true, true) => Reason::Unmatched,
        (true, false) => Reason::WithinLimits,
    });
    let summary = match (&rule, retry_after, reason) {
        (None, _, Reason::StoreFailed) => "allowed: the store could not be asked".to_owned(),
        (None, _, Reason::Unmatched) => "allowed: no limit applies".to_owned(),
        (None, ..) => "allowed".to_owned(),
        (Some(rule), Some(retry), _) => {
            format!("refused by {rule}: retry in {}", HumanDuration(retry))
        }
        (Some(rule), None, _) => format!("refused by {rule}"),
    };
    Explanation {
        domain: Some(tree.domain().to_owned()),
        ip: None,
        allowed,
        reason: reason.as_str(),
        code: response.overall.http_status(),
        rule,
        wait_ms: 0,
        retry_after_ms: retry_after.map(millis_up),
        summary,
        rules,
    }
}

/// Returns the number of the last descriptor that is over its limit.
fn deciding(response: &RateLimitResponse) -> Option<usize> {
    response.statuses.iter().rposition(|status| status.code == Code::OverLimit)
}

/// Explains one descriptor of a request.
fn explain_descriptor(
    tree: &DescriptorTree,
    plan: &CheckPlan<'_>,
    verdicts: &[Verdict],
    index: usize,
    descriptor: &Descriptor<'_>,
) -> RuleExplanation {
    let written: Vec<String> =
        descriptor.entries.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let (path, node) = path_of(tree, descriptor);
    let node = node.filter(|_| descriptor.limit.is_none());
    let item = &plan.items[index];
    let why_not = match (item, node) {
        (DescriptorPlan::Free, None) => Some(match written.split_at(path.len()) {
            (_, []) => "it has no entries".to_owned(),
            ([], [first, ..]) => format!("the file has no descriptor for {first}"),
            (found, [next, ..]) => {
                format!("the file has no descriptor for {next} below {}", found.join(" "))
            }
        }),
        (DescriptorPlan::Free, Some(node)) if node.limits.is_empty() => {
            Some("its descriptor in the file has no rate_limit".to_owned())
        }
        (DescriptorPlan::Free, Some(_)) => {
            Some("its limit is replaced by that of another descriptor".to_owned())
        }
        _ => None,
    };
    let name = match (node, path.is_empty()) {
        (Some(_), _) => format!("{}.{}", tree.domain(), path.join(".")),
        _ => written.join(" "),
    };
    let mode = match node {
        Some(node) if node.shadow => "shadow",
        Some(node) if node.quota => "quota",
        _ => "enforce",
    };
    let is_unlimited = matches!(item, DescriptorPlan::Unlimited);
    RuleExplanation {
        missing: Vec::new(),
        bucket: name.clone(),
        name,
        matches: why_not.is_none(),
        why_not,
        mode: mode.to_owned(),
        file_mode: None,
        then: if is_unlimited { "allow" } else { "deny" },
        key: plan.counter_key(index).map(|key| String::from_utf8_lossy(key).into_owned()),
        banned_ms: None,
        repeated: false,
        limits: explain_limits(plan, item, verdicts),
    }
}

/// Returns the names of the descriptors of the file on the way, and the last if all entries match.
fn path_of<'t>(
    tree: &'t DescriptorTree,
    descriptor: &Descriptor<'_>,
) -> (Vec<String>, Option<&'t DescriptorNode>) {
    let mut path = Vec::new();
    let node = tree.walk(descriptor.entries, |node, _, _| {
        path.push(match &*node.value {
            "" => node.key.to_string(),
            value => format!("{}_{value}", node.key),
        });
    });
    (path, node)
}

fn explain_limits(
    plan: &CheckPlan<'_>,
    item: &DescriptorPlan<'_>,
    verdicts: &[Verdict],
) -> Vec<LimitExplanation> {
    let DescriptorPlan::Limited { steps, of } = item else { return Vec::new() };
    let explained = steps.clone().filter_map(|number| {
        let (step, verdict) = (plan.steps.get(number)?, verdicts.get(number)?);
        let counted = step.counted.get();
        let (requests, is_over) = (u64::from(counted.requests), step.is_over(verdict));
        let retry = verdict.retry_after().filter(|_| requests > 0);
        Some(LimitExplanation {
            // A limit of 0 is stored as one of 1.
            limit: match counted.limit.to_string() {
                text if requests > 0 => text,
                text => text.replacen('1', "0", 1),
            },
            from: if of.is_some() { "file" } else { "request" }.to_owned(),
            cost: step.cost,
            reserve: 0,
            allowed: !is_over,
            capacity: if requests == 0 { 0 } else { verdict.limit },
            remaining: if requests == 0 { 0 } else { verdict.remaining },
            retry_after_ms: retry.filter(|_| is_over).map(|span| millis_up(span.into())),
            reset_after_ms: millis_up(verdict.reset_after.into()),
            wait_ms: 0,
        })
    });
    explained.collect()
}
