//! What rules would make of requests, under virtual time: nothing that is in force is touched.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::rules::{Decision, Rules, Source};
use tollgate::testing::ManualClock;
use tollgate::{Limiter, Request, Span};

use crate::bundle::BundleError;
use crate::clock;
use crate::headers::millis_up;
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::Document;
use crate::server::Context;

/// What one simulation may do.
const MOST_STEPS: usize = 10_000;
const MOST_DECISIONS: u64 = 1_000_000;
const LONGEST: Duration = Duration::from_secs(2);
/// Decisions between two looks at the time.
const BREATH: u64 = 256;
/// Keys that are counted by.
const MOST_KEYS: u64 = 100_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Simulation {
    /// A rules file; those in force unless given.
    #[serde(default)]
    rules: Option<String>,
    requests: Vec<Step>,
}

/// A request that comes once, or several times at the same moment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// As for `tollgate explain`: `POST /login ip=203.0.113.7`.
    request: String,
    /// How long after the beginning; when the one before came unless given.
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
    Document(simulation): Document<Simulation>,
) -> Result<Json<Value>> {
    let in_force = context.engine.limiter().rules();
    let running = tokio::task::spawn_blocking(move || simulation.run(in_force));
    let failed = |_| Problem::busy("the simulation was given up");
    running.await.map_err(failed)?.map(Json)
}

impl Simulation {
    fn run(self, in_force: Rules) -> Result<Value> {
        let rules = match self.rules {
            None => in_force,
            Some(text) => Rules::read([Source::new("rules", &text)]).map_err(BundleError::from)?,
        };
        let decisions = self.requests.iter().map(|step| step.times.unwrap_or(1));
        let decisions = decisions.fold(0, u64::saturating_add);
        if self.requests.len() > MOST_STEPS || decisions > MOST_DECISIONS {
            let detail = format!(
                "a simulation has at most {MOST_STEPS} requests and {MOST_DECISIONS} decisions"
            );
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too-large", detail));
        }
        let clock = ManualClock::new();
        let builder = Limiter::builder().clock(&clock).max_keys(MOST_KEYS);
        let limiter = builder.build_rules(rules);
        let mut patience = Patience::new();
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
                patience.is_left()?;
                let decision = limiter.decide(&request);
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
        text.parse().map_err(|_| format!("at is a time such as 12s or 1m 30s, not {text:?}"))?;
    let since = Duration::try_from(since).map_err(|_| "at is before the beginning".to_owned())?;
    Ok(since.into())
}

/// What became of a step, and how its last decision stands.
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

/// How long a simulation may still go on.
struct Patience {
    began_ms: u64,
    decisions: u64,
}

impl Patience {
    fn new() -> Patience {
        Patience { began_ms: clock::monotonic_ms(), decisions: 0 }
    }

    fn is_left(&mut self) -> Result<()> {
        self.decisions += 1;
        let spent = || clock::monotonic_ms().saturating_sub(self.began_ms);
        if self.decisions.is_multiple_of(BREATH) && u128::from(spent()) > LONGEST.as_millis() {
            let detail = format!("a simulation may take {LONGEST:?}: ask for less");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "too-long", detail));
        }
        Ok(())
    }
}
