//! Where things are that `cargo xtask bench` installs, and which they are.

use std::path::{Path, PathBuf};
use std::process::Command;

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

/// Where a program is that the machine has; nowhere is an empty path.
pub(crate) fn on_path(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file()).unwrap_or_default()
}

/// What a program says its version is: the first word with digits and dots in it.
pub(crate) fn version(program: &Path, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let mut words = text.split(|c: char| !c.is_ascii_digit() && c != '.');
    words.find(|word| word.contains('.') && word.len() > 2).map(str::to_owned)
}
