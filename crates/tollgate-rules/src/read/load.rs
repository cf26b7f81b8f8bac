//! Loads rules from disk: a file, or every YAML file of a directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::read::yaml;
use crate::{Diagnostics, Rules, Source};

/// The maximum number of files in a directory of rules.
const MAX_FILES: usize = 1_000;

/// An error while loading rules from disk.
#[non_exhaustive]
pub enum LoadError {
    /// A file or directory cannot be read.
    Unreadable {
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The rules have errors.
    Invalid(Diagnostics),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            LoadError::Invalid(diagnostics) => fmt::Display::fmt(diagnostics, f),
        }
    }
}

/// Formats the message as `Display` does, because `main` prints a returned error with `Debug`.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for LoadError {}

impl From<Diagnostics> for LoadError {
    fn from(diagnostics: Diagnostics) -> LoadError {
        LoadError::Invalid(diagnostics)
    }
}

impl Rules {
    /// Reads a file, or every `.yaml` and `.yml` file of a directory.
    ///
    /// ```
    /// use tollgate_rules::{LoadError, Rules};
    /// let error = Rules::from_file("no/such/file.yaml").unwrap_err();
    /// assert!(matches!(error, LoadError::Unreadable { .. }));
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Rules, LoadError> {
        Ok(Rules::read(sources(path.as_ref())?)?)
    }
}

impl Source {
    /// Loads a file, or every `.yaml` and `.yml` file of a directory in the order of their names.
    ///
    /// Files whose names begin with a dot are skipped: mounted configuration keeps its old versions
    /// under such names.
    pub fn load(path: impl AsRef<Path>) -> Result<Vec<Source>, LoadError> {
        sources(path.as_ref())
    }
}

fn sources(path: &Path) -> Result<Vec<Source>, LoadError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        move |error| LoadError::Unreadable { path, error }
    };
    if !fs::metadata(path).map_err(unreadable(path))?.is_dir() {
        return Ok(vec![source(path).map_err(unreadable(path))?]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable(path))? {
        let file = entry.map_err(unreadable(path))?.path();
        if is_rules_file(&file) && file.is_file() {
            files.push(file);
        }
    }
    files.sort();
    let problem = match files.len() {
        0 => Some("there is no .yaml or .yml file in it".to_owned()),
        n if n > MAX_FILES => Some(format!("{n} files are too many: at most {MAX_FILES}")),
        _ => None,
    };
    if let Some(problem) = problem {
        return Err(unreadable(path)(io::Error::other(problem)));
    }
    files.iter().map(|file| source(file).map_err(unreadable(file))).collect()
}

fn is_rules_file(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    is_yaml
        && !name.starts_with('.')
        && !name.ends_with(".test.yaml")
        && !name.ends_with(".test.yml")
}

fn source(path: &Path) -> io::Result<Source> {
    // One byte more than is accepted, so that the reader reports a text that is too long.
    let mut text = String::new();
    let limit = yaml::MAX_BYTES as u64 + 1;
    io::Read::read_to_string(&mut io::Read::take(fs::File::open(path)?, limit), &mut text)?;
    Ok(Source::new(path.display().to_string(), text))
}
