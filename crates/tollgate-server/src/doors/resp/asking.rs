//! What the `TG.` commands are about: a key and a limit, or a request as rules see it.

use std::net::IpAddr;
use std::str;
use std::sync::Arc;

use tollgate::{Engine as Algorithm, Request};

use super::command::Command;
use crate::engine::{Brought, BroughtError, Engine};

/// Rules look at each attribute by its name, so there are not too many.
const ATTRIBUTES: usize = 64;

/// The cost at the end of `TG.LIMIT key limit [COST n]`.
pub(super) fn cost_of_limit(command: &Command<'_>) -> Result<u64, String> {
    match command.len() {
        3 => Ok(1),
        5 if command.is(3, "COST") => cost(command.get(4)),
        _ => Err("ERR syntax error: TG.LIMIT key limit [COST n]".into()),
    }
}

fn cost(text: &[u8]) -> Result<u64, String> {
    let number = str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| "ERR COST is not a whole number, 0 or more".into())
}

/// A limit written as rules write it.
pub(super) fn limit(engine: &Engine, text: &[u8]) -> Result<Arc<Brought>, String> {
    let text = str::from_utf8(text).map_err(|_| not_text("a limit"))?;
    let brought = engine.brought(text).map_err(|error| wrong_limit(&error))?;
    match brought.limit.engine() {
        Algorithm::Concurrent(_) | Algorithm::Adaptive(_) => {
            Err("ERR a limit on concurrency needs somebody who gives places back: \
                 use POST /v1/reserve"
                .into())
        }
        _ => Ok(brought),
    }
}

/// What is wrong with a limit, in one line.
pub(super) fn wrong_limit(error: &BroughtError) -> String {
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

/// Whether `TG.PEEK` or `TG.RESET` is about a key and a limit: rules take a domain and pairs.
pub(super) fn names_a_key(command: &Command<'_>) -> bool {
    command.len() == 3
}

/// The request of `TG.CHECK domain [COST n] [attribute value ...]` and its cost.
pub(super) fn request<'a>(
    command: &Command<'a>,
    peer: Option<IpAddr>,
) -> Result<(Request<'a>, u64), String> {
    let (first, cost) = match command.is(2, "COST") && command.len() > 3 {
        true => (4, cost(command.get(3))?),
        false => (2, 1),
    };
    let attributes = command.from(first);
    if !attributes.len().is_multiple_of(2) {
        return Err("ERR syntax error: attributes come in pairs of a name and a value".into());
    }
    if attributes.len() > 2 * ATTRIBUTES {
        return Err(format!("ERR there are more than {ATTRIBUTES} attributes"));
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
        // Otherwise everybody with a wrong one would be taken for whoever asks.
        if name == "ip" && value.trim().parse::<IpAddr>().is_err() {
            return Err("ERR the attribute ip is no address".into());
        }
        request = request.attribute(name, value);
    }
    Ok((request, cost))
}
