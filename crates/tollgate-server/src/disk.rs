//! Atomic file writes: after a crash a file has either the old or the new content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Creates a folder that only its owner can enter, unless the folder exists.
pub(crate) fn create_private_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Replaces a file atomically with one that only its owner can read.
///
/// Writes a temporary file in the same folder, renames it, and flushes both to the disk.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    replace_private(path, |file| file.write_all(content))
}

/// Replaces a file atomically with one that only its owner can read and that `write` fills.
pub(crate) fn replace_private<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<T>,
) -> io::Result<T> {
    let temporary = temporary_path(path);
    let written = write_new(&temporary, write)
        .and_then(|written| fs::rename(&temporary, path).map(|()| written));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    let written = written?;
    sync_folder(parent_folder(path))?;
    Ok(written)
}

/// Removes the temporary files that a killed process left next to a file.
pub(crate) fn remove_temporary_files(path: &Path) {
    let Some(prefix) = prefix(path) else { return };
    let Ok(entries) = fs::read_dir(parent_folder(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub(crate) fn parent_folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn write_new<T>(path: &Path, write: impl FnOnce(&mut File) -> io::Result<T>) -> io::Result<T> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    let written = write(&mut file)?;
    file.sync_all()?;
    Ok(written)
}

/// Flushes a folder, because otherwise a crash of the machine may undo a rename in it.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn prefix(path: &Path) -> Option<String> {
    Some(format!(".{}.", path.file_name()?.to_string_lossy()))
}

fn temporary_path(path: &Path) -> PathBuf {
    let prefix = prefix(path).unwrap_or_default();
    parent_folder(path).join(format!("{prefix}{:016x}.tmp", fastrand::u64(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacing_a_file_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        write_private(&path, b"one").unwrap();
        write_private(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn only_temporary_files_of_the_same_file_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        for name in ["copy", ".copy.12.tmp", ".other.12.tmp"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        remove_temporary_files(&path);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".other.12.tmp", "copy"]);
    }
}
