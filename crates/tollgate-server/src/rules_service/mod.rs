//! The rules service: rules, overrides, lists, bans and modes in an embedded database, served under
//! `/v1/rules`.
//!
//! Every change is one transaction: the service checks the precondition, makes the change, compiles
//! the whole rule set as a limiter would, and commits only a valid set, with an entry in the audit
//! log. A dry run rolls the transaction back. Limiters fetch one bundle, which is cached in memory,
//! so that they cause no database queries.
//!
//! Rejected: single-rule queries by limiters, because they would mix two revisions.

mod change;
mod checker;
mod db;
mod diff;
pub(crate) mod extract;
pub(crate) mod routes;
mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::watch;
use tollgate::Clock;
use tollgate_rules::{Rules, Source};

pub use crate::access::{Role, Tokens, TokensError};
pub use crate::live_tokens::LiveTokens;
use db::{DbState, RulesDb};
use routes::{ExternalOrigin, RoutesContext, TokenGuard};

use crate::disk;
use crate::sources::SourceError;
use crate::store::AnyLimiter;

/// The maximum size of a request body.
pub(crate) const MAX_BODY: usize = 4 << 20;
/// The maximum size of a bundle, which is also the maximum that a limiter accepts.
const MAX_BUNDLE: usize = 32 << 20;

/// Returns the name of a rules file without folder and extension.
fn short_name(source: &Source) -> String {
    let stem = Path::new(&source.name).file_stem().unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The options of a rules service.
#[derive(Clone, Debug)]
pub struct RulesServiceOptions {
    /// The folder of the database and the tokens; created if it does not exist.
    pub data: PathBuf,
    /// The access tokens. Without them, the service creates a token file in the folder.
    pub tokens: Option<Tokens>,
    /// The maximum number of open connections.
    pub connections: usize,
    /// The maximum time to receive the head of a request.
    pub header_timeout: Duration,
    /// The maximum duration of a request.
    pub request_timeout: Duration,
    /// The maximum size of the database, in bytes.
    pub max_size: u64,
    /// The clock that determines when bans end.
    pub clock: Clock,
}

impl RulesServiceOptions {
    /// Returns the default options for a folder.
    pub fn new(data: impl Into<PathBuf>) -> RulesServiceOptions {
        RulesServiceOptions {
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

/// The reason why a rules service cannot start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// The folder cannot be used.
    #[error("cannot use the data folder {path}: {error}; choose another with --data", path = path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// Another process uses the folder.
    #[error("the data folder {path} is in use by another tollgate; stop that, or choose another folder with --data", path = .0.display())]
    InUse(PathBuf),
    /// The database cannot be used.
    #[error("{path}: {reason}", path = path.display())]
    Database {
        /// The path of the database file.
        path: PathBuf,
        /// The cause.
        reason: String,
    },
    /// The tokens cannot be used.
    #[error(transparent)]
    Tokens(#[from] TokensError),
    /// The rules to import cannot be read.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The rules to import are invalid.
    #[error("{0}")]
    Refused(String),
}

/// A rules service with an open database.
///
/// ```
/// use tollgate_server::rules_service::{RulesServiceOptions, RulesService};
/// # let folder = tempfile::tempdir()?;
/// let service = RulesService::open(RulesServiceOptions::new(folder.path()))?;
/// assert_eq!(service.revision(), 0);
/// assert!(service.created_tokens().is_some(), "the first start creates tokens");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesService {
    db: RulesDb,
    tokens: Arc<LiveTokens>,
    created_tokens: Option<PathBuf>,
    options: RulesServiceOptions,
}

impl RulesService {
    /// Opens the database and the token file; creates both at the first start.
    pub fn open(options: RulesServiceOptions) -> Result<RulesService, ServiceError> {
        let folder = |error| ServiceError::Folder { path: options.data.clone(), error };
        disk::create_private_folder(&options.data).map_err(folder)?;
        let (tokens, created_tokens) = match &options.tokens {
            Some(tokens) => (tokens.clone(), None),
            None => Tokens::open_or_create(&options.data)?,
        };
        let db = RulesDb::open(Some(&options.data), options.max_size)?;
        if let Some(error) = &db.published().borrow().invalid {
            tracing::error!(%error, "this version of tollgate rejects the stored rules; fix them");
        }
        Ok(RulesService { db, tokens: LiveTokens::new(tokens), created_tokens, options })
    }

    /// Creates a service with a database in memory. Without tokens, it creates a temporary one.
    pub(crate) fn temporary(
        tokens: Option<Tokens>,
        clock: Clock,
    ) -> Result<RulesService, ServiceError> {
        let tokens = match tokens {
            Some(tokens) => tokens,
            None => Tokens::random()?,
        };
        let options = RulesServiceOptions { clock, ..RulesServiceOptions::new("") };
        let db = RulesDb::open(None, options.max_size)?;
        Ok(RulesService { db, tokens: LiveTokens::new(tokens), created_tokens: None, options })
    }

    fn context(&self, stopping: watch::Receiver<bool>) -> RoutesContext {
        RoutesContext {
            db: self.db.clone(),
            clock: self.options.clock.clone(),
            limiter: None,
            external: None,
            stopping,
            probing: Arc::default(),
        }
    }

    /// Returns the guard that authenticates callers.
    pub(crate) fn guard(&self) -> TokenGuard {
        let request_timeout = self.options.request_timeout;
        TokenGuard { tokens: self.tokens.clone(), request_timeout }
    }

    /// Returns the routes, which the caller must protect with the guard.
    pub(crate) fn routes(
        &self,
        stopping: watch::Receiver<bool>,
        external: Option<ExternalOrigin>,
        limiter: AnyLimiter,
    ) -> Router {
        let context = self.context(stopping);
        routes::routes(RoutesContext { external, limiter: Some(limiter), ..context })
    }

    /// Returns the current rules, or the reason why they are invalid, and their version.
    pub(crate) fn current(&self) -> (Result<Rules, String>, String) {
        let published = self.db.published().borrow().clone();
        let invalid = published.invalid.clone().unwrap_or_default();
        (published.rules.clone().ok_or(invalid), published.etag.trim_matches('"').to_owned())
    }

    /// Sets the function that activates each change before it is confirmed.
    pub(crate) fn on_change(&self, activate: impl Fn(Rules) + Send + 'static) {
        let set = self.db.blocking_call(move |state| {
            state.publisher.activate = Some(Box::new(activate));
            Ok(())
        });
        if let Err(error) = set {
            tracing::error!(%error, "changes of rules will not become active; restart the server");
        }
    }

    /// Uses rules files of an external origin from now on, together with this service's data.
    pub(crate) fn set_external_files(&self, rules: Rules) {
        let set = self.db.blocking_call(move |state: &mut DbState| {
            let bundle = db::load(&state.connection, Some(&rules))?;
            let fitting = state.checker.set_external_files(rules, &bundle);
            state.publisher.publish(db::publishable(&bundle, Ok(fitting))?);
            Ok(())
        });
        if let Err(error) = set {
            tracing::error!(%error, "cannot activate the new rules; the previous rules stay active");
        }
    }

    /// Returns the data that does not match the rules of the external origin.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.db.left_out()
    }

    /// Returns how long the database has not answered, if that is too long.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        self.db.stalled_for()
    }

    /// Finishes the queued requests and closes the database. Later requests are refused.
    ///
    /// Returns `false` if the database did not close within `patience`.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        self.db.close(patience)
    }

    /// Returns the path of the token file, if this start created it.
    pub fn created_tokens(&self) -> Option<&Path> {
        self.created_tokens.as_deref()
    }

    /// Returns the access tokens.
    pub fn tokens(&self) -> Arc<Tokens> {
        self.tokens.load()
    }

    /// Returns the access tokens, to be reloaded while the service runs.
    pub fn live_tokens(&self) -> Arc<LiveTokens> {
        self.tokens.clone()
    }

    /// Returns the number of changes so far.
    pub fn revision(&self) -> u64 {
        self.db.published().borrow().revision
    }

    /// Imports a file, or every rules file of a folder, as one change.
    ///
    /// The extension is not part of the name. Returns the number of new or different files.
    pub fn import(&self, path: &Path) -> Result<usize, ServiceError> {
        let sources = crate::sources::read_path(path)?;
        let name = |source: Source| (short_name(&source), source.text);
        self.import_files(sources.into_iter().map(name).collect())
    }

    /// Imports texts by name, as one change.
    pub(crate) fn import_files(&self, files: Vec<(String, String)>) -> Result<usize, ServiceError> {
        let imported = self.db.blocking_call(move |state| change::import(state, &files));
        imported.map_err(|problem| ServiceError::Refused(problem.to_string()))
    }
}
