//! The bypass corpus: requests by which clients try to pass a limit of `1/h`, as data.
//!
//! Each case is sent several times, with another number for every `{n}`. Tests send the cases through
//! the gateway and past forward-auth to real servers, which report how they read each request.

/// A request that tries to pass a limit.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct BypassCase {
    /// What the request tries.
    pub name: &'static str,
    /// The rules, with one limit of `1/h`.
    pub rules: &'static str,
    /// What the limit is about.
    pub counted: CountedAttribute,
    /// The method.
    pub method: &'static str,
    /// The target; `{n}` stands for a number.
    pub target: &'static str,
    /// The header fields; `{n}` stands for a number.
    pub headers: &'static [(&'static str, &'static str)],
    /// The expected outcome in the gateway.
    pub gateway: BypassOutcome,
    /// The expected outcome of forward-auth.
    pub auth: BypassOutcome,
}

/// The attribute of a request that a limit is about, as the upstream reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CountedAttribute {
    /// The route of this name.
    Route(&'static str),
    /// The header `X-Api-Key`.
    Header,
    /// The cookie `session`.
    Cookie,
    /// The query parameter `k`.
    Query,
}

/// The expected outcome of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BypassOutcome {
    /// Every request is rejected.
    Rejected,
    /// One request passes.
    One,
    /// One request passes for each value that the upstream reads.
    OnePerValue,
}

use BypassOutcome::{One, OnePerValue, Rejected};
use CountedAttribute::{Cookie, Header, Query, Route};

const LOGIN: (&str, CountedAttribute) =
    ("rules: [{ name: r, route: /login, limit: 1/h }]", Route("login"));
const POST_LOGIN: (&str, CountedAttribute) =
    ("rules: [{ name: r, route: POST /login, limit: 1/h }]", Route("login"));
const DELETE_LOGIN: (&str, CountedAttribute) =
    ("rules: [{ name: r, route: DELETE /login, limit: 1/h }]", Route("login"));
const SEARCH: (&str, CountedAttribute) =
    ("rules: [{ name: r, route: '/search/{term}', limit: 1/h }]", Route("search"));
const ADMIN: (&str, CountedAttribute) =
    ("rules: [{ name: r, route: /admin/**, limit: 1/h }]", Route("admin"));
const PER_KEY: (&str, CountedAttribute) =
    ("rules: [{ name: r, per: 'header[\"x-api-key\"]', limit: 1/h }]", Header);
const PER_SESSION: (&str, CountedAttribute) =
    ("rules: [{ name: r, per: 'cookie[\"session\"]', limit: 1/h }]", Cookie);
const PER_PARAMETER: (&str, CountedAttribute) =
    ("rules: [{ name: r, per: 'query[\"k\"]', limit: 1/h }]", Query);

const fn case(
    name: &'static str,
    (rules, counted): (&'static str, CountedAttribute),
    target: &'static str,
    (gateway, auth): (BypassOutcome, BypassOutcome),
) -> BypassCase {
    BypassCase { name, rules, counted, method: "GET", target, headers: &[], gateway, auth }
}

impl BypassCase {
    const fn by(self, method: &'static str) -> BypassCase {
        BypassCase { method, ..self }
    }

    const fn with(self, headers: &'static [(&'static str, &'static str)]) -> BypassCase {
        BypassCase { headers, ..self }
    }
}

/// The cases of the corpus.
pub const BYPASS_CASES: &[BypassCase] = &[
    case("no trick", LOGIN, "/login?x={n}", (One, One)),
    case("capitals", LOGIN, "/LOGIN", (One, One)),
    case("some capitals", LOGIN, "/LogiN", (One, One)),
    case("a parameter", LOGIN, "/login;x={n}", (One, One)),
    case("an empty parameter", LOGIN, "/login;", (One, One)),
    case("a segment of a parameter", LOGIN, "/;x={n}/login", (One, One)),
    case("a slash at the end", LOGIN, "/login/", (One, One)),
    case("doubled slashes", LOGIN, "//login", (One, One)),
    case("escaped letters", LOGIN, "/%6Cogi%6e", (One, One)),
    case("dots", LOGIN, "/x{n}/../login", (One, Rejected)),
    case("escaped dots", LOGIN, "/x{n}/%2e%2E/login", (One, Rejected)),
    case("dots between backslashes", LOGIN, "/x{n}\\..\\login", (One, Rejected)),
    case("dots with a parameter", ADMIN, "/x/..;/admin/y{n}", (Rejected, Rejected)),
    case("escaped dots with a parameter", ADMIN, "/x/%2e.;a=b/admin/y", (Rejected, Rejected)),
    case("dots with an escaped parameter", ADMIN, "/x/..%3b/admin/y", (Rejected, Rejected)),
    case("dots beside an escaped slash", LOGIN, "/x/..%2flogin", (Rejected, Rejected)),
    case("dots beside an escaped backslash", LOGIN, "/x/..%5clogin", (Rejected, Rejected)),
    case("dots in too many bytes", LOGIN, "/x/%c0%ae%c0%ae/login", (Rejected, Rejected)),
    case("a slash in too many bytes", ADMIN, "/admin%c0%afy", (Rejected, Rejected)),
    case("a NUL", LOGIN, "/login%00", (Rejected, Rejected)),
    case("a broken escape", LOGIN, "/login%", (Rejected, Rejected)),
    case("a fragment", LOGIN, "/login#x{n}", (Rejected, Rejected)),
    case("an escaped slash in a segment", SEARCH, "/search/a%2Fb{n}", (One, One)),
    case("an escaped backslash in a segment", SEARCH, "/search/a%5cb{n}", (One, One)),
    case("both in a segment", SEARCH, "/search/a%2fb%5Cc{n}", (One, One)),
    case("an escaped slash between segments", ADMIN, "/admin%2Fy{n}", (One, One)),
    case("escaped slashes of both kinds", SEARCH, "/search%2Fa%5cb{n}", (One, One)),
    case("a method in small letters", POST_LOGIN, "/login", (Rejected, Rejected)).by("post"),
    case("another method in a header", DELETE_LOGIN, "/login", (Rejected, OnePerValue))
        .by("POST")
        .with(&[("X-HTTP-Method-Override", "DELETE")]),
    case("another target in a header", ADMIN, "/other", (OnePerValue, Rejected))
        .with(&[("X-Original-URL", "/admin/y{n}")]),
    case("a hop-by-hop key", PER_KEY, "/", (One, OnePerValue))
        .with(&[("X-Api-Key", "r{n}"), ("Connection", "X-Api-Key")]),
    case("a key with underscores beside", PER_KEY, "/", (OnePerValue, One))
        .with(&[("X-Api-Key", "r{n}"), ("X_Api_Key", "real")]),
    case("a key with underscores", PER_KEY, "/", (One, One)).with(&[("X_Api_Key", "r{n}")]),
    case("a key with dots beside", PER_KEY, "/", (OnePerValue, One))
        .with(&[("X-Api-Key", "r{n}"), ("X.Api.Key", "real")]),
    case("two keys", PER_KEY, "/", (OnePerValue, One))
        .with(&[("X-Api-Key", "r{n}"), ("X-Api-Key", "real")]),
    case("a key with blanks", PER_KEY, "/", (One, One)).with(&[("x-api-KEY", " \treal ")]),
    case("two cookies", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "session=r{n}; session=real")]),
    case("two cookies, the other first", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "session=real; session=r{n}")]),
    case("two cookie headers", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "session=r{n}"), ("Cookie", "session=real")]),
    case("a cookie in capitals", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "session=r{n}; SESSION=real")]),
    case("a cookie behind a blank", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "x=1 session=real; session=r{n}")]),
    case("a cookie within quotes", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "x=\"; session=r{n}; y=\"; session=real")]),
    case("an escaped cookie", PER_SESSION, "/", (One, One))
        .with(&[("Cookie", "session=%72eal; session=\"real\"")]),
    case("two parameters of a query", PER_PARAMETER, "/?k=r{n}&k=real", (One, One)),
    case("two parameters, the other first", PER_PARAMETER, "/?k=real&k=r{n}", (One, One)),
    case("an escaped name", PER_PARAMETER, "/?k=r{n}&%6B=real", (One, One)),
    case("a name in capitals", PER_PARAMETER, "/?k=r{n}&K=real", (One, One)),
    case("a list", PER_PARAMETER, "/?k=r{n}&k[]=real", (One, One)),
    case("a semicolon", PER_PARAMETER, "/?k=r{n};k=real", (One, One)),
    case("a broken value", PER_PARAMETER, "/?k=real%{n}z", (One, One)),
];
