//! Metrics of forward-auth: requests whose description is refused or missing.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Telemetry;
use super::exposition::Exposition;

/// The time between two log lines about the same problem, in seconds.
const LOG_INTERVAL_S: u64 = 60;

/// A problem with the description of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthProblem {
    /// The peer is no trusted proxy; the request was refused.
    Untrusted,
    /// Servers could read the description differently; the request was refused.
    Ambiguous,
    /// There is no description of the target; rules on routes did not match.
    Undescribed,
}

impl AuthProblem {
    const ALL: [AuthProblem; 3] =
        [AuthProblem::Untrusted, AuthProblem::Ambiguous, AuthProblem::Undescribed];

    fn as_str(self) -> &'static str {
        match self {
            AuthProblem::Untrusted => "untrusted",
            AuthProblem::Ambiguous => "ambiguous",
            AuthProblem::Undescribed => "undescribed",
        }
    }
}

/// The number of problems of each kind, and when one was logged.
#[derive(Debug, Default)]
pub(super) struct AuthProblemCounts {
    counts: [AtomicU64; AuthProblem::ALL.len()],
    /// The second of the next log line.
    log_at_s: [AtomicU64; AuthProblem::ALL.len()],
}

impl Telemetry {
    /// Counts a problem, and returns whether to log it: at most once a minute.
    pub(crate) fn record_auth_problem(&self, problem: AuthProblem) -> bool {
        let (counts, number) = (&self.auth_problems, problem as usize);
        counts.counts[number].fetch_add(1, Ordering::Relaxed);
        let now_s = self.second.load(Ordering::Relaxed);
        let log_at_s = counts.log_at_s[number].load(Ordering::Relaxed);
        now_s >= log_at_s
            && counts.log_at_s[number]
                .compare_exchange(
                    log_at_s,
                    now_s + LOG_INTERVAL_S,
                    Ordering::Relaxed,
                    Ordering::Relaxed,
                )
                .is_ok()
    }

    pub(super) fn report_auth(&self, into: &mut Exposition) {
        let name = "tollgate_auth_problems_total";
        into.metric(
            name,
            "counter",
            "Forward-auth requests of untrusted proxies, with ambiguous or without targets.",
        );
        for problem in AuthProblem::ALL {
            let count = self.auth_problems.counts[problem as usize].load(Ordering::Relaxed);
            into.sample(name, &[("reason", problem.as_str())], count);
        }
    }
}
