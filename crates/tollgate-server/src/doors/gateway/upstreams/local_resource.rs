//! Resources of this machine that a connection to an upstream needs: descriptors, memory, ports.
//!
//! Connecting fails without them, but that says nothing about the upstream: ejecting it would turn a
//! shortage here into an outage there.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::io::Errno;

/// A resource of this machine that has run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::doors::gateway) enum LocalResource {
    ProcessFiles,
    SystemFiles,
    Memory,
    Ports,
}

impl LocalResource {
    /// Returns the resource whose shortage caused an error; `None` for an error of the upstream.
    pub(super) fn missing(error: &io::Error) -> Option<LocalResource> {
        match Errno::from_io_error(error)? {
            Errno::MFILE => Some(LocalResource::ProcessFiles),
            Errno::NFILE => Some(LocalResource::SystemFiles),
            Errno::NOBUFS | Errno::NOMEM => Some(LocalResource::Memory),
            Errno::ADDRNOTAVAIL => Some(LocalResource::Ports),
            _ => None,
        }
    }

    /// Returns the remedy for an operator.
    fn remedy(self) -> &'static str {
        match self {
            LocalResource::ProcessFiles => {
                "raise the limit of open files (LimitNOFILE) or lower bounds_connections"
            }
            LocalResource::SystemFiles => "raise the system's limit of open files (fs.file-max)",
            LocalResource::Memory => "give the machine more memory",
            LocalResource::Ports => {
                "widen net.ipv4.ip_local_port_range or raise upstream_idle, so that connections \
                 are reused"
            }
        }
    }
}

impl fmt::Display for LocalResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LocalResource::ProcessFiles => "the gateway has no file descriptor left",
            LocalResource::SystemFiles => "the gateway's machine has no file descriptor left",
            LocalResource::Memory => "the gateway's machine has no memory left for connections",
            LocalResource::Ports => "the gateway's machine has no local port or address left",
        })
    }
}

/// The log of shortages: one line when a shortage begins, and one when it is over.
#[derive(Debug, Default)]
pub(super) struct ShortageLog {
    is_short: AtomicBool,
}

impl ShortageLog {
    /// Records the outcome of an attempt to connect.
    pub(super) fn record<T>(&self, outcome: &io::Result<T>) {
        match outcome {
            Ok(_) => {
                if self.is_short.load(Ordering::Relaxed)
                    && self.is_short.swap(false, Ordering::Relaxed)
                {
                    tracing::info!("the gateway can connect to upstreams again");
                }
            }
            Err(error) => {
                if let Some(missing) = LocalResource::missing(error)
                    && !self.is_short.swap(true, Ordering::Relaxed)
                {
                    tracing::error!(%error, "{missing}: {}", missing.remedy());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_shortages_of_this_machine_are_local() {
        let missing = |errno: Errno| {
            LocalResource::missing(&io::Error::from_raw_os_error(errno.raw_os_error()))
        };
        assert_eq!(missing(Errno::MFILE), Some(LocalResource::ProcessFiles));
        assert_eq!(missing(Errno::NFILE), Some(LocalResource::SystemFiles));
        assert_eq!(missing(Errno::NOBUFS), Some(LocalResource::Memory));
        assert_eq!(missing(Errno::NOMEM), Some(LocalResource::Memory));
        assert_eq!(missing(Errno::ADDRNOTAVAIL), Some(LocalResource::Ports));
        for errno in [Errno::CONNREFUSED, Errno::TIMEDOUT, Errno::HOSTUNREACH, Errno::AGAIN] {
            assert_eq!(missing(errno), None, "{errno}");
        }
        assert_eq!(LocalResource::missing(&io::ErrorKind::TimedOut.into()), None);
    }
}
