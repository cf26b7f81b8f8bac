//! What is told about decisions: metrics, who is noisy, the live tail, sampled logs and traces.
//!
//! Every door reports each decision here once, after it is made. It must cost next to nothing: no
//! lock that all share, no allocation, no label that a client chose. So every thread counts in a
//! [stripe](stripe) of its own, and only a sample of the decisions, once there are many, is looked
//! at more closely: of the first [`ALL`](sample::ALL) of a thread in a second all, of the rest one in
//! [`ONE_IN`](sample::ONE_IN), which then counts for as many.

mod doors;
mod event;
mod exposition;
mod log;
mod noisy;
mod passed;
mod report;
mod sample;
mod series;
mod settled;
mod shed;
mod stripe;
mod subject;
mod tail;
mod top;
mod traces;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::rules::envoy::{Code, RateLimitAnswer, RateLimitRequest};
use tollgate::rules::{Decision, Reason};
use tollgate::{Span, StoreError, StoreErrorKind, Verdict};

pub(crate) use doors::Counted;
pub(crate) use exposition::Exposition;
pub(crate) use stripe::Outcome;
pub(crate) use tail::{Seen, Wanted, Watch};
pub(crate) use top::{By, Noise};

use crate::clock;
use crate::config::TelemetryOptions;
use crate::server::StartError;
use event::Event;
use log::DecisionLog;
use series::Series;
use settled::SettledCounts;
use shed::Sheds;
use stripe::Stripe;
use tail::Watchers;
use traces::Traces;

/// A way in, as metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum DoorName {
    /// Decisions asked for by HTTP.
    Http,
    /// Forward-auth.
    Auth,
    /// Envoy's rate limit service, by gRPC or `POST /json`.
    Grpc,
    /// The Redis protocol.
    Resp,
    /// The reverse proxy.
    Gateway,
}

impl DoorName {
    const ALL: [DoorName; 5] =
        [DoorName::Http, DoorName::Auth, DoorName::Grpc, DoorName::Resp, DoorName::Gateway];

    /// Its name in metrics and logs.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            DoorName::Http => "http",
            DoorName::Auth => "auth",
            DoorName::Grpc => "grpc",
            DoorName::Resp => "resp",
            DoorName::Gateway => "gateway",
        }
    }
}

/// What becomes of every decision beside its answer.
#[derive(Debug)]
pub(crate) struct Telemetry {
    stripes: Box<[Stripe]>,
    series: Series,
    sheds: Sheds,
    settled: SettledCounts,
    watchers: Arc<Watchers>,
    log: Option<DecisionLog>,
    traces: Option<Traces>,
    /// Seconds of this process, moved on by a task.
    second: AtomicU64,
    /// Decisions without the store, by what the rules do then.
    without_store: [AtomicU64; 3],
    store_errors: [AtomicU64; StoreErrorKind::ALL.len()],
    connections: Mutex<Vec<(&'static str, Arc<AtomicU64>)>>,
    /// Upstreams of the gateway, and whether they are well.
    upstreams: Mutex<Vec<(Box<str>, Arc<AtomicBool>)>>,
}

impl Telemetry {
    /// Must be called within a runtime, which does what is done every second.
    pub(crate) fn new(options: &TelemetryOptions) -> Result<Arc<Telemetry>, StartError> {
        let telemetry = Arc::new(Telemetry {
            stripes: stripe::stripes(options.top_keys),
            series: Series::new(),
            sheds: Sheds::new(),
            settled: SettledCounts::default(),
            watchers: Arc::default(),
            log: DecisionLog::new(options),
            traces: Traces::new(options)?,
            second: AtomicU64::new(now_s()),
            without_store: Default::default(),
            store_errors: Default::default(),
            connections: Mutex::default(),
            upstreams: Mutex::default(),
        });
        let weak = Arc::downgrade(&telemetry);
        tokio::spawn(async move {
            let mut seconds = tokio::time::interval(Duration::from_secs(1));
            loop {
                seconds.tick().await;
                let Some(telemetry) = weak.upgrade() else { return };
                telemetry.tick(now_s());
            }
        });
        Ok(telemetry)
    }

    fn tick(&self, second: u64) {
        self.second.store(second, Ordering::Relaxed);
        if let Some(log) = &self.log {
            log.tick();
        }
    }

    #[inline]
    fn stripe(&self) -> &Stripe {
        &self.stripes[stripe::this_thread() & (self.stripes.len() - 1)]
    }

    /// Rules decided, and took this long.
    #[inline]
    pub(crate) fn decided(&self, door: DoorName, decision: &Decision, cost: u64, took: Span) {
        let outcome = outcome(decision);
        let stripe = self.stripe();
        let series = self.series.of(decision);
        stripe.count(series, outcome);
        self.count_shed(series, decision);
        stripe.took[door as usize].record(1, took);
        if !decision.wait.is_zero() {
            stripe.waits.record(1, decision.wait.into());
        }
        if let Some(mode) = decision.without_store() {
            self.without_store[mode as usize].fetch_add(1, Ordering::Relaxed);
        }
        let event = || Event::of_decision(door, decision, outcome, cost);
        self.look(stripe, outcome, took, event);
    }

    /// What became of a decision that was not told at once.
    pub(crate) fn turned_out(&self, outcome: Outcome, door: DoorName, decision: &Decision) {
        let stripe = self.stripe();
        stripe.count(self.series.of(decision), outcome);
        let event = || Event::of_decision(door, decision, outcome, 1);
        self.look(stripe, outcome, Span::ZERO, event);
    }

    /// A request went into a line of a rule without a decision, because others wait there.
    pub(crate) fn stood_in_line(&self, domain: &str, rule: &str, outcome: Outcome) {
        self.stripe().count(self.series.named(domain, rule), outcome);
    }

    /// A limit that the caller brought along decided about `key`.
    #[inline]
    pub(crate) fn limited(&self, door: DoorName, key: &[u8], verdict: &Verdict, cost: u64) {
        let outcome = if verdict.allowed { Outcome::Allowed } else { Outcome::Denied };
        let stripe = self.stripe();
        stripe.count(series::BROUGHT, outcome);
        self.look(stripe, outcome, Span::ZERO, || Event::of_verdict(door, key, verdict, cost));
    }

    /// Envoy was answered. The domain and the entries are the client's: only where a status has a
    /// limit are they known to the rules.
    pub(crate) fn enveloped(
        &self,
        door: DoorName,
        request: &RateLimitRequest<'_>,
        answer: &RateLimitAnswer,
    ) {
        let refused = answer.overall == Code::OverLimit;
        let outcome = if refused { Outcome::Denied } else { Outcome::Allowed };
        let stripe = self.stripe();
        let limited = |code| {
            let statuses = answer.statuses.iter().enumerate();
            let mut limited = statuses.filter(|(_, status)| status.current_limit.is_some());
            limited.find(|(_, status)| code == Code::Ok || status.code == code)
        };
        let Some((index, status)) = limited(answer.overall) else {
            return stripe.count(series::NONE, outcome);
        };
        let named = status.current_limit.as_ref().and_then(|limit| limit.name.as_deref());
        let (domain, rule) = (request.domain, named.unwrap_or(request.domain));
        stripe.count(self.series.named(domain, rule), outcome);
        self.look(stripe, outcome, Span::ZERO, || {
            let descriptor = request.descriptors.get(index);
            let entries = descriptor.map_or(&[][..], |descriptor| descriptor.entries);
            let pairs: Vec<String> =
                entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let cost = descriptor.and_then(|descriptor| descriptor.hits);
            let cost = cost.unwrap_or(request.hits_addend.max(1).into());
            let key = pairs.join("|");
            let subject = (domain, rule, key.as_bytes());
            Event::of_envoy(door, subject, outcome, cost, status.retry_after)
        });
    }

    /// Looks at a decision more closely, if it is in the sample or somebody wants to see it.
    #[inline]
    fn look(&self, stripe: &Stripe, outcome: Outcome, took: Span, event: impl FnOnce() -> Event) {
        let second = self.second.load(Ordering::Relaxed);
        let weight = sample::weight(second);
        let logged = self.log.as_ref().filter(|log| log.wants(outcome.is_refusal()));
        let traced = self.traces.as_ref().filter(|traces| traces.wants());
        let watched = self.watchers.are_there();
        if weight == 0 && logged.is_none() && traced.is_none() && !watched {
            return;
        }
        let event = event();
        if watched {
            self.watchers.show(&event);
        }
        if let Some(log) = logged {
            log.write(&event);
        }
        if let Some(traces) = traced {
            traces.send(&event, took.into());
        }
        // Who finds it taken, by somebody who reads, goes on: one in very many.
        if weight > 0
            && let Some(mut noisy) = stripe.noisy.try_lock()
        {
            noisy.note(second / 60, weight, event);
        }
    }

    /// So many decisions were made at once and took this long together.
    #[inline]
    pub(crate) fn took(&self, door: DoorName, decisions: u64, span: Span) {
        self.stripe().took[door as usize].record(decisions, span);
    }

    /// The same of the store alone.
    #[inline]
    pub(crate) fn store_took(&self, calls: u64, span: Span) {
        self.stripe().store.record(calls, span);
    }

    /// The store did not answer. Logged by whoever watches it, once.
    pub(crate) fn store_failed(&self, error: &StoreError) {
        let mut kinds = StoreErrorKind::ALL.iter().zip(&self.store_errors);
        if let Some((_, count)) = kinds.find(|(kind, _)| **kind == error.kind()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(%error, "the store");
    }

    /// How many decisions were made without the store.
    pub(crate) fn without_store(&self) -> u64 {
        self.without_store.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The counter of the connections of a door.
    pub(crate) fn connections_of(&self, door: &'static str) -> Arc<AtomicU64> {
        let open = Arc::new(AtomicU64::new(0));
        self.connections.lock().push((door, open.clone()));
        open
    }

    /// Begins to watch decisions; none if too many do already.
    pub(crate) fn watch(&self, wanted: Wanted) -> Option<Watch> {
        self.watchers.join(wanted)
    }

    /// Sends what is left. Blocks the thread, for a moment.
    pub(crate) fn close(&self) {
        if let Some(traces) = &self.traces {
            traces.close();
        }
    }
}

#[inline]
fn outcome(decision: &Decision) -> Outcome {
    match (decision.allowed, decision.reason) {
        (false, Reason::Banned) => Outcome::Banned,
        (false, _) if decision.shed().is_some() => Outcome::Shed,
        (false, _) => Outcome::Denied,
        (true, _) if decision.shadow_denied() => Outcome::ShadowDenied,
        (true, _) if !decision.wait.is_zero() => Outcome::Delayed,
        (true, _) => Outcome::Allowed,
    }
}

/// Seconds of this process.
fn now_s() -> u64 {
    clock::monotonic_ms() / 1000
}

#[cfg(test)]
mod tests;
