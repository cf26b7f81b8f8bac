//! Where the programs are that do not come from Debian.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of a Python package in the environment `stores` of the components.
pub(crate) fn of_package(file: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components");
    let folder = std::env::var_os("TOLLGATE_COMPONENTS").map_or(here, PathBuf::from);
    let lib = folder.join("stores/lib");
    // The folder's name has Python's version in it.
    let pythons = fs::read_dir(&lib).into_iter().flatten().flatten();
    let mut files = pythons.map(|python| python.path().join("site-packages").join(file));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("{file} is missing in {}: run cargo xtask components", lib.display())
    })
}
