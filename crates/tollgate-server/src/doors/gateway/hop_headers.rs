//! Hop-by-hop header fields, which are not forwarded in either direction.

use hyper::HeaderMap;
use hyper::header::{
    CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, HOST, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, TE, TRANSFER_ENCODING, UPGRADE,
};
use smallvec::SmallVec;

use super::client_headers::is_forwarding;
use super::forwarded::join;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const TRAILERS: HeaderValue = HeaderValue::from_static("trailers");

/// Removes the hop-by-hop fields, also those that `Connection` names; but not the fields that a
/// message cannot do without.
pub(super) fn strip(headers: &mut HeaderMap) {
    if headers.contains_key(CONNECTION) {
        let named: SmallVec<[HeaderName; 4]> = tokens(headers, &CONNECTION)
            .filter_map(|name| name.parse().ok())
            .filter(|name| ![HOST, CONTENT_LENGTH].contains(name))
            .collect();
        named.iter().for_each(|name| drop(headers.remove(name)));
        headers.remove(CONNECTION);
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, TE, UPGRADE]
    {
        headers.remove(name);
    }
    // A length beside chunks is another one than that of the body.
    if headers.remove(TRANSFER_ENCODING).is_some() {
        headers.remove(CONTENT_LENGTH);
    }
}

/// Removes the fields of a request that `Connection` names, before rules see them: the upstream will
/// not. Fields about the connection itself stay until it is known how the request goes on.
pub(super) fn remove_named(headers: &mut HeaderMap) {
    const NEEDED: [HeaderName; 7] =
        [HOST, CONTENT_LENGTH, CONNECTION, EXPECT, TE, TRANSFER_ENCODING, UPGRADE];
    if headers.contains_key(CONNECTION) {
        let is_removed = |name: &HeaderName| !NEEDED.contains(name) && !is_forwarding(name);
        let named: SmallVec<[HeaderName; 4]> = tokens(headers, &CONNECTION)
            .filter_map(|name| name.parse().ok())
            .filter(is_removed)
            .collect();
        named.iter().for_each(|name| drop(headers.remove(name)));
    }
    for name in [KEEP_ALIVE, PROXY_CONNECTION, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION] {
        headers.remove(name);
    }
}

/// Prepares the header fields of a request for forwarding.
pub(super) fn prepare_request(headers: &mut HeaderMap) {
    let takes_trailers = tokens(headers, &TE).any(|token| token.eq_ignore_ascii_case("trailers"));
    strip(headers);
    // An expectation that is forwarded is written again.
    headers.remove(EXPECT);
    if takes_trailers {
        headers.insert(TE, TRAILERS);
    }
}

/// Prepares the header fields of a response for its client: hop-by-hop fields are removed, and a
/// length has one spelling.
pub(super) fn prepare_response(headers: &mut HeaderMap) {
    strip(headers);
    if let Some(length) = headers.get(CONTENT_LENGTH)
        && has_leading_zero(length)
        && let Some(number) = length.to_str().ok().and_then(|text| text.parse::<u64>().ok())
    {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(number));
    }
}

/// Whether a length begins with a zero that does not count: some servers read such a number as octal.
pub(super) fn has_leading_zero(length: &HeaderValue) -> bool {
    length.as_bytes().starts_with(b"0") && length.len() > 1
}

/// Returns whether a client waits for `100 Continue` before it sends the body of its request.
pub(super) fn expects_continue(headers: &HeaderMap) -> bool {
    let expects = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"100-continue");
    headers.get(EXPECT).is_some_and(expects)
}

/// Merges fields of the same name, for the rules and for the upstream alike: an upstream that took
/// the first or the last would see another client than the one that was counted.
pub(super) fn merge_duplicates(headers: &mut HeaderMap) {
    if headers.len() == headers.keys_len() {
        return;
    }
    // HTTP/2 splits cookies.
    join(headers, &COOKIE, "; ");
    let is_several = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    let several: SmallVec<[HeaderName; 4]> = headers.keys().filter(is_several).cloned().collect();
    for name in &several {
        let mut values = headers.get_all(name).iter();
        let first = values.next().cloned();
        match first.filter(|first| values.all(|value| value == first)) {
            // Repeated equal values become one.
            Some(first) => drop(headers.insert(name, first)),
            None => join(headers, name, ", "),
        }
    }
}

/// Returns the tokens that a field lists.
pub(super) fn tokens<'h>(
    headers: &'h HeaderMap,
    name: &HeaderName,
) -> impl Iterator<Item = &'h str> + use<'h> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_fields_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, X-Secret , content-length, host"),
            ("connection", "te"),
            ("x-secret", "a"),
            ("host", "b"),
            ("content-length", "5"),
            ("keep-alive", "timeout=5"),
            ("te", "gzip, Trailers"),
            ("upgrade", "h2c"),
            ("proxy-authorization", "x"),
            ("trailer", "x-sum"),
            ("cookie", "a=b"),
            ("cookie", "c=d"),
            ("expect", "100-continue"),
            ("x-org", "acme"),
            ("x-org", "other"),
        ] {
            headers.append(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        merge_duplicates(&mut headers);
        remove_named(&mut headers);
        let gone = ["x-secret", "keep-alive", "proxy-authorization"];
        assert!(!gone.iter().any(|name| headers.contains_key(*name)), "{headers:?}");
        assert!(["connection", "te", "upgrade"].iter().all(|name| headers.contains_key(*name)));
        prepare_request(&mut headers);
        let mut left: Vec<_> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        left.sort();
        assert_eq!(
            left,
            [
                "content-length: 5",
                "cookie: a=b; c=d",
                "host: b",
                "te: trailers",
                "trailer: x-sum",
                "x-org: acme, other"
            ]
        );
    }
}
