//! The `Via` field, which names the gateway to upstreams and clients, and reveals loops.

use std::fmt;
use std::str::FromStr;

use hyper::header::{HeaderValue, VIA};
use hyper::{HeaderMap, Version};

use super::forwarded::join;
use super::hop_headers::tokens;

/// The name of a gateway in `Via`.
///
/// A request that has the name already came back to the gateway, and is refused. So gateways in a row
/// need different names, as random ones are. Servers that share their requests may have the same name.
///
/// ```
/// use tollgate_server::config::ViaName;
/// assert_eq!("edge".parse(), Ok(ViaName::Fixed("edge".into())));
/// assert_eq!("off".parse(), Ok(ViaName::Off));
/// assert!("a b".parse::<ViaName>().is_err());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViaName {
    /// `tollgate-` and a random number, for each process.
    #[default]
    Random,
    /// A given name.
    Fixed(String),
    /// No field is written, and loops are not detected.
    Off,
}

impl FromStr for ViaName {
    type Err = String;

    fn from_str(text: &str) -> Result<ViaName, String> {
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:[]".contains(&byte);
        match text {
            "random" => Ok(ViaName::Random),
            "off" => Ok(ViaName::Off),
            "" => Err("the name in Via is empty; write a name, random or off".to_owned()),
            name if name.bytes().all(is_name) && name.len() <= 128 => {
                Ok(ViaName::Fixed(name.to_owned()))
            }
            name => Err(format!("{name:?} is no name for Via: use letters, digits, - . and _")),
        }
    }
}

impl fmt::Display for ViaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ViaName::Random => "random",
            ViaName::Fixed(name) => name,
            ViaName::Off => "off",
        })
    }
}

/// The entries that a gateway adds to `Via`, one for each version of HTTP.
#[derive(Debug)]
pub(super) struct ViaEntries {
    name: String,
    http_1_0: HeaderValue,
    http_1_1: HeaderValue,
    http_2: HeaderValue,
}

impl ViaEntries {
    /// Creates the entries of a gateway; `None` if it writes none.
    pub(super) fn new(name: &ViaName) -> Result<Option<ViaEntries>, String> {
        let name = match name {
            ViaName::Off => return Ok(None),
            ViaName::Random => format!("tollgate-{:08x}", fastrand::u32(..)),
            ViaName::Fixed(name) => name.clone(),
        };
        let entry = |version: &str| {
            let entry = HeaderValue::try_from(format!("{version} {name}"));
            entry.map_err(|_| format!("{name:?} is no name for Via"))
        };
        let (http_1_0, http_1_1, http_2) = (entry("1.0")?, entry("1.1")?, entry("2.0")?);
        Ok(Some(ViaEntries { http_1_0, http_1_1, http_2, name }))
    }

    /// Returns whether a request has come through this gateway before.
    pub(super) fn has_passed(&self, headers: &HeaderMap) -> bool {
        let is_own = |entry: &str| {
            let received_by = entry.split_ascii_whitespace().nth(1);
            received_by.is_some_and(|name| name.eq_ignore_ascii_case(&self.name))
        };
        headers.contains_key(VIA) && tokens(headers, &VIA).any(is_own)
    }

    /// Adds an entry to a message that was received in a version of HTTP.
    pub(super) fn add(&self, headers: &mut HeaderMap, received: Version) {
        let entry = match received {
            Version::HTTP_2 => &self.http_2,
            Version::HTTP_10 => &self.http_1_0,
            _ => &self.http_1_1,
        };
        headers.append(VIA, entry.clone());
        join(headers, &VIA, ", ");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_added_and_recognised() {
        let edge = ViaEntries::new(&ViaName::Fixed("edge".into())).unwrap().unwrap();
        let inner = ViaEntries::new(&ViaName::Random).unwrap().unwrap();
        let mut headers = HeaderMap::new();
        headers.append(VIA, HeaderValue::from_static("1.1 other (edge), HTTP/1.1 varnish"));
        assert!(!edge.has_passed(&headers), "a comment is no name");
        edge.add(&mut headers, Version::HTTP_2);
        assert_eq!(headers[VIA], "1.1 other (edge), HTTP/1.1 varnish, 2.0 edge");
        assert!(edge.has_passed(&headers) && !inner.has_passed(&headers));
        inner.add(&mut headers, Version::HTTP_11);
        assert!(inner.has_passed(&headers));
        assert_eq!(headers.get_all(VIA).iter().count(), 1);
    }

    #[test]
    fn names_read_back() {
        for name in [ViaName::Random, ViaName::Off, ViaName::Fixed("edge-1.example:80".into())] {
            assert_eq!(name.to_string().parse(), Ok(name));
        }
        for wrong in ["", "a b", "a,b", "(a)", "\"a\"", "a\r\n"] {
            assert!(wrong.parse::<ViaName>().is_err(), "{wrong:?}");
        }
        let control = ViaName::Fixed("a\r\nb: c".into());
        assert!(ViaEntries::new(&control).is_err());
    }
}
