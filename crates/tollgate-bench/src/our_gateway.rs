//! A gateway of ours, on the servers' core.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};

use crate::places;
use crate::process::Process;

/// How many files it may open.
pub(crate) const FILES: u64 = 4_096;

/// A running gateway. Gone when dropped.
pub(crate) struct OurGateway {
    pub(crate) address: SocketAddr,
    _process: Process,
}

impl OurGateway {
    /// Starts one with rules in front of an upstream; `bench` builds it.
    pub(crate) fn start(
        bench: &str,
        rules: &str,
        upstream: SocketAddr,
    ) -> Result<OurGateway, String> {
        let failed = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(failed)?;
        std::fs::write(folder.path().join("rules.yaml"), rules).map_err(failed)?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?.with_file_name("tollgate");
        if places::version(&program, "--version").is_none() {
            return Err(format!(
                "tollgate is missing: run `cargo xtask bench {bench}`, which builds it"
            ));
        }
        let line = format!(
            "gateway --to http://{upstream} --listen {address} --http 127.0.0.1:0 --rules rules.yaml \
             --data data --threads 1"
        );
        let words = line.split_whitespace().map(OsString::from);
        let words = [OsString::from(program)].into_iter().chain(words).collect();
        let mut process = Process::start("tollgate", folder, words, FILES)?;
        process.await_address(address)?;
        Ok(OurGateway { address, _process: process })
    }
}
