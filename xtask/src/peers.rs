//! What only benchmarks measure against, and the generators that load it.
//!
//! Generators and Redis are Debian's; throttlecrab-server and redis-cell are built from crates.io,
//! once, into `target/peers`, where limiters of other languages go as well. limitador-server is in no
//! registry: who has one names its program in `TOLLGATE_LIMITADOR_SERVER`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{self, Installer};
use crate::{Result, components, sh};

/// Where the benchmark looks for them.
pub(crate) const FOLDER: &str = "TOLLGATE_PEERS";

const DEBIAN: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
    // Without it, throttlecrab-server is built without gRPC, and says nothing.
    ("protoc", "protobuf-compiler"),
];

/// A package that does nothing but name redis-cell: a library, so `cargo install` has no use for it.
const REDIS_CELL: &str = "\
[package]
name = \"peers\"
version = \"0.0.0\"
edition = \"2024\"

[workspace]

[dependencies]
redis-cell = \"=0.2.2\"
";

/// Limiters that keep their counters in Redis, with the clients they want.
const PYTHON: &[&str] = &["limits[redis]==5.8.0"];
const NODE: &[&str] = &["rate-limiter-flexible@11.4.0", "ioredis@6.0.0"];

/// The folder of what was built.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| sh::root().join("target/peers"), PathBuf::from)
}

/// Installs and builds what is missing for `bench doors`.
pub(crate) fn of_doors() -> Result {
    for (program, package) in DEBIAN {
        tools::ensure(program, Installer::Apt(package))?;
    }
    let folder = folder();
    fs::create_dir_all(&folder)?;
    if !folder.join("bin/throttlecrab-server").is_file() {
        let install = ["install", "throttlecrab-server", "--version", "^0.4", "--locked", "--root"];
        sh::run(sh::cargo(&install).arg(&folder).arg("--target-dir").arg(folder.join("build")))?;
    }
    redis_cell(&folder)
}

/// Installs what is missing for `bench gateway`.
pub(crate) fn of_gateway() -> Result {
    for (program, package) in [("wrk", "wrk"), ("h2load", "nghttp2-client")] {
        tools::ensure(program, Installer::Apt(package))?;
    }
    components::ensure()
}

/// Installs and builds what is missing for `bench redis`.
pub(crate) fn of_redis() -> Result {
    for (program, package) in [("redis-server", "redis-server"), ("node", "nodejs"), ("npm", "npm")]
    {
        tools::ensure(program, Installer::Apt(package))?;
    }
    let folder = folder();
    fs::create_dir_all(&folder)?;
    components::group(&folder.join("python"), PYTHON, components::pip)?;
    components::group(&folder.join("node"), NODE, components::npm)?;
    redis_cell(&folder)
}

fn redis_cell(folder: &Path) -> Result {
    let module = folder.join("libredis_cell.so");
    if module.is_file() {
        return Ok(());
    }
    let package = folder.join("redis-cell");
    fs::create_dir_all(package.join("src"))?;
    fs::write(package.join("Cargo.toml"), REDIS_CELL)?;
    fs::write(package.join("src/lib.rs"), "")?;
    let build = ["build", "--release", "--package", "redis-cell"];
    let target = folder.join("build");
    let mut build = sh::cargo(&build);
    build.arg("--manifest-path").arg(package.join("Cargo.toml"));
    sh::run(build.arg("--target-dir").arg(&target))?;
    fs::copy(target.join("release/libredis_cell.so"), module)?;
    Ok(())
}
