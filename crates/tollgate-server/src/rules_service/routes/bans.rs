//! The routes of bans, both manual bans and those that ladders impose.

use std::net::IpAddr;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_rules::{BanData, LadderBan};

use super::end_time::{EndTime, now, parse_end, remaining_ms, to_timestamp};
use super::{RoutesContext, elements, json_response, request};
use crate::problem::{Problem, Result};
use crate::rules_service::change;
use crate::rules_service::db::elements::StoredElement;
use crate::rules_service::extract::{Caller, ChangeQuery, JsonBody, UrlPath, UrlQuery};

/// The body of a request that bans a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BanRequest {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
    #[serde(default, rename = "for")]
    lasts: Option<String>,
    #[serde(default)]
    until: Option<String>,
    #[serde(default)]
    reason: Option<String>,
}

/// The query of the list of bans.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct BansQuery {
    format: BansFormat,
    domain: Option<String>,
    rule: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum BansFormat {
    #[default]
    Json,
    /// Addresses and networks, one per line, for a firewall.
    Text,
    /// Addresses and networks as `deny` directives of nginx.
    Nginx,
}

/// The query that lifts a ban: a key of a rule, as decisions name it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BanQuery {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
}

/// Returns a key as counters have it, in which secrets are hashed.
fn stored_key(context: &RoutesContext, domain: Option<&str>, rule: &str, key: &str) -> String {
    match &context.limiter {
        Some(limiter) => limiter.stored_key(domain, rule, key),
        None => key.to_owned(),
    }
}

fn manual_ban(context: &RoutesContext, stored: &StoredElement<BanData>, now: Timestamp) -> Value {
    let StoredElement { id, data, at, who, revision } = stored;
    let mut body = json!(data);
    body["key"] = json!(stored_key(context, data.domain.as_deref(), &data.rule, &data.key));
    body["id"] = json!(id);
    body["by"] = json!("hand");
    body["at"] = json!(at);
    body["who"] = json!(who);
    body["revision"] = json!(revision);
    body["rest_ms"] = remaining_ms(parse_end(&data.until), now);
    body
}

fn ladder_ban(ban: &LadderBan, now: Timestamp) -> Value {
    let end = to_timestamp(ban.until);
    json!({
        "by": "ladder",
        "domain": ban.domain,
        "rule": ban.rule,
        "key": ban.key,
        "rung": ban.rung,
        "until": end.to_string(),
        "rest_ms": remaining_ms(Some(end), now),
    })
}

async fn ladder_bans(context: &RoutesContext) -> Result<Vec<LadderBan>> {
    match &context.limiter {
        Some(limiter) => {
            limiter.bans().list().await.map_err(|error| Problem::busy(error.to_string()))
        }
        None => Ok(Vec::new()),
    }
}

/// Lists the bans that have not expired.
pub(super) async fn list(
    State(context): State<RoutesContext>,
    UrlQuery(wanted): UrlQuery<BansQuery>,
) -> Result<Response> {
    let now = now(&context);
    let mut stored = elements::all::<BanData>(&context).await?;
    stored.retain(|stored| parse_end(&stored.data.until).is_none_or(|end| end > now));
    let hand = stored.iter().map(|stored| manual_ban(&context, stored, now));
    let ladder = ladder_bans(&context).await?;
    let mut bans: Vec<Value> = hand.chain(ladder.iter().map(|ban| ladder_ban(ban, now))).collect();
    // A manual ban without a domain belongs to the only domain.
    let is = |ban: &Value, field: &str, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| ban[field].is_null() || ban[field] == **wanted)
    };
    bans.retain(|ban| is(ban, "domain", &wanted.domain) && is(ban, "rule", &wanted.rule));
    let line: fn(&str) -> String = match wanted.format {
        BansFormat::Json => {
            return Ok(json_response(StatusCode::OK, None, &json!({ "bans": bans })));
        }
        BansFormat::Text => |address| format!("{address}\n"),
        BansFormat::Nginx => |address| format!("deny {address};\n"),
    };
    let addresses = bans.iter().filter_map(|ban| ban["key"].as_str().filter(|key| is_address(key)));
    let mut lines: Vec<String> = addresses.map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], lines.concat()).into_response())
}

/// Returns whether a key is an address or a network, which a firewall can refuse.
fn is_address(key: &str) -> bool {
    key.parse::<IpAddr>().is_ok() || key.parse::<IpNet>().is_ok()
}

pub(super) async fn get(
    State(context): State<RoutesContext>,
    UrlPath(id): UrlPath<String>,
) -> Result<Response> {
    let ban = elements::one(&context, &id).await?;
    Ok(json_response(StatusCode::OK, None, &manual_ban(&context, &ban, now(&context))))
}

pub(super) async fn add(
    State(context): State<RoutesContext>,
    caller: Caller,
    UrlQuery(changing): UrlQuery<ChangeQuery>,
    JsonBody(asked): JsonBody<BanRequest>,
) -> Result<Response> {
    let now = now(&context);
    let BanRequest { domain, rule, key, lasts, until, reason } = asked;
    let key = stored_key(&context, domain.as_deref(), &rule, &key);
    let until = EndTime { lasts, until }.at(now)?.map(|end| end.to_string());
    let data = BanData { domain, rule, key, until: until.clone(), reason };
    let request = request(caller, &changing);
    let is_over = move |data: &BanData| parse_end(&data.until).is_some_and(|end| end <= now);
    let banned =
        context.db.call(move |state| change::replace_element(state, &request, &data, is_over));
    Ok(elements::added(&banned.await?, json!({ "until": until })))
}

/// Lifts a ban that a ladder imposed.
///
/// Such a ban is a counter, not a rule, so that the change is logged but not audited. Manual bans of
/// the key are listed in the response; they are removed by id.
pub(super) async fn lift(
    State(context): State<RoutesContext>,
    Caller(author): Caller,
    UrlQuery(named): UrlQuery<BanQuery>,
) -> Result<Response> {
    let BanQuery { domain, rule, .. } = &named;
    let limiter = context.limiter.as_ref().ok_or_else(|| {
        Problem::bad_request("a rules service has no ladder bans; ask one of its limiters")
    })?;
    let key = &limiter.stored_key(domain.as_deref(), rule, &named.key);
    let lifted = limiter.bans().lift(domain.as_deref(), rule, key).await;
    let lifted = lifted.map_err(|error| Problem::busy(error.to_string()))?;
    let lifted = lifted.ok_or_else(|| {
        let rule = rule.escape_debug();
        Problem::not_found(format_args!("rule `{rule}` that bans in that domain"))
    })?;
    let shown = key.escape_debug();
    tracing::info!(who = author.who, ?domain, rule, key = %shown, lifted, "lifted a ban");
    let now = now(&context);
    let stored = elements::all::<BanData>(&context).await?;
    let still = stored.iter().filter(|stored| {
        let data = &stored.data;
        let is_over = parse_end(&data.until).is_some_and(|end| end <= now);
        let same_domain = data.domain.as_ref().zip(domain.as_ref()).is_none_or(|(a, b)| a == b);
        let known = || stored_key(&context, domain.as_deref(), rule, &data.key);
        data.rule == *rule && same_domain && !is_over && known() == *key
    });
    let still: Vec<u64> = still.map(|stored| stored.id).collect();
    let body = json!({ "lifted": lifted, "still_by_hand": still });
    Ok(json_response(StatusCode::OK, None, &body))
}
