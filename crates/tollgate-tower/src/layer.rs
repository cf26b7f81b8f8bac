//! The layer that limits services.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http::header::{HeaderName, InvalidHeaderName};
use http::request::Parts;
use ipnet::IpNet;
use tollgate::{Limit, Store};
use tollgate_rules::{RuleLimiter, Rules, Value};
use tower_layer::Layer;

use crate::headers::HeaderStyle;
use crate::refusal::Refusal;
use crate::request_limiter::RequestLimiter;
use crate::service::RateLimit;

/// A layer that limits services. Clones and the services they make share their counters.
///
/// ```
/// use axum::{Router, routing::get};
/// use tollgate_rules::Rules;
/// use tollgate_tower::RateLimitLayer;
///
/// let rules: Rules = "
/// rules:
///   - { name: edge, per: ip, limit: 10/s burst 20 }
///   - { name: login, route: POST /login, per: ip, limit: [5/min, 20/h sliding] }
/// ".parse()?; // or Rules::from_file("tollgate.yaml")
/// let app = Router::new()
///     .route("/", get(|| async { "hello" }))
///     .layer(RateLimitLayer::from_rules(rules));
/// // axum::serve(listener, app)
/// let app = app.into_make_service_with_connect_info::<std::net::SocketAddr>();
/// # Ok::<(), tollgate_rules::Diagnostics>(())
/// ```
///
/// # Whose address
///
/// Rules that count `per: ip` need the address of the client's connection. It is taken from where
/// [axum] (served `into_make_service_with_connect_info::<SocketAddr>()`) and tonic (the feature
/// `tonic`) put it, from a [`Peer`](crate::Peer) among the request's extensions, or from [a
/// function of yours](RateLimitLayer::peer). **Where the server tells no address, a request that
/// such a rule counts is answered 500** with what to change: all clients would be limited as one.
/// If your function returns none, the request shares one counter with all such requests, and a
/// warning is logged once.
///
/// # Other attributes
///
/// The layer sees the head of a request. Rules that read anything else, such as a declared `user`,
/// need an [`attribute`](RateLimitLayer::attribute); a warning is logged for each that has none.
///
/// [axum]: https://docs.rs/axum
#[derive(Clone)]
pub struct RateLimitLayer {
    limiter: Arc<RequestLimiter>,
}

impl RateLimitLayer {
    /// Limits by rules, counting in memory.
    pub fn from_rules(rules: Rules) -> RateLimitLayer {
        RateLimitLayer::new(RuleLimiter::new(rules))
    }

    /// Limits by a limiter that others may use too, wherever its counters are: in memory, or in a
    /// store that other processes share.
    ///
    /// ```
    /// use tollgate_rules::RuleLimiter;
    /// use tollgate_tower::RateLimitLayer;
    ///
    /// let limiter = RuleLimiter::new("rules: [{ name: api, limit: 10/s }]".parse()?);
    /// let layer = RateLimitLayer::new(limiter.clone());
    /// limiter.replace("rules: [{ name: api, limit: 20/s }]".parse()?); // while it runs
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn new<S: Store + 'static>(limiter: RuleLimiter<S>) -> RateLimitLayer {
        RateLimitLayer { limiter: Arc::new(RequestLimiter::new(limiter)) }
    }

    /// A limit for each client address; of IPv6, for each network of 64 bits.
    ///
    /// ```
    /// let layer = tollgate_tower::RateLimitLayer::per_ip("10/s burst 20".parse()?);
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn per_ip(limit: Limit) -> RateLimitLayer {
        RateLimitLayer::one_rule("per-ip", "ip", &limit)
    }

    /// A limit for each value of a header. Requests without it share one counter.
    ///
    /// ```
    /// let layer = tollgate_tower::RateLimitLayer::per_header("x-api-key", "10/s".parse()?)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn per_header(name: &str, limit: Limit) -> Result<RateLimitLayer, InvalidHeaderName> {
        let name: HeaderName = name.parse()?;
        let per = format!("header[{:?}]", name.as_str());
        Ok(RateLimitLayer::one_rule("per-header", &per, &limit))
    }

    /// A limit for each key that a function finds in the head of a request. Requests without one
    /// share one counter.
    ///
    /// ```
    /// use tollgate_tower::RateLimitLayer;
    ///
    /// #[derive(Clone)]
    /// struct User(String); // put among the extensions by the authentication
    ///
    /// let layer = RateLimitLayer::per_key("100/min".parse()?, |head| {
    ///     Some(head.extensions.get::<User>()?.0.clone())
    /// });
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn per_key<F>(limit: Limit, key: F) -> RateLimitLayer
    where
        F: Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    {
        RateLimitLayer::one_rule("per-key", "key", &limit).attribute("key", key)
    }

    /// The simple constructors make rules too, so that there is only one code path.
    fn one_rule(name: &str, per: &str, limit: &Limit) -> RateLimitLayer {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        let (name, per, limit) = (quoted(name), quoted(per), quoted(&limit.to_string()));
        let text =
            format!("attributes: [key]\nrules: [{{ name: {name}, per: {per}, limit: {limit} }}]");
        RateLimitLayer::from_rules(text.parse().expect("a limit reads as it is written"))
    }

    /// An attribute that rules may use, found by a function in the head of a request: in its
    /// extensions, in a token that was verified before.
    ///
    /// ```
    /// use tollgate_tower::RateLimitLayer;
    ///
    /// #[derive(Clone)]
    /// struct Claims { org: String }
    ///
    /// let rules = "attributes: [org]\nrules: [{ name: api, per: org, limit: 100/s }]".parse()?;
    /// let layer = RateLimitLayer::from_rules(rules)
    ///     .attribute("org", |head| Some(head.extensions.get::<Claims>()?.org.clone()));
    /// # Ok::<(), tollgate_rules::Diagnostics>(())
    /// ```
    pub fn attribute<F, V>(mut self, name: &str, value: F) -> RateLimitLayer
    where
        F: Fn(&Parts) -> Option<V> + Send + Sync + 'static,
        V: Into<Value<'static>>,
    {
        let value = move |head: &Parts| value(head).map(Into::into);
        self.edit().attributes.push((name.into(), Arc::new(value)));
        self
    }

    /// Sets the function that finds the address of the client's connection, if not where axum and
    /// tonic put it. Requests for which it returns none share one counter. Do not use anything that a client sends: for `X-Forwarded-For` see
    /// [`trusted_proxies`](RateLimitLayer::trusted_proxies).
    pub fn peer<F>(mut self, peer: F) -> RateLimitLayer
    where
        F: Fn(&Parts) -> Option<IpAddr> + Send + Sync + 'static,
    {
        self.edit().peer = Some(Arc::new(peer));
        self
    }

    /// Sets the proxies in front of this service. The client is the rightmost address in
    /// `X-Forwarded-For` that is not a proxy; from other peers the header is ignored.
    ///
    /// ```
    /// let layer = tollgate_tower::RateLimitLayer::per_ip("10/s".parse()?)
    ///     .trusted_proxies(["10.0.0.0/8".parse()?]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trusted_proxies(mut self, proxies: impl IntoIterator<Item = IpNet>) -> RateLimitLayer {
        self.edit().trusted_proxies = proxies.into_iter().collect();
        self
    }

    /// Sets the style of the rate-limit headers.
    pub fn headers(mut self, style: HeaderStyle) -> RateLimitLayer {
        self.edit().headers = style;
        self
    }

    /// Sets the domain whose rules apply, if there are several.
    pub fn domain(mut self, domain: &str) -> RateLimitLayer {
        self.edit().domain = Some(domain.into());
        self
    }

    /// Lets requests wait up to this time instead of refusing them, as if every rule had `then:
    /// delay up to`. Requests that wait for a permit of a concurrency limit go in the order of
    /// their arrival.
    ///
    /// ```
    /// use std::time::Duration;
    /// let layer = tollgate_tower::RateLimitLayer::per_ip("10/s".parse()?)
    ///     .wait_up_to(Duration::from_secs(2));
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn wait_up_to(mut self, patience: Duration) -> RateLimitLayer {
        self.edit().patience = patience;
        self
    }

    /// Sets the handler that writes the response to refused requests.
    ///
    /// ```
    /// use http::Response;
    /// let layer = tollgate_tower::RateLimitLayer::per_ip("10/s".parse()?).on_refused(|refusal| {
    ///     let seconds = refusal.summary.retry_after_s().unwrap_or(1);
    ///     refusal.response().map(|_| format!("Take a breath. Come back in {seconds} s."))
    /// });
    /// # Ok::<(), tollgate::limit::ParseLimitError>(())
    /// ```
    pub fn on_refused<F, B>(mut self, summary: F) -> RateLimitLayer
    where
        F: Fn(&Refusal<'_>) -> Response<B> + Send + Sync + 'static,
        B: Into<Bytes>,
    {
        self.edit().on_refused = Some(Arc::new(move |refusal| summary(refusal).map(Into::into)));
        self
    }

    fn edit(&mut self) -> &mut RequestLimiter {
        Arc::make_mut(&mut self.limiter)
    }
}

impl<I> Layer<I> for RateLimitLayer {
    type Service = RateLimit<I>;

    fn layer(&self, inner: I) -> RateLimit<I> {
        self.limiter.warn_of_unsupplied_attributes();
        RateLimit::new(inner, self.limiter.clone())
    }
}

impl fmt::Debug for RateLimitLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RateLimitLayer").field(&self.limiter).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_limit_and_any_header_make_a_rule() {
        let long = "x".repeat(300);
        for name in ["x-api-key", "X-Api-Key", "a!#$%&'*+-.^_`|~9", &long] {
            for limit in [
                "10/s burst 20",
                "20/s leaky burst 50",
                "1k/month calendar",
                "500/h sliding slots 60",
                "5/min log",
                "100/s warmup 10s",
                "3 concurrent",
                "adaptive 20..500 concurrent",
                "200k tokens/day",
                "unlimited",
            ] {
                RateLimitLayer::per_header(name, limit.parse().unwrap()).unwrap();
            }
        }
        for name in ["", "a b", "a\"", "\u{e9}"] {
            assert!(RateLimitLayer::per_header(name, "1/s".parse().unwrap()).is_err(), "{name}");
        }
    }
}
