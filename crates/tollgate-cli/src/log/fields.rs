//! What the fields of logs mean: their many names, and the one rules use.

use std::str::FromStr;

/// A field of the log that is to be another attribute: `--map client=ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rename {
    pub(crate) field: String,
    pub(crate) attribute: String,
}

impl FromStr for Rename {
    type Err = String;

    fn from_str(text: &str) -> Result<Rename, String> {
        let wrong = || "expected FIELD=ATTRIBUTE, such as client=ip".to_owned();
        let (field, attribute) = text.split_once('=').ok_or_else(wrong)?;
        let (field, attribute) = (field.trim(), attribute.trim());
        if field.is_empty() || attribute.is_empty() {
            return Err(wrong());
        }
        Ok(Rename { field: field.to_owned(), attribute: attribute.to_owned() })
    }
}

/// What a field of a JSON log is called in rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    Time,
    /// `POST /login HTTP/1.1`.
    RequestLine,
    /// An address, perhaps with a port.
    Address,
    /// The same attribute, under the name rules have for it.
    Attribute(&'static str),
}

/// Of several names for one thing the earlier wins: the client's own address before that of the
/// connection, the path as it was sent before the one it was rewritten to.
const NAMES: [(Meaning, &[&str]); 11] = [
    (
        Meaning::Time,
        &[
            "time",
            "timestamp",
            "@timestamp",
            "ts",
            "start_time",
            "starttime",
            "time_local",
            "time_iso8601",
            "startutc",
            "msec",
            "datetime",
            "date",
        ],
    ),
    (
        Meaning::Address,
        &[
            "client_ip",
            "clientip",
            "ip",
            "remote_addr",
            "remoteaddr",
            "remote_ip",
            "remoteip",
            "clienthost",
            "client_addr",
            "request.client_ip",
            "request.remote_ip",
            "request.remote_addr",
            "httprequest.remoteip",
            "downstream_remote_address",
            "remote_host",
            "client",
            "host_ip",
            "peer",
        ],
    ),
    (
        Meaning::Attribute("method"),
        &[
            "method",
            "request_method",
            "requestmethod",
            "http_method",
            "request.method",
            "httprequest.requestmethod",
            "verb",
        ],
    ),
    (
        Meaning::Attribute("path"),
        &[
            "request_uri",
            "uri",
            "path",
            "requestpath",
            "request_path",
            "url",
            "request.uri",
            "request.url",
            "request.path",
            "httprequest.requesturl",
            "http_path",
            "target",
        ],
    ),
    (Meaning::RequestLine, &["request", "request_line", "requestline"]),
    (
        Meaning::Attribute("response.status"),
        &[
            "status",
            "status_code",
            "statuscode",
            "response_code",
            "response.status",
            "downstreamstatus",
            "httprequest.status",
            "code",
            "response_status",
        ],
    ),
    (
        Meaning::Attribute("user"),
        &["user", "remote_user", "username", "user_id", "userid", "clientusername"],
    ),
    (
        Meaning::Attribute("host"),
        &[
            "host",
            "http_host",
            "authority",
            "server_name",
            "vhost",
            "requesthost",
            "request.host",
            "domain",
        ],
    ),
    (
        Meaning::Attribute("response.bytes"),
        &["bytes", "body_bytes_sent", "bytes_sent", "size", "response_size", "response.bytes"],
    ),
    (
        Meaning::Attribute("header.user-agent"),
        &["user_agent", "useragent", "http_user_agent", "agent"],
    ),
    (
        Meaning::Attribute("header.x-forwarded-for"),
        &["x_forwarded_for", "http_x_forwarded_for", "forwarded_for"],
    ),
];

/// What a field of that name is, and how early in the list it stands.
pub(super) fn meaning(name: &str) -> Option<(Meaning, usize)> {
    let rank = |names: &&[&str]| names.iter().position(|known| name.eq_ignore_ascii_case(known));
    NAMES.iter().find_map(|(meaning, names)| Some((*meaning, rank(names)?)))
}

/// What a field becomes that is given one of the names rules have.
pub(super) fn canonical(attribute: &str) -> Option<Meaning> {
    let is_it = |meaning: &Meaning| match meaning {
        Meaning::Time => attribute == "time",
        Meaning::Address => attribute == "ip",
        Meaning::RequestLine => attribute == "request",
        Meaning::Attribute(name) => attribute == *name,
    };
    NAMES.iter().map(|(meaning, _)| *meaning).find(is_it)
}

/// The name of a header, if the field holds one: `header.x-org`, `request.headers.X-Org`,
/// `http_x_org`.
pub(super) fn header(name: &str) -> Option<String> {
    const MAPS: [&str; 5] =
        ["header", "headers", "request.headers", "request_headers", "req_headers"];
    let in_map = MAPS.iter().find_map(|map| {
        let (start, rest) = name.split_at_checked(map.len())?;
        start.eq_ignore_ascii_case(map).then(|| rest.strip_prefix('.'))?
    });
    let header = match in_map {
        Some(header) => header.to_ascii_lowercase(),
        // nginx's own variables.
        None => name.strip_prefix("http_")?.to_ascii_lowercase().replace('_', "-"),
    };
    (!header.is_empty()).then_some(header)
}

/// An address without its port: `10.0.0.1:80`, `[2001:db8::1]:80`, `::1`.
pub(super) fn address(text: &str) -> Option<std::net::IpAddr> {
    use std::net::SocketAddr;
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()))
}

/// Method and target of a request line; `None` if it is not one, as scanners send.
pub(super) fn request_line(text: &str) -> Option<(&str, &str)> {
    let (method, rest) = text.trim().split_once(' ')?;
    let target = match rest.rsplit_once(' ') {
        Some((target, protocol)) if protocol.starts_with("HTTP/") => target,
        _ => rest,
    };
    let is_method = method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    (is_method && !method.is_empty() && !target.is_empty()).then_some((method, target.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_has_two_meanings() {
        let mut all: Vec<&str> =
            NAMES.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|name| *name == name.to_ascii_lowercase()));
    }

    #[test]
    fn headers_by_their_several_names() {
        assert_eq!(header("header.X-Org").as_deref(), Some("x-org"));
        assert_eq!(header("request.headers.X-Org").as_deref(), Some("x-org"));
        assert_eq!(header("http_x_org").as_deref(), Some("x-org"));
        assert_eq!([header("headers"), header("header."), header("org")], [None, None, None]);
        assert_eq!(header("été.x"), None);
    }

    #[test]
    fn addresses_with_and_without_ports() {
        for text in ["2001:db8::1", "[2001:db8::1]", "[2001:db8::1]:443"] {
            assert_eq!(address(text), Some("2001:db8::1".parse().unwrap()), "{text}");
        }
        assert_eq!(address("10.0.0.1:80"), Some("10.0.0.1".parse().unwrap()));
        assert_eq!([address("example.com"), address("")], [None, None]);
    }

    #[test]
    fn request_lines_and_what_scanners_send() {
        assert_eq!(request_line("GET /a b HTTP/1.1"), Some(("GET", "/a b")));
        assert_eq!(request_line("GET /old"), Some(("GET", "/old")));
        for text in ["", "-", "\u{16}\u{3}\u{1} x", "GET ", "quit"] {
            assert_eq!(request_line(text), None, "{text}");
        }
    }

    #[test]
    fn a_rename_has_two_sides() {
        let rename: Rename = "client = ip".parse().unwrap();
        assert_eq!((&*rename.field, &*rename.attribute), ("client", "ip"));
        assert!("client".parse::<Rename>().is_err() && "=ip".parse::<Rename>().is_err());
    }
}
