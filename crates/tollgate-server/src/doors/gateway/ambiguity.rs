//! Rejects heads that two servers could read differently. The [HTTP server](crate::net::http) has
//! checked the bytes; this file checks what hyper parsed.

use std::borrow::Cow;

use super::client_headers::check_method_case;
use super::forward_target::forward_target;
use super::hop_headers::has_leading_zero;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode, Uri, Version};

/// The reason why a request is rejected, with its status.
pub(super) type HeadRejection = (StatusCode, Cow<'static, str>);

/// Checks a head and normalizes its target, which is then decided on and forwarded. The host is in
/// `Host` afterwards.
pub(super) fn normalize_head(head: &mut Parts, body: &Incoming) -> Result<(), HeadRejection> {
    let bad = |why: &'static str| (StatusCode::BAD_REQUEST, Cow::Borrowed(why));
    if head.method == Method::CONNECT {
        let why = "CONNECT is not supported: this is no forward proxy";
        return Err((StatusCode::METHOD_NOT_ALLOWED, why.into()));
    }
    check_method_case(&head.method).map_err(bad)?;
    if head.method == Method::TRACE && !body.is_end_stream() {
        return Err(bad("a TRACE request has no body"));
    }
    if head.headers.get_all(TRANSFER_ENCODING).iter().count() > 1 {
        return Err(bad("there are several transfer codings"));
    }
    if head.headers.get(CONTENT_LENGTH).is_some_and(has_leading_zero) {
        return Err(bad("the content length begins with a zero"));
    }
    normalize_host(head).map_err(bad)?;
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    if target == "*" && head.method != Method::OPTIONS {
        return Err(bad("only OPTIONS asks for *"));
    }
    let sound = forward_target(target)
        .map_err(|error| (StatusCode::BAD_REQUEST, Cow::Owned(error.to_string())))?;
    if head.uri.authority().is_some()
        || matches!(sound, Cow::Owned(_))
        || sound.len() < target.len()
    {
        head.uri = Uri::try_from(&*sound).map_err(|_| bad("the target is no path"))?;
    }
    Ok(())
}

/// Checks that there is one host, the same in the target and in `Host`.
fn normalize_host(head: &mut Parts) -> Result<(), &'static str> {
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
        return Err("the target is of another scheme than http or https");
    }
    let authority = head.uri.authority().map(|authority| authority.as_str());
    if authority.is_some_and(|authority| !is_host(authority.as_bytes())) {
        return Err("the host of the target is no name or address");
    }
    match (host, authority) {
        (Some(host), Some(authority)) if !host.eq_ignore_ascii_case(authority.as_bytes()) => {
            Err("Host is another than that of the target")
        }
        (Some(_), _) => Ok(()),
        // HTTP/1.1 requires the field, even beside a target with a host.
        (None, _) if head.version == Version::HTTP_11 => Err("Host is missing"),
        (None, Some(authority)) => {
            let value = HeaderValue::from_str(authority);
            let value = value.map_err(|_| "the host of the target is no name")?;
            head.headers.insert(HOST, value);
            Ok(())
        }
        (None, None) if head.version > Version::HTTP_11 => Err("the host is missing"),
        (None, None) => Ok(()),
    }
}

/// Returns whether a text is a name or an address, with or without a port.
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
        let settled = |version, uri: &str, hosts: &[&str]| {
            let mut request = hyper::Request::builder().uri(uri).version(version);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let mut head = request.body(()).unwrap().into_parts().0;
            normalize_host(&mut head).map(|()| head.headers[HOST].to_str().unwrap().to_owned())
        };
        let (one, two) = (Version::HTTP_11, Version::HTTP_2);
        assert_eq!(settled(one, "/", &["a"]).as_deref(), Ok("a"));
        assert_eq!(settled(one, "http://a:80/", &["A:80"]).as_deref(), Ok("A:80"));
        assert_eq!(settled(two, "http://a/", &[]).as_deref(), Ok("a"));
        for (version, uri, hosts) in [
            (one, "/", &[][..]),
            (two, "/", &[]),
            (one, "/", &["a", "a"]),
            (one, "http://a/", &["b"]),
            (two, "http://a/", &["b"]),
            (one, "http://u@a/", &["a"]),
            (one, "http://a/", &[]),
            (one, "ftp://a/", &["a"]),
            (one, "/", &[""]),
        ] {
            assert!(settled(version, uri, hosts).is_err(), "{uri} {hosts:?}");
        }
    }
}
