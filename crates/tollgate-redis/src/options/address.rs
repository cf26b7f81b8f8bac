//! The address of a server.

use std::fmt;
use std::path::PathBuf;

/// The address of a server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Address {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

impl Address {
    pub(crate) fn tcp(host: impl Into<String>, port: u16) -> Address {
        Address::Tcp { host: host.into(), port }
    }

    /// Reads the `host:port` of a cluster redirect. An empty host is that of the sender, and an
    /// IPv6 address has no brackets.
    pub(crate) fn from_redirect(text: &str, from: &Address) -> Option<Address> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.parse().ok()?;
        let host = match (host.trim_matches(['[', ']']), from) {
            ("", Address::Tcp { host, .. }) => host,
            ("", Address::Unix(_)) => return None,
            (host, _) => host,
        };
        Some(Address::tcp(host, port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Address::Tcp { host, port } => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_name_a_server_by_host_and_port_or_by_port_alone() {
        let from = Address::tcp("10.0.0.1", 7001);
        let read = |text| Address::from_redirect(text, &from).map(|address| address.to_string());
        assert_eq!(read("10.0.0.2:7002").unwrap(), "10.0.0.2:7002");
        assert_eq!(read(":7002").unwrap(), "10.0.0.1:7002");
        assert_eq!(read("fe80::1:7002").unwrap(), "[fe80::1]:7002");
        assert_eq!(read("10.0.0.2"), None);
        assert_eq!(read("10.0.0.2:"), None);
        assert_eq!(Address::from_redirect(":1", &Address::Unix("/run/r".into())), None);
    }
}
