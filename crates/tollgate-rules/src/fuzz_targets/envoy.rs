//! Reads any text as a file of Envoy's rate limit service, and decides any descriptors.
//!
//! Each line is a descriptor: `key=value` for each entry, outermost first, and optionally `hits:3`,
//! `negative` and `limit:5/minute`.

use super::consistency::ready;
use super::{check_findings, parts};
use crate::envoy::{Code, Descriptor, LimitOverride, RateLimitRequest, Unit, decide};
use crate::{Request, RuleLimiter, Rules, Source};
use tollgate::testing::ManualClock;

/// Reads any text as a file of Envoy's rate limit service, and decides any descriptors.
pub fn envoy(bytes: &[u8]) {
    let Ok(input) = std::str::from_utf8(bytes) else { return };
    let (text, lines) = parts(input);
    let rules = match Rules::read([Source::new("fuzz.yaml", text)]) {
        Ok(rules) => rules,
        Err(found) => return check_findings(&found, text),
    };
    check_findings(rules.warnings(), text);
    let Some(domain) = rules.domain_names().next() else { return };
    let lines: Vec<DescriptorLine<'_>> = lines.take(8).map(DescriptorLine::read).collect();
    let descriptors: Vec<Descriptor<'_>> = lines.iter().map(DescriptorLine::descriptor).collect();
    let clock = ManualClock::new();
    let limiter = || RuleLimiter::builder().clock(&clock).build(rules.clone());
    let (one, other) = (limiter(), limiter());
    for hits_addend in [0, 1, text.len() as u32, u32::MAX] {
        let request =
            RateLimitRequest { hits_addend, ..RateLimitRequest::new(domain, &descriptors) };
        check_decision(&one, &other, &request);
    }
    let entries = lines.iter().flat_map(|line| &line.entries);
    let request = Request::new("GET", "/").domain(domain);
    let request = entries.fold(request, |request, (key, value)| request.attribute(key, *value));
    assert_eq!(
        format!("{:?}", one.decide_now(&request)),
        format!("{:?}", other.decide_now(&request))
    );
}

fn check_decision(one: &RuleLimiter, other: &RuleLimiter, request: &RateLimitRequest<'_>) {
    let [response, same] = [one, other]
        .map(|limiter| ready(decide(limiter, request)).expect("the memory store does not fail"));
    assert_eq!(response, same);
    assert_eq!(response.statuses.len(), request.descriptors.len());
    let over = response.statuses.iter().any(|status| status.code == Code::OverLimit);
    assert!(over || response.overall == Code::Ok, "{response:?}");
    for status in response.statuses.iter().filter(|status| status.code == Code::OverLimit) {
        assert_eq!((status.limit_remaining, status.near_limit), (0, false), "{response:?}");
    }
}

/// A line of the input.
struct DescriptorLine<'i> {
    entries: Vec<(&'i str, &'i str)>,
    hits: Option<u64>,
    negative: bool,
    limit: Option<LimitOverride>,
}

impl<'i> DescriptorLine<'i> {
    fn read(line: &'i str) -> DescriptorLine<'i> {
        let mut read =
            DescriptorLine { entries: Vec::new(), hits: None, negative: false, limit: None };
        for word in line.split_whitespace() {
            if let Some((key, value)) = word.split_once('=') {
                read.entries.push((key, value));
            } else if let Some(hits) = word.strip_prefix("hits:") {
                read.hits = hits.parse().ok();
            } else if let Some(limit) = word.strip_prefix("limit:") {
                read.limit = limit_override(limit);
            } else {
                read.negative = word == "negative";
            }
        }
        read
    }

    fn descriptor(&self) -> Descriptor<'_> {
        let DescriptorLine { hits, negative, limit, .. } = *self;
        Descriptor { hits, negative, limit, ..Descriptor::new(&self.entries) }
    }
}

fn limit_override(text: &str) -> Option<LimitOverride> {
    let (requests, unit) = text.split_once('/')?;
    Some(LimitOverride { requests_per_unit: requests.parse().ok()?, unit: Unit::named(unit)? })
}
