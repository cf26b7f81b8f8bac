//! Whether the head of a request means the same to every server. What is about its bytes was looked
//! at when they [came](crate::net::http); here is what hyper shows of it.

use std::borrow::Cow;

use hyper::body::{Body, Incoming};
use hyper::header::{HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri, Version};
use tollgate::rules::sound_path;

/// Why a request is not let through, with the status that says so.
pub(super) type Unsound = (StatusCode, Cow<'static, str>);

/// Looks at a head, and gives its target the spelling in which it is decided and sent on. The host
/// is in `Host` afterwards, wherever it was.
pub(super) fn make_sound(head: &mut Parts, body: &Incoming) -> Result<(), Unsound> {
    let bad = |why: &'static str| (StatusCode::BAD_REQUEST, Cow::Borrowed(why));
    if head.method == Method::CONNECT {
        let why = "CONNECT is not supported: this is no forward proxy";
        return Err((StatusCode::METHOD_NOT_ALLOWED, why.into()));
    }
    if head.method == Method::TRACE && !body.is_end_stream() {
        return Err(bad("a TRACE request has no body"));
    }
    if head.headers.get_all(TRANSFER_ENCODING).iter().count() > 1 {
        return Err(bad("there are several transfer codings"));
    }
    if head.uri.scheme_str().is_some_and(|scheme| !["http", "https"].contains(&scheme)) {
        return Err(bad("the target is of another scheme than http or https"));
    }
    settle_host(head).map_err(bad)?;
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    if target == "*" && head.method != Method::OPTIONS {
        return Err(bad("only OPTIONS asks for *"));
    }
    let sound = sound_path(target)
        .map_err(|error| (StatusCode::BAD_REQUEST, Cow::Owned(error.to_string())))?;
    if head.uri.authority().is_some()
        || matches!(sound, Cow::Owned(_))
        || sound.len() < target.len()
    {
        head.uri = Uri::try_from(&*sound).map_err(|_| bad("the target is no path"))?;
    }
    Ok(())
}

/// There is one host, the same wherever it is said.
fn settle_host(head: &mut Parts) -> Result<(), &'static str> {
    let mut hosts = head.headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    if second.is_some() {
        return Err("there are several Host fields");
    }
    let host = host.map(HeaderValue::as_bytes);
    if host.is_some_and(|host| !is_host(host)) {
        return Err("Host is no name or address");
    }
    if head.uri.scheme_str().is_some_and(|scheme| !["http", "https"].contains(&scheme)) {
        return Err("the target is neither of http nor of https");
    }
    let Some(authority) =
        head.uri.authority().filter(|_| host.is_some() || head.version != Version::HTTP_11)
    else {
        return match host {
            None if head.version > Version::HTTP_10 => Err("Host is missing"),
            _ => Ok(()),
        };
    };
    if !is_host(authority.as_str().as_bytes()) {
        return Err("the host of the target is no name or address");
    }
    match host {
        Some(host) if !host.eq_ignore_ascii_case(authority.as_str().as_bytes()) => {
            Err("Host is another than that of the target")
        }
        Some(_) => Ok(()),
        None if head.version == Version::HTTP_11 => Err("Host is missing"),
        None => {
            let value = HeaderValue::from_str(authority.as_str());
            head.headers.insert(HOST, value.map_err(|_| "the host of the target is no name")?);
            Ok(())
        }
    }
}

/// A name or an address, with or without a port.
fn is_host(text: &[u8]) -> bool {
    let (name, port) = match text.iter().rposition(|byte| *byte == b':') {
        Some(colon) if !text.ends_with(b"]") => (&text[..colon], &text[colon + 1..]),
        _ => (text, &[][..]),
    };
    let is_name = match name.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]")) {
        Some(address) => {
            address.iter().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(byte))
        }
        None => name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(byte)),
    };
    !name.is_empty() && is_name && port.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_names_or_addresses() {
        for host in ["a", "a.b:80", "a:", "192.0.2.1:1", "[::1]", "[::1]:8080", "x_y"] {
            assert!(is_host(host.as_bytes()), "{host}");
        }
        for host in [
            "", ":80", "a b", "a/b", "a@b", "a:b", "[::1", "::1:80:", "a\\b", "a?b", "a#b",
            "\u{e9}",
        ] {
            assert!(!is_host(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn the_host_is_the_same_wherever_it_is() {
        let settled = |uri: &str, hosts: &[&str]| {
            let version = if uri.starts_with('/') { Version::HTTP_11 } else { Version::HTTP_2 };
            let mut request = hyper::Request::builder().uri(uri).version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let mut head = request.body(()).unwrap().into_parts().0;
            settle_host(&mut head).map(|()| head.headers[HOST].to_str().unwrap().to_owned())
        };
        assert_eq!(settled("/", &["a"]).as_deref(), Ok("a"));
        assert_eq!(settled("http://a:80/", &["A:80"]).as_deref(), Ok("A:80"));
        for (uri, hosts) in [
            ("/", &[][..]),
            ("/", &["a", "a"]),
            ("http://a/", &["b"]),
            ("http://u@a/", &["a"]),
            ("http://a/", &[]),
            ("ftp://a/", &["a"]),
            ("/", &[""]),
        ] {
            assert!(settled(uri, hosts).is_err(), "{uri} {hosts:?}");
        }
    }
}
