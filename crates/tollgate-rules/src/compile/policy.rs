//! The policies of a rule: the action over the limit, mode, priority, and behaviour without a store.

use std::fmt;
use std::time::Duration;

use tollgate::Reserve;

/// The action for a request that is over the limit of a rule.
///
/// ```
/// use tollgate_rules::{Priority, Reason, Request, RuleLimiter};
///
/// let limiter = RuleLimiter::new(r#"
/// rules:
///   - { name: health, route: /health, then: allow }
///   - { name: pay, route: /pay, limit: 1/h, then: deny 402 }
///   - { name: job, route: /job, limit: 1/h leaky burst 1, then: queue 9 up to 1day }
///   - { name: login, route: /login, limit: 1/h, then: 'ban [2h, 1day]' }
///   - { name: report, route: /report, limit: 2/h, priority: batch, then: shed }
/// "#.parse()?);
/// let second = |path| {
///     assert!(limiter.decide_now(&Request::new("POST", path)).allowed);
///     limiter.decide_now(&Request::new("POST", path))
/// };
/// assert!(second("/health").allowed);
/// assert_eq!(second("/pay").code, 402);
/// let job = second("/job"); // `RuleLimiter::admit` would wait for its turn
/// assert!(job.allowed && job.wait.as_secs() > 3590);
/// let login = second("/login");
/// assert_eq!((login.reason, login.retry_after.unwrap().as_secs()), (Reason::Banned, 7200));
/// let report = second("/report"); // the rest is reserved for more important requests
/// assert_eq!((report.code, report.shed()), (503, Some(Priority::Batch)));
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
///
/// Only the gateway supports `defer`: elsewhere such requests are refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Then {
    /// The request passes, whatever other rules decide; nothing is charged.
    Allow,
    /// The request is refused with a status.
    Deny {
        /// The status; 429 by default.
        status: u16,
    },
    /// The request is delayed until it conforms, if that is soon enough; otherwise refused.
    Delay {
        /// The longest wait.
        up_to: Duration,
        /// The status of a request that would have to wait longer; 429 by default.
        status: u16,
    },
    /// The request waits in a bounded queue.
    Queue(Queue),
    /// The request is answered 202 and replayed later, at the rate of the limit.
    Defer,
    /// The request is refused, and its key is banned, longer each time.
    Ban(Ban),
    /// The request is refused by its priority: the least important first.
    Shed(Shed),
}

/// The queue of a rule: `queue 100 up to 2s lifo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The maximum number of waiting requests.
    pub capacity: u64,
    /// The maximum wait.
    pub up_to: Duration,
    /// Whether the newest request goes first.
    pub lifo: bool,
    /// The status of a request that finds no place or waits in vain; 429 by default.
    pub status: u16,
}

/// The bans of a rule: `ban [1min, 10min, 1h] after 20 denials in 1min`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ban {
    /// The durations of the first ban, the second, and so on; the last one repeats.
    pub ladder: Vec<Duration>,
    /// The number of refusals that lead to a ban; 1 by default.
    pub after: u64,
    /// The time within which these refusals happen.
    pub within: Duration,
}

/// `{ shed: { critical: 20%, normal: 30% } }`: the shares of a limit that are reserved
/// for more important requests.
///
/// ```
/// use tollgate::Reserve;
/// use tollgate_rules::{Priority, Shed};
/// let shed = Shed::default();
/// assert_eq!(shed.reserve(Priority::Critical), Reserve::None);
/// assert_eq!(shed.reserve(Priority::Normal), Reserve::Percent(20));
/// assert_eq!(shed.reserve(Priority::Batch), Reserve::Percent(50));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shed {
    /// The percentage reserved for critical requests.
    pub critical: u8,
    /// The further percentage reserved for normal and critical requests.
    pub normal: u8,
}

impl Default for Shed {
    fn default() -> Shed {
        Shed { critical: 20, normal: 30 }
    }
}

impl Shed {
    /// Returns the reserve that a request of a priority must leave.
    pub fn reserve(&self, priority: Priority) -> Reserve {
        match priority {
            Priority::Critical => Reserve::None,
            Priority::Normal => Reserve::Percent(self.critical),
            Priority::Batch => Reserve::Percent(self.critical + self.normal),
        }
    }
}

/// The status of a refused request, unless the rule sets another.
pub(crate) const TOO_MANY_REQUESTS: u16 = 429;

impl Then {
    /// Returns the keyword.
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

    /// Returns the status of a refused request.
    pub fn status(&self) -> u16 {
        match self {
            Then::Deny { status } | Then::Delay { status, .. } => *status,
            Then::Queue(queue) => queue.status,
            Then::Shed(_) => 503,
            _ => TOO_MANY_REQUESTS,
        }
    }

    /// Returns the maximum wait of a request.
    pub fn patience(&self) -> Duration {
        match self {
            Then::Delay { up_to, .. } => *up_to,
            Then::Queue(queue) => queue.up_to,
            _ => Duration::ZERO,
        }
    }
}

impl Default for Then {
    fn default() -> Then {
        Then::Deny { status: TOO_MANY_REQUESTS }
    }
}

/// Whether the refusals of a rule are enforced. [`ModeData`](crate::ModeData) changes it while running.
///
/// ```
/// use tollgate_rules::{Request, RuleLimiter};
///
/// let limiter = RuleLimiter::new("
/// attributes: [user]
/// rules:
///   - { name: asleep, route: /asleep, per: user, limit: 1/h, mode: off }
///   - { name: watched, route: /watched, per: user, limit: 1/h, mode: shadow }
///   - { name: tried, route: /tried, per: user, limit: 1/h, mode: enforce 10% }
/// ".parse()?);
/// let second = |path, user| {
///     let request = Request::new("GET", path).attribute("user", user);
///     assert!(limiter.decide_now(&request).allowed);
///     limiter.decide_now(&request)
/// };
/// let asleep = second("/asleep", 0);
/// assert!(asleep.allowed && !asleep.shadow_denied());
/// let watched = second("/watched", 0);
/// assert!(watched.allowed && watched.shadow_denied());
/// let refused = (0..1_000).filter(|user| !second("/tried", *user).allowed).count();
/// assert!((50..150).contains(&refused)); // about a hundred
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Refusals are enforced.
    #[default]
    Enforce,
    /// Refusals are only reported.
    Shadow,
    /// Refusals are enforced for this percentage of the keys, always the same ones.
    Share(u8),
    /// The rule is not checked at all.
    Off,
}

impl std::str::FromStr for Mode {
    type Err = String;

    /// ```
    /// use tollgate_rules::Mode;
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

/// The behaviour of a rule while the store cannot answer.
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
    /// Returns the name in rules and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            OnError::Allow => "allow",
            OnError::Deny => "deny",
            OnError::Local => "local",
        }
    }
}

/// The behaviour of a rule for a request that lacks an attribute of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingKey {
    /// All such requests share one counter.
    #[default]
    Shared,
    /// The rule does not apply.
    Skip,
    /// The request is refused.
    Deny,
}

/// The priority of a request under a limit that sheds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// Refused first.
    Batch,
    /// The default.
    #[default]
    Normal,
    /// Refused last.
    Critical,
}

impl Priority {
    /// All priorities, the least important first.
    pub const ALL: [Priority; 3] = [Priority::Batch, Priority::Normal, Priority::Critical];

    /// Returns the name in rules and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Priority::Batch => "batch",
            Priority::Normal => "normal",
            Priority::Critical => "critical",
        }
    }

    /// Returns the priority of that name, or the default if there is none.
    pub(crate) fn named(name: &str) -> Priority {
        let known = Priority::ALL.into_iter().find(|priority| priority.as_str() == name);
        known.unwrap_or_default()
    }
}

/// The decision for a request that no rule matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmatched {
    /// The request passes.
    #[default]
    Allow,
    /// The request is answered 503.
    Deny,
}
