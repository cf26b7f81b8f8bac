//! What a rule does over its limit: queue, ban, shed, share fairly, defer, deduplicate.

pub(crate) mod auxiliary_checks;
pub(crate) mod bans;
pub(crate) mod dedupe;
pub(crate) mod fair;
pub(crate) mod ladder;
pub(crate) mod ladder_ban_list;
pub(crate) mod ladder_bans;
pub(crate) mod modes;
pub(crate) mod queue;
