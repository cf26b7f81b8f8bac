//! Who is noisy, put together from what every stripe has noticed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Telemetry;
use super::event::Event;
use super::noisy::Sketch;
use super::subject::{self, Parts};
use super::tail::Wanted;

/// What makes a key noisy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum By {
    #[default]
    Requests,
    Denied,
    /// This minute against the one before.
    Growth,
}

/// A key and how noisy it is.
#[derive(Clone, Debug)]
pub(crate) struct Noise {
    subject: Parts,
    requests: u64,
    denied: u64,
    /// Requests a minute now, less those of the minute before.
    growth: i64,
}

impl Noise {
    pub(crate) fn to_json(&self) -> Value {
        let Parts { domain, rule, key, cut } = &self.subject;
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
struct Counts {
    requests_now: u64,
    requests_before: u64,
    denied: u64,
}

impl Counts {
    fn requests(&self) -> u64 {
        self.requests_now.saturating_add(self.requests_before)
    }

    /// The minute is not over: what it would come to.
    fn growth(&self, seconds: u64) -> i64 {
        let rate = u128::from(self.requests_now) * 60 / u128::from(seconds.clamp(10, 60));
        let rate = i64::try_from(rate).unwrap_or(i64::MAX);
        rate.saturating_sub(i64::try_from(self.requests_before).unwrap_or(i64::MAX))
    }
}

impl Telemetry {
    /// The noisiest keys of this minute and the one before, and by how much their counts may be
    /// less than the truth.
    pub(crate) fn top(&self, by: By, domain: Option<&str>, limit: usize) -> (Vec<Noise>, u64) {
        let second = self.second.load(Ordering::Relaxed);
        let mut all: HashMap<Box<[u8]>, Counts> = HashMap::new();
        let mut error = 0;
        for stripe in &self.stripes {
            let mut noisy = stripe.noisy.lock();
            noisy.turn_to(second / 60);
            let mut add = |sketch: &Sketch, count: fn(&mut Counts) -> &mut u64| {
                for (key, seen) in sketch.iter() {
                    *count(all.entry(key.into()).or_default()) += seen;
                }
            };
            add(&noisy.current.requests, |counts| &mut counts.requests_now);
            add(&noisy.previous.requests, |counts| &mut counts.requests_before);
            add(&noisy.current.denied, |counts| &mut counts.denied);
            add(&noisy.previous.denied, |counts| &mut counts.denied);
            error += noisy.current.error() + noisy.previous.error();
        }
        let seconds = second % 60 + 1;
        let rank = |counts: &Counts| match by {
            By::Requests => i64::try_from(counts.requests()).unwrap_or(i64::MAX),
            By::Denied => i64::try_from(counts.denied).unwrap_or(i64::MAX),
            By::Growth => counts.growth(seconds),
        };
        let mut ranked: Vec<(Box<[u8]>, Counts)> =
            all.into_iter().filter(|(_, counts)| rank(counts) > 0).collect();
        ranked.sort_by(|(one, a), (other, b)| {
            Reverse(rank(a)).cmp(&Reverse(rank(b))).then_with(|| one.cmp(other))
        });
        let noise = |(key, counts): (Box<[u8]>, Counts)| Noise {
            subject: subject::parts(&key),
            requests: counts.requests(),
            denied: counts.denied,
            growth: counts.growth(seconds),
        };
        let of_domain = |noise: &Noise| domain.is_none_or(|domain| noise.subject.domain == domain);
        (ranked.into_iter().map(noise).filter(of_domain).take(limit).collect(), error)
    }

    /// The last decisions that were looked at closely, the newest first.
    pub(crate) fn recent(&self, wanted: &Wanted, limit: usize) -> Vec<Value> {
        let mut events: Vec<Event> = Vec::new();
        for stripe in &self.stripes {
            let noisy = stripe.noisy.lock();
            events.extend(noisy.recent().filter(|event| wanted.covers(event)).cloned());
        }
        events.sort_by_key(|event| Reverse(event.at_ms()));
        events.iter().take(limit).map(Event::to_json).collect()
    }
}
