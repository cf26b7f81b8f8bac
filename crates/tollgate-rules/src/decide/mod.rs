//! Decisions: turns the checks of a request into one store call and one decision.

pub(crate) mod active_rules;
pub(crate) mod adjust;
pub(crate) mod adjust_key;
pub(crate) mod admission;
#[cfg(feature = "envoy")]
pub(crate) mod ask_envoy;
pub(crate) mod build_decision;
pub(crate) mod builder;
pub(crate) mod cases;
pub(crate) mod decide_request;
pub(crate) mod decision;
pub(crate) mod explain;
pub(crate) mod held_charges;
pub(crate) mod limiter;
pub(crate) mod local_shares;
pub(crate) mod maintenance;
pub(crate) mod matched_rules;
pub(crate) mod outcome;
pub(crate) mod overruns;
pub(crate) mod pending_returns;
pub(crate) mod ready;
pub(crate) mod settle_charges;
pub(crate) mod settlement;
pub(crate) mod status;
pub(crate) mod store_debts;
pub(crate) mod without_store;
