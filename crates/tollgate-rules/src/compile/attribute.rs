//! The attributes of a request that rules can name.

/// An attribute of a request, found without evaluating anything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Attribute {
    Method,
    /// Normalised, without its query.
    Path,
    /// In lower case, without its port.
    Host,
    /// The client's address: the rightmost one that is not a trusted proxy's.
    Ip,
    /// The address at the other end of the connection.
    Peer,
    /// The method and the route of the rule, or the path where the rule has none.
    Endpoint,
    /// The cost that the request itself states.
    Cost,
    /// `header["x-org"]`; the name is in lower case.
    Header(Box<str>),
    Query(Box<str>),
    Cookie(Box<str>),
    /// `param.id`: the path segment matched by `{id}` in the rule's route.
    Param(Box<str>),
    /// Any other name, dots included: `plan`, `jwt.sub`, `response.status`, and declared ones.
    Named(Box<str>),
}

/// The names of headers, parameters and attributes whose values are secrets.
///
/// They are compared in lower case, with `-` for `_`: `api_key` is an API key too.
const SECRET_NAMES: [&str; 12] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
    "access-token",
    "x-goog-api-key",
    "x-functions-key",
    "ocp-apim-subscription-key",
];

/// Whether values of that name are secrets unless the rules say otherwise.
pub(crate) fn is_secret_name(name: &str) -> bool {
    SECRET_NAMES.iter().any(|known| {
        let letter = |byte: u8| if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() };
        known.len() == name.len() && known.bytes().eq(name.bytes().map(letter))
    })
}

impl Attribute {
    /// Returns the attribute of a plain name: `ip`, `plan`, `jwt.sub`.
    pub(crate) fn named(name: &str) -> Attribute {
        match name {
            "method" => Attribute::Method,
            "path" => Attribute::Path,
            "host" => Attribute::Host,
            "ip" => Attribute::Ip,
            "peer" => Attribute::Peer,
            "endpoint" => Attribute::Endpoint,
            "cost" => Attribute::Cost,
            _ => match name.split_once('.') {
                Some((map, key)) => Attribute::entry(map, key),
                None => Attribute::Named(name.into()),
            },
        }
    }

    /// Returns the attribute of `map["key"]` or `map.key`.
    pub(crate) fn entry(map: &str, key: &str) -> Attribute {
        match map {
            "header" => Attribute::Header(key.to_ascii_lowercase().into()),
            "query" => Attribute::Query(key.into()),
            "cookie" => Attribute::Cookie(key.into()),
            "param" => Attribute::Param(key.into()),
            _ => Attribute::Named(format!("{map}.{key}").into()),
        }
    }

    /// Returns the attribute of `descriptors[0]["user"]`.
    pub(crate) fn descriptor_entry(number: &str, key: &str) -> Attribute {
        Attribute::Named(format!("descriptors.{number}.{key}").into())
    }

    /// Whether it is known only after the response.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self, Attribute::Named(name) if name.starts_with("response."))
    }

    /// Whether its values are secrets unless the rules say otherwise: they appear in no key.
    pub(crate) fn is_secret(&self) -> bool {
        match self {
            Attribute::Cookie(_) => true,
            Attribute::Header(name) | Attribute::Query(name) => is_secret_name(name),
            Attribute::Named(name) => is_secret_name(name.rsplit('.').next().unwrap_or(name)),
            _ => false,
        }
    }

    /// Whether clients choose its value.
    pub(crate) fn is_client_controlled(&self) -> bool {
        matches!(self, Attribute::Header(_) | Attribute::Query(_) | Attribute::Cookie(_))
    }
}

impl std::fmt::Display for Attribute {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (map, key) = match self {
            Attribute::Method => return f.write_str("method"),
            Attribute::Path => return f.write_str("path"),
            Attribute::Host => return f.write_str("host"),
            Attribute::Ip => return f.write_str("ip"),
            Attribute::Peer => return f.write_str("peer"),
            Attribute::Endpoint => return f.write_str("endpoint"),
            Attribute::Cost => return f.write_str("cost"),
            Attribute::Named(name) => return f.write_str(name),
            Attribute::Header(key) => ("header", key),
            Attribute::Query(key) => ("query", key),
            Attribute::Cookie(key) => ("cookie", key),
            Attribute::Param(key) => ("param", key),
        };
        write!(f, "{map}[{key:?}]")
    }
}
