//! Naming a source of rules, and opening it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use tollgate::rules::Rules;

use super::path::PathSource;
use super::set::CurrentSet;
use super::status::{Shared, Status};
use super::url::{Remote, UrlSource};
use super::{Follower, SourceError, Target};
use crate::client::{ClientError, address};
use crate::clock;
use crate::secret::Secret;

/// How often files are read even if nobody said that they changed.
const FILES_EVERY: Duration = Duration::from_secs(30);
/// How often a URL is asked.
const URL_EVERY: Duration = Duration::from_secs(10);

/// Where rules come from.
///
/// ```
/// use tollgate_server::sources::Origin;
///
/// let file = Origin::parse("rules/shop.yaml")?;
/// let service = Origin::parse("http://127.0.0.1:8082/v1/rules/bundle")?.keep_in("/var/lib/tollgate");
/// assert_eq!(service.to_string(), "http://127.0.0.1:8082/v1/rules/bundle");
/// # Ok::<(), tollgate_server::client::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Origin {
    place: Place,
    every: Option<Duration>,
    token: Option<Secret>,
    keep_in: Option<PathBuf>,
    timeout: Duration,
    watch: bool,
}

#[derive(Clone, Debug)]
enum Place {
    Path(PathBuf),
    Url(Uri),
}

impl Origin {
    /// A URL if it looks like one, a path otherwise.
    pub fn parse(text: &str) -> Result<Origin, ClientError> {
        if text.contains("://") { Origin::url(text) } else { Ok(Origin::path(text)) }
    }

    /// A file, or a folder whose `.yaml` and `.yml` files are all read.
    pub fn path(path: impl Into<PathBuf>) -> Origin {
        Origin::new(Place::Path(path.into()))
    }

    /// A rules service's `/v1/rules/bundle`, or any URL that serves a rules file.
    pub fn url(url: &str) -> Result<Origin, ClientError> {
        Ok(Origin::new(Place::Url(address(url)?)))
    }

    fn new(place: Place) -> Origin {
        let timeout = Duration::from_secs(10);
        Origin { place, every: None, token: None, keep_in: None, timeout, watch: true }
    }

    /// How often to look: 10 s at a URL, give or take a fifth; 30 s at files, which are watched
    /// besides.
    pub fn every(self, interval: Duration) -> Origin {
        Origin { every: Some(interval), ..self }
    }

    /// The token to present at a URL.
    pub fn token(self, token: Option<Secret>) -> Origin {
        Origin { token, ..self }
    }

    /// The folder in which the last good copy of what a URL served is kept.
    pub fn keep_in(self, folder: impl Into<PathBuf>) -> Origin {
        Origin { keep_in: Some(folder.into()), ..self }
    }

    /// The same, unless a folder was given.
    pub(crate) fn keep_in_unless_told(self, folder: Option<&PathBuf>) -> Origin {
        Origin { keep_in: self.keep_in.or_else(|| folder.cloned()), ..self }
    }

    pub(crate) fn is_url(&self) -> bool {
        matches!(self.place, Place::Url(_))
    }

    /// How long an answer of a URL may take: 10 s.
    pub fn timeout(self, timeout: Duration) -> Origin {
        Origin { timeout, ..self }
    }

    /// Whether the operating system is asked to report changes of files. Network file systems
    /// report none; there the interval alone finds them.
    pub fn watch(self, watch: bool) -> Origin {
        Origin { watch, ..self }
    }

    /// Reads the rules for the first time. Blocks the thread.
    ///
    /// Where a URL has no right answer, the last good copy is used instead.
    pub fn open(self) -> Result<Opened, SourceError> {
        let origin = self.to_string();
        let source = match self.place {
            Place::Path(path) => {
                let every = self.every.unwrap_or(FILES_EVERY);
                let (source, first) = PathSource::open(path, every, self.watch)?;
                return Ok(Opened::new(origin, Kind::Path(source), first));
            }
            Place::Url(uri) => UrlSource {
                uri,
                token: self.token,
                every: self.every.unwrap_or(URL_EVERY),
                timeout: self.timeout,
                keep_in: self.keep_in,
            },
        };
        let (remote, first) = source.open()?;
        Ok(Opened::new(origin, Kind::Url(Box::new(remote)), first))
    }
}

/// Without the query of a URL, which may hold a secret.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Path(path) => write!(f, "{}", path.display()),
            Place::Url(uri) => f.write_str(&super::url::display(uri)),
        }
    }
}

/// What opening a source yields.
#[derive(Debug)]
pub(super) struct First {
    pub(super) set: CurrentSet,
    pub(super) rules: Rules,
    /// Why it is a copy from the disk, if it is.
    pub(super) instead_of: Option<SourceError>,
    pub(super) copy_error: Option<String>,
}

/// A source whose rules were read and are right.
#[derive(Debug)]
pub struct Opened {
    kind: Kind,
    set: CurrentSet,
    rules: Rules,
    status: Status,
}

#[derive(Debug)]
enum Kind {
    Path(PathSource),
    Url(Box<Remote>),
}

impl Opened {
    fn new(origin: String, kind: Kind, first: First) -> Opened {
        let last_error = first.instead_of.map(|error| error.to_string());
        if let Some(error) = &last_error {
            tracing::error!(origin, error, "starting with the last good copy of the rules");
        }
        let status = Status {
            origin,
            version: first.set.version.clone(),
            from_copy: last_error.is_some(),
            reloads: 0,
            looks: 1,
            failures: last_error.is_some().into(),
            last_success: last_error.is_none().then(clock::now),
            last_error,
            copy_error: first.copy_error,
        };
        Opened { kind, set: first.set, rules: first.rules, status }
    }

    /// The rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How it went.
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// Hands every new set of rules to a target, until the follower is dropped. The rules it was
    /// opened with are not handed over again.
    pub fn follow(self, target: impl Target) -> Follower {
        let shared = Shared::new(self.status);
        match self.kind {
            Kind::Path(source) => source.follow(self.set, shared, target),
            Kind::Url(remote) => remote.follow(self.set, shared, target),
        }
    }
}
