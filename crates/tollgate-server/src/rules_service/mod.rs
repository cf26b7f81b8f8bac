//! The rules service: rules, overrides, lists, bans and modes in an embedded database, behind
//! `/v1/rules`.
//!
//! Every change is one transaction: a precondition is checked, the change is made, the whole set
//! is read as a limiter would read it, and only what is right is committed, with a row in the
//! audit. A dry run is the same transaction, rolled back. What limiters fetch is one bundle, kept
//! in memory, so that they ask the database nothing.
//!
//! Rejected: to let limiters query single rules. They would see a mix of two revisions.

mod change;
mod checker;
mod db;
mod diff;
pub(crate) mod problem;
pub(crate) mod reading;
pub(crate) mod routes;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tollgate::Clock;
use tollgate::rules::{Rules, Source};

pub use crate::access::{Role, Tokens, TokensError};
use db::{Db, Keeper};
use routes::{Context, Elsewhere, Guard};

use crate::disk;
use crate::sources::SourceError;
use crate::store::AnyLimiter;

/// What a request may have in its body.
pub(crate) const MAX_BODY: usize = 4 << 20;
/// What all files and data may have together: what a limiter accepts.
const MAX_BUNDLE: usize = 32 << 20;

/// What a rules file is called here: its name without folder and ending.
fn short_name(source: &Source) -> String {
    let stem = Path::new(&source.name).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

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
    /// Tells when bans end.
    pub clock: Clock,
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
            clock: Clock::system(),
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
        let db = Db::open(Some(&options.data), options.max_size)?;
        if let Some(error) = &db.published().borrow().wrong {
            tracing::error!(%error, "the stored rules are wrong for this version of tollgate");
        }
        Ok(RulesService { db, tokens: Arc::new(tokens), made_tokens, options })
    }

    /// A service whose database is in memory. Without tokens one is made, for this process alone.
    pub(crate) fn temporary(
        tokens: Option<Tokens>,
        clock: Clock,
    ) -> Result<RulesService, ServiceError> {
        let tokens = match tokens {
            Some(tokens) => tokens,
            None => Tokens::random()?,
        };
        let options = Options { clock, ..Options::new("") };
        let db = Db::open(None, options.max_size)?;
        Ok(RulesService { db, tokens: Arc::new(tokens), made_tokens: None, options })
    }

    fn context(&self, stopping: watch::Receiver<bool>) -> Context {
        Context {
            db: self.db.clone(),
            clock: self.options.clock.clone(),
            limiter: None,
            elsewhere: None,
            stopping,
            probing: Arc::default(),
        }
    }

    /// Who is let through to it.
    pub(crate) fn guard(&self) -> Guard {
        let request_timeout = self.options.request_timeout;
        Guard { tokens: self.tokens.clone(), request_timeout }
    }

    /// What it answers to those who have a token, to be put behind a guard.
    pub(crate) fn routes(
        &self,
        stopping: watch::Receiver<bool>,
        elsewhere: Option<Elsewhere>,
        limiter: AnyLimiter,
    ) -> Router {
        let context = self.context(stopping);
        routes::routes(Context { elsewhere, limiter: Some(limiter), ..context })
    }

    /// The rules there are now, and what they are called; otherwise what is wrong with them.
    pub(crate) fn current(&self) -> (Result<Rules, String>, String) {
        let published = self.db.published().borrow().clone();
        let wrong = published.wrong.clone().unwrap_or_default();
        (published.rules.clone().ok_or(wrong), published.etag.trim_matches('"').to_owned())
    }

    /// From now on every change is in force, by means of `install`, before it is answered.
    pub(crate) fn install_by(&self, install: impl Fn(Rules) + Send + 'static) {
        let set = self.db.call_now(move |keeper| {
            keeper.publisher.install = Some(Box::new(install));
            Ok(())
        });
        if let Err(error) = set {
            tracing::error!(%error, "changes of rules will not be in force");
        }
    }

    /// From now on rules come from elsewhere; only the data beside them is from here. They are
    /// installed with that data.
    pub(crate) fn take_files(&self, rules: Rules) {
        let taken = self.db.call_now(move |keeper: &mut Keeper| {
            let bundle = db::load(&keeper.connection, Some(&rules))?;
            let fitting = keeper.checker.move_outside(rules, &bundle);
            keeper.publisher.publish(db::publishable(&bundle, Ok(fitting))?);
            Ok(())
        });
        if let Err(error) = taken {
            tracing::error!(%error, "the old rules go on");
        }
    }

    /// Data that does not fit the rules from elsewhere.
    pub(crate) async fn left_out(&self) -> Vec<String> {
        let left_out = self.db.call(|keeper| Ok(keeper.checker.left_out().collect()));
        left_out.await.unwrap_or_default()
    }

    /// Lets go of the database: what is under way is finished, more is refused.
    pub(crate) fn close(&self) {
        self.db.close();
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
        let name = |source: Source| (short_name(&source), source.text);
        self.import_files(sources.into_iter().map(name).collect())
    }

    /// The same with texts by their names.
    pub(crate) fn import_files(&self, files: Vec<(String, String)>) -> Result<usize, ServiceError> {
        let imported = self.db.call_now(move |keeper| change::import(keeper, &files));
        imported.map_err(|problem| ServiceError::Refused(problem.to_string()))
    }
}
