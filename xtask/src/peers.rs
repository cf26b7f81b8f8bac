//! The servers `bench doors` measures against, and the generators that load them.
//!
//! Generators and Redis are Debian's; throttlecrab-server and redis-cell are built from crates.io,
//! once, into `target/peers`. limitador-server is in no registry: who has one names its program in
//! `TOLLGATE_LIMITADOR_SERVER`.

use std::fs;
use std::path::{Path, PathBuf};

use crate::tools::{self, Installer};
use crate::{Result, sh};

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

/// The folder of what was built.
pub(crate) fn folder() -> PathBuf {
    std::env::var_os(FOLDER).map_or_else(|| sh::root().join("target/peers"), PathBuf::from)
}

/// Installs and builds what is missing.
pub(crate) fn ensure() -> Result {
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
