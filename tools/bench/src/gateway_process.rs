//! A tollgate gateway on the server core.

use std::ffi::OsString;
use std::net::{SocketAddr, TcpListener};

use crate::process::Process;
use crate::programs;

/// The limit of open files.
pub(crate) const FILES: u64 = 4_096;

/// A running gateway, stopped on drop.
pub(crate) struct GatewayProcess {
    pub(crate) address: SocketAddr,
    _process: Process,
}

impl GatewayProcess {
    /// Starts a gateway with rules in front of an upstream; the xtask command `bench` builds it.
    pub(crate) fn start(
        bench: &str,
        rules: &str,
        upstream: SocketAddr,
    ) -> Result<GatewayProcess, String> {
        let failed = |error: std::io::Error| error.to_string();
        let folder = tempfile::tempdir().map_err(failed)?;
        std::fs::write(folder.path().join("rules.yaml"), rules).map_err(failed)?;
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?.with_file_name("tollgate");
        if programs::version(&program, "--version").is_none() {
            return Err(format!(
                "tollgate is missing: run `cargo xtask bench {bench}`, which builds it"
            ));
        }
        let line = format!(
            "gateway --to http://{upstream} --listen {address} --http 127.0.0.1:0 --rules rules.yaml \
             --data data --threads 1"
        );
        let arguments = line.split_whitespace().map(OsString::from);
        let arguments = [OsString::from(program)].into_iter().chain(arguments).collect();
        let mut process = Process::start("tollgate", folder, arguments, FILES)?;
        process.await_address(address)?;
        Ok(GatewayProcess { address, _process: process })
    }
}
