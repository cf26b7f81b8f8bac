//! The arguments of the `TG.` commands: a key and an inline limit, or a request for rules.

use std::net::IpAddr;
use std::str;
use std::sync::Arc;

use tollgate::LimitAlgorithm;
use tollgate_rules::Request;

use super::command::RespCommand;
use crate::decisions::{DecisionService, InlineLimit, InlineLimitError, InlineLimitList};

/// The maximum number of attributes, because rules search them by name.
const MAX_ATTRIBUTES: usize = 64;

/// Returns the cost of `TG.LIMIT key limit [COST n]`.
pub(super) fn cost_of_limit(command: &RespCommand<'_>) -> Result<u64, String> {
    match command.len() {
        3 => Ok(1),
        5 if command.is(3, "COST") => cost(command.get(4)),
        _ => Err("ERR syntax error: TG.LIMIT key limit [limit ...] [COST n]".into()),
    }
}

/// Returns the limits and the cost of `TG.LIMIT key limit limit … [COST n]`.
pub(super) fn limits_and_cost(
    decisions: &DecisionService,
    command: &RespCommand<'_>,
) -> Result<(InlineLimitList, u64), String> {
    let (end, cost) = match command.len() {
        length @ 5.. if command.is(length - 2, "COST") => {
            (length - 2, cost(command.get(length - 1))?)
        }
        length => (length, 1),
    };
    if end - 2 > InlineLimitList::MAX_LIMITS {
        return Err(format!("ERR there are more than {} limits", InlineLimitList::MAX_LIMITS));
    }
    let mut texts = Vec::with_capacity(end - 2);
    for index in 2..end {
        limit(decisions, command.get(index))?;
        texts.push(str::from_utf8(command.get(index)).map_err(|_| not_text("a limit"))?);
    }
    let limits =
        decisions.inline_limits(&texts).map_err(|error| format!("ERR {}", error.reason))?;
    Ok((limits, cost))
}

fn cost(text: &[u8]) -> Result<u64, String> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "ERR COST is not a whole number, 0 or more".into())
}

/// Parses an inline limit in the syntax of rules.
pub(super) fn limit(decisions: &DecisionService, text: &[u8]) -> Result<Arc<InlineLimit>, String> {
    let text = str::from_utf8(text).map_err(|_| not_text("a limit"))?;
    let limit = decisions.inline_limit(text).map_err(|error| wrong_limit(&error))?;
    match limit.limit.algorithm() {
        LimitAlgorithm::Concurrent(_) | LimitAlgorithm::Adaptive(_) => {
            Err("ERR a concurrency limit needs a client that releases its permits: \
                 use POST /v1/reserve"
                .into())
        }
        _ => Ok(limit),
    }
}

/// Returns the error about an invalid limit as one line.
pub(super) fn wrong_limit(error: &InlineLimitError) -> String {
    let text = error.to_string();
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    match lines.next_back().filter(|line| line.starts_with("did you mean")) {
        Some(hint) => format!("ERR {first}; {hint}"),
        None => format!("ERR {first}"),
    }
}

fn not_text(what: &str) -> String {
    format!("ERR {what} is no UTF-8 text")
}

/// Returns whether `TG.PEEK` or `TG.RESET` has a key and a limit instead of a domain and pairs.
pub(super) fn has_inline_limit(command: &RespCommand<'_>) -> bool {
    command.len() == 3
}

/// Returns the request of `TG.CHECK domain [COST n] [attribute value ...]` and its cost.
pub(super) fn request<'a>(
    command: &RespCommand<'a>,
    peer: Option<IpAddr>,
) -> Result<(Request<'a>, u64), String> {
    let (first, cost) = match command.is(2, "COST") && command.len() > 3 {
        true => (4, cost(command.get(3))?),
        false => (2, 1),
    };
    let attributes = command.arguments_from(first);
    if !attributes.len().is_multiple_of(2) {
        return Err("ERR syntax error: attributes come in pairs of a name and a value".into());
    }
    if attributes.len() > 2 * MAX_ATTRIBUTES {
        return Err(format!("ERR there are more than {MAX_ATTRIBUTES} attributes"));
    }
    let mut request = Request::empty().cost(cost).unreported();
    let domain = str::from_utf8(command.get(1)).map_err(|_| not_text("the domain"))?;
    if !domain.is_empty() {
        request = request.domain(domain);
    }
    if let Some(peer) = peer {
        request = request.peer(peer);
    }
    let mut attributes = attributes;
    while let (Some(name), Some(value)) = (attributes.next(), attributes.next()) {
        let name = str::from_utf8(name).map_err(|_| not_text("the name of an attribute"))?;
        let value = str::from_utf8(value).map_err(|_| not_text("the value of an attribute"))?;
        // Rules would fall back to the peer, and clients with invalid addresses would share it.
        if name == "ip" && value.trim().parse::<IpAddr>().is_err() {
            return Err("ERR the attribute ip is no address".into());
        }
        request = request.attribute(name, value);
    }
    Ok((request, cost))
}
