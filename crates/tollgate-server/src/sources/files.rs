//! Rules files on a disk, read so that a half-written state is not taken for a whole one.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use tollgate::rules::Source;

use super::SourceError;

/// What all files of a source may have together.
const MAX_BYTES: u64 = 32 << 20;
/// How often files may change while they are read.
const TRIES: usize = 8;

/// Reads a file, or every `.yaml` and `.yml` of a folder in the order of their names.
///
/// A folder may be exchanged between two of its files: what is returned was read twice and was the
/// same both times.
pub(crate) fn read(path: &Path) -> Result<Vec<Source>, SourceError> {
    let mut last = read_once(path)?;
    if last.len() == 1 && !path.is_dir() {
        return Ok(last);
    }
    for _ in 0..TRIES {
        let again = read_once(path)?;
        if again == last {
            return Ok(last);
        }
        last = again;
    }
    Err(SourceError::Restless(path.to_owned()))
}

fn read_once(path: &Path) -> Result<Vec<Source>, SourceError> {
    let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        let mut left = MAX_BYTES;
        return Ok(vec![read_file(path, &mut left)?]);
    }
    let files = rules_files(path).map_err(unreadable)?;
    if files.is_empty() {
        return Err(SourceError::Empty(path.to_owned()));
    }
    let mut left = MAX_BYTES;
    files.iter().map(|file| read_file(file, &mut left)).collect()
}

/// The rules files in a folder; hidden ones are somebody's work in progress.
fn rules_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        let yaml = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
        // Follows links: in a ConfigMap every file is one.
        if yaml && !hidden && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read_file(path: &Path, left: &mut u64) -> Result<Source, SourceError> {
    let unreadable = |error| SourceError::Unreadable { path: path.to_owned(), error };
    let mut text = String::new();
    let read = File::open(path)
        .and_then(|file| file.take(*left + 1).read_to_string(&mut text))
        .map_err(unreadable)?;
    match left.checked_sub(read as u64) {
        Some(rest) => *left = rest,
        None => return Err(SourceError::TooLarge { path: path.to_owned(), max: MAX_BYTES }),
    }
    Ok(Source::new(path.display().to_string(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_its_visible_yaml_files_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.yml", "a.yaml", ".hidden.yaml", "notes.txt", "c.yaml~"] {
            fs::write(folder.path().join(name), name).unwrap();
        }
        fs::create_dir(folder.path().join("deeper.yaml")).unwrap();
        let texts: Vec<String> =
            read(folder.path()).unwrap().into_iter().map(|source| source.text).collect();
        assert_eq!(texts, ["a.yaml", "b.yml"]);
    }

    #[test]
    fn nothing_there_is_an_error_that_says_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(read(folder.path()), Err(SourceError::Empty(_))));
        let missing = folder.path().join("missing.yaml");
        assert!(matches!(read(&missing), Err(SourceError::Unreadable { .. })));
    }

    #[test]
    fn a_file_without_end_is_not_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("big.yaml");
        File::create(&path).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert!(matches!(read(&path), Err(SourceError::TooLarge { .. })));
    }
}
