//! Tests of the RESP door: with a raw client and with common Redis clients.

mod client;
mod clients;
mod commands;
mod counter_size;
mod hostile;
mod idle_timeout;
mod keys;
mod libraries;
mod pipeline;
mod redis_cell;
mod rules;
mod scripts;
mod tokens;
mod transactions;

/// The rules of most servers; most tests use inline limits instead.
const RULES: &str =
    "domain: shop\nrules: [{ name: login, route: POST /login, per: ip, limit: 2/min }]";
