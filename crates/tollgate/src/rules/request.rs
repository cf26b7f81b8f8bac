//! A request as rules see it: attributes, borrowed from whoever asks.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use smallvec::SmallVec;

use super::Value;

/// Headers that are looked up when a rule asks for them. Rules look at few of those a request has,
/// so that copying all of them would cost more than deciding.
///
/// ```
/// use std::borrow::Cow;
/// use tollgate::rules::HeaderSource;
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
/// let request = tollgate::Request::new("GET", "/").headers_of(&host);
/// ```
pub trait HeaderSource: fmt::Debug + Sync {
    /// Hands over every value of a header, in order. The name is in lower case.
    fn each<'h>(&'h self, name: &str, take: &mut dyn FnMut(Cow<'h, str>));
}

/// What is asked about: a request's attributes and its cost.
///
/// ```
/// use tollgate::Request;
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
    /// Where other headers are looked up.
    pub(crate) more_headers: Option<&'a dyn HeaderSource>,
    pub(crate) trusted_proxies: &'a [IpNet],
    pub(crate) patience: Duration,
    pub(crate) attributes: SmallVec<[(&'a str, Value<'a>); 4]>,
    /// Names of which no more is known than was said.
    pub(crate) unknown: &'a [&'a str],
    pub(crate) cost: u64,
    pub(crate) follow: Follow,
}

/// Who asks for the outcome of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Follow {
    /// The rules that say so.
    #[default]
    ByRules,
    /// Nobody: there will be none.
    Never,
    /// Whoever reserves: what is charged is remembered in any case, and what is not needed may
    /// go back for so long; as the rules say without it.
    Always(Option<Duration>),
}

impl<'a> Request<'a> {
    /// A request for a path, with or without a query.
    #[inline]
    pub fn new(method: &'a str, target: &'a str) -> Request<'a> {
        Request { method: Some(method), target: Some(target), ..Request::empty() }
    }

    /// A request of which only attributes are known.
    ///
    /// ```
    /// let request = tollgate::Request::empty().attribute("user", "ann");
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
            cost: 1,
            follow: Follow::ByRules,
        }
    }

    /// Which domain's rules apply; the only one's if there is only one.
    #[inline]
    pub fn domain(mut self, domain: &'a str) -> Request<'a> {
        self.domain = Some(domain);
        self
    }

    /// The host it is for.
    #[inline]
    pub fn host(mut self, host: &'a str) -> Request<'a> {
        self.host = Some(host);
        self
    }

    /// Who is at the other end of the connection. The attribute `ip` is this address unless rules
    /// name proxies to be trusted, one of which it is.
    #[inline]
    pub fn peer(mut self, peer: IpAddr) -> Request<'a> {
        self.peer = Some(peer);
        self
    }

    /// Adds a header; names do not depend on case.
    pub fn header(mut self, name: &'a str, value: &'a str) -> Request<'a> {
        self.headers.push((name, value));
        self
    }

    /// Where headers are looked up, besides those that were [added](Request::header).
    #[inline]
    pub fn headers_of(mut self, headers: &'a dyn HeaderSource) -> Request<'a> {
        self.more_headers = Some(headers);
        self
    }

    /// Proxies whose word is taken for who is behind them, besides those that rules name.
    #[inline]
    pub fn trusted_proxies(mut self, proxies: &'a [IpNet]) -> Request<'a> {
        self.trusted_proxies = proxies;
        self
    }

    /// How long it may be held back where it would be refused otherwise, as if every rule said
    /// `then: delay up to` that long. A rule that says longer means longer.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("rules: [{ name: api, limit: 1/s }]".parse()?);
    /// let request = Request::new("GET", "/");
    /// assert!(limiter.decide(&request).allowed);
    /// assert!(!limiter.decide(&request).allowed);
    /// let decision = limiter.decide(&request.patience(Duration::from_secs(5)));
    /// assert!(decision.allowed && decision.wait > Duration::ZERO);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
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
    /// use tollgate::Request;
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

    /// Names of which no more is known than was said, with all that begins with them: what is not
    /// there may still be so. A body that could not be read is unknown; a body that was read and
    /// lacks a field is not. Rules do not take the unknown for nothing: what they reserve for it is
    /// the whole limit, and what they charged for it stays charged.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("
    /// rules:
    ///   - { name: tokens, limit: 100 tokens/h, cost: { reserve: body.max_tokens, settle: response.tokens } }
    /// ".parse()?);
    /// let unreadable = Request::new("POST", "/v1/chat").unknown(&["body"]);
    /// let decision = limiter.decide(&unreadable);
    /// assert_eq!(decision.tightest().unwrap().verdict.remaining, 0);
    /// limiter.settle(&decision, &unreadable.attribute("response.tokens", 7));
    /// assert!(limiter.decide(&Request::new("POST", "/v1/chat").attribute("body.max_tokens", 93)).allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn unknown(mut self, names: &'a [&'a str]) -> Request<'a> {
        self.unknown = names;
        self
    }

    /// Nobody will say how it went: rules that count outcomes only say whether they would let it
    /// pass, unless it brings its outcome along.
    ///
    /// ```
    /// use tollgate::{Limiter, Request};
    ///
    /// let limiter = Limiter::from_rules("
    /// rules: [{ name: login, limit: 1/h, count: response.status == 401 }]
    /// ".parse()?);
    /// let visit = Request::new("POST", "/login").unreported();
    /// assert!(limiter.decide(&visit).allowed && limiter.decide(&visit).allowed);
    /// assert!(limiter.decide(&visit.clone().attribute("response.status", 401)).allowed);
    /// assert!(!limiter.decide(&visit).allowed);
    /// # Ok::<(), tollgate::rules::Diagnostics>(())
    /// ```
    #[inline]
    pub fn unreported(mut self) -> Request<'a> {
        self.follow = Follow::Never;
        self
    }

    /// What it is charged is remembered, whatever its rules say, so that it can be settled
    /// ([`spent`](super::RuleLimiter::spent)) or given back later: within so long, or as long as
    /// its rules say.
    #[inline]
    pub fn to_be_settled(mut self, within: Option<Duration>) -> Request<'a> {
        self.follow = Follow::Always(within);
        self
    }

    /// What it costs where a rule does not say; 1 unless set.
    #[inline]
    pub fn cost(mut self, cost: u64) -> Request<'a> {
        self.cost = cost;
        self
    }
}
