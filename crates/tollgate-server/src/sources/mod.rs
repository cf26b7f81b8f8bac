//! Where rules come from, kept up to date: a file, a folder, or a URL.
//!
//! An [`Origin`] is opened first: rules that are wrong at start are an error with every finding.
//! What was opened is then followed by one thread, which hands each new set of rules to a
//! [`Target`], whole. A new set that is wrong is reported and counted, and the old one goes on.
//!
//! Rejected: handing out texts or single rules as they change. A set is valid as a whole or not at
//! all, so it travels as a whole.

mod error;
mod files;
mod follower;
mod kept;
mod origin;
mod path;
mod set;
mod status;
mod url;
mod watch;

pub use error::SourceError;
pub use follower::Follower;
pub use origin::{Opened, Origin};
pub use status::Status;

pub(crate) use files::read as read_path;

use tollgate::rules::{RuleLimiter, Rules};

/// Who is given new rules. Must install them at once and whole.
pub trait Target: Send + 'static {
    /// Uses these rules from now on.
    fn install(&self, rules: Rules);
}

impl<F: Fn(Rules) + Send + 'static> Target for F {
    fn install(&self, rules: Rules) {
        self(rules);
    }
}

impl<S: Send + Sync + 'static> Target for RuleLimiter<S> {
    fn install(&self, rules: Rules) {
        self.replace(rules);
    }
}
