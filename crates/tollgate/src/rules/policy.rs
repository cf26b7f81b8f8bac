//! What a rule does beyond counting: what happens over the limit, how strictly, at whose expense.

use std::fmt;
use std::time::Duration;

use crate::Reserve;

/// What happens to a request that a rule does not let pass as it is.
///
/// ```
/// use tollgate::rules::{Priority, Reason};
/// use tollgate::{Limiter, Request};
///
/// let limiter = Limiter::from_rules(r#"
/// rules:
///   - { name: health, route: /health, then: allow }
///   - { name: pay, route: /pay, limit: 1/h, then: deny 402 }
///   - { name: job, route: /job, limit: 1/h leaky burst 1, then: queue 9 up to 1day }
///   - { name: login, route: /login, limit: 1/h, then: 'ban [2h, 1day]' }
///   - { name: report, route: /report, limit: 2/h, priority: batch, then: shed }
/// "#.parse()?);
/// let second = |path| {
///     assert!(limiter.decide(&Request::new("POST", path)).allowed);
///     limiter.decide(&Request::new("POST", path))
/// };
/// assert!(second("/health").allowed);
/// assert_eq!(second("/pay").code, 402);
/// let job = second("/job"); // `RuleLimiter::admit` would come back when it is its turn
/// assert!(job.allowed && job.wait.as_secs() > 3590);
/// let login = second("/login");
/// assert_eq!((login.reason, login.retry_after.unwrap().as_secs()), (Reason::Banned, 7200));
/// let report = second("/report"); // what is left is for those who matter more
/// assert_eq!((report.code, report.shed()), (503, Some(Priority::Batch)));
/// # Ok::<(), tollgate::rules::Diagnostics>(())
/// ```
///
/// `defer` is the gateway's: elsewhere such requests are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Then {
    /// It goes on at once, whatever other rules say; nothing is charged.
    Allow,
    /// It is refused with a status.
    Deny {
        /// 429 unless written.
        status: u16,
    },
    /// It is held back until its turn comes, if that is soon enough; otherwise refused.
    Delay {
        /// The longest wait.
        up_to: Duration,
    },
    /// It stands in a line of bounded length.
    Queue(Queue),
    /// It is answered 202 and replayed later, at the rate the limit allows.
    Defer,
    /// It is refused, and who keeps on is shut out for longer and longer.
    Ban(Ban),
    /// It is dropped by its priority: the least important first.
    Shed(Shed),
}

/// `queue 100 up to 2s lifo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// How many may stand in line.
    pub places: u64,
    /// The longest anyone waits.
    pub up_to: Duration,
    /// Whether the newest goes first.
    pub lifo: bool,
}

/// `ban [1min, 10min, 1h] after 20 denials in 1min`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// How long the first ban lasts, the second, and so on; the last one repeats.
    pub ladder: Vec<Duration>,
    /// So many refusals lead to it; the first one does if nothing is written.
    pub after: u64,
    /// Within this time.
    pub within: Duration,
}

/// `{ shed: { critical: 20%, normal: 30% } }`: what is kept of a limit for more important requests.
///
/// ```
/// use tollgate::Reserve;
/// use tollgate::rules::{Priority, Shed};
/// let shed = Shed::default();
/// assert_eq!(shed.reserve(Priority::Critical), Reserve::None);
/// assert_eq!(shed.reserve(Priority::Normal), Reserve::Percent(20));
/// assert_eq!(shed.reserve(Priority::Batch), Reserve::Percent(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// So many percent for critical requests alone.
    pub critical: u8,
    /// So many percent more for normal and critical ones.
    pub normal: u8,
}

impl Default for Shed {
    fn default() -> Shed {
        Shed { critical: 20, normal: 30 }
    }
}

impl Shed {
    /// What a request of that priority must leave.
    pub fn reserve(&self, priority: Priority) -> Reserve {
        match priority {
            Priority::Critical => Reserve::None,
            Priority::Normal => Reserve::Percent(self.critical),
            Priority::Batch => Reserve::Percent(self.critical + self.normal),
        }
    }
}

impl Then {
    /// The word it begins with.
    pub fn name(&self) -> &'static str {
        match self {
            Then::Allow => "allow",
            Then::Deny { .. } => "deny",
            Then::Delay { .. } => "delay",
            Then::Queue(_) => "queue",
            Then::Defer => "defer",
            Then::Ban(_) => "ban",
            Then::Shed(_) => "shed",
        }
    }

    /// The status a refused request is answered with.
    pub fn status(&self) -> u16 {
        match self {
            Then::Deny { status } => *status,
            Then::Shed(_) => 503,
            _ => 429,
        }
    }

    /// How long a request may be held back.
    pub fn patience(&self) -> Duration {
        match self {
            Then::Delay { up_to } => *up_to,
            Then::Queue(queue) => queue.up_to,
            _ => Duration::ZERO,
        }
    }
}

impl Default for Then {
    fn default() -> Then {
        Then::Deny { status: 429 }
    }
}

/// Whether a rule's refusals count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// They do.
    #[default]
    Enforce,
    /// They are only reported.
    Shadow,
    /// They do for so many of a hundred keys, always the same ones.
    Share(u8),
    /// The rule is not asked at all.
    Off,
}

impl std::str::FromStr for Mode {
    type Err = String;

    /// ```
    /// use tollgate::rules::Mode;
    /// assert_eq!("enforce 10%".parse(), Ok(Mode::Share(10)));
    /// assert!("on".parse::<Mode>().is_err());
    /// ```
    fn from_str(text: &str) -> Result<Mode, String> {
        match text.trim() {
            "enforce" => return Ok(Mode::Enforce),
            "shadow" => return Ok(Mode::Shadow),
            "off" => return Ok(Mode::Off),
            _ => {}
        }
        let share = text.trim().strip_prefix("enforce").and_then(|rest| rest.strip_suffix('%'));
        match share.and_then(|share| share.trim().parse().ok()) {
            Some(100) => Ok(Mode::Enforce),
            Some(percent @ 1..100) => Ok(Mode::Share(percent)),
            _ => Err(format!(
                "{:?} is no mode: use `enforce`, `shadow`, `off`, or `enforce 10%` for some of the \
                 keys",
                text.chars().take(40).collect::<String>()
            )),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mode::Enforce => f.write_str("enforce"),
            Mode::Shadow => f.write_str("shadow"),
            Mode::Share(percent) => write!(f, "enforce {percent}%"),
            Mode::Off => f.write_str("off"),
        }
    }
}

/// What happens while the store cannot answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnError {
    /// Requests pass.
    #[default]
    Allow,
    /// Requests are refused.
    Deny,
    /// A share of the limit is enforced in this process.
    Local,
}

impl OnError {
    /// Its name in rules and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            OnError::Allow => "allow",
            OnError::Deny => "deny",
            OnError::Local => "local",
        }
    }
}

/// What happens to a request that lacks an attribute of a rule's key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// All such requests share one counter.
    #[default]
    Shared,
    /// The rule does not apply.
    Skip,
    /// It is refused.
    Deny,
}

/// How important a request is under a limit that sheds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Dropped first.
    Batch,
    /// The usual.
    #[default]
    Normal,
    /// Dropped last.
    Critical,
}

impl Priority {
    /// All of them, the least important first.
    pub const ALL: [Priority; 3] = [Priority::Batch, Priority::Normal, Priority::Critical];

    /// Its name in rules and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Batch => "batch",
            Priority::Normal => "normal",
            Priority::Critical => "critical",
        }
    }

    /// The priority of that name; that of any request if it is no name of one.
    pub(crate) fn named(name: &str) -> Priority {
        let known = Priority::ALL.into_iter().find(|priority| priority.as_str() == name);
        known.unwrap_or_default()
    }
}

/// What a request passes when no rule matches it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// It passes.
    #[default]
    Allow,
    /// It is answered 503.
    Deny,
}
