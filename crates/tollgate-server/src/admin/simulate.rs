//! Simulation of requests against rules in virtual time, without touching the active rules.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::Span;
use tollgate::testing::ManualClock;
use tollgate_rules::{Admission, Decision, Request, RuleLimiter, Rules, Source};

use crate::bundle::BundleError;
use crate::clock;
use crate::headers::millis_up;
use crate::problem::{Problem, Result};
use crate::rules_service::extract::JsonBody;
use crate::server::Context;

/// The maximum number of entries in `requests`.
const MAX_STEPS: usize = 10_000;
/// The maximum number of decisions.
const MAX_DECISIONS: u64 = 1_000_000;
/// The maximum duration of a simulation.
const MAX_DURATION: Duration = Duration::from_secs(2);
/// The number of decisions between two checks of the duration.
const CHECK_INTERVAL: u64 = 256;
/// The maximum number of keys in the simulation's store.
const MAX_KEYS: u64 = 100_000;
/// The maximum memory of the simulation's store, in bytes.
const MAX_MEMORY: u64 = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simulation {
    /// A rules file. The default is the active rules.
    #[serde(default)]
    rules: Option<String>,
    requests: Vec<SimulatedRequest>,
}

/// A request that is sent once, or several times at the same moment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SimulatedRequest {
    /// The request in the syntax of `tollgate explain`: `POST /login ip=203.0.113.7`.
    request: String,
    /// The time since the beginning. The default is the time of the previous request.
    #[serde(default)]
    at: Option<String>,
    #[serde(default)]
    times: Option<u64>,
    #[serde(default)]
    cost: Option<u64>,
    #[serde(default)]
    domain: Option<String>,
}

pub(super) async fn simulate(
    State(context): State<Context>,
    JsonBody(simulation): JsonBody<Simulation>,
) -> Result<Json<Value>> {
    let active = context.decisions.limiter().rules();
    let running = tokio::task::spawn_blocking(move || simulation.run(active));
    let failed = |_| Problem::busy("the simulation was aborted");
    running.await.map_err(failed)?.map(Json)
}

impl Simulation {
    fn run(self, active: Rules) -> Result<Value> {
        let rules = match self.rules {
            None => active,
            Some(text) => Rules::read([Source::new("rules", &text)]).map_err(BundleError::from)?,
        };
        let decisions = self.requests.iter().map(|step| step.times.unwrap_or(1));
        let decisions = decisions.fold(0, u64::saturating_add);
        if self.requests.len() > MAX_STEPS || decisions > MAX_DECISIONS {
            let detail = format!(
                "a simulation has at most {MAX_STEPS} requests and {MAX_DECISIONS} decisions"
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        }
        let clock = ManualClock::new();
        let builder = RuleLimiter::builder().clock(&clock);
        let builder = builder.max_keys(MAX_KEYS).max_memory(MAX_MEMORY);
        let limiter = builder.build(rules);
        let mut budget = TimeBudget::new();
        let start = clock.now();
        let mut results = Vec::with_capacity(self.requests.len());
        for (number, step) in self.requests.iter().enumerate() {
            let wrong = |why: String| Problem::bad_request(format!("requests[{number}]: {why}"));
            if let Some(at) = &step.at {
                clock.set(start + moment(at).map_err(wrong)?);
            }
            let words: Vec<&str> = step.request.split_whitespace().collect();
            let request = Request::from_words(words).map_err(wrong)?;
            let request = match &step.domain {
                Some(domain) => request.domain(domain),
                None => request,
            };
            let request = request.cost(step.cost.unwrap_or(1));
            let mut allowed = 0;
            let mut last = None;
            let times = step.times.unwrap_or(1);
            for _ in 0..times {
                budget.spend()?;
                let decision = limiter.decide_now(&request);
                // A step has no end, so its permits stay taken.
                decision.admission().into_iter().for_each(Admission::detach);
                allowed += u64::from(decision.allowed);
                last = Some(decision);
            }
            results.push(result(allowed, times, last.as_ref()));
        }
        Ok(json!({ "results": results, "decisions": decisions }))
    }
}

fn moment(text: &str) -> Result<Span, String> {
    let since: SignedDuration =
        text.parse().map_err(|_| format!("`at` is a time such as 12s or 1m 30s, not {text:?}"))?;
    let since = Duration::try_from(since).map_err(|_| "`at` is before the beginning".to_owned())?;
    Ok(since.into())
}

/// Describes the outcome of a request and its last decision.
fn result(allowed: u64, times: u64, last: Option<&Decision>) -> Value {
    let mut body = json!({ "allowed": allowed, "denied": times - allowed });
    if let Some(last) = last {
        let tightest = last.tightest();
        body["rule"] = json!(last.rule());
        body["key"] = json!(last.key());
        body["code"] = json!(last.code);
        body["reason"] = json!(last.reason.as_str());
        body["retry_after_ms"] = json!(last.retry_after.map(millis_up));
        body["wait_ms"] = json!(millis_up(last.wait));
        body["remaining"] = json!(tightest.map(|limit| limit.verdict.remaining));
    }
    body
}

/// The remaining time of a simulation.
struct TimeBudget {
    began_ms: u64,
    decisions: u64,
}

impl TimeBudget {
    fn new() -> TimeBudget {
        TimeBudget { began_ms: clock::monotonic_ms(), decisions: 0 }
    }

    fn spend(&mut self) -> Result<()> {
        self.decisions += 1;
        let spent = || clock::monotonic_ms().saturating_sub(self.began_ms);
        if self.decisions.is_multiple_of(CHECK_INTERVAL)
            && u128::from(spent()) > MAX_DURATION.as_millis()
        {
            let detail = format!("a simulation may take {MAX_DURATION:?}; send fewer requests");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too-long", detail));
        }
        Ok(())
    }
}
