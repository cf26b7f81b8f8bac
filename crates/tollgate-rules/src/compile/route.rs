//! Routes: `POST /orders/{id}`, `GET|HEAD /static/**`.
//!
//! | in a pattern | matches |
//! | --- | --- |
//! | `orders` | that segment, in its normal spelling |
//! | `{id}` | any one segment, known as `param.id` |
//! | `*` | any one segment |
//! | `*.json`, `v*` | one segment, with any text for the star |
//! | `**`, at the end | the rest, also none: `/a/**` matches `/a` |
//! | `login**`, at the end | a segment that begins so, and the rest: `/login.php`, `/login/help` |
//!
//! Trailing slashes, doubled slashes and a query do not affect matching; nor do case and parameters
//! behind `;`, unless the file says so.

mod parse;
mod regex_hint;

use std::fmt;

use crate::compile::glob;
use crate::matching::request_path::PathReading;
use crate::read::fault::Fault;

/// A route: methods and a pattern of paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// The methods; any if there are none.
    methods: Vec<Box<str>>,
    path: Box<str>,
    segments: Vec<RouteSegment>,
}

/// A segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RouteSegment {
    Literal(Box<str>),
    /// `{id}`, or `*` without a name: one segment.
    Any(Option<Box<str>>),
    /// `*.json`: one segment with a star in it.
    Pattern(Box<str>),
    /// `login**`: one segment that begins with this text, and the rest, however long.
    Prefix(Box<str>),
    /// `**`: the rest, however long.
    Rest,
}

impl RouteSegment {
    /// Whether nothing can follow it.
    fn is_open(&self) -> bool {
        matches!(self, RouteSegment::Prefix(_) | RouteSegment::Rest)
    }
}

impl Route {
    /// Reads `[METHOD[|METHOD]] /path`.
    pub(crate) fn parse(text: &str) -> Result<Route, Fault> {
        parse::route(text)
    }

    pub(crate) fn methods(&self) -> &[Box<str>] {
        &self.methods
    }

    /// Returns the route with its literals as a domain reads paths.
    pub(crate) fn read_as(mut self, reading: PathReading) -> Route {
        for segment in &mut self.segments {
            if let RouteSegment::Literal(text)
            | RouteSegment::Pattern(text)
            | RouteSegment::Prefix(text) = segment
            {
                *text = reading.literal(text).into();
            }
        }
        self
    }

    /// Returns the pattern as it is written.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn segments(&self) -> &[RouteSegment] {
        &self.segments
    }

    /// Returns the segment that `{name}` matches in a path.
    pub(crate) fn param<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let named = |segment: &RouteSegment| matches!(segment, RouteSegment::Any(Some(known)) if &**known == name);
        let index = self.segments.iter().position(named)?;
        segments_of(path).nth(index)
    }

    pub(crate) fn has_method(&self, method: Option<&str>) -> bool {
        self.methods.is_empty()
            || method.is_some_and(|method| self.methods.iter().any(|known| &**known == method))
    }

    /// Whether the route matches a method and a path in its normal spelling (`path::normal`).
    pub(crate) fn matches(&self, method: Option<&str>, path: &str) -> bool {
        self.has_method(method) && self.has_path(path)
    }

    /// Whether the pattern matches a path in its normal spelling.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let mut parts = segments_of(path);
        for segment in &self.segments {
            let fits = match segment {
                RouteSegment::Rest => return true,
                RouteSegment::Prefix(prefix) => {
                    return parts.next().is_some_and(|part| part.starts_with(&**prefix));
                }
                RouteSegment::Literal(literal) => parts.next() == Some(literal),
                RouteSegment::Any(_) => parts.next().is_some(),
                RouteSegment::Pattern(pattern) => {
                    parts.next().is_some_and(|part| glob::matches(pattern, part))
                }
            };
            if !fits {
                return false;
            }
        }
        parts.next().is_none()
    }
}

/// Iterates over the segments of a path.
fn segments_of(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.methods.is_empty() {
            write!(f, "{} ", self.methods.join("|"))?;
        }
        f.write_str(&self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_matches_its_methods_and_paths() {
        for (route, method, path, expected) in [
            ("POST /login", "POST", "/login", true),
            ("POST /login", "GET", "/login", false),
            ("POST /login", "POST", "/login/x", false),
            ("/login", "GET", "/login", true),
            ("GET|HEAD /a", "HEAD", "/a", true),
            ("GET | HEAD /a", "GET", "/a", true),
            ("/orders/{id}", "GET", "/orders/7", true),
            ("/orders/{id}", "GET", "/orders", false),
            ("/orders/{id}/items", "GET", "/orders/7/items", true),
            ("/a/*/c", "GET", "/a/b/c", true),
            ("/a/*/c", "GET", "/a/b/b/c", false),
            ("/a/**", "GET", "/a", true),
            ("/a/**", "GET", "/a/b/c", true),
            ("/a/**", "GET", "/ab", false),
            ("/**", "GET", "/", true),
            ("/", "GET", "/", true),
            ("/", "GET", "/a", false),
            ("/v1/*.json", "GET", "/v1/a.json", true),
            ("/v1/*.json", "GET", "/v1/a.xml", false),
            ("/login**", "GET", "/login", true),
            ("/login**", "GET", "/login.php", true),
            ("/login**", "GET", "/login/help/x", true),
            ("/login**", "GET", "/login.php/x", true),
            ("/login**", "GET", "/logi", false),
            ("/login**", "GET", "/", false),
            ("/login**", "GET", "/x/login", false),
            ("/a/{id}/b**", "GET", "/a/7/bc/d", true),
            ("/a/{id}/b**", "GET", "/a/7", false),
            ("/.**", "GET", "/.git/config", true),
            ("/.**", "GET", "/git", false),
            ("/%6Cog%2Fi**", "GET", "/log/in", true),
            ("/a//b/", "GET", "/a/b", true),
            ("/%61/caf%c3%a9", "GET", "/a/caf%C3%A9", true),
            ("/a b", "GET", "/a%20b", true),
        ] {
            let parsed = Route::parse(route).unwrap();
            assert_eq!(parsed.matches(Some(method), path), expected, "{route} on {method} {path}");
        }
        assert!(!Route::parse("GET /a").unwrap().matches(None, "/a"));
        assert!(Route::parse("/a").unwrap().matches(None, "/a"));
    }

    #[test]
    fn a_parameter_is_the_value_of_its_segment() {
        let route = Route::parse("GET /orgs/{org}/users/{user}").unwrap();
        assert_eq!(route.param("/orgs/acme/users/ann", "user"), Some("ann"));
        assert_eq!(route.param("/orgs/acme/users/ann", "org"), Some("acme"));
        assert_eq!(route.param("/orgs/acme/users/ann", "id"), None);
        assert_eq!(route.to_string(), "GET /orgs/{org}/users/{user}");
    }
}
