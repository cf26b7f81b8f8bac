//! The facts about one request under the rules of a domain, computed on first use.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::net::IpAddr;
use std::time::Duration;

use ipnet::IpNet;
use smallvec::SmallVec;

use crate::compile::attribute::Attribute;
use crate::compile::route::Route;
use crate::matching::address::TrustedProxies;
use crate::matching::attribute_word::{entry_key, spells};
use crate::matching::named_values::{self, NamedValue, ValuePick};
use crate::matching::path;
use crate::matching::request::OutcomeTracking;
use crate::matching::request_path::{PathForm, PathReading, RequestPath};
use crate::{HeaderSource, Request, Value};

/// The settings by which a domain reads requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestReading {
    pub(crate) trust: TrustedProxies,
    pub(crate) path: PathReading,
}

/// The facts about a request under the rules of one domain.
pub(crate) struct RequestFacts<'r> {
    reading: &'r RequestReading,
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
    path: OnceCell<Option<RequestPath<'r>>>,
    ip: OnceCell<Option<IpAddr>>,
    /// The choice among the possible values of attributes, while conditions are evaluated.
    choice: Cell<ReadingChoice>,
    /// How many values were looked up that contradict each other.
    contradictions: Cell<u32>,
}

/// A choice among the values that servers may read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadingChoice {
    /// The number of the path's form.
    form: usize,
    keeps_case: bool,
    pick: ValuePick,
}

impl<'r> RequestFacts<'r> {
    pub(crate) fn new(request: &'r Request<'_>, reading: &'r RequestReading) -> RequestFacts<'r> {
        RequestFacts {
            reading,
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
            choice: Cell::default(),
            contradictions: Cell::default(),
        }
    }

    pub(crate) fn method(&self) -> Option<&'r str> {
        self.method
    }

    /// Returns the path in its normal spelling, by which keys are made.
    pub(crate) fn path(&self) -> Option<&str> {
        Some(self.request_path()?.main.matched())
    }

    fn request_path(&self) -> Option<&RequestPath<'r>> {
        let read = || self.target.map(|target| RequestPath::new(target, self.reading.path));
        self.path.get_or_init(read).as_ref()
    }

    /// Iterates over the forms of the path that servers may route it by.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.request_path().into_iter().flat_map(RequestPath::forms).map(PathForm::matched)
    }

    /// Returns the path in the chosen form.
    fn chosen_path(&self) -> Option<&str> {
        let choice = self.choice.get();
        let form = self.request_path()?.form(choice.form)?;
        Some(if choice.keeps_case { form.cased() } else { form.matched() })
    }

    /// Returns the segment of a route's parameter, from the form of the path that it matches.
    fn param(&self, route: &Route, name: &str) -> Option<&str> {
        let path = self.request_path()?;
        if path.others.is_empty() {
            return route.param(path.main.cased(), name);
        }
        let form = path.forms().find(|form| route.has_path(form.matched()))?;
        route.param(form.cased(), name)
    }

    /// Returns the client's address.
    pub(crate) fn ip(&self) -> Option<IpAddr> {
        *self.ip.get_or_init(|| {
            let forwarded_for = || self.values("x-forwarded-for");
            let trust = &self.reading.trust;
            Some(trust.client(self.peer?, self.trusted_proxies, forwarded_for))
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
            Attribute::Path => text(self.chosen_path()?.into()),
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
            Attribute::Query(name) => self.named_value("query", name, self.query(name)),
            Attribute::Cookie(name) => self.named_value("cookie", name, self.cookie(name)),
            Attribute::Param(name) => {
                let param = route.and_then(|route| self.param(route, name));
                param.map(Value::from).or_else(|| self.entry("param", name))
            }
            Attribute::Named(name) => self.named(name),
        }
    }

    /// Returns a query parameter or cookie, or the picked one of several values.
    fn named_value<'f>(
        &'f self,
        map: &str,
        name: &str,
        value: NamedValue<'r>,
    ) -> Option<Value<'f>> {
        match value {
            NamedValue::Missing => self.entry(map, name),
            NamedValue::One(value) => Some(Value::Text(value)),
            several @ NamedValue::Several(_) => {
                self.contradictions.set(self.contradictions.get() + 1);
                several.pick(self.choice.get().pick).map(Value::Text)
            }
        }
    }

    /// Returns how many values were looked up so far that contradict each other.
    pub(crate) fn contradictions(&self) -> u32 {
        self.contradictions.get()
    }

    /// Whether servers may read the path, or a value that was looked up, in several ways.
    pub(crate) fn is_ambiguous(&self) -> bool {
        let has_forms = |path: &RequestPath<'_>| {
            !path.others.is_empty() || path.main.matched() != path.main.cased()
        };
        self.contradictions.get() > 0
            || self.path.get().and_then(Option::as_ref).is_some_and(has_forms)
    }

    /// Whether a condition holds under one of the readings of the request or, if `every`, under all
    /// of them, whether or not case matters.
    #[cold]
    pub(crate) fn holds_under(&self, every: bool, holds: impl Fn() -> bool) -> bool {
        let forms = self.request_path().map_or(1, |path| 1 + path.others.len());
        let pairs = (0..forms).flat_map(|form| ValuePick::ALL.map(|pick| (form, pick)));
        let mut holds_with = |(form, pick): (usize, ValuePick)| {
            [false, true].into_iter().any(|keeps_case| {
                self.choice.set(ReadingChoice { form, keeps_case, pick });
                holds()
            })
        };
        let mut pairs = pairs;
        let result = if every { pairs.all(&mut holds_with) } else { pairs.any(&mut holds_with) };
        self.choice.set(ReadingChoice::default());
        result
    }

    /// Calls `visit` with every value that some server may read for an attribute.
    pub(crate) fn each_value(&self, attribute: &Attribute, visit: &mut impl FnMut(&Value<'_>)) {
        let several = match attribute {
            Attribute::Path => {
                let Some(path) = self.request_path() else { return };
                for form in path.forms() {
                    visit(&Value::from(form.matched()));
                    if form.matched() != form.cased() {
                        visit(&Value::from(form.cased()));
                    }
                }
                return;
            }
            Attribute::Query(name) => self.query(name),
            Attribute::Cookie(name) => self.cookie(name),
            _ => NamedValue::Missing,
        };
        if let Some(value) = self.get(attribute, None) {
            visit(&value);
        }
        if let NamedValue::Several(values) = several {
            visit(&Value::Text(Cow::Owned(values.join(","))));
            values.into_iter().for_each(|value| visit(&Value::Text(value)));
        }
    }

    /// Whether an attribute is unknown: it may exist though the request does not state it, or it has
    /// several values.
    pub(crate) fn is_unknown(&self, attribute: &Attribute) -> bool {
        let name = match attribute {
            Attribute::Named(name) => name,
            Attribute::Query(name) => return matches!(self.query(name), NamedValue::Several(_)),
            Attribute::Cookie(name) => return matches!(self.cookie(name), NamedValue::Several(_)),
            _ => return false,
        };
        is_below(name, self.unknown)
    }

    fn named(&self, name: &str) -> Option<Value<'r>> {
        let known = self.attributes.iter().find(|(known, _)| *known == name);
        let known = known.or_else(|| self.attributes.iter().find(|(known, _)| spells(known, name)));
        known.map(|(_, value)| value.clone())
    }

    /// Returns an entry of a map that is given as an attribute: `header["x-org"]`, `header.x-org`.
    fn entry(&self, map: &str, key: &str) -> Option<Value<'r>> {
        let is_entry = |name: &str| {
            let sent = name.strip_prefix(map).and_then(entry_key);
            sent.is_some_and(|sent| sent.eq_ignore_ascii_case(key))
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

    /// Returns the identity in an attribute. Contradicting values are no identity: whichever the
    /// service believes, the other would give a client as many identities as it likes. The attribute
    /// is not missing either, or `missing_key: skip` would be a way around the rule.
    pub(crate) fn identity(&self, attribute: &Attribute) -> Option<Identity<'r>> {
        let (map, name, value) = match attribute {
            Attribute::Header(name) => return self.identity_in_header(name),
            Attribute::Query(name) => ("query", name, self.query(name)),
            Attribute::Cookie(name) => ("cookie", name, self.cookie(name)),
            _ => return None,
        };
        match value {
            NamedValue::Missing => self.entry(map, name).map(Identity::One),
            // PHP reads a plus in a cookie as a blank.
            NamedValue::One(value) if map == "cookie" && value.contains('+') => {
                Some(Identity::One(Value::Text(Cow::Owned(value.replace('+', " ")))))
            }
            NamedValue::One(value) => Some(Identity::One(Value::Text(value))),
            NamedValue::Several(_) => Some(Identity::Several),
        }
    }

    fn identity_in_header(&self, name: &str) -> Option<Identity<'r>> {
        // Servers that hand headers over as variables read `X_Org` and `X-Org` alike.
        if self.headers.iter().any(|(known, _)| is_lookalike(known, name)) {
            return Some(Identity::Several);
        }
        let mut values = self.values(name);
        let Some(last) = values.pop() else {
            return self.entry("header", name).map(Identity::One);
        };
        let same = values.iter().all(|value| value.trim() == last.trim());
        Some(match same {
            true => Identity::One(Value::Text(part(last, |value| value.trim().into()))),
            false => Identity::Several,
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

    fn query(&self, name: &str) -> NamedValue<'r> {
        self.target.map_or(NamedValue::Missing, |target| named_values::query(target, name))
    }

    fn cookie(&self, name: &str) -> NamedValue<'r> {
        let found = self.values("cookie").into_iter().fold(None, |found, cookies| {
            let next = match cookies {
                Cow::Borrowed(cookies) => named_values::cookie(cookies, name),
                Cow::Owned(cookies) => named_values::cookie(&cookies, name).into_owned(),
            };
            Some(named_values::join_cookies(found, next))
        });
        found.unwrap_or(NamedValue::Missing)
    }
}

/// Returns whether a name is one of several, or begins with one of them and a dot.
pub(crate) fn is_below(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| {
        let rest = name.strip_prefix(known);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// The identity in an attribute that clients choose.
pub(crate) enum Identity<'r> {
    One(Value<'r>),
    /// The attribute has several values that contradict each other.
    Several,
}

/// Whether a header name differs from the name in a rule only by characters instead of its hyphens.
fn is_lookalike(sent: &str, name: &str) -> bool {
    let is_hyphen = |byte: u8| !byte.is_ascii_alphanumeric();
    let pairs = || sent.bytes().zip(name.bytes());
    sent.len() == name.len()
        && pairs().any(|(sent, name)| name == b'-' && sent != b'-')
        && pairs()
            .all(|(sent, name)| sent.eq_ignore_ascii_case(&name) || name == b'-' && is_hyphen(sent))
}

/// Returns a part of a text, borrowed if the text is.
fn part<'t>(text: Cow<'t, str>, of: impl Fn(&str) -> Cow<'_, str>) -> Cow<'t, str> {
    match text {
        Cow::Borrowed(text) => of(text),
        Cow::Owned(text) => Cow::Owned(of(&text).into_owned()),
    }
}
