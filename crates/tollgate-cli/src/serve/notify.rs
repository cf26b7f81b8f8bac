//! Telling systemd how it goes, if it wants to know (`Type=notify`).

use std::os::unix::net::{SocketAddr, UnixDatagram};

/// All doors are open.
pub(super) const READY: &str = "READY=1";
/// It is going down.
pub(super) const STOPPING: &str = "STOPPING=1";

/// Says it. Nobody may be listening, which is no trouble of ours.
pub(super) fn tell(what: &str) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let told = address(&path)
        .and_then(|address| UnixDatagram::unbound()?.send_to_addr(what.as_bytes(), &address));
    if let Err(error) = told {
        tracing::warn!(%error, "systemd could not be told");
    }
}

/// A path, or a name that begins with `@`, which Linux keeps apart from the file system.
fn address(path: &std::ffi::OsStr) -> std::io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = path.as_encoded_bytes().strip_prefix(b"@") {
        use std::os::linux::net::SocketAddrExt;
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(path)
}
