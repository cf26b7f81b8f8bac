//! Notifications to systemd (`Type=notify`).

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// All listeners are open.
pub(super) const READY: &str = "READY=1";
/// The server is stopping.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Sends a notification. A failure is only logged.
pub(super) fn send(what: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let sent = address(&path)
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "cannot notify systemd");
    }
}

/// Returns the address of the socket: a path, or an abstract name that begins with `@`.
fn address(path: &std::ffi::OsStr) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}
