//! A request as rules see it: borrowed attributes and a cost.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use smallvec::SmallVec;

use crate::Value;

/// A source of headers, which are looked up when a rule reads them.
///
/// Rules read few of the headers of a request, and copying all of them would cost more than deciding.
///
/// ```
/// use std::borrow::Cow;
/// use tollgate_rules::HeaderSource;
///
/// #[derive(Debug)]
/// struct OnlyHost(&'static str);
///
/// impl HeaderSource for OnlyHost {
///     fn each<'h>(&'h self, name: &str, take: &mut dyn FnMut(Cow<'h, str>)) {
///         if name == "host" {
///             take(Cow::Borrowed(self.0));
///         }
///     }
/// }
/// let host = OnlyHost("example.com");
/// let request = tollgate_rules::Request::new("GET", "/").headers_of(&host);
/// ```
pub trait HeaderSource: fmt::Debug + Sync {
    /// Calls `take` with every value of a header, in order. The name is in lower case.
    fn each<'h>(&'h self, name: &str, take: &mut dyn FnMut(Cow<'h, str>));
}

/// A request to decide: its attributes and its cost.
///
/// ```
/// use tollgate_rules::Request;
///
/// let request = Request::new("POST", "/login?next=%2F")
///     .peer("203.0.113.7".parse()?)
///     .header("X-Org", "acme")
///     .attribute("plan", "pro")
///     .cost(3);
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Request<'a> {
    pub(crate) domain: Option<&'a str>,
    pub(crate) method: Option<&'a str>,
    /// The path as it was sent, with its query.
    pub(crate) target: Option<&'a str>,
    pub(crate) host: Option<&'a str>,
    pub(crate) peer: Option<IpAddr>,
    pub(crate) headers: SmallVec<[(&'a str, &'a str); 4]>,
    /// The source of other headers.
    pub(crate) more_headers: Option<&'a dyn HeaderSource>,
    pub(crate) trusted_proxies: &'a [IpNet],
    pub(crate) patience: Duration,
    pub(crate) attributes: SmallVec<[(&'a str, Value<'a>); 4]>,
    /// The names of which more may exist than is stated.
    pub(crate) unknown: &'a [&'a str],
    /// The names that are not known yet.
    pub(crate) pending: &'a [&'a str],
    pub(crate) cost: u64,
    pub(crate) tracking: OutcomeTracking,
    /// Whether it is only asked about.
    pub(crate) is_dry_run: bool,
}

/// Whether the outcome of a request will be reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OutcomeTracking {
    /// The outcome is reported if a rule needs it.
    #[default]
    ByRules,
    /// The outcome is not reported.
    Never,
    /// The charge of a reservation is remembered in any case, and can be refunded within this time;
    /// without a time, within that of the rules.
    Always(Option<Duration>),
}

impl<'a> Request<'a> {
    /// Creates a request for a path, with or without a query.
    #[inline]
    pub fn new(method: &'a str, target: &'a str) -> Request<'a> {
        Request { method: Some(method), target: Some(target), ..Request::empty() }
    }

    /// Creates a request of which only attributes are known.
    ///
    /// ```
    /// let request = tollgate_rules::Request::empty().attribute("user", "ann");
    /// ```
    #[inline]
    pub fn empty() -> Request<'a> {
        Request {
            domain: None,
            method: None,
            target: None,
            host: None,
            peer: None,
            headers: SmallVec::new(),
            more_headers: None,
            trusted_proxies: &[],
            patience: Duration::ZERO,
            attributes: SmallVec::new(),
            unknown: &[],
            pending: &[],
            cost: 1,
            tracking: OutcomeTracking::ByRules,
            is_dry_run: false,
        }
    }

    /// Sets the domain whose rules apply; the only one by default.
    #[inline]
    pub fn domain(mut self, domain: &'a str) -> Request<'a> {
        self.domain = Some(domain);
        self
    }

    /// Sets the host.
    #[inline]
    pub fn host(mut self, host: &'a str) -> Request<'a> {
        self.host = Some(host);
        self
    }

    /// Sets the address at the other end of the connection.
    ///
    /// The attribute `ip` is this address, unless it is that of a trusted proxy.
    #[inline]
    pub fn peer(mut self, peer: IpAddr) -> Request<'a> {
        self.peer = Some(peer);
        self
    }

    /// Adds a header; names are case-insensitive.
    pub fn header(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.headers.push((name, value));
        self
    }

    /// Sets the source of headers besides those that were [added](Request::header).
    #[inline]
    pub fn headers_of(mut self, headers: &'a dyn HeaderSource) -> Request<'a> {
        self.more_headers = Some(headers);
        self
    }

    /// Sets the trusted proxies besides those of the rules.
    #[inline]
    pub fn trusted_proxies(mut self, proxies: &'a [IpNet]) -> Request<'a> {
        self.trusted_proxies = proxies;
        self
    }

    /// Sets the maximum wait, as if every rule had `then: delay up to` that long.
    ///
    /// A rule with a longer wait keeps its own.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/s }]".parse()?);
    /// let request = Request::new("GET", "/");
    /// assert!(limiter.decide_now(&request).allowed);
    /// assert!(!limiter.decide_now(&request).allowed);
    /// let decision = limiter.decide_now(&request.patience(Duration::from_secs(5)));
    /// assert!(decision.allowed && decision.wait > Duration::ZERO);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn patience(mut self, patience: Duration) -> Request<'a> {
        self.patience = patience;
        self
    }

    /// Sets an attribute.
    ///
    /// Well-known names set what they name: `method`, `path`, `host`, `ip`, and `route` a method
    /// and a path, as in `POST /login`. A later value replaces an earlier one.
    ///
    /// ```
    /// use tollgate_rules::Request;
    /// let request = Request::empty()
    ///     .attribute("route", "POST /login") // as in Request::new("POST", "/login")
    ///     .attribute("ip", "203.0.113.7")
    ///     .attribute("jwt.sub", "ann");
    /// ```
    pub fn attribute(mut self, name: &'a str, value: impl Into<Value<'a>>) -> Request<'a> {
        let value = value.into();
        match (name, &value) {
            ("method", Value::Text(Cow::Borrowed(text))) => self.method = Some(text),
            ("path", Value::Text(Cow::Borrowed(text))) => self.target = Some(text),
            ("host", Value::Text(Cow::Borrowed(text))) => self.host = Some(text),
            ("route", Value::Text(Cow::Borrowed(text))) => {
                let (method, target) = match text.trim().split_once(char::is_whitespace) {
                    Some((method, target)) => (Some(method), target.trim_start()),
                    None => (None, text.trim()),
                };
                self.method = method.or(self.method);
                self.target = Some(target);
            }
            ("ip", value) if value.ip().is_some() => self.peer = value.ip(),
            _ => {
                self.attributes.retain(|(known, _)| *known != name);
                self.attributes.push((name, value));
            }
        }
        self
    }

    /// Sets the names that are unknown, with all that begins with them.
    ///
    /// An unknown attribute may exist though it is not stated: a body that could not be read is
    /// unknown, a body that was read and lacks a field is not. Rules reserve the whole limit for an
    /// unknown cost, and its charge stays.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("
    /// attributes: [response.tokens]
    /// rules:
    ///   - { name: tokens, limit: 100 tokens/h, cost: { reserve: body.max_tokens, settle: response.tokens } }
    /// ".parse()?);
    /// let unreadable = Request::new("POST", "/v1/chat").unknown(&["body"]);
    /// let decision = limiter.decide_now(&unreadable);
    /// assert_eq!(decision.tightest().unwrap().verdict.remaining, 0);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn unknown(mut self, names: &'a [&'a str]) -> Request<'a> {
        self.unknown = names;
        self
    }

    /// Sets the names that are not known yet, with all that begins with them.
    ///
    /// Rules that read such an attribute are left out of the decision. A request that the other rules
    /// refuse can be answered before its body has come. If a rule that is left out may allow the
    /// request whatever others decide, no rule decides.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("
    /// rules:
    ///   - { name: calls, limit: 1/h }
    ///   - { name: tokens, limit: 100 tokens/h, cost: body.max_tokens }
    /// ".parse()?);
    /// let chat = Request::new("POST", "/v1/chat");
    /// assert!(limiter.decide_now(&chat.clone().attribute("body.max_tokens", 9)).allowed);
    /// let decision = limiter.decide_now(&chat.pending(&["body"]).dry_run());
    /// assert_eq!((decision.allowed, decision.rule()), (false, Some("calls")));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn pending(mut self, names: &'a [&'a str]) -> Request<'a> {
        self.pending = names;
        self
    }

    /// States that the outcome will not be reported.
    ///
    /// Rules that count outcomes then only try their limits, unless the request has its outcome as
    /// attributes.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("
    /// rules: [{ name: login, limit: 1/h, count: response.status == 401 }]
    /// ".parse()?);
    /// let visit = Request::new("POST", "/login").unreported();
    /// assert!(limiter.decide_now(&visit).allowed && limiter.decide_now(&visit).allowed);
    /// assert!(limiter.decide_now(&visit.clone().attribute("response.status", 401)).allowed);
    /// assert!(!limiter.decide_now(&visit).allowed);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn unreported(mut self) -> Request<'a> {
        self.tracking = OutcomeTracking::Never;
        self
    }

    /// Remembers the charge, whatever the rules are, so that it can be settled
    /// ([`Outcome::spent`](crate::Outcome::spent)) or given back later: within so long, or as long as
    /// its rules say.
    #[inline]
    pub fn to_be_settled(mut self, within: Option<Duration>) -> Request<'a> {
        self.tracking = OutcomeTracking::Always(within);
        self
    }

    /// Asks how it would be answered right now, and charges nothing.
    ///
    /// ```
    /// use tollgate_rules::{Request, RuleLimiter};
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 1/h }]".parse()?);
    /// let request = Request::new("GET", "/");
    /// assert!(limiter.decide_now(&request.clone().dry_run()).allowed);
    /// assert!(limiter.decide_now(&request).allowed);
    /// assert!(!limiter.decide_now(&request.dry_run()).allowed);
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn dry_run(mut self) -> Request<'a> {
        self.is_dry_run = true;
        self
    }

    /// Sets the cost for rules without a `cost`; 1 by default.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Request<'a> {
        self.cost = cost;
        self
    }
}
