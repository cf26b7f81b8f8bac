//! Refuses requests that a web page makes a browser send to a door of this machine.
//!
//! A page can send requests to a loopback address. Without the permission of the server it cannot
//! read the responses, and it can send only what a form could: `POST` with one of three content
//! types. Browsers then send `Origin` or `Sec-Fetch-Site`, which other programs do not. A page whose
//! name resolves to a loopback address after it was loaded (DNS rebinding) has no such bounds; its
//! requests have that name in `Host`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use hyper::header::{CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, ORIGIN, REFERER};
use hyper::{Method, Request, StatusCode};

use crate::problem::Problem;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The top-level domains that cannot be registered (RFC 6761).
const RESERVED: [&str; 2] = ["localhost", "test"];

/// Refuses requests of web pages.
#[derive(Clone, Debug, Default)]
pub(crate) struct BrowserGuard {
    /// The names that are accepted in `Host`, besides those of this machine.
    hosts: Arc<[String]>,
}

impl BrowserGuard {
    pub(crate) fn new(hosts: &[String]) -> BrowserGuard {
        BrowserGuard { hosts: hosts.into() }
    }

    /// Checks the head of a request.
    pub(crate) fn check<B>(
        &self,
        request: &Request<B>,
        peer: Option<SocketAddr>,
    ) -> Result<(), Problem> {
        let headers = request.headers();
        let host = match headers.get(HOST) {
            Some(host) => host.to_str().unwrap_or("\u{fffd}"),
            None => request.uri().authority().map_or("", |authority| authority.as_str()),
        };
        if peer.is_some_and(|peer| peer.ip().is_loopback()) && !self.accepts_host(host) {
            return Err(unknown_host(host));
        }
        let origin = headers.get(ORIGIN);
        let site = headers.get(SEC_FETCH_SITE).map(HeaderValue::as_bytes);
        if origin.is_some_and(|origin| !is_origin_of(origin, host))
            || site.is_some_and(|site| !matches!(site, b"same-origin" | b"none"))
        {
            let detail = "a web page of another origin cannot use this server";
            return Err(Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail));
        }
        if *request.method() == Method::POST {
            let is_from_page = origin.is_some() || site.is_some() || headers.contains_key(REFERER);
            check_content_type(headers, is_from_page)?;
        }
        Ok(())
    }

    /// Whether a request of this machine may have that `Host`: not a name that others can make
    /// resolve to a loopback address.
    fn accepts_host(&self, host: &str) -> bool {
        let name = name_of(host);
        // Names without a dot are not those of pages on the internet.
        !name.contains(['.', ':', '\u{fffd}'])
            || name.parse::<IpAddr>().is_ok()
            || RESERVED.contains(&name.rsplit('.').next().unwrap_or_default())
            || self.hosts.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

/// Returns the name or address in a `Host`, without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether an `Origin` is that of the server itself, as it is called by this `Host`.
fn is_origin_of(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && own.is_some_and(|own| own.eq_ignore_ascii_case(host))
}

/// Refuses the content types that a form of any page can send.
fn check_content_type(headers: &HeaderMap, is_from_page: bool) -> Result<(), Problem> {
    let Some(given) = headers.get(CONTENT_TYPE) else { return Ok(()) };
    let given = given.to_str().unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    let is = |name: &str| essence.eq_ignore_ascii_case(name);
    let is_refused = is("text/plain")
        || is("multipart/form-data")
        // This is what curl sends unless told otherwise.
        || is_from_page && is("application/x-www-form-urlencoded");
    match is_refused {
        false => Ok(()),
        true => {
            let detail = "send the body as content-type: application/json";
            Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", detail))
        }
    }
}

#[cold]
fn unknown_host(host: &str) -> Problem {
    let detail = format!(
        "{:?} is not a name of this machine; add it to the setting `hosts` if it is yours",
        name_of(host)
    );
    Problem::new(StatusCode::FORBIDDEN, "unknown-host", detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_this_machine_and_configured_names_are_accepted() {
        let guard = BrowserGuard::new(&["limits.example.com".to_owned()]);
        for host in [
            "localhost",
            "localhost:8080",
            "LOCALHOST:1",
            "app.localhost",
            "127.0.0.1:8080",
            "[::1]:8080",
            "[::1]",
            "10.0.0.5",
            "tollgate",
            "tollgate:8080",
            "",
            "limits.example.com",
            "Limits.Example.com:8080",
        ] {
            assert!(guard.accepts_host(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "evil.example.",
            "test.example",
            "xlocalhost.com",
            "127.0.0.1@evil.example",
            "evil.example:80:80",
            "\u{fffd}",
        ] {
            assert!(!guard.accepts_host(host), "{host}");
        }
    }

    #[test]
    fn an_origin_is_that_of_the_host_or_foreign() {
        let is_own =
            |origin: &'static str, host| is_origin_of(&HeaderValue::from_static(origin), host);
        assert!(is_own("http://127.0.0.1:8080", "127.0.0.1:8080"));
        assert!(is_own("https://Limits.example", "limits.example"));
        assert!(!is_own("http://127.0.0.1:3000", "127.0.0.1:8080"));
        assert!(!is_own("http://evil.example", "127.0.0.1:8080"));
        assert!(!is_own("null", "127.0.0.1:8080"));
        assert!(!is_own("http://", ""));
    }
}
