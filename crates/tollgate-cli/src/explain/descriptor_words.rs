//! Requests to domains in the format of envoyproxy/ratelimit: `foo=ann bar=banned + category=account`.

use anyhow::{anyhow, bail};
use futures_util::FutureExt;
use tollgate::Time;
use tollgate_rules::envoy::{self, Descriptor, RateLimitRequest};
use tollgate_rules::{Explanation, RuleLimiter, Rules};

use crate::log::instant;
use crate::request_words::is_method;

/// Begins another descriptor.
const NEXT_DESCRIPTOR: &str = "+";

/// The words of a request to a domain in Envoy's format.
#[derive(Debug)]
pub(super) struct DescriptorWords<'w> {
    domain: &'w str,
    descriptors: Vec<DescriptorFields<'w>>,
    pub(super) at: Option<Time>,
}

/// One descriptor: its entries in order, and its cost if one is given.
#[derive(Debug, Default)]
struct DescriptorFields<'w> {
    entries: Vec<(&'w str, &'w str)>,
    hits: Option<u64>,
}

impl<'w> DescriptorWords<'w> {
    /// Reads the words of a request. The result is none if its domain is not in Envoy's format.
    pub(super) fn parse(
        words: &'w [String],
        rules: &'w Rules,
    ) -> anyhow::Result<Option<DescriptorWords<'w>>> {
        let named = words.iter().find_map(|word| word.strip_prefix("domain="));
        let mut domains = rules.domain_names();
        let only = domains.next().filter(|_| domains.next().is_none());
        let Some(domain) = named.or(only).filter(|domain| rules.is_envoy_domain(domain)) else {
            if words.iter().any(|word| word == NEXT_DESCRIPTOR) {
                bail!(
                    "{NEXT_DESCRIPTOR} begins another descriptor, which only domains of \
                     envoyproxy/ratelimit have; name one with domain=…"
                );
            }
            return Ok(None);
        };
        let (mut at, mut descriptors) = (None, vec![DescriptorFields::default()]);
        for word in words {
            let last = descriptors.len() - 1;
            let fields = &mut descriptors[last];
            match word.split_once('=').filter(|_| !word.starts_with('/')) {
                Some(("domain", _)) => {}
                Some(("at", time)) => {
                    let wrong = || anyhow!("at={time} is no time: write at=2026-01-31T12:00:00Z");
                    at = Some(instant(time).ok_or_else(wrong)?);
                }
                Some(("cost", cost)) => {
                    let wrong = |_| anyhow!("the cost {cost:?} is no whole number");
                    fields.hits = Some(cost.parse().map_err(wrong)?);
                }
                Some(("", value)) => bail!("\"={value}\" lacks a key"),
                Some(entry) => fields.entries.push(entry),
                None if word == NEXT_DESCRIPTOR => descriptors.push(DescriptorFields::default()),
                None if word.starts_with('/') => fields.entries.push(("path", word)),
                None if is_method(word) && !word.contains(' ') => {
                    fields.entries.push(("method", word));
                }
                None => bail!(
                    "{word:?} is no entry of a descriptor: write KEY=VALUE, as in \
                     foo=ann bar=banned + category=account"
                ),
            }
        }
        if descriptors.iter().any(|fields| fields.entries.is_empty()) {
            bail!("a descriptor has no entries: write them as KEY=VALUE");
        }
        Ok(Some(DescriptorWords { domain, descriptors, at }))
    }

    /// Explains how the domain decides the request.
    pub(super) fn explain(&self, limiter: &RuleLimiter) -> Option<Explanation> {
        let mut descriptors = Vec::with_capacity(self.descriptors.len());
        for DescriptorFields { entries, hits } in &self.descriptors {
            descriptors.push(Descriptor { hits: *hits, ..Descriptor::new(entries) });
        }
        let request = RateLimitRequest::new(self.domain, &descriptors);
        envoy::explain(limiter, &request).now_or_never().flatten()
    }
}
