//! The meaning of log fields: their names in logs, and the attribute in rules.

use std::str::FromStr;

/// A field of the log that becomes another attribute: `--map client=ip`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldRename {
    pub(crate) field: String,
    pub(crate) attribute: String,
}

impl FromStr for FieldRename {
    type Err = String;

    fn from_str(text: &str) -> Result<FieldRename, String> {
        let wrong = || "expected FIELD=ATTRIBUTE, such as client=ip".to_owned();
        let (field, attribute) = text.split_once('=').ok_or_else(wrong)?;
        let (field, attribute) = (field.trim(), attribute.trim());
        if field.is_empty() || attribute.is_empty() {
            return Err(wrong());
        }
        Ok(FieldRename { field: field.to_owned(), attribute: attribute.to_owned() })
    }
}

/// The meaning of a field in a JSON log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldMeaning {
    Time,
    /// A request line: `POST /login HTTP/1.1`.
    RequestLine,
    /// An address, perhaps with a port.
    Address,
    /// An attribute, by its name in rules.
    Attribute(&'static str),
}

/// The field names of each meaning; an earlier name has precedence: the client's address over that
/// of the connection, the path as sent over the rewritten one.
const NAMES: [(FieldMeaning, &[&str]); 11] = [
    (
        FieldMeaning::Time,
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
        FieldMeaning::Address,
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
        FieldMeaning::Attribute("method"),
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
        FieldMeaning::Attribute("path"),
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
    (FieldMeaning::RequestLine, &["request", "request_line", "requestline"]),
    (
        FieldMeaning::Attribute("response.status"),
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
        FieldMeaning::Attribute("user"),
        &["user", "remote_user", "username", "user_id", "userid", "clientusername"],
    ),
    (
        FieldMeaning::Attribute("host"),
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
        FieldMeaning::Attribute("response.bytes"),
        &["bytes", "body_bytes_sent", "bytes_sent", "size", "response_size", "response.bytes"],
    ),
    (
        FieldMeaning::Attribute("header.user-agent"),
        &["user_agent", "useragent", "http_user_agent", "agent"],
    ),
    (
        FieldMeaning::Attribute("header.x-forwarded-for"),
        &["x_forwarded_for", "http_x_forwarded_for", "forwarded_for"],
    ),
];

/// Returns the meaning of a field name, and its rank among the names of that meaning.
pub(super) fn meaning(name: &str) -> Option<(FieldMeaning, usize)> {
    let rank = |names: &&[&str]| names.iter().position(|known| name.eq_ignore_ascii_case(known));
    NAMES.iter().find_map(|(meaning, names)| Some((*meaning, rank(names)?)))
}

/// Returns the meaning of an attribute name of rules.
pub(super) fn canonical(attribute: &str) -> Option<FieldMeaning> {
    let is_same = |meaning: &FieldMeaning| match meaning {
        FieldMeaning::Time => attribute == "time",
        FieldMeaning::Address => attribute == "ip",
        FieldMeaning::RequestLine => attribute == "request",
        FieldMeaning::Attribute(name) => attribute == *name,
    };
    NAMES.iter().map(|(meaning, _)| *meaning).find(is_same)
}

/// Returns the name of a header, if the field is one: `header.x-org`, `request.headers.X-Org`,
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
        // nginx's variables.
        None => name.strip_prefix("http_")?.to_ascii_lowercase().replace('_', "-"),
    };
    (!header.is_empty()).then_some(header)
}

/// Parses an address, ignoring its port: `10.0.0.1:80`, `[2001:db8::1]:80`, `::1`.
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
    fn request_lines_of_clients_and_scanners() {
        assert_eq!(request_line("GET /a b HTTP/1.1"), Some(("GET", "/a b")));
        assert_eq!(request_line("GET /old"), Some(("GET", "/old")));
        for text in ["", "-", "\u{16}\u{3}\u{1} x", "GET ", "quit"] {
            assert_eq!(request_line(text), None, "{text}");
        }
    }

    #[test]
    fn a_rename_has_a_field_and_an_attribute() {
        let rename: FieldRename = "client = ip".parse().unwrap();
        assert_eq!((&*rename.field, &*rename.attribute), ("client", "ip"));
        assert!("client".parse::<FieldRename>().is_err() && "=ip".parse::<FieldRename>().is_err());
    }
}
