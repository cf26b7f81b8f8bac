//! The paths of programs that do not come from Debian.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the path of a file of a Python package in the component folder `stores`.
pub(crate) fn of_package(file: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/components");
    let folder = std::env::var_os("TOLLGATE_COMPONENTS").map_or(here, PathBuf::from);
    let lib = folder.join("stores/lib");
    // The name of the folder contains the Python version.
    let pythons = fs::read_dir(&lib).into_iter().flatten().flatten();
    let mut files = pythons.map(|python| python.path().join("site-packages").join(file));
    files.find(|file| file.is_file()).unwrap_or_else(|| {
        panic!("{file} is missing in {}: run cargo xtask components", lib.display())
    })
}
