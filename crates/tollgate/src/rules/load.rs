//! Rules from disk: a file, or every YAML file of a directory.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use super::{Diagnostics, Rules, Source, yaml};

/// The most files a directory of rules has.
const MAX_FILES: usize = 1_000;

/// Rules that could not be loaded.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// A file or directory cannot be read.
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// What they say is wrong.
    Invalid(Diagnostics),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Unreadable { path, error } => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            LoadError::Invalid(found) => found.fmt(f),
        }
    }
}

impl Error for LoadError {}

impl From<Diagnostics> for LoadError {
    fn from(found: Diagnostics) -> LoadError {
        LoadError::Invalid(found)
    }
}

impl Rules {
    /// Reads a file, or every `.yaml` and `.yml` file of a directory.
    ///
    /// ```
    /// use tollgate::{Rules, rules::LoadError};
    /// let error = Rules::from_file("no/such/file.yaml").unwrap_err();
    /// assert!(matches!(error, LoadError::Unreadable { .. }));
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<Rules, LoadError> {
        Ok(Rules::read(sources(path.as_ref())?)?)
    }
}

impl Source {
    /// The texts of a file, or of every `.yaml` and `.yml` file of a directory, by name.
    ///
    /// Files whose names begin with a dot are left out: that is how mounted configuration keeps
    /// its old versions.
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
    // One byte more than is accepted: who reads the text says that it is too long.
    let mut text = String::new();
    let limit = yaml::MAX_BYTES as u64 + 1;
    io::Read::read_to_string(&mut io::Read::take(fs::File::open(path)?, limit), &mut text)?;
    Ok(Source::new(path.display().to_string(), text))
}
