//! Rules files on a disk, read so that a half-written state is not taken for a whole one.

use std::path::Path;

use tollgate::rules::{LoadError, Source};

use super::SourceError;

/// What all files of a source may have together.
const MAX_BYTES: usize = 32 << 20;
/// How often files may change while they are read.
const TRIES: usize = 8;

/// Reads a file, or every rules file of a folder in the order of their names.
///
/// A folder may be exchanged between two of its files: what is returned was read twice and was the
/// same both times.
pub(crate) fn read(path: &Path) -> Result<Vec<Source>, SourceError> {
    let mut last = read_once(path)?;
    if !path.is_dir() {
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
    let sources = Source::load(path).map_err(|error| match error {
        LoadError::Unreadable { path, error } => SourceError::Unreadable { path, error },
        LoadError::Invalid(found) => SourceError::Invalid(found.into()),
        other => {
            let error = std::io::Error::other(other);
            SourceError::Unreadable { path: path.to_owned(), error }
        }
    })?;
    if sources.iter().map(|source| source.text.len()).sum::<usize>() > MAX_BYTES {
        return Err(SourceError::TooLarge { path: path.to_owned(), max: MAX_BYTES });
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use std::fs;

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
    fn nothing_there_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing.yaml")] {
            assert!(matches!(read(&path), Err(SourceError::Unreadable { .. })));
        }
    }
}
