//! Sources of rules that are followed for changes: a file, a folder, or a URL.
//!
//! Opening an [`Origin`] reads the rules; invalid rules are an error with every finding. A thread
//! then follows the origin and passes each new rule set to a [`Target`]. An invalid set is reported
//! and counted, and the previous rules stay active.
//!
//! Rejected: passing single texts or rules as they change, because only a complete set can be
//! validated.

mod error;
mod files;
mod follower;
mod origin;
mod path;
mod path_watcher;
mod saved_copy;
mod set;
mod status;
mod url;

pub use error::SourceError;
pub use follower::Follower;
pub use origin::{OpenedOrigin, Origin};
pub use status::SourceStatus;

pub(crate) use files::read as read_path;

use tollgate_rules::{RuleLimiter, Rules};

/// A receiver of new rules, which must activate a complete set at once.
pub trait Target: Send + 'static {
    /// Activates the rules.
    fn activate(&self, rules: Rules);
}

impl<F: Fn(Rules) + Send + 'static> Target for F {
    fn activate(&self, rules: Rules) {
        self(rules);
    }
}

impl<S: Send + Sync + 'static> Target for RuleLimiter<S> {
    fn activate(&self, rules: Rules) {
        self.replace(rules);
    }
}
