//! The programs that `cargo xtask bench` installs: their paths and versions.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of programs that only benchmarks use.
pub(crate) fn peers() -> PathBuf {
    folder("TOLLGATE_PEERS", "target/peers")
}

/// Returns the folder of programs that tests use as well.
pub(crate) fn components() -> PathBuf {
    folder("TOLLGATE_COMPONENTS", "target/components")
}

/// Returns the folder named by a variable, or a default in the repository.
fn folder(variable: &str, usual: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(usual);
    std::env::var_os(variable).map_or(here, PathBuf::from)
}

/// Returns the path of a program on `PATH`, or an empty path if there is none.
pub(crate) fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file()).unwrap_or_default()
}

/// Returns the version that a program prints: the first word with digits and dots.
pub(crate) fn version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    words.find(|word| word.contains('.') && word.len() > 2).map(str::to_owned)
}
