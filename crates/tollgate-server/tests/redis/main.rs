//! Servers whose counters are in Redis: many that decide as one, and each while Redis fails.

mod access;
mod doors;
mod failure;
mod settling;
mod support;
