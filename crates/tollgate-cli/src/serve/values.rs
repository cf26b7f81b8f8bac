//! The types of settings of a server.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use ipnet::IpNet;
use tollgate_server::config::HeaderStyle;
use tollgate_server::net::Address;

use crate::quantity::positive_duration;

/// Closes a door, or turns off TLS for a door or the snapshots.
const OFF: &str = "off";

/// The address of a door, or off.
#[derive(Clone, Debug)]
pub(crate) enum DoorAddress {
    At(Address),
    Off,
}

impl FromStr for DoorAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<DoorAddress, String> {
        match text {
            OFF => Ok(DoorAddress::Off),
            _ => text.parse().map(DoorAddress::At).map_err(|error| format!("{error}, or off")),
        }
    }
}

/// A TLS file of a door, or off although other doors have one.
#[derive(Clone, Debug)]
pub(crate) enum TlsFile {
    At(PathBuf),
    Off,
}

impl FromStr for TlsFile {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<TlsFile, Self::Err> {
        Ok(if text == OFF { TlsFile::Off } else { TlsFile::At(text.into()) })
    }
}

/// The time between snapshots, or off.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SnapshotInterval {
    Every(Duration),
    Off,
}

impl FromStr for SnapshotInterval {
    type Err = String;

    fn from_str(text: &str) -> Result<SnapshotInterval, String> {
        match text {
            OFF => Ok(SnapshotInterval::Off),
            _ => positive_duration(text)
                .map(SnapshotInterval::Every)
                .map_err(|error| format!("{error}, or off")),
        }
    }
}

/// Parses a network or an address.
pub(crate) fn network(text: &str) -> Result<IpNet, String> {
    let one = || text.parse::<std::net::IpAddr>().map(IpNet::from);
    let read = text.parse::<IpNet>().or_else(|_| one());
    read.map_err(|_| format!("{text:?} is no network; write 10.0.0.0/8 or 192.0.2.1"))
}

/// A format of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people
    Text,
    /// One JSON object per line
    Json,
}

/// A style of rate limit headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HeaderStyleName {
    /// RateLimit-Policy and RateLimit of the IETF's tenth draft
    #[value(name = "draft-10")]
    Draft10,
    /// RateLimit-Policy and RateLimit of the IETF's eighth draft
    #[value(name = "draft-8")]
    Draft8,
    /// RateLimit-Limit, RateLimit-Remaining, RateLimit-Reset
    #[value(name = "draft-6")]
    Draft6,
    /// X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset
    Legacy,
    /// The headers of Envoy
    #[value(name = "envoy-03")]
    Envoy03,
    /// No headers
    None,
}

impl From<HeaderStyleName> for HeaderStyle {
    fn from(headers: HeaderStyleName) -> HeaderStyle {
        match headers {
            HeaderStyleName::Draft10 => HeaderStyle::Draft10,
            HeaderStyleName::Draft8 => HeaderStyle::Draft8,
            HeaderStyleName::Draft6 => HeaderStyle::Draft6,
            HeaderStyleName::Legacy => HeaderStyle::Legacy,
            HeaderStyleName::Envoy03 => HeaderStyle::Envoy03,
            HeaderStyleName::None => HeaderStyle::None,
        }
    }
}
