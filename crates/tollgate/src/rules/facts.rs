//! What is known about one request while it is being decided, worked out when first asked for.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::net::IpAddr;

use super::address::Trust;
use super::attribute::Attribute;
use super::path;
use super::route::Route;
use super::{Request, Value};

/// A request and what follows from it under one domain's rules.
pub(crate) struct Facts<'r> {
    trust: &'r Trust,
    pub(crate) cost: u64,
    method: Option<&'r str>,
    target: Option<&'r str>,
    host: Option<&'r str>,
    peer: Option<IpAddr>,
    headers: &'r [(&'r str, &'r str)],
    attributes: &'r [(&'r str, Value<'r>)],
    path: OnceCell<Option<Cow<'r, str>>>,
    ip: OnceCell<Option<IpAddr>>,
}

impl<'r> Facts<'r> {
    pub(crate) fn new(request: &'r Request<'_>, trust: &'r Trust) -> Facts<'r> {
        Facts {
            trust,
            cost: request.cost,
            method: request.method,
            target: request.target,
            host: request.host,
            peer: request.peer,
            headers: &request.headers,
            attributes: &request.attributes,
            path: OnceCell::new(),
            ip: OnceCell::new(),
        }
    }

    pub(crate) fn method(&self) -> Option<&'r str> {
        self.method
    }

    /// The path, spelled in the one way all its spellings have in common.
    pub(crate) fn path(&self) -> Option<&str> {
        let normal = || self.target.map(path::normal);
        self.path.get_or_init(normal).as_deref()
    }

    /// The client's address.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        *self.ip.get_or_init(|| Some(self.trust.client(self.peer?, self.headers)))
    }

    /// The value of an attribute; `route` is the one by which the rule matched.
    pub(crate) fn get<'f>(
        &'f self,
        attribute: &Attribute,
        route: Option<&Route>,
    ) -> Option<Value<'f>> {
        let text = |text: Cow<'f, str>| Some(Value::Text(text));
        match attribute {
            Attribute::Method => text(self.method()?.into()),
            Attribute::Path => text(self.path()?.into()),
            Attribute::Host => text(path::host(self.host.or_else(|| self.header_once("host"))?)),
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
                self.cookie(name).map(Value::from).or_else(|| self.entry("cookie", name))
            }
            Attribute::Param(name) => {
                let param = || route?.param(self.path()?, name);
                param().map(Value::from).or_else(|| self.entry("param", name))
            }
            Attribute::Named(name) => self.named(name),
        }
    }

    fn named(&self, name: &str) -> Option<Value<'r>> {
        let known = self.attributes.iter().find(|(known, _)| *known == name);
        known.map(|(_, value)| value.clone())
    }

    /// An entry of a map that came as an attribute: `header.x-org`.
    fn entry(&self, map: &str, key: &str) -> Option<Value<'r>> {
        let is_entry = |name: &str| {
            let rest = name.strip_prefix(map).and_then(|rest| rest.strip_prefix('.'));
            rest.is_some_and(|rest| rest.eq_ignore_ascii_case(key))
        };
        let known = self.attributes.iter().find(|(known, _)| is_entry(known));
        known.map(|(_, value)| value.clone())
    }

    fn header_once(&self, name: &str) -> Option<&'r str> {
        let mut headers = self.headers.iter();
        headers.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// A header that was sent several times counts as all of them together: otherwise a second
    /// one would make two identities of one.
    fn header(&self, name: &str) -> Option<Cow<'r, str>> {
        let mut values = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim());
        let first = values.next()?;
        match values.next() {
            None => Some(Cow::Borrowed(first)),
            Some(second) => {
                let all: Vec<&str> = [first, second].into_iter().chain(values).collect();
                Some(Cow::Owned(all.join(", ")))
            }
        }
    }

    fn cookie(&self, name: &str) -> Option<&'r str> {
        let cookies = self.headers.iter();
        cookies
            .filter(|(known, _)| known.eq_ignore_ascii_case("cookie"))
            .flat_map(|(_, value)| value.split(';'))
            .filter_map(|pair| pair.trim().split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }
}
