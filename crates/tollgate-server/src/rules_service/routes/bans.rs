//! Bans: those that people gave, and those that ladders have given.

use std::net::IpAddr;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::CONTENT_TYPE;
use ipnet::IpNet;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::rules::{BanData, LadderBan};

use super::ending::{Ending, end_of, moment, now, rest_ms};
use super::{Context, answer, elements, request};
use crate::rules_service::change;
use crate::rules_service::db::elements::Stored;
use crate::rules_service::problem::{Problem, Result};
use crate::rules_service::reading::{Asked, Caller, Changing, Document, InPath};

/// A ban as it is asked for.
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

/// Which bans are wanted, and how they are shown.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Wanted {
    format: Format,
    domain: Option<String>,
    rule: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    /// Addresses and networks, one a line: for a firewall.
    Text,
    /// The same as nginx takes them.
    Nginx,
}

/// A key of a rule, as decisions name them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Named {
    #[serde(default)]
    domain: Option<String>,
    rule: String,
    key: String,
}

fn by_hand(stored: &Stored<BanData>, now: Timestamp) -> Value {
    let Stored { id, what, at, who, revision } = stored;
    let mut body = json!(what);
    body["id"] = json!(id);
    body["by"] = json!("hand");
    body["at"] = json!(at);
    body["who"] = json!(who);
    body["revision"] = json!(revision);
    body["rest_ms"] = rest_ms(end_of(&what.until), now);
    body
}

fn by_ladder(ban: &LadderBan, now: Timestamp) -> Value {
    let end = moment(ban.until);
    json!({
        "by": "ladder",
        "domain": ban.domain,
        "rule": ban.rule,
        "key": ban.key,
        "rung": ban.rung,
        "until": end.to_string(),
        "rest_ms": rest_ms(Some(end), now),
    })
}

async fn of_ladders(context: &Context) -> Result<Vec<LadderBan>> {
    match &context.limiter {
        Some(limiter) => limiter.bans().await.map_err(|error| Problem::busy(error.to_string())),
        None => Ok(Vec::new()),
    }
}

/// Those that are not over.
pub(super) async fn list(
    State(context): State<Context>,
    Asked(wanted): Asked<Wanted>,
) -> Result<Response> {
    let now = now(&context);
    let mut stored = elements::all::<BanData>(&context).await?;
    stored.retain(|stored| end_of(&stored.what.until).is_none_or(|end| end > now));
    let hand = stored.iter().map(|stored| by_hand(stored, now));
    let ladder = of_ladders(&context).await?;
    let mut bans: Vec<Value> = hand.chain(ladder.iter().map(|ban| by_ladder(ban, now))).collect();
    // A ban by hand without a domain is in the only one there is.
    let is = |ban: &Value, field: &str, wanted: &Option<String>| {
        wanted.as_ref().is_none_or(|wanted| ban[field].is_null() || ban[field] == **wanted)
    };
    bans.retain(|ban| is(ban, "domain", &wanted.domain) && is(ban, "rule", &wanted.rule));
    let line: fn(&str) -> String = match wanted.format {
        Format::Json => return Ok(answer(StatusCode::OK, None, &json!({ "bans": bans }))),
        Format::Text => |address| format!("{address}\n"),
        Format::Nginx => |address| format!("deny {address};\n"),
    };
    let addresses = bans.iter().filter_map(|ban| ban["key"].as_str().filter(|key| is_address(key)));
    let mut lines: Vec<String> = addresses.map(line).collect();
    lines.sort_unstable();
    lines.dedup();
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], lines.concat()).into_response())
}

/// Whether a key is an address or a network, and nothing else: what others can refuse by.
fn is_address(key: &str) -> bool {
    key.parse::<IpAddr>().is_ok() || key.parse::<IpNet>().is_ok()
}

pub(super) async fn get(
    State(context): State<Context>,
    InPath(id): InPath<String>,
) -> Result<Response> {
    let ban = elements::one(&context, &id).await?;
    Ok(answer(StatusCode::OK, None, &by_hand(&ban, now(&context))))
}

pub(super) async fn add(
    State(context): State<Context>,
    caller: Caller,
    Asked(changing): Asked<Changing>,
    Document(asked): Document<BanRequest>,
) -> Result<Response> {
    let now = now(&context);
    let BanRequest { domain, rule, key, lasts, until, reason } = asked;
    let until = Ending { lasts, until }.at(now)?.map(|end| end.to_string());
    let what = BanData { domain, rule, key, until: until.clone(), reason };
    let request = request(caller, &changing);
    let is_over = move |what: &BanData| end_of(&what.until).is_some_and(|end| end <= now);
    let banned =
        context.db.call(move |keeper| change::replace_element(keeper, &request, &what, is_over));
    Ok(elements::added(&banned.await?, json!({ "until": until })))
}

/// Lifts what a ladder has given. Like a counter, it is no rule: that is in the log, not in the
/// audit. Bans by hand are told about, and removed by their id.
pub(super) async fn lift(
    State(context): State<Context>,
    Caller(author): Caller,
    Asked(named): Asked<Named>,
) -> Result<Response> {
    let Named { domain, rule, key } = &named;
    let limiter = context.limiter.as_ref().ok_or_else(|| {
        Problem::bad_request("a rules service bans nobody: ask one of its limiters")
    })?;
    let lifted = limiter.lift_ban(domain.as_deref(), rule, key).await;
    let lifted = lifted.map_err(|error| Problem::busy(error.to_string()))?;
    let lifted = lifted.ok_or_else(|| {
        let rule = rule.escape_debug();
        Problem::not_found(format_args!("rule `{rule}` that bans in that domain"))
    })?;
    let shown = key.escape_debug();
    tracing::info!(who = author.who, ?domain, rule, key = %shown, lifted, "a ban was lifted");
    let now = now(&context);
    let stored = elements::all::<BanData>(&context).await?;
    let still = stored.iter().filter(|stored| {
        let what = &stored.what;
        let is_over = end_of(&what.until).is_some_and(|end| end <= now);
        let same_domain = what.domain.as_ref().zip(domain.as_ref()).is_none_or(|(a, b)| a == b);
        what.rule == *rule && what.key == *key && same_domain && !is_over
    });
    let still: Vec<u64> = still.map(|stored| stored.id).collect();
    let body = json!({ "lifted": lifted, "still_by_hand": still });
    Ok(answer(StatusCode::OK, None, &body))
}
