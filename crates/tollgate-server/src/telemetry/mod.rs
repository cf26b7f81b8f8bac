//! Telemetry of decisions: metrics, heavy hitters, the live tail, sampled logs and traces.
//!
//! Every door records each decision here once, after it is made. Recording must be cheap: no shared
//! lock, no allocation, no label that a client chose. Therefore every thread counts in its own
//! [stripe](stripe). Only sampled decisions become events: in each second the first
//! [`ALWAYS`](sample::ALWAYS) of a thread, and then one in [`RATE`](sample::RATE), which counts for
//! `RATE` decisions.

mod auth;
mod counting_door;
mod decision_log;
mod descriptor_series;
mod descriptor_stats;
mod door_name;
mod event;
mod event_key;
mod exposition;
mod gateway;
mod heavy_hitters;
mod metrics;
mod missing_keys;
mod sample;
mod series;
mod series_slots;
mod settlements;
mod shed;
mod statsd;
mod stripe;
mod tail;
mod top;
mod traces;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tollgate::{Span, StoreError, StoreErrorKind, Verdict};
use tollgate_rules::envoy::{Code, RateLimitRequest, RateLimitResponse};
use tollgate_rules::{Decision, Reason};

pub(crate) use auth::AuthProblem;
pub(crate) use counting_door::CountingDoor;
pub(crate) use descriptor_stats::EnvoyError;
pub(crate) use door_name::DoorName;
pub(crate) use exposition::Exposition;
pub use statsd::StatsdAddress;
pub(crate) use stripe::DecisionOutcome;
pub(crate) use tail::{EventFilter, TailEvent, TailSubscription};
pub(crate) use top::{TopKey, TopOrder};

use crate::background::{self, BackgroundWorker};
use crate::clock;
use crate::config::TelemetryOptions;
use crate::server::StartError;
use auth::AuthProblemCounts;
use decision_log::DecisionLog;
use descriptor_stats::EnvoyCounts;
use event::DecisionEvent;
use missing_keys::MissingKeyCounts;
use series::Series;
use settlements::SettlementCounts;
use shed::ShedCounts;
use statsd::StatsdExporter;
use stripe::Stripe;
use tail::TailSubscribers;
use traces::TraceExporter;

/// The telemetry of a server.
#[derive(Debug)]
pub(crate) struct Telemetry {
    stripes: Box<[Stripe]>,
    series: Series,
    sheds: ShedCounts,
    missing_keys: MissingKeyCounts,
    settled: SettlementCounts,
    envoy: EnvoyCounts,
    statsd: Option<tokio::sync::Mutex<StatsdExporter>>,
    subscribers: Arc<TailSubscribers>,
    log: Option<DecisionLog>,
    traces: Option<TraceExporter>,
    /// Seconds since the start of the process, updated by a task.
    second: AtomicU64,
    /// Decisions made without the store, by failure mode.
    without_store: [AtomicU64; 3],
    store_errors: [AtomicU64; StoreErrorKind::ALL.len()],
    auth_problems: AuthProblemCounts,
    connections: Mutex<Vec<(&'static str, Arc<AtomicU64>)>>,
    /// The upstreams of the gateway, and whether they are healthy.
    upstreams: Mutex<Vec<(Box<str>, Arc<AtomicBool>)>>,
}

impl Telemetry {
    /// Creates the telemetry and spawns its one-second tick on the current runtime.
    pub(crate) fn new(options: &TelemetryOptions) -> Result<Arc<Telemetry>, StartError> {
        let telemetry = Arc::new(Telemetry {
            stripes: stripe::stripes(options.top_keys),
            series: Series::new(),
            sheds: ShedCounts::new(),
            missing_keys: MissingKeyCounts::new(),
            settled: SettlementCounts::default(),
            envoy: EnvoyCounts::new(),
            statsd: options.statsd.clone().map(|at| StatsdExporter::new(at).into()),
            subscribers: Arc::default(),
            log: DecisionLog::new(options),
            traces: TraceExporter::new(options)?,
            second: AtomicU64::new(now_s()),
            without_store: Default::default(),
            store_errors: Default::default(),
            auth_problems: AuthProblemCounts::default(),
            connections: Mutex::default(),
            upstreams: Mutex::default(),
        });
        let (weak, interval) = (Arc::downgrade(&telemetry), options.statsd_interval);
        background::spawn_restarting(BackgroundWorker::Statsd, move || {
            statsd::export_at_interval(weak.clone(), interval)
        });
        let weak = Arc::downgrade(&telemetry);
        background::spawn_restarting(BackgroundWorker::Telemetry, move || {
            let weak = weak.clone();
            async move {
                let mut seconds = tokio::time::interval(Duration::from_secs(1));
                loop {
                    seconds.tick().await;
                    background::panic_point(BackgroundWorker::Telemetry);
                    let Some(telemetry) = weak.upgrade() else { return };
                    telemetry.tick(now_s());
                }
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
        &self.stripes[stripe::thread_number() & (self.stripes.len() - 1)]
    }

    /// Records a decision by rules and its duration.
    #[inline]
    pub(crate) fn record_decision(
        &self,
        door: DoorName,
        decision: &Decision,
        cost: u64,
        took: Span,
    ) {
        let outcome = outcome(decision);
        let stripe = self.stripe();
        let series = self.series.for_decision(decision);
        stripe.count(series, outcome);
        self.count_shed(series, decision);
        stripe.took[door as usize].record(1, took);
        if !decision.wait.is_zero() {
            stripe.waits.record(1, decision.wait.into());
        }
        if let Some(mode) = decision.without_store() {
            self.without_store[mode as usize].fetch_add(1, Ordering::Relaxed);
        }
        let event = || DecisionEvent::from_decision(door, decision, outcome, cost);
        self.observe(stripe, outcome, took, event);
        if decision.has_incomplete_keys() {
            self.record_missing_keys(door, decision);
        }
        if decision.shadow_denied() {
            self.record_shadow_denials(door, decision, cost);
        }
    }

    /// Records each rule in shadow mode that would have refused a request, under its own name.
    #[cold]
    fn record_shadow_denials(&self, door: DoorName, decision: &Decision, cost: u64) {
        let domain = decision.domain().unwrap_or_default();
        for denial in decision.shadow_denials() {
            let outcome = DecisionOutcome::ShadowDenied;
            let stripe = self.stripe();
            stripe.count(self.series.by_name(domain, denial.rule), outcome);
            let event = || DecisionEvent::from_shadow_denial(door, domain, &denial, cost);
            self.observe(stripe, outcome, Span::ZERO, event);
        }
    }

    /// Records the outcome of a decision whose response was delayed.
    pub(crate) fn record_outcome(
        &self,
        outcome: DecisionOutcome,
        door: DoorName,
        decision: &Decision,
    ) {
        let stripe = self.stripe();
        stripe.count(self.series.for_decision(decision), outcome);
        let event = || DecisionEvent::from_decision(door, decision, outcome, 1);
        self.observe(stripe, outcome, Span::ZERO, event);
    }

    /// Records a request that was deferred without a decision, behind others of its rule and key.
    pub(crate) fn record_queued(&self, domain: &str, rule: &str, outcome: DecisionOutcome) {
        self.stripe().count(self.series.by_name(domain, rule), outcome);
    }

    /// Records a decision by an inline limit about `key`.
    #[inline]
    pub(crate) fn record_inline_limit(
        &self,
        door: DoorName,
        key: &[u8],
        verdict: &Verdict,
        cost: u64,
    ) {
        let outcome =
            if verdict.allowed { DecisionOutcome::Allowed } else { DecisionOutcome::Denied };
        let stripe = self.stripe();
        stripe.count(series::INLINE_LIMIT, outcome);
        self.observe(stripe, outcome, Span::ZERO, || {
            DecisionEvent::from_verdict(door, key, verdict, cost)
        });
    }

    /// Records a response of Envoy's rate limit service.
    ///
    /// Domain and entries come from the client, so that they become labels only where a status has a
    /// limit: then the rules contain them.
    pub(crate) fn record_envoy_response(
        &self,
        door: DoorName,
        request: &RateLimitRequest<'_>,
        answer: &RateLimitResponse,
    ) {
        let refused = answer.overall == Code::OverLimit;
        let outcome = if refused { DecisionOutcome::Denied } else { DecisionOutcome::Allowed };
        let stripe = self.stripe();
        let limited = |code| {
            let statuses = answer.statuses.iter().enumerate();
            let mut limited = statuses.filter(|(_, status)| status.current_limit.is_some());
            limited.find(|(_, status)| code == Code::Ok || status.code == code)
        };
        match limited(answer.overall) {
            None => stripe.count(series::NONE, outcome),
            Some((index, status)) => {
                let named = status.current_limit.as_ref().and_then(|limit| limit.name.as_deref());
                let rule = named.unwrap_or(request.domain);
                self.record_descriptor(door, request, index, rule, outcome, status.retry_after);
            }
        }
        for (index, status) in answer.statuses.iter().enumerate() {
            for (rule, missing) in &status.incomplete_keys {
                self.record_missing_key(door, request.domain, rule, || missing.clone());
            }
            for name in &status.shadow_denials {
                let rule = if name.is_empty() { request.domain } else { name };
                let outcome = DecisionOutcome::ShadowDenied;
                self.record_descriptor(door, request, index, rule, outcome, None);
            }
        }
    }

    /// Records the outcome of one descriptor of a request, under the name of its limit.
    fn record_descriptor(
        &self,
        door: DoorName,
        request: &RateLimitRequest<'_>,
        index: usize,
        rule: &str,
        outcome: DecisionOutcome,
        retry_after: Option<Duration>,
    ) {
        let stripe = self.stripe();
        stripe.count(self.series.by_name(request.domain, rule), outcome);
        self.observe(stripe, outcome, Span::ZERO, || {
            let descriptor = request.descriptors.get(index);
            let entries = descriptor.map_or(&[][..], |descriptor| descriptor.entries);
            let pairs: Vec<String> =
                entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let cost = descriptor.and_then(|descriptor| descriptor.hits);
            let cost = cost.unwrap_or(request.hits_addend.max(1).into());
            let key = pairs.join("|");
            let key = (request.domain, rule, key.as_bytes());
            DecisionEvent::from_envoy(door, key, outcome, cost, retry_after)
        });
    }

    /// Creates an event of a decision, if the decision is sampled, logged, traced or tailed.
    #[inline]
    fn observe(
        &self,
        stripe: &Stripe,
        outcome: DecisionOutcome,
        took: Span,
        event: impl FnOnce() -> DecisionEvent,
    ) {
        let second = self.second.load(Ordering::Relaxed);
        let weight = sample::weight(second);
        let logged = self.log.as_ref().filter(|log| log.is_sampled(outcome.is_refusal()));
        let traced = self.traces.as_ref().filter(|traces| traces.is_sampled());
        let watched = self.subscribers.has_any();
        if weight == 0 && logged.is_none() && traced.is_none() && !watched {
            return;
        }
        let event = event();
        if watched {
            self.subscribers.publish(&event);
        }
        if let Some(log) = logged {
            log.write(&event);
        }
        if let Some(traces) = traced {
            traces.send(&event, took.into());
        }
        // While a reader has the lock, a decision is not recorded. This is rare.
        if weight > 0
            && let Some(mut heavy_hitters) = stripe.heavy_hitters.try_lock()
        {
            heavy_hitters.record(second / 60, weight, event);
        }
    }

    /// Records the total duration of a batch of decisions.
    #[inline]
    pub(crate) fn record_duration(&self, door: DoorName, decisions: u64, span: Span) {
        self.stripe().took[door as usize].record(decisions, span);
    }

    /// Records the total duration of a batch of calls to the store.
    #[inline]
    pub(crate) fn record_store_duration(&self, calls: u64, span: Span) {
        self.stripe().store.record(calls, span);
    }

    /// Counts a failed call to the store. The log of the store's health reports the failure once.
    pub(crate) fn record_store_error(&self, error: &StoreError) {
        let mut kinds = StoreErrorKind::ALL.iter().zip(&self.store_errors);
        if let Some((_, count)) = kinds.find(|(kind, _)| **kind == error.kind()) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        tracing::debug!(%error, "a call to the store failed");
    }

    /// Returns the number of decisions made without the store.
    pub(crate) fn without_store(&self) -> u64 {
        self.without_store.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Registers a door and returns the counter of its open connections.
    pub(crate) fn register_door(&self, door: &'static str) -> Arc<AtomicU64> {
        let open = Arc::new(AtomicU64::new(0));
        self.connections.lock().push((door, open.clone()));
        open
    }

    /// Subscribes to the live tail; returns `None` at the maximum of subscribers.
    pub(crate) fn subscribe(&self, filter: EventFilter) -> Option<TailSubscription> {
        self.subscribers.subscribe(filter)
    }

    /// Sends the remaining traces. Blocks the thread for a short time.
    pub(crate) fn close(&self) {
        if let Some(traces) = &self.traces {
            traces.close();
        }
    }
}

#[inline]
fn outcome(decision: &Decision) -> DecisionOutcome {
    match (decision.allowed, decision.reason) {
        (false, Reason::Banned) => DecisionOutcome::Banned,
        (false, _) if decision.shed().is_some() => DecisionOutcome::Shed,
        (false, _) => DecisionOutcome::Denied,
        (true, _) if !decision.wait.is_zero() => DecisionOutcome::Delayed,
        (true, _) => DecisionOutcome::Allowed,
    }
}

/// Returns the seconds since the start of the process.
fn now_s() -> u64 {
    clock::monotonic_ms() / 1000
}

#[cfg(test)]
mod tests;
