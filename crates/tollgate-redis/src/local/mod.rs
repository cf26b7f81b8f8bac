//! Decisions in a node's own memory: bounded tables of counters, and checks on their states.

pub(crate) mod batch;
pub(crate) mod counter_name;
pub(crate) mod decision;
pub(crate) mod refusal_cache;
pub(crate) mod sharded_table;
