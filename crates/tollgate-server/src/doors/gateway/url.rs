//! The URL of an upstream.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The URL of an upstream: `http://host:port` (also `host:port`), `https://host`, `h2c://host:port`
/// (HTTP/2 without TLS) or `unix:/path`.
///
/// ```
/// use tollgate_server::config::UpstreamUrl;
/// assert_eq!("localhost:3000".parse::<UpstreamUrl>()?.to_string(), "http://localhost:3000");
/// for url in ["http://localhost:3000", "https://api.example", "h2c://[::1]:50051", "unix:/run/app"] {
///     assert_eq!(url.parse::<UpstreamUrl>()?.to_string(), url);
/// }
/// assert!("ftp://localhost:3000".parse::<UpstreamUrl>().is_err());
/// # Ok::<(), tollgate_server::config::UpstreamUrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamUrl {
    text: String,
    pub(super) address: UpstreamAddress,
    pub(super) protocol: UpstreamProtocol,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpstreamAddress {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The protocol of an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UpstreamProtocol {
    Http1,
    /// HTTP/2 without TLS, with prior knowledge.
    Http2,
    /// TLS; ALPN chooses the HTTP version.
    Tls,
}

/// The reason why a text is not an upstream URL.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UpstreamUrlError(String);

impl UpstreamUrl {
    /// Returns the value of `Host` for the upstream.
    pub(super) fn authority(&self) -> &str {
        match &self.address {
            UpstreamAddress::Tcp { .. } => self.text.split_once("://").map_or("", |(_, host)| host),
            UpstreamAddress::Unix(_) => "localhost",
        }
    }

    pub(super) fn is_tls(&self) -> bool {
        self.protocol == UpstreamProtocol::Tls
    }
}

impl FromStr for UpstreamUrl {
    type Err = UpstreamUrlError;

    fn from_str(text: &str) -> Result<UpstreamUrl, UpstreamUrlError> {
        let wrong = |why: &str| UpstreamUrlError(format!("{text:?} is no upstream: {why}"));
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            let address = UpstreamAddress::Unix(path.into());
            return Ok(UpstreamUrl {
                text: text.to_owned(),
                address,
                protocol: UpstreamProtocol::Http1,
            });
        }
        let form = "write host:port, http://host:port, https://host, h2c://host:port or unix:/path";
        let with_scheme = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let url: hyper::Uri = with_scheme.parse().map_err(|_| wrong(form))?;
        let (protocol, usual) = match url.scheme_str() {
            Some("http") => (UpstreamProtocol::Http1, 80),
            Some("https") => (UpstreamProtocol::Tls, 443),
            Some("h2c") => (UpstreamProtocol::Http2, 80),
            _ => return Err(wrong(form)),
        };
        let authority = url.authority().map_or("", |authority| authority.as_str());
        let (scheme, host) = (url.scheme_str().unwrap_or_default(), url.host().unwrap_or_default());
        if authority.contains('@') {
            return Err(UpstreamUrlError("no user or password belongs in an upstream".into()));
        }
        if host.is_empty()
            || url.port().is_none() && authority.contains(":") && !authority.ends_with(']')
        {
            return Err(wrong(form));
        }
        if !matches!(url.path_and_query().map_or("", |path| path.as_str()), "" | "/") {
            return Err(wrong("paths are sent on as they come, so it has none of its own"));
        }
        let bare = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address = UpstreamAddress::Tcp { host: bare, port: url.port_u16().unwrap_or(usual) };
        Ok(UpstreamUrl { text: format!("{scheme}://{authority}"), address, protocol })
    }
}

impl fmt::Display for UpstreamUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_reached_is_an_upstream() {
        for wrong in [
            "",
            "unix:",
            "http://",
            "ftp://a",
            "http://a/b",
            "http://a?b",
            "http://a:x",
            "http://u:p@a",
            "u:p@a",
            "a:80/b",
            ":80",
        ] {
            assert!(wrong.parse::<UpstreamUrl>().is_err(), "{wrong}");
        }
        let url: UpstreamUrl = "a:80".parse().unwrap();
        assert_eq!((url.authority(), url.is_tls()), ("a:80", false));
        let url: UpstreamUrl = "https://[::1]:8443/".parse().unwrap();
        assert_eq!(url.address, UpstreamAddress::Tcp { host: "::1".into(), port: 8443 });
        assert_eq!((url.authority(), url.is_tls()), ("[::1]:8443", true));
    }
}
