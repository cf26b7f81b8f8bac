//! Overrides and bans.

use axum::extract::State;
use axum::response::Response;
use hyper::StatusCode;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::rules::{BanData, OverrideData};

use super::{Context, answer, changed, request};
use crate::rules_service::change::{self, Settled};
use crate::rules_service::db::elements::{self as stored, Element, Stored};
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, Caller, Changing, Document, InPath};

fn read_id<T: Element>(id: &str) -> Result<u64> {
    let number = id.parse::<u64>().ok().filter(|id| i64::try_from(*id).is_ok());
    let wrong = || Problem::bad_request(format!("the id of a {} is a number", T::NAME));
    number.ok_or_else(wrong)
}

async fn all<T: Element>(context: &Context) -> Result<Vec<Stored<T>>> {
    context.db.call(|keeper| Ok(stored::all::<T>(&keeper.connection)?)).await
}

async fn one<T: Element>(context: &Context, id: &str) -> Result<Stored<T>> {
    let id = read_id::<T>(id)?;
    let found = context.db.call(move |keeper| {
        let none = || Problem::not_found(format_args!("{} {id}", T::NAME));
        stored::get::<T>(&keeper.connection, id)?.ok_or_else(none)
    });
    found.await
}

pub(super) async fn remove<T: Element>(
    State(context): State<Context>,
    InPath(id): InPath<String>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
) -> Result<Response> {
    let (id, request) = (read_id::<T>(&id)?, request(caller, &changing));
    let removed = context.db.call(move |keeper| change::remove_element::<T>(keeper, &request, id));
    let settled = removed.await?;
    Ok(changed(&settled, false, None, json!({ "id": settled.value })))
}

fn added(settled: &Settled<u64>, mut more: Value) -> Response {
    more["id"] = if settled.dry_run { Value::Null } else { json!(settled.value) };
    changed(settled, true, None, more)
}

fn override_body(stored: &Stored<OverrideData>) -> Value {
    let Stored { id, what, at, who, revision } = stored;
    json!({ "id": id, "override": what, "at": at, "who": who, "revision": revision })
}

pub(super) async fn overrides(State(context): State<Context>) -> Result<Response> {
    let all: Vec<Value> = all(&context).await?.iter().map(override_body).collect();
    Ok(answer(StatusCode::OK, None, &json!({ "overrides": all })))
}

pub(super) async fn get_override(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Response> {
    Ok(answer(StatusCode::OK, None, &override_body(&one(&context, &id).await?)))
}

pub(super) async fn add_override(
    State(context): State<Context>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    Document(what): Document<OverrideData>,
) -> Result<Response> {
    let request = request(caller, &changing);
    let added_one = context.db.call(move |keeper| change::add_element(keeper, &request, &what));
    Ok(added(&added_one.await?, json!({})))
}

/// A ban as it is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BanRequest {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
    /// How long: `10m`, `1h 30m`.
    #[serde(default, rename = "for")]
    lasts: Option<String>,
    /// Or until when.
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

fn now(context: &Context) -> Timestamp {
    let ns = i128::from(context.clock.now().as_nanos());
    Timestamp::from_nanosecond(ns).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// The end of a ban, as it is kept.
fn end_of(what: &BanData) -> Option<Timestamp> {
    what.until.as_ref()?.parse().ok()
}

impl BanRequest {
    fn until(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let end = match (&self.lasts, &self.until) {
            (None, None) => return Ok(None),
            (Some(_), Some(_)) => {
                return Err(Problem::bad_request("give `for` or `until`, not both"));
            }
            (Some(text), None) => {
                let lasts = text.parse::<SignedDuration>().ok().filter(SignedDuration::is_positive);
                let wrong = || Problem::bad_request("`for` is a time such as 10m or 1h 30m");
                now.checked_add(lasts.ok_or_else(wrong)?)
                    .map_err(|_| Problem::bad_request("`for` is longer than time itself"))?
            }
            (None, Some(text)) => {
                let date = || text.parse::<Date>().ok()?.to_zoned(TimeZone::UTC).ok();
                let moment = text.parse::<Timestamp>().ok().or_else(|| Some(date()?.timestamp()));
                moment.ok_or_else(|| {
                    let help = "`until` is a date such as 2027-01-01, or a time such as \
                                2027-01-01T18:00:00Z";
                    Problem::bad_request(help)
                })?
            }
        };
        if end <= now {
            return Err(Problem::bad_request("this ban would be over already"));
        }
        Ok(Some(end))
    }
}

fn ban_body(stored: &Stored<BanData>, now: Timestamp) -> Value {
    let Stored { id, what, at, who, revision } = stored;
    let mut body = json!(what);
    body["id"] = json!(id);
    body["at"] = json!(at);
    body["who"] = json!(who);
    body["revision"] = json!(revision);
    body["rest_ms"] = match end_of(what) {
        Some(end) => {
            let rest = end.duration_since(now).as_nanos().max(0);
            json!(u64::try_from(rest).unwrap_or(u64::MAX).div_ceil(1_000_000))
        }
        None => Value::Null,
    };
    body
}

/// Those that are not over.
pub(super) async fn bans(State(context): State<Context>) -> Result<Response> {
    let now = now(&context);
    let mut all = all::<BanData>(&context).await?;
    all.retain(|stored| end_of(&stored.what).is_none_or(|end| end > now));
    let bans: Vec<Value> = all.iter().map(|stored| ban_body(stored, now)).collect();
    Ok(answer(StatusCode::OK, None, &json!({ "bans": bans })))
}

pub(super) async fn get_ban(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Response> {
    Ok(answer(StatusCode::OK, None, &ban_body(&one(&context, &id).await?, now(&context))))
}

pub(super) async fn add_ban(
    State(context): State<Context>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    Document(asked): Document<BanRequest>,
) -> Result<Response> {
    let now = now(&context);
    let until = asked.until(now)?.map(|end| end.to_string());
    let BanRequest { domain, rule, key, reason, .. } = asked;
    let what = BanData { domain, rule, key, until: until.clone(), reason };
    let request = request(caller, &changing);
    let is_over = move |what: &BanData| end_of(what).is_some_and(|end| end <= now);
    let banned = context.db.call(move |keeper| change::add_ban(keeper, &request, &what, is_over));
    Ok(added(&banned.await?, json!({ "until": until })))
}
