//! What settings of a server may be.

use std::path::PathBuf;
use std::str::FromStr;

use clap::ValueEnum;
use ipnet::IpNet;
use tollgate_server::config::HeaderStyle;
use tollgate_server::net::Address;

/// What closes a door, or speaks without TLS where others speak with it.
const OFF: &str = "off";

/// A door: where it is, or that there is none.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    At(Address),
    Off,
}

impl FromStr for Door {
    type Err = String;

    fn from_str(text: &str) -> Result<Door, String> {
        match text {
            OFF => Ok(Door::Off),
            _ => text.parse().map(Door::At).map_err(|error| format!("{error}, or off")),
        }
    }
}

/// A file of TLS, or none although other doors have one.
#[derive(Clone, Debug)]
pub(crate) enum DoorFile {
    At(PathBuf),
    Off,
}

impl FromStr for DoorFile {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<DoorFile, Self::Err> {
        Ok(if text == OFF { DoorFile::Off } else { DoorFile::At(text.into()) })
    }
}

/// A network, or one address.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let one = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    let read = text.parse::<IpNet>().or_else(|_| one());
    read.map_err(|_| format!("{text:?} is no network; write 10.0.0.0/8 or 192.0.2.1"))
}

/// How logs are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people
    Text,
    /// For machines: one JSON object a line
    Json,
}

/// Which headers tell clients about their limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Headers {
    /// RateLimit-Policy and RateLimit of the IETF's tenth draft
    #[value(name = "draft-10")]
    Draft10,
    /// The same two of the eighth draft
    #[value(name = "draft-8")]
    Draft8,
    /// RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
    #[value(name = "draft-6")]
    Draft6,
    /// X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
    Legacy,
    /// As Envoy writes them
    #[value(name = "envoy-03")]
    Envoy03,
    /// None
    None,
}

impl From<Headers> for HeaderStyle {
    fn from(headers: Headers) -> HeaderStyle {
        match headers {
            Headers::Draft10 => HeaderStyle::Draft10,
            Headers::Draft8 => HeaderStyle::Draft8,
            Headers::Draft6 => HeaderStyle::Draft6,
            Headers::Legacy => HeaderStyle::Legacy,
            Headers::Envoy03 => HeaderStyle::Envoy03,
            Headers::None => HeaderStyle::None,
        }
    }
}
