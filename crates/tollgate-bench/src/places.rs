//! Where things are that `cargo xtask bench` installs.

use std::path::{Path, PathBuf};

/// What only benchmarks run against.
pub(crate) fn peers() -> PathBuf {
    folder("TOLLGATE_PEERS", "target/peers")
}

/// What tests run against as well.
pub(crate) fn components() -> PathBuf {
    folder("TOLLGATE_COMPONENTS", "target/components")
}

/// What a variable says, or a folder of the repository.
fn folder(variable: &str, usual: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(usual);
    std::env::var_os(variable).map_or(here, PathBuf::from)
}
