//! Commands that call a running server: check, peek, reset, top, tail, ban, deferred.

mod ban;
mod decide;
mod decision_args;
mod deferred;
mod tail;
mod top;
mod verdict;

pub(crate) use ban::{BanCommand, run as run_ban};
pub(crate) use decide::{CheckArgs, KeyArgs, check, peek, reset};
pub(crate) use deferred::{DeferredCommand, run as run_deferred};
pub(crate) use tail::{TailArgs, run as tail};
pub(crate) use top::{TopArgs, run as top};
