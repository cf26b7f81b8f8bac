//! The rules service: rules, overrides and lists in an embedded database, behind `/v1/rules`.
//!
//! Every change is one transaction: a precondition is checked, the change is made, the whole set
//! is read as a limiter would read it, and only what is right is committed, with a row in the
//! audit. A dry run is the same transaction, rolled back. What limiters fetch is one bundle, kept
//! in memory, so that they ask the database nothing.
//!
//! Rejected: to let limiters query single rules. They would see a mix of two revisions.

pub(crate) mod access;
mod change;
mod db;
mod diff;
pub(crate) mod problem;
mod reading;
pub(crate) mod routes;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tollgate::rules::Source;

pub use access::{Role, Tokens, TokensError};
use db::Db;

use crate::disk;
use crate::sources::SourceError;

/// What a request may have in its body.
pub(crate) const MAX_BODY: usize = 4 << 20;
/// What all files and data may have together: what a limiter accepts.
const MAX_BUNDLE: usize = 32 << 20;

/// How to run a rules service.
#[derive(Clone, Debug)]
pub struct Options {
    /// The folder of the database and the tokens; made if need be.
    pub data: PathBuf,
    /// Who may do what; made and kept in the folder if not given.
    pub tokens: Option<Tokens>,
    /// How many connections may be open at once.
    pub connections: usize,
    /// How long a connection may take to say what it wants.
    pub header_timeout: Duration,
    /// How long a request may take.
    pub request_timeout: Duration,
    /// How large the database may become, in bytes.
    pub max_size: u64,
}

impl Options {
    /// What is usual, for a folder.
    pub fn new(data: impl Into<PathBuf>) -> Options {
        Options {
            data: data.into(),
            tokens: None,
            connections: 4096,
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(15),
            max_size: 1 << 30,
        }
    }
}

/// Why a rules service cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The folder cannot be used.
    #[error("{path}: {error}", path = path.display())]
    Folder {
        /// Which one.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another process uses the folder.
    #[error("{path} is in use by another tollgate", path = .0.display())]
    InUse(PathBuf),
    /// The database cannot be used.
    #[error("{path}: {why}", path = path.display())]
    Database {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// The tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// What was to be imported cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What was to be imported is not right.
    #[error("{0}")]
    Refused(String),
}

/// A rules service that is ready to answer.
///
/// ```
/// use tollgate_server::rules_service::{Options, RulesService};
/// # let folder = tempfile::tempdir()?;
/// let service = RulesService::open(Options::new(folder.path()))?;
/// assert_eq!(service.revision(), 0);
/// assert!(service.made_tokens().is_some(), "the first start makes tokens");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesService {
    db: Db,
    tokens: Arc<Tokens>,
    made_tokens: Option<PathBuf>,
    options: Options,
}

impl RulesService {
    /// Opens the database and reads the tokens; makes both at the first start.
    pub fn open(options: Options) -> Result<RulesService, ServiceError> {
        let folder = |error| ServiceError::Folder { path: options.data.clone(), error };
        disk::private_folder(&options.data).map_err(folder)?;
        let (tokens, made_tokens) = match &options.tokens {
            Some(tokens) => (tokens.clone(), None),
            None => Tokens::of_folder(&options.data)?,
        };
        let db = Db::open(&options.data, options.max_size)?;
        Ok(RulesService { db, tokens: Arc::new(tokens), made_tokens, options })
    }

    /// The file of the tokens that were made because there were none.
    pub fn made_tokens(&self) -> Option<&Path> {
        self.made_tokens.as_deref()
    }

    /// Who may do what.
    pub fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// How many changes there have been.
    pub fn revision(&self) -> u64 {
        self.db.published().borrow().revision
    }

    /// Takes over a file, or every rules file of a folder, as one change. A file is known by its
    /// name without the ending. Says how many were new or different.
    pub fn import(&self, path: &Path) -> Result<usize, ServiceError> {
        let sources = crate::sources::read_path(path)?;
        let name = |source: Source| {
            let stem = Path::new(&source.name).file_stem().unwrap_or_default();
            (stem.to_string_lossy().into_owned(), source.text)
        };
        let files: Vec<(String, String)> = sources.into_iter().map(name).collect();
        let imported = self.db.call_now(move |keeper| change::import(keeper, &files));
        imported.map_err(|problem| ServiceError::Refused(problem.to_string()))
    }
}
