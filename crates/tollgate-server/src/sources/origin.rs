//! The origin of rules, and opening it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use hyper::Uri;
use tollgate_rules::Rules;

use super::path::PathSource;
use super::set::CurrentSet;
use super::status::{SharedStatus, SourceStatus};
use super::url::{RemoteSource, UrlSource};
use super::{Follower, SourceError, Target};
use crate::client::{ClientError, parse_url};
use crate::clock;
use crate::secret::Secret;

/// The default interval of reading files that report no change.
const FILE_INTERVAL: Duration = Duration::from_secs(30);
/// The default interval of requests to a URL.
const URL_INTERVAL: Duration = Duration::from_secs(10);

/// The origin of rules: a file, a folder, or a URL.
///
/// ```
/// use tollgate_server::sources::Origin;
///
/// let file = Origin::parse("rules/shop.yaml")?;
/// let service = Origin::parse("http://127.0.0.1:8082/v1/rules/bundle")?.copy_folder("/var/lib/tollgate");
/// assert_eq!(service.to_string(), "http://127.0.0.1:8082/v1/rules/bundle");
/// # Ok::<(), tollgate_server::client::ClientError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Origin {
    location: OriginLocation,
    every: Option<Duration>,
    token: Option<Secret>,
    copy_folder: Option<PathBuf>,
    timeout: Duration,
    watch: bool,
    merges_domains: bool,
}

#[derive(Clone, Debug)]
enum OriginLocation {
    Path(PathBuf),
    Url(Uri),
}

impl Origin {
    /// Parses a URL if the text contains `://`, otherwise a path.
    pub fn parse(text: &str) -> Result<Origin, ClientError> {
        if text.contains("://") { Origin::url(text) } else { Ok(Origin::path(text)) }
    }

    /// Creates an origin from a file, or from a folder with `.yaml` and `.yml` files.
    pub fn path(path: impl Into<PathBuf>) -> Origin {
        Origin::new(OriginLocation::Path(path.into()))
    }

    /// Creates an origin from the `/v1/rules/bundle` of a rules service, or the URL of a rules file.
    pub fn url(url: &str) -> Result<Origin, ClientError> {
        Ok(Origin::new(OriginLocation::Url(parse_url(url)?)))
    }

    fn new(location: OriginLocation) -> Origin {
        let timeout = Duration::from_secs(10);
        Origin {
            location,
            every: None,
            token: None,
            copy_folder: None,
            timeout,
            watch: true,
            merges_domains: false,
        }
    }

    /// Sets the interval of reads.
    ///
    /// The default is 10 s for a URL, varied by a fifth, and 30 s for files, which are also watched.
    pub fn every(self, interval: Duration) -> Origin {
        Origin { every: Some(interval), ..self }
    }

    /// Sets the token for a URL.
    pub fn token(self, token: Option<Secret>) -> Origin {
        Origin { token, ..self }
    }

    /// Sets the folder for the saved copy of the last valid response of a URL.
    pub fn copy_folder(self, folder: impl Into<PathBuf>) -> Origin {
        Origin { copy_folder: Some(folder.into()), ..self }
    }

    /// Sets the folder for the saved copy, unless one is set.
    pub(crate) fn default_copy_folder(self, folder: Option<&PathBuf>) -> Origin {
        Origin { copy_folder: self.copy_folder.or_else(|| folder.cloned()), ..self }
    }

    pub(crate) fn is_url(&self) -> bool {
        matches!(self.location, OriginLocation::Url(_))
    }

    /// Sets the maximum time for the response of a URL. The default is 10 s.
    pub fn timeout(self, timeout: Duration) -> Origin {
        Origin { timeout, ..self }
    }

    /// Sets whether the operating system reports changes of files. The default is on.
    ///
    /// Network file systems report no changes; there only the interval finds them.
    pub fn watch(self, watch: bool) -> Origin {
        Origin { watch, ..self }
    }

    /// Sets whether several files of a folder may describe one domain, if they are in the format of
    /// Envoy's rate limit service. The default is off.
    ///
    /// The bundle of a rules service says itself how to read it.
    pub fn merge_domains(self, merges_domains: bool) -> Origin {
        Origin { merges_domains, ..self }
    }

    /// Reads the rules for the first time. Blocks the thread.
    ///
    /// If a URL sends no valid response, the saved copy is used instead.
    pub fn open(self) -> Result<OpenedOrigin, SourceError> {
        let origin = self.to_string();
        let source = match self.location {
            OriginLocation::Path(path) => {
                let every = self.every.unwrap_or(FILE_INTERVAL);
                let (source, first) =
                    PathSource::open(path, every, self.watch, self.merges_domains)?;
                return Ok(OpenedOrigin::new(origin, SourceKind::Path(source), first));
            }
            OriginLocation::Url(uri) => UrlSource {
                uri,
                token: self.token,
                every: self.every.unwrap_or(URL_INTERVAL),
                timeout: self.timeout,
                copy_folder: self.copy_folder,
            },
        };
        let (remote, first) = source.open()?;
        Ok(OpenedOrigin::new(origin, SourceKind::Url(Box::new(remote)), first))
    }
}

/// Omits the query of a URL, which may contain a secret.
impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.location {
            OriginLocation::Path(path) => write!(f, "{}", path.display()),
            OriginLocation::Url(uri) => f.write_str(&super::url::display(uri)),
        }
    }
}

/// The rules read when a source is opened.
#[derive(Debug)]
pub(super) struct InitialRules {
    pub(super) set: CurrentSet,
    pub(super) rules: Rules,
    /// The error because of which the rules come from the saved copy, if they do.
    pub(super) copy_reason: Option<SourceError>,
    pub(super) copy_error: Option<String>,
}

/// An origin whose rules were read and are valid.
#[derive(Debug)]
pub struct OpenedOrigin {
    kind: SourceKind,
    set: CurrentSet,
    rules: Rules,
    status: SourceStatus,
}

#[derive(Debug)]
enum SourceKind {
    Path(PathSource),
    Url(Box<RemoteSource>),
}

impl OpenedOrigin {
    fn new(origin: String, kind: SourceKind, first: InitialRules) -> OpenedOrigin {
        let last_error = first.copy_reason.map(|error| error.to_string());
        if let Some(error) = &last_error {
            tracing::error!(origin, error, "cannot read the rules; starting with the saved copy");
        }
        let status = SourceStatus {
            origin,
            version: first.set.version.clone(),
            from_copy: last_error.is_some(),
            reloads: 0,
            reads: 1,
            failures: last_error.is_some().into(),
            last_success: last_error.is_none().then(clock::now),
            last_error,
            copy_error: first.copy_error,
        };
        OpenedOrigin { kind, set: first.set, rules: first.rules, status }
    }

    /// Returns the rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Returns the status of the first read.
    pub fn status(&self) -> &SourceStatus {
        &self.status
    }

    /// Passes every new rule set to a target until the follower is dropped.
    ///
    /// The rules of the first read are not passed again.
    pub fn follow(self, target: impl Target) -> Follower {
        let status = SharedStatus::new(self.status);
        match self.kind {
            SourceKind::Path(source) => source.follow(self.set, status, target),
            SourceKind::Url(remote) => remote.follow(self.set, status, target),
        }
    }
}
