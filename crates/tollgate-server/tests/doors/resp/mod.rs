//! The door of the Redis protocol, by hand and with the clients people use.

mod access;
mod clients;
mod commands;
mod hostile;
mod pipeline;
mod redis_cell;
mod rules;
mod silence;
mod wire;

/// Rules that say little: most tests bring their limits along.
const RULES: &str =
    "domain: shop\nrules: [{ name: login, route: POST /login, per: ip, limit: 2/min }]";
