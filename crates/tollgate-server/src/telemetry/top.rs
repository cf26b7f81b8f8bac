//! The busiest keys (`/v1/top`), merged from the heavy hitters of all stripes.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Telemetry;
use super::event::DecisionEvent;
use super::event_key::{self, EventKeyParts};
use super::heavy_hitters::FrequencySketch;
use super::tail::EventFilter;

/// What makes a key heavy_hitters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TopOrder {
    #[default]
    Requests,
    Denied,
    /// Requests of this minute compared with the previous one.
    Growth,
}

/// A key of `/v1/top` with its counts.
#[derive(Clone, Debug)]
pub(crate) struct TopKey {
    key: EventKeyParts,
    requests: u64,
    denied: u64,
    /// Requests per minute now, less those of the previous minute.
    growth: i64,
}

impl TopKey {
    pub(crate) fn to_json(&self) -> Value {
        let EventKeyParts { domain, rule, key, cut } = &self.key;
        let mut body = json!({
            "domain": domain,
            "rule": rule,
            "key": key,
            "requests": self.requests,
            "denied": self.denied,
            "growth": self.growth,
        });
        if *cut {
            body["key_cut"] = json!(true);
        }
        body
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct KeyCounts {
    requests_now: u64,
    requests_before: u64,
    denied: u64,
}

impl KeyCounts {
    fn requests(&self) -> u64 {
        self.requests_now.saturating_add(self.requests_before)
    }

    /// Extrapolates the unfinished minute and subtracts the previous one.
    fn growth(&self, seconds: u64) -> i64 {
        let rate = u128::from(self.requests_now) * 60 / u128::from(seconds.clamp(10, 60));
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        rate.saturating_sub(i64::try_from(self.requests_before).unwrap_or(i64::MAX))
    }
}

impl Telemetry {
    /// Returns the busiest keys of the last two minutes and the maximum error of their counts.
    pub(crate) fn top(
        &self,
        by: TopOrder,
        domain: Option<&str>,
        limit: usize,
    ) -> (Vec<TopKey>, u64) {
        let second = self.second.load(Ordering::Relaxed);
        let mut all: HashMap<Box<[u8]>, KeyCounts> = HashMap::new();
        let mut error = 0;
        for stripe in &self.stripes {
            let mut heavy_hitters = stripe.heavy_hitters.lock();
            heavy_hitters.advance_to(second / 60);
            let mut add = |sketch: &FrequencySketch, count: fn(&mut KeyCounts) -> &mut u64| {
                for (key, seen) in sketch.iter() {
                    *count(all.entry(key.into()).or_default()) += seen;
                }
            };
            add(&heavy_hitters.current.requests, |counts| &mut counts.requests_now);
            add(&heavy_hitters.previous.requests, |counts| &mut counts.requests_before);
            add(&heavy_hitters.current.denied, |counts| &mut counts.denied);
            add(&heavy_hitters.previous.denied, |counts| &mut counts.denied);
            error += heavy_hitters.current.error() + heavy_hitters.previous.error();
        }
        let seconds = second % 60 + 1;
        let rank = |counts: &KeyCounts| match by {
            TopOrder::Requests => i64::try_from(counts.requests()).unwrap_or(i64::MAX),
            TopOrder::Denied => i64::try_from(counts.denied).unwrap_or(i64::MAX),
            TopOrder::Growth => counts.growth(seconds),
        };
        let mut ranked: Vec<(Box<[u8]>, KeyCounts)> =
            all.into_iter().filter(|(_, counts)| rank(counts) > 0).collect();
        ranked.sort_by(|(one, a), (other, b)| {
            Reverse(rank(a)).cmp(&Reverse(rank(b))).then_with(|| one.cmp(other))
        });
        let to_top_key = |(key, counts): (Box<[u8]>, KeyCounts)| TopKey {
            key: event_key::decode(&key),
            requests: counts.requests(),
            denied: counts.denied,
            growth: counts.growth(seconds),
        };
        let in_domain = |top: &TopKey| domain.is_none_or(|domain| top.key.domain == domain);
        (ranked.into_iter().map(to_top_key).filter(in_domain).take(limit).collect(), error)
    }

    /// Returns the most recent sampled decisions, newest first.
    pub(crate) fn recent(&self, filter: &EventFilter, limit: usize) -> Vec<Value> {
        let mut events: Vec<DecisionEvent> = Vec::new();
        for stripe in &self.stripes {
            let heavy_hitters = stripe.heavy_hitters.lock();
            events.extend(heavy_hitters.recent().filter(|event| filter.matches(event)).cloned());
        }
        events.sort_by_key(|event| Reverse(event.at_ms()));
        events.iter().take(limit).map(DecisionEvent::to_json).collect()
    }
}
