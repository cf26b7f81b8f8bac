//! The decision calls: from body fields to the decision service, and from decisions to responses.

use std::borrow::Cow;
use std::time::Duration;

use http_body_util::{Either, Full};
use hyper::StatusCode;
use tollgate::{Action, StoreError, Verdict};
use tollgate_rules::{Adjustment, Decision};
use tollgate_tower::problem::{refusal, refusal_with_status};

use super::body_fields::{self, BodyFields, FieldNames};
use super::call::HttpCall;
use super::{HttpResponse, batch, json_response, render, throttle};
use crate::clock;
use crate::decisions::{
    DEFAULT_RESERVATION_TIME, DecisionService, InlineLimitList, RequestAttributes, ReservationId,
    ReservationOutcome, ReservationOwner, ReservationsFull, ReserveError, SettledState,
    SettlementResult,
};
use crate::headers::{self, DecisionSummary};
use crate::problem::Problem;
use crate::server::Context;
use crate::telemetry::DoorName;

pub(super) const DOOR: DoorName = DoorName::Http;

/// Runs a decision call and returns its response.
pub(super) async fn respond(
    context: &Context,
    call: HttpCall,
    query: Option<&str>,
    body: &[u8],
) -> Result<HttpResponse, Problem> {
    let decisions = &context.decisions;
    match call {
        HttpCall::Check => {
            let form = ResponseForm::from_query(query)?;
            let BodyFields { request, cost, .. } = body_fields::read(body, FieldNames::CHECK)?;
            let cost = cost.unwrap_or(1);
            let decision = decisions.check(DOOR, &request.request(cost), cost).await;
            require_domain(decisions, &request, &decision)?;
            Ok(decision_response(context, form, &DecisionSummary::new(&decision)))
        }
        HttpCall::Limit => {
            let form = ResponseForm::from_query(query)?;
            let mut fields = body_fields::read(body, FieldNames::LIMIT)?;
            let (key, limits) = key_and_limits(decisions, &mut fields)?;
            let cost = fields.cost.unwrap_or(1);
            let key = key.as_bytes();
            let verdicts = decisions.check_inline_limits(DOOR, key, &limits, cost).await;
            let verdicts = verdicts.map_err(|error| store_unavailable(&error))?;
            let answer = DecisionSummary::from_verdicts(limits.with_verdicts(&verdicts));
            Ok(decision_response(context, form, &answer))
        }
        HttpCall::Throttle => throttle::respond(decisions, body).await,
        HttpCall::Batch => batch::respond(decisions, body).await,
        HttpCall::Settle(id) => {
            let fields = body_fields::read(body, FieldNames::SETTLE)?;
            let outcome = match (fields.cost, fields.outcome) {
                (Some(cost), None) => ReservationOutcome::Spent(cost),
                (None, Some(outcome)) => ReservationOutcome::Attributes(outcome),
                (Some(_), Some(_)) => {
                    let detail = "give either `cost` or `outcome`";
                    return Err(Problem::bad_request(detail).about("outcome"));
                }
                (None, None) => {
                    let detail = "`cost` is missing: what was spent; or an `outcome` for rules";
                    return Err(Problem::bad_request(detail).about("cost"));
                }
            };
            settle(decisions, id, outcome).await
        }
        HttpCall::Cancel(id) => settle(decisions, id, ReservationOutcome::Cancelled).await,
        HttpCall::Peek => adjust(decisions, body, FieldNames::PEEK, |_| CounterChange::Peek).await,
        HttpCall::Reset => {
            adjust(decisions, body, FieldNames::PEEK, |_| CounterChange::Reset).await
        }
        HttpCall::Refund => {
            adjust(decisions, body, FieldNames::CHECK_OR_LIMIT, CounterChange::Refund).await
        }
        HttpCall::Reserve | HttpCall::Auth | HttpCall::Json | HttpCall::OpenApi => {
            Err(Problem::not_found("such call"))
        }
    }
}

/// The counters that a call is about: those of rules, or of inline limits.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack for the length of a call")]
pub(super) enum CallTarget<'a> {
    Rules(RequestAttributes<'a>),
    InlineLimits(Cow<'a, str>, InlineLimitList),
}

impl<'a> CallTarget<'a> {
    pub(super) fn new(
        decisions: &DecisionService,
        mut fields: BodyFields<'a>,
    ) -> Result<CallTarget<'a>, Problem> {
        if fields.key.is_none() && fields.limits.is_empty() {
            return Ok(CallTarget::Rules(fields.request));
        }
        if fields.request.domain.is_some() || !fields.request.attributes.is_empty() {
            let detail = "give either `domain` and `attributes`, or `key` and `limit`";
            return Err(Problem::bad_request(detail).about("key"));
        }
        let (key, limits) = key_and_limits(decisions, &mut fields)?;
        Ok(CallTarget::InlineLimits(key, limits))
    }
}

fn key_and_limits<'a>(
    decisions: &DecisionService,
    fields: &mut BodyFields<'a>,
) -> Result<(Cow<'a, str>, InlineLimitList), Problem> {
    let missing = |field: &str, example| {
        Problem::bad_request(format!("`{field}` is missing, such as {example:?}")).about(field)
    };
    let key = fields.key.take().ok_or_else(|| missing("key", "user:42"))?;
    if fields.limits.is_empty() {
        return Err(missing("limit", "10/s burst 20"));
    }
    let limits = decisions.inline_limits(&fields.limits).map_err(|error| {
        let field = match fields.limits.len() {
            1 => "limit".to_owned(),
            _ => format!("limit[{}]", error.index),
        };
        let detail = format!("`{field}`: {}", error.reason);
        Problem::new(StatusCode::BAD_REQUEST, "invalid-limit", detail).about(field)
    })?;
    Ok((key, limits))
}

/// Returns an error if no rules exist for the domain: that is a mistake, not a permission.
pub(super) fn require_domain(
    decisions: &DecisionService,
    request: &RequestAttributes<'_>,
    decision: &Decision,
) -> Result<(), Problem> {
    let Some(detail) = decisions.unknown_domain(request.domain.as_deref(), decision) else {
        return Ok(());
    };
    Err(Problem::new(StatusCode::BAD_REQUEST, "unknown-domain", detail).about("domain"))
}

/// Returns the problem of a store that gave no verdict.
pub(super) fn store_unavailable(error: &StoreError) -> Problem {
    let status = StatusCode::SERVICE_UNAVAILABLE;
    Problem::new(status, "store-unavailable", format!("the store gave no verdict: {error}"))
}

/// The form of the response that the client chose with `?status=`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseForm {
    /// The decision as JSON, always with status 200.
    Decision,
    /// The status of the decision, with rate-limit headers and a problem document.
    Status,
}

impl ResponseForm {
    /// Reads the query, before anything is decided: an invalid query must not cost anything.
    fn from_query(query: Option<&str>) -> Result<ResponseForm, Problem> {
        let mut form = ResponseForm::Decision;
        for pair in query.unwrap_or_default().split('&') {
            let Some(value) = pair.strip_prefix("status") else { continue };
            form = match value {
                "=true" | "=1" => ResponseForm::Status,
                "=false" | "=0" => ResponseForm::Decision,
                value if value.is_empty() || value.starts_with('=') => {
                    let detail = "`status` is true or false";
                    return Err(Problem::bad_request(detail).about("status"));
                }
                _ => form,
            };
        }
        Ok(form)
    }
}

fn decision_response(
    context: &Context,
    form: ResponseForm,
    answer: &DecisionSummary<'_>,
) -> HttpResponse {
    match form {
        ResponseForm::Status => status_response(context, answer, None),
        ResponseForm::Decision => json_response(StatusCode::OK, render::decision(answer)),
    }
}

/// Returns a response with the status of the decision and the rate-limit headers.
///
/// `refusal_status` replaces the status of a refused request.
pub(crate) fn status_response(
    context: &Context,
    answer: &DecisionSummary<'_>,
    refusal_status: Option<StatusCode>,
) -> HttpResponse {
    let style = context.config.headers;
    if answer.allowed {
        let mut response = json_response(StatusCode::OK, render::decision(answer));
        headers::write(style, answer, clock::unix_s(), response.headers_mut());
        return response;
    }
    let response = match refusal_status {
        Some(status) => refusal_with_status(style, answer, clock::unix_s(), status),
        None => refusal(style, answer, clock::unix_s()),
    };
    response.map(|body| Either::Left(Full::new(body)))
}

/// A change of counters other than a decision.
#[derive(Clone, Copy)]
enum CounterChange {
    Peek,
    Reset,
    Refund(u64),
}

async fn adjust(
    decisions: &DecisionService,
    body: &[u8],
    names: FieldNames,
    change: impl Fn(u64) -> CounterChange,
) -> Result<HttpResponse, Problem> {
    let fields = body_fields::read(body, names)?;
    let change = change(fields.cost.unwrap_or(1));
    let json = match CallTarget::new(decisions, fields)? {
        CallTarget::Rules(request) => {
            let adjustment = match change {
                CounterChange::Peek => Adjustment::Peek,
                CounterChange::Reset => Adjustment::Reset,
                CounterChange::Refund(cost) => Adjustment::Refund(cost),
            };
            let decision = decisions.adjust(&request.request(1), adjustment).await;
            let decision = decision.map_err(|error| store_unavailable(&error))?;
            require_domain(decisions, &request, &decision)?;
            render::decision(&DecisionSummary::new(&decision))
        }
        CallTarget::InlineLimits(key, limits) => {
            let (action, cost) = match change {
                CounterChange::Peek => (Action::Peek, 0),
                CounterChange::Reset => (Action::Reset, 0),
                CounterChange::Refund(cost) => (Action::Refund, cost),
            };
            let key = key.as_bytes();
            let verdicts = decisions.adjust_inline_limits(action, key, &limits, cost).await;
            limits_json(&limits, &verdicts.map_err(|error| store_unavailable(&error))?)
        }
    };
    Ok(json_response(StatusCode::OK, json))
}

fn limits_json(limits: &InlineLimitList, verdicts: &[Verdict]) -> Vec<u8> {
    render::decision(&DecisionSummary::from_verdicts(limits.with_verdicts(verdicts)))
}

/// Makes a reservation for a client and returns the response.
pub(super) async fn reserve(
    context: &Context,
    owner: ReservationOwner,
    query: Option<&str>,
    body: &[u8],
) -> Result<HttpResponse, Problem> {
    let decisions = &context.decisions;
    let form = ResponseForm::from_query(query)?;
    let fields = body_fields::read(body, FieldNames::RESERVE)?;
    let cost = fields.cost;
    let open = fields.expire_s.map(Duration::from_secs);
    let respond = |reservation: Option<(ReservationId, Duration)>, answer: &DecisionSummary<'_>| {
        match reservation {
            Some((id, open)) => {
                let open_ms = open.as_millis() as u64;
                let json = render::reservation(&id.to_string(), open_ms, answer);
                json_response(StatusCode::OK, json)
            }
            None => decision_response(context, form, answer),
        }
    };
    match CallTarget::new(decisions, fields)? {
        CallTarget::Rules(request) => {
            let described = request.clone();
            let reserved = decisions.reserve(DOOR, owner, request, cost, open).await;
            let (decision, reservation) = reserved.map_err(|error| reserve_problem(&error))?;
            require_domain(decisions, &described, &decision)?;
            Ok(respond(reservation, &DecisionSummary::new(&decision)))
        }
        CallTarget::InlineLimits(key, limits) => {
            // Rules may estimate the cost; inline limits cannot.
            let cost = cost.ok_or_else(|| {
                Problem::bad_request("`cost` is missing: how much to reserve").about("cost")
            })?;
            let open = open.unwrap_or(DEFAULT_RESERVATION_TIME);
            let (key, shown) = (key.as_bytes(), limits.clone());
            let reserved = decisions.reserve_limits(DOOR, owner, key, limits, cost, open).await;
            let (verdicts, id) = reserved.map_err(|error| reserve_problem(&error))?;
            let answer = DecisionSummary::from_verdicts(shown.with_verdicts(&verdicts));
            Ok(respond(id.map(|id| (id, open)), &answer))
        }
    }
}

/// Returns the problem of a reservation that was not made.
fn reserve_problem(error: &ReserveError) -> Problem {
    match error {
        ReserveError::Store(error) => store_unavailable(error),
        ReserveError::Full(ReservationsFull::Owner(share)) => {
            let detail = format!(
                "your open reservations take up your share: {} reservations, {} bytes; settle or \
                 cancel some, or let them expire sooner with `expire_s`; nothing was charged",
                share.count, share.bytes
            );
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-reservations", detail)
        }
        ReserveError::Full(ReservationsFull::Total) => {
            let detail = "the open reservations of all clients take up the memory for them; try again \
                          later; nothing was charged";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "reservations-full", detail)
        }
    }
}

async fn settle(
    decisions: &DecisionService,
    id: Option<ReservationId>,
    outcome: ReservationOutcome,
) -> Result<HttpResponse, Problem> {
    let result = match id {
        Some(id) => {
            let settled = decisions.settle(id, outcome, settled_json).await;
            settled.map_err(|error| store_unavailable(&error))?
        }
        None => SettlementResult::Unknown,
    };
    match result {
        SettlementResult::Settled(json) => Ok(json_response(StatusCode::OK, json)),
        SettlementResult::Expired => {
            let detail = "the reservation had expired: what it was charged stays charged";
            Err(Problem::new(StatusCode::CONFLICT, "expired", detail))
        }
        SettlementResult::WithoutRules => {
            let detail = "no rules made this reservation: say `cost`, what was spent";
            Err(Problem::bad_request(detail).about("outcome"))
        }
        SettlementResult::Unknown => {
            let what =
                "open reservation of that name: it was settled before, has expired, or never was";
            Err(Problem::not_found(what))
        }
    }
}

fn settled_json(state: &SettledState) -> Vec<u8> {
    match state {
        SettledState::ByRules(decision) => render::decision(&DecisionSummary::new(decision)),
        SettledState::ByLimits(limits, verdicts) => limits_json(limits, verdicts),
    }
}
