//! Rules files on disk, read so that a half-written folder is not taken for a complete one.

use std::path::Path;

use tollgate_rules::{LoadError, Source};

use super::SourceError;

/// The maximum total size of the files of a source.
const MAX_BYTES: usize = 32 << 20;
/// The maximum number of attempts to read a folder that changes meanwhile.
const MAX_TRIES: usize = 8;

/// Reads a file, or every rules file of a folder in the order of their names.
///
/// A folder may be replaced between two of its files. Therefore it is read until two reads in a row
/// are equal.
pub(crate) fn read(path: &Path) -> Result<Vec<Source>, SourceError> {
    let mut last = read_once(path)?;
    if !path.is_dir() {
        return Ok(last);
    }
    for _ in 0..MAX_TRIES {
        let again = read_once(path)?;
        if again == last {
            return Ok(last);
        }
        last = again;
    }
    Err(SourceError::Unstable(path.to_owned()))
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
    fn a_folder_yields_its_visible_yaml_files_in_order() {
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
    fn a_missing_file_and_an_empty_folder_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("missing.yaml")] {
            assert!(matches!(read(&path), Err(SourceError::Unreadable { .. })));
        }
    }
}
