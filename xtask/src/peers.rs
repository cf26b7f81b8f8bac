//! The programs that benchmarks compare with, and the load generators.
//!
//! Load generators and Redis come from Debian. throttlecrab-server and redis-cell are built once from
//! crates.io into `target/peers`, which also contains limiters in other languages. limitador-server is
//! in no registry: name the program in `TOLLGATE_LIMITADOR_SERVER`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{self, Installer};
use crate::{Result, components, sh};

/// The variable with the folder of peers, which the benchmark reads.
pub(crate) const FOLDER: &str = "TOLLGATE_PEERS";

const DEBIAN: &[(&str, &str)] = &[
    ("redis-server", "redis-server"),
    ("redis-benchmark", "redis-tools"),
    ("wrk", "wrk"),
    ("h2load", "nghttp2-client"),
    // Without it, throttlecrab-server is silently built without gRPC.
    ("protoc", "protobuf-compiler"),
];

/// A package that only depends on redis-cell: `cargo install` does not build a library.
const REDIS_CELL: &str = "\
[package]
name = \"peers\"
version = \"0.0.0\"
edition = \"2024\"

[workspace]

[dependencies]
redis-cell = \"=0.2.2\"
";

/// Limiters with counters in Redis, and the clients they need.
const PYTHON: &[&str] = &["limits[redis]==5.8.0"];
const NODE: &[&str] = &["rate-limiter-flexible@11.4.0", "ioredis@6.0.0"];

/// Returns the folder of peers.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| sh::root().join("target/peers"), PathBuf::from)
}

/// Installs and builds missing peers for `bench doors`.
pub(crate) fn ensure_for_doors() -> Result {
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

/// Installs missing peers for `bench gateway`.
pub(crate) fn ensure_for_gateway() -> Result {
    for (program, package) in [("wrk", "wrk"), ("h2load", "nghttp2-client")] {
        tools::ensure(program, Installer::Apt(package))?;
    }
    components::ensure()
}

/// Installs and builds missing peers for `bench redis`.
pub(crate) fn ensure_for_redis() -> Result {
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

/// Builds the module redis-cell as `libredis_cell.so`, if it is missing.
pub(crate) fn redis_cell(folder: &Path) -> Result {
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
