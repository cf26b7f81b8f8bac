//! The facts about one request under the rules of a domain, computed on first use.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use smallvec::SmallVec;

use crate::compile::attribute::Attribute;
use crate::compile::route::Route;
use crate::matching::address::TrustedProxies;
use crate::matching::path;
use crate::matching::request::OutcomeTracking;
use crate::{HeaderSource, Request, Value};

/// The facts about a request under the rules of one domain.
pub(crate) struct RequestFacts<'r> {
    trust: &'r TrustedProxies,
    pub(crate) cost: u64,
    method: Option<&'r str>,
    target: Option<&'r str>,
    host: Option<&'r str>,
    peer: Option<IpAddr>,
    headers: &'r [(&'r str, &'r str)],
    more_headers: Option<&'r dyn HeaderSource>,
    trusted_proxies: &'r [IpNet],
    pub(crate) patience: Duration,
    attributes: &'r [(&'r str, Value<'r>)],
    unknown: &'r [&'r str],
    pub(crate) pending: &'r [&'r str],
    pub(crate) tracking: OutcomeTracking,
    path: OnceCell<Option<Cow<'r, str>>>,
    ip: OnceCell<Option<IpAddr>>,
}

impl<'r> RequestFacts<'r> {
    pub(crate) fn new(request: &'r Request<'_>, trust: &'r TrustedProxies) -> RequestFacts<'r> {
        RequestFacts {
            trust,
            cost: request.cost,
            method: request.method,
            target: request.target,
            host: request.host,
            peer: request.peer,
            headers: &request.headers,
            more_headers: request.more_headers,
            trusted_proxies: request.trusted_proxies,
            patience: request.patience,
            attributes: &request.attributes,
            unknown: request.unknown,
            pending: request.pending,
            tracking: request.tracking,
            path: OnceCell::new(),
            ip: OnceCell::new(),
        }
    }

    pub(crate) fn method(&self) -> Option<&'r str> {
        self.method
    }

    /// Returns the path in its normal spelling.
    pub(crate) fn path(&self) -> Option<&str> {
        let normal = || self.target.map(path::normal);
        self.path.get_or_init(normal).as_deref()
    }

    /// Returns the client's address.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        *self.ip.get_or_init(|| {
            let forwarded_for = || self.values("x-forwarded-for");
            Some(self.trust.client(self.peer?, self.trusted_proxies, forwarded_for))
        })
    }

    /// Returns the value of an attribute; `route` is the one by which the rule matched.
    pub(crate) fn get<'f>(
        &'f self,
        attribute: &Attribute,
        route: Option<&Route>,
    ) -> Option<Value<'f>> {
        let text = |text: Cow<'f, str>| Some(Value::Text(text));
        match attribute {
            Attribute::Method => text(self.method()?.into()),
            Attribute::Path => text(self.path()?.into()),
            Attribute::Host => text(self.host()?),
            Attribute::Ip => Some(Value::Ip(self.ip()?)),
            Attribute::Peer => Some(Value::Ip(self.peer?)),
            Attribute::Endpoint => {
                let (method, path) = (self.method().unwrap_or("*"), self.path()?);
                let pattern = route.map_or(path, |route| route.path());
                text(format!("{method} {pattern}").into())
            }
            Attribute::Cost => Some(Value::Number(i64::try_from(self.cost).unwrap_or(i64::MAX))),
            Attribute::Header(name) => {
                self.header(name).map(Value::Text).or_else(|| self.entry("header", name))
            }
            Attribute::Query(name) => {
                let query = self.target.and_then(|target| path::query(target, name));
                query.map(Value::Text).or_else(|| self.entry("query", name))
            }
            Attribute::Cookie(name) => {
                self.cookie(name).map(Value::Text).or_else(|| self.entry("cookie", name))
            }
            Attribute::Param(name) => {
                let param = || route?.param(self.path()?, name);
                param().map(Value::from).or_else(|| self.entry("param", name))
            }
            Attribute::Named(name) => self.named(name),
        }
    }

    /// Whether an attribute is unknown: it may exist though the request does not state it.
    pub(crate) fn is_unknown(&self, attribute: &Attribute) -> bool {
        let Attribute::Named(name) = attribute else { return false };
        is_below(name, self.unknown)
    }

    fn named(&self, name: &str) -> Option<Value<'r>> {
        let known = self.attributes.iter().find(|(known, _)| *known == name);
        known.map(|(_, value)| value.clone())
    }

    /// Returns an entry of a map that is given as an attribute: `header.x-org`.
    fn entry(&self, map: &str, key: &str) -> Option<Value<'r>> {
        let is_entry = |name: &str| {
            let rest = name.strip_prefix(map).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(key))
        };
        let known = self.attributes.iter().find(|(known, _)| is_entry(known));
        known.map(|(_, value)| value.clone())
    }

    /// Returns all values of a header, in order.
    fn values(&self, name: &str) -> SmallVec<[Cow<'r, str>; 2]> {
        let known = self.headers.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let mut values: SmallVec<_> = known.map(|(_, value)| Cow::Borrowed(*value)).collect();
        if let Some(more) = self.more_headers {
            more.each(name, &mut |value| values.push(value));
        }
        values
    }

    fn host(&self) -> Option<Cow<'r, str>> {
        match self.host {
            Some(host) => Some(path::host(host)),
            None => Some(part(self.values("host").into_iter().next()?, path::host)),
        }
    }

    /// Returns the identity in a header. Contradicting values are no identity: whichever the service
    /// believes, the other would give a client as many identities as it likes. The header is not
    /// missing either, or `missing_key: skip` would be a way around the rule.
    pub(crate) fn identity_in_header(&self, name: &str) -> Option<HeaderIdentity<'r>> {
        let mut values = self.values(name);
        let Some(last) = values.pop() else {
            return self.entry("header", name).map(HeaderIdentity::One);
        };
        let same = values.iter().all(|value| value.trim() == last.trim());
        Some(match same {
            true => HeaderIdentity::One(Value::Text(part(last, |value| value.trim().into()))),
            false => HeaderIdentity::Several,
        })
    }

    /// Returns a header; several values are joined to a list.
    fn header(&self, name: &str) -> Option<Cow<'r, str>> {
        let mut values = self.values(name);
        match values.len() {
            0 => None,
            1 => values.pop().map(|value| part(value, |value| value.trim().into())),
            _ => {
                let all: Vec<&str> = values.iter().map(|value| value.trim()).collect();
                Some(Cow::Owned(all.join(", ")))
            }
        }
    }

    fn cookie(&self, name: &str) -> Option<Cow<'r, str>> {
        self.values("cookie").into_iter().find_map(|cookies| match cookies {
            Cow::Borrowed(cookies) => cookie(cookies, name).map(Cow::Borrowed),
            Cow::Owned(cookies) => cookie(&cookies, name).map(|value| value.to_owned().into()),
        })
    }
}

/// Returns whether a name is one of several, or begins with one of them and a dot.
pub(crate) fn is_below(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The identity in a header.
pub(crate) enum HeaderIdentity<'r> {
    One(Value<'r>),
    /// The header has several values that contradict each other.
    Several,
}

/// Returns a part of a text, borrowed if the text is.
fn part<'t>(text: Cow<'t, str>, of: impl Fn(&str) -> Cow<'_, str>) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => of(text),
        Cow::Owned(text) => Cow::Owned(of(&text).into_owned()),
    }
}

fn cookie<'c>(cookies: &'c str, name: &str) -> Option<&'c str> {
    let mut pairs = cookies.split(';').filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}
