//! The decision calls: from what was read to what is asked of the engine, and back.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::StatusCode;
use tollgate::rules::{Adjustment, Decision};
use tollgate::{Action, StoreError, Verdict};

use super::ask::{self, Ask, Fields};
use super::batch;
use super::call::Call;
use super::render;
use super::visit::{Reply, json_reply};
use crate::clock;
use crate::engine::{Asked, Brought, Engine, HoldId, Outcome, Truth, USUAL_HOLD};
use crate::headers::{self, Answer};
use crate::rules_service::problem::Problem;
use crate::server::Context;
use crate::telemetry::DoorName;

pub(super) const DOOR: DoorName = DoorName::Http;

/// Answers a decision call.
pub(super) async fn answer(
    context: &Context,
    call: Call,
    query: Option<&str>,
    body: &[u8],
) -> Result<Reply, Problem> {
    let engine = &context.engine;
    match call {
        Call::Check => {
            let wants = Wants::read(query)?;
            let Ask { asked, cost, .. } = ask::read(body, Fields::CHECK)?;
            let cost = cost.unwrap_or(1);
            let decision = engine.check(DOOR, &asked.request(cost), cost).await;
            known_domain(engine, &asked, &decision)?;
            Ok(decided(context, wants, &Answer::of(&decision)))
        }
        Call::Limit => {
            let wants = Wants::read(query)?;
            let mut ask = ask::read(body, Fields::LIMIT)?;
            let (key, brought) = key_and_limit(engine, &mut ask)?;
            let cost = ask.cost.unwrap_or(1);
            let verdict = engine.limit(DOOR, key.as_bytes(), &brought, cost).await;
            let verdict = verdict.map_err(|error| unavailable(&error))?;
            Ok(decided(context, wants, &Answer::of_limit(brought.limit.quota(), &verdict)))
        }
        Call::Batch => batch::answer(engine, body).await,
        Call::Reserve => reserve(context, query, body).await,
        Call::Settle(id) => {
            let ask = ask::read(body, Fields::SETTLE)?;
            let truth = match (ask.amount, ask.outcome) {
                (Some(amount), None) => Truth::Spent(amount),
                (None, Some(outcome)) => Truth::Outcome(outcome),
                (Some(_), Some(_)) => {
                    let detail = "give either `amount` or `outcome`";
                    return Err(Problem::bad_request(detail).about("outcome"));
                }
                (None, None) => {
                    let detail = "`amount` is missing: what was spent; or an `outcome` for rules";
                    return Err(Problem::bad_request(detail).about("amount"));
                }
            };
            settle(engine, id, truth).await
        }
        Call::Cancel(id) => settle(engine, id, Truth::Cancelled).await,
        Call::Peek => adjust(engine, body, Fields::LOOK, |_| Change::Peek).await,
        Call::Reset => adjust(engine, body, Fields::LOOK, |_| Change::Reset).await,
        Call::Refund => adjust(engine, body, Fields::REFUND, Change::Refund).await,
        Call::Auth | Call::Json | Call::OpenApi => Err(Problem::not_found("such call")),
    }
}

/// What is asked about: rules, or a limit that was brought along.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for the length of a call")]
pub(super) enum Subject<'a> {
    Rules(Asked<'a>),
    Limit(Cow<'a, str>, Arc<Brought>),
}

pub(super) fn subject<'a>(engine: &Engine, mut ask: Ask<'a>) -> Result<Subject<'a>, Problem> {
    if ask.key.is_none() && ask.limit.is_none() {
        return Ok(Subject::Rules(ask.asked));
    }
    if ask.asked.domain.is_some() || !ask.asked.attributes.is_empty() {
        let detail = "give either `domain` and `attributes`, or `key` and `limit`";
        return Err(Problem::bad_request(detail).about("key"));
    }
    let (key, brought) = key_and_limit(engine, &mut ask)?;
    Ok(Subject::Limit(key, brought))
}

fn key_and_limit<'a>(
    engine: &Engine,
    ask: &mut Ask<'a>,
) -> Result<(Cow<'a, str>, Arc<Brought>), Problem> {
    let missing = |field: &str, example| {
        Problem::bad_request(format!("`{field}` is missing, such as {example:?}")).about(field)
    };
    let key = ask.key.take().ok_or_else(|| missing("key", "user:42"))?;
    let limit = ask.limit.take().ok_or_else(|| missing("limit", "10/s burst 20"))?;
    let brought = engine.brought(&limit).map_err(|error| {
        let status = StatusCode::BAD_REQUEST;
        Problem::new(status, "invalid-limit", format!("`limit`: {error}")).about("limit")
    })?;
    Ok((key, brought))
}

/// A domain nobody has rules for is a mistake, not a permission.
pub(super) fn known_domain(
    engine: &Engine,
    asked: &Asked<'_>,
    decision: &Decision,
) -> Result<(), Problem> {
    let Some(detail) = engine.unknown_domain(asked.domain.as_deref(), decision) else {
        return Ok(());
    };
    Err(Problem::new(StatusCode::BAD_REQUEST, "unknown-domain", detail).about("domain"))
}

pub(super) fn unavailable(error: &StoreError) -> Problem {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, "store-unavailable", format!("the store could not be asked: {error}"))
}

/// How a caller wants to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wants {
    /// With 200, whatever is decided.
    Decision,
    /// With the status that says what is decided.
    Status,
}

impl Wants {
    /// Read before anything is decided: a mistake must not cost anything.
    fn read(query: Option<&str>) -> Result<Wants, Problem> {
        let mut wants = Wants::Decision;
        for pair in query.unwrap_or_default().split('&') {
            let Some(value) = pair.strip_prefix("status") else { continue };
            wants = match value {
                "=true" | "=1" => Wants::Status,
                "=false" | "=0" => Wants::Decision,
                value if value.is_empty() || value.starts_with('=') => {
                    let detail = "`status` is true or false";
                    return Err(Problem::bad_request(detail).about("status"));
                }
                _ => wants,
            };
        }
        Ok(wants)
    }
}

fn decided(context: &Context, wants: Wants, answer: &Answer<'_>) -> Reply {
    match wants {
        Wants::Status => limited(context, answer, None),
        Wants::Decision => json_reply(StatusCode::OK, render::decision(answer)),
    }
}

/// An answer whose status says what was decided, with the headers about limits. `refused_as` is
/// the status of a refused request, if not the decision's own.
pub(crate) fn limited(
    context: &Context,
    answer: &Answer<'_>,
    refused_as: Option<StatusCode>,
) -> Reply {
    let style = context.config.headers;
    if answer.allowed {
        let mut reply = json_reply(StatusCode::OK, render::decision(answer));
        headers::write(style, answer, clock::unix_s(), reply.headers_mut());
        return reply;
    }
    let mut reply = headers::refusal(style, answer, clock::unix_s());
    if let Some(status) = refused_as {
        *reply.status_mut() = status;
    }
    reply.map(|body| Either::Left(Full::new(body)))
}

/// What is done to a counter.
#[derive(Clone, Copy)]
enum Change {
    Peek,
    Reset,
    Refund(u64),
}

async fn adjust(
    engine: &Engine,
    body: &[u8],
    fields: Fields,
    change: impl Fn(u64) -> Change,
) -> Result<Reply, Problem> {
    let ask = ask::read(body, fields)?;
    let change = change(ask.amount.unwrap_or(1));
    let json = match subject(engine, ask)? {
        Subject::Rules(asked) => {
            let adjustment = match change {
                Change::Peek => Adjustment::Peek,
                Change::Reset => Adjustment::Reset,
                Change::Refund(amount) => Adjustment::Refund(amount),
            };
            let decision = engine.adjust(&asked.request(1), adjustment).await;
            let decision = decision.map_err(|error| unavailable(&error))?;
            known_domain(engine, &asked, &decision)?;
            render::decision(&Answer::of(&decision))
        }
        Subject::Limit(key, brought) => {
            let (action, amount) = match change {
                Change::Peek => (Action::Peek, 0),
                Change::Reset => (Action::Reset, 0),
                Change::Refund(amount) => (Action::Refund, amount),
            };
            let verdict = engine.on(action, key.as_bytes(), &brought, amount).await;
            by_limit(&brought, &verdict.map_err(|error| unavailable(&error))?)
        }
    };
    Ok(json_reply(StatusCode::OK, json))
}

fn by_limit(brought: &Brought, verdict: &Verdict) -> Vec<u8> {
    render::decision(&Answer::of_limit(brought.limit.quota(), verdict))
}

async fn reserve(context: &Context, query: Option<&str>, body: &[u8]) -> Result<Reply, Problem> {
    let engine = &context.engine;
    let wants = Wants::read(query)?;
    let ask = ask::read(body, Fields::RESERVE)?;
    let amount = ask.amount;
    let open = ask.expire_s.map(Duration::from_secs);
    let held = |hold: Option<(HoldId, Duration)>, answer: &Answer<'_>| match hold {
        Some((id, open)) => {
            let open_ms = open.as_millis() as u64;
            let json = render::hold(&id.to_string(), open_ms, answer);
            json_reply(StatusCode::OK, json)
        }
        None => decided(context, wants, answer),
    };
    match subject(engine, ask)? {
        Subject::Rules(asked) => {
            let domain = asked.clone();
            let reserved = engine.reserve(DOOR, asked, amount, open).await;
            let (decision, hold) = reserved.map_err(|error| unavailable(&error))?;
            known_domain(engine, &domain, &decision)?;
            Ok(held(hold, &Answer::of(&decision)))
        }
        Subject::Limit(key, brought) => {
            // Rules may know what is to be held; a limit does not.
            let amount = amount.ok_or_else(|| {
                Problem::bad_request("`amount` is missing: how much is held").about("amount")
            })?;
            let quota = brought.limit.quota();
            let open = open.unwrap_or(USUAL_HOLD);
            let reserved = engine.reserve_limit(DOOR, key.as_bytes(), brought, amount, open).await;
            let (verdict, id) = reserved.map_err(|error| unavailable(&error))?;
            Ok(held(id.map(|id| (id, open)), &Answer::of_limit(quota, &verdict)))
        }
    }
}

async fn settle(engine: &Engine, id: Option<HoldId>, truth: Truth) -> Result<Reply, Problem> {
    let outcome = match id {
        Some(id) => engine.settle(id, truth).await.map_err(|error| unavailable(&error))?,
        None => Outcome::Unknown,
    };
    let json = match outcome {
        Outcome::ByRules(decision) => render::decision(&Answer::of(&decision)),
        Outcome::ByLimit(brought, verdict) => by_limit(&brought, &verdict),
        Outcome::Expired => {
            let detail = "the reservation had expired: what it was charged stays charged";
            return Err(Problem::new(StatusCode::CONFLICT, "expired", detail));
        }
        Outcome::WithoutRules => {
            let detail = "no rules made this reservation: say `amount`, what was spent";
            return Err(Problem::bad_request(detail).about("outcome"));
        }
        Outcome::Unknown => {
            let what =
                "open reservation of that name: it was settled before, has expired, or never was";
            return Err(Problem::not_found(what));
        }
    };
    Ok(json_reply(StatusCode::OK, Bytes::from(json)))
}
