//! The wall clock of a server, set by `libfaketime` (Debian's package `faketime`).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The file with the offset of a server's clock, in its folder.
const OFFSET_FILE: &str = "clock";

/// Makes the clock of a program settable by [`step`].
pub(crate) fn make_settable(command: &mut Command, folder: &Path) {
    step_file(folder, 0);
    command.env("LD_PRELOAD", library());
    command.env("FAKETIME_TIMESTAMP_FILE", folder.join(OFFSET_FILE));
    command.env("FAKETIME_NO_CACHE", "1");
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
}

/// Sets the clock of a program to the real one plus `seconds`; returns the seconds before.
pub(crate) fn step(folder: &Path, seconds: i64) -> i64 {
    let before = fs::read_to_string(folder.join(OFFSET_FILE));
    let before = before.expect("the clock of this server is settable");
    step_file(folder, seconds);
    before.trim().parse().expect("the file has the seconds of the last step")
}

fn step_file(folder: &Path, seconds: i64) {
    // The program may read the file at any time, so it is replaced as a whole.
    let new = folder.join("clock.new");
    fs::write(&new, format!("{seconds:+}\n")).expect("a file is written");
    fs::rename(new, folder.join(OFFSET_FILE)).expect("a file is renamed");
}

/// Returns the path of the library, which Debian installs in a folder for each architecture.
fn library() -> PathBuf {
    let architectures = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let library = |folder: fs::DirEntry| folder.path().join("faketime/libfaketime.so.1");
    let found = architectures.map(library).find(|path| path.exists());
    found.expect("libfaketime is installed: Debian's package faketime")
}
