//! Files that are there whole or not at all, whatever happens while they are written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Creates a folder that only its owner may enter, unless it exists.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Writes a file that only its owner may read: beside its place first, then moved there, both
/// flushed to the disk. Whoever looks sees the old content or the new one.
pub(crate) fn write_private(path: &Path, content: &[u8]) -> io::Result<()> {
    let beside = beside(path);
    let written = write_new(&beside, content).and_then(|()| fs::rename(&beside, path));
    if let Err(error) = written {
        let _ = fs::remove_file(&beside);
        return Err(error);
    }
    sync_folder(folder_of(path))
}

/// Removes what a writer that was killed left beside a file.
pub(crate) fn sweep(path: &Path) {
    let Some(prefix) = prefix(path) else { return };
    let Ok(entries) = fs::read_dir(folder_of(path)) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(&prefix) && name.ends_with(".tmp") {
            let _ = fs::remove_file(entry.path());
        }
    }
}

pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Without this a crash of the machine may forget that the file was moved.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

fn prefix(path: &Path) -> Option<String> {
    Some(format!(".{}.", path.file_name()?.to_string_lossy()))
}

fn beside(path: &Path) -> PathBuf {
    let prefix = prefix(path).unwrap_or_default();
    folder_of(path).join(format!("{prefix}{:016x}.tmp", fastrand::u64(..)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_stays_beside_it() {
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
    fn what_a_killed_writer_left_is_swept_away_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("copy");
        for name in ["copy", ".copy.12.tmp", ".other.12.tmp"] {
            fs::write(folder.path().join(name), b"").unwrap();
        }
        sweep(&path);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".other.12.tmp", "copy"]);
    }
}
