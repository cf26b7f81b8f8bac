//! Header fields of clients that upstreams could take for something else: descriptions of another
//! request, and lookalikes of other fields. They are removed before a request is decided, so that
//! rules see what the upstream will.

use hyper::header::{HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method};
use smallvec::SmallVec;

/// The fields in which proxies describe a client and its connection.
const FORWARDING: [&str; 13] = [
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-method",
    "x-forwarded-path",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-forwarded-server",
    "x-forwarded-ssl",
    "x-forwarded-uri",
    "x-real-ip",
];

/// The fields that replace the target or the host of a request in some servers and frameworks.
const OVERRIDES: [&str; 7] = [
    "x-envoy-original-path",
    "x-host",
    "x-http-destinationurl",
    "x-http-host-override",
    "x-override-url",
    "x-rewrite-url",
    "x-waws-unencoded-url",
];
const OVERRIDE_PREFIXES: [&str; 3] = ["tollgate-", "x-tollgate-", "x-original-"];

/// The fields that replace the method of a request in some frameworks.
const METHOD_OVERRIDES: [&str; 3] =
    ["x-http-method", "x-http-method-override", "x-method-override"];

/// The fields of clients that the gateway forwards although upstreams could misread them.
#[derive(Clone, Debug, Default)]
pub(super) struct PassedHeaders {
    names: Vec<HeaderName>,
    /// Whether names may have other characters than letters, digits and hyphens.
    has_any_names: bool,
}

impl PassedHeaders {
    pub(super) fn new(names: &[String], has_any_names: bool) -> Result<PassedHeaders, String> {
        let parse = |name: &String| {
            name.parse().map_err(|_| format!("{name:?} in pass_headers is no name of a header"))
        };
        let names = names.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(PassedHeaders { names, has_any_names })
    }

    fn contains(&self, name: &HeaderName) -> bool {
        self.names.contains(name)
    }

    /// Removes the fields that are not forwarded. Those of [forwarding](is_forwarding) go too if the
    /// peer is untrusted.
    pub(super) fn remove_others(&self, headers: &mut HeaderMap, is_untrusted: bool) {
        let is_dropped = |name: &&HeaderName| match HeaderKind::of(name.as_str()) {
            HeaderKind::Plain => false,
            HeaderKind::Forwarding => is_untrusted,
            HeaderKind::Override => !self.contains(name),
            HeaderKind::Unusual => {
                !(self.has_any_names || self.contains(name)) || is_lookalike(name, headers)
            }
        };
        let dropped: SmallVec<[HeaderName; 4]> =
            headers.keys().filter(is_dropped).cloned().collect();
        dropped.iter().for_each(|name| drop(headers.remove(name)));
    }

    /// Checks that no field asks for another method than that of the request.
    pub(super) fn check_method(&self, head: &Parts) -> Result<(), &'static str> {
        let overrides = |name: &HeaderName, value: &HeaderValue| {
            METHOD_OVERRIDES.contains(&name.as_str())
                && !value.as_bytes().eq_ignore_ascii_case(head.method.as_str().as_bytes())
                && !self.contains(name)
        };
        // Frameworks honour these fields only in a POST; some look at them in every request.
        match head.headers.iter().any(|(name, value)| overrides(name, value)) {
            true => {
                Err("a header replaces the method of the request: send it with that method, or \
                         have the gateway forward the header (pass_headers)")
            }
            false => Ok(()),
        }
    }
}

/// Checks that a method is in capitals: some frameworks take `post` for `POST`, others do not.
pub(super) fn check_method_case(method: &Method) -> Result<(), &'static str> {
    match method.as_str().bytes().any(|byte| byte.is_ascii_lowercase()) {
        true => Err("the method is not in capitals"),
        false => Ok(()),
    }
}

/// Whether proxies describe a client in a field.
pub(super) fn is_forwarding(name: &HeaderName) -> bool {
    let name = name.as_str();
    matches!(name.as_bytes().first(), Some(b'x' | b'f')) && FORWARDING.contains(&name)
}

/// The kind of a header field, by its name in lower case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeaderKind {
    Plain,
    Forwarding,
    Override,
    /// The name has other characters than letters, digits and hyphens.
    Unusual,
}

impl HeaderKind {
    fn of(name: &str) -> HeaderKind {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !name.bytes().all(is_usual) {
            return HeaderKind::Unusual;
        }
        // Few names begin as one of the lists.
        match name.as_bytes().first() {
            Some(b'x' | b'f' | b't') if FORWARDING.contains(&name) => HeaderKind::Forwarding,
            Some(b'x' | b't') if OVERRIDES.contains(&name) => HeaderKind::Override,
            Some(b'x' | b't') if OVERRIDE_PREFIXES.iter().any(|it| name.starts_with(it)) => {
                HeaderKind::Override
            }
            _ => HeaderKind::Plain,
        }
    }
}

/// Whether a name is that of another field, or of one that is not forwarded, once its unusual
/// characters are hyphens: many upstreams do not distinguish them.
fn is_lookalike(name: &HeaderName, headers: &HeaderMap) -> bool {
    let hyphen = |byte: char| if byte.is_ascii_alphanumeric() { byte } else { '-' };
    let meant: String = name.as_str().chars().map(hyphen).collect();
    HeaderKind::of(&meant) != HeaderKind::Plain
        || METHOD_OVERRIDES.contains(&meant.as_str())
        || matches!(meant.as_str(), "content-length" | "transfer-encoding")
        || headers.contains_key(&meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(passed: &PassedHeaders, is_untrusted: bool, names: &[&str]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        for name in names {
            headers.insert(name.parse::<HeaderName>().unwrap(), HeaderValue::from_static("a"));
        }
        passed.remove_others(&mut headers, is_untrusted);
        names
            .iter()
            .filter(|name| headers.contains_key(**name))
            .map(|name| name.to_string())
            .collect()
    }

    const SENT: [&str; 9] = [
        "x-org",
        "x_org",
        "x_other",
        "x.other",
        "x-original-url",
        "x-rewrite-url",
        "tollgate-key",
        "x-forwarded-prefix",
        "x_forwarded_for",
    ];

    #[test]
    fn fields_that_upstreams_could_misread_are_removed() {
        let none = PassedHeaders::default();
        assert_eq!(left(&none, true, &SENT), ["x-org"]);
        assert_eq!(left(&none, false, &SENT), ["x-org", "x-forwarded-prefix"]);
    }

    #[test]
    fn fields_can_be_passed_unless_they_are_lookalikes() {
        let names = ["X-Original-URL".to_owned(), "Tollgate-Key".to_owned()];
        let passed = PassedHeaders::new(&names, true).unwrap();
        let expected = ["x-org", "x_other", "x.other", "x-original-url", "tollgate-key"];
        assert_eq!(left(&passed, true, &SENT), expected);
        assert!(PassedHeaders::new(&["a b".to_owned()], false).is_err());
    }

    #[test]
    fn a_method_is_not_replaced() {
        let head = |method: &str, header: &str, value: &str| {
            let request = hyper::Request::builder().method(method).header(header, value);
            request.body(()).unwrap().into_parts().0
        };
        let none = PassedHeaders::default();
        assert!(none.check_method(&head("POST", "x-http-method-override", "DELETE")).is_err());
        assert!(none.check_method(&head("POST", "x-http-method-override", "post")).is_ok());
        assert!(none.check_method(&head("POST", "x-org", "DELETE")).is_ok());
        let passed = PassedHeaders::new(&["X-HTTP-Method-Override".to_owned()], false).unwrap();
        assert!(passed.check_method(&head("POST", "x-http-method-override", "DELETE")).is_ok());
        assert!(check_method_case(&Method::from_bytes(b"post").unwrap()).is_err());
        assert!(check_method_case(&Method::from_bytes(b"M-SEARCH").unwrap()).is_ok());
    }
}
