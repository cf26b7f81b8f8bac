//! A URL source: the first request, and the thread that follows the URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Uri;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fetch::{FetchResult, RemoteContent, display, fetch};
use crate::background::{BackgroundWorker, catch_panic};
use crate::bundle::BundleError;
use crate::client::Client;
use crate::secret::Secret;
use crate::sources::follower::WakeReason;
use crate::sources::origin::InitialRules;
use crate::sources::saved_copy::SavedCopy;
use crate::sources::set::{CurrentSet, RulesUpdate};
use crate::sources::status::SharedStatus;
use crate::sources::{Follower, SourceError, Target};

/// The maximum size of a response: the maximum of files, encoded as JSON.
const MAX_BODY: usize = 48 << 20;
/// The maximum time that a rules service may delay its response.
const LONG_POLL: Duration = Duration::from_secs(30);
/// The minimum duration of a long poll that is followed by another one at once.
///
/// A misconfigured cache may answer immediately, and must not cause requests without a pause.
const MIN_LONG_POLL: Duration = Duration::from_secs(1);
/// The minimum pause between two requests.
const MIN_PAUSE: Duration = Duration::from_millis(50);
/// The maximum pause between two requests while the URL fails.
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// The settings of a URL source.
#[derive(Debug)]
pub(in crate::sources) struct UrlSource {
    pub(in crate::sources) uri: Uri,
    pub(in crate::sources) token: Option<Secret>,
    pub(in crate::sources) every: Duration,
    pub(in crate::sources) timeout: Duration,
    pub(in crate::sources) copy_folder: Option<PathBuf>,
}

/// A URL source after its first request.
#[derive(Debug)]
pub(in crate::sources) struct RemoteSource {
    source: UrlSource,
    copy_file: Option<SavedCopy>,
    /// The entity tag of the last response, valid or not.
    etag: Option<String>,
    /// Whether the URL is a rules service, which supports long polling.
    is_service: bool,
    /// The error of the last response, which applies until the content changes.
    rejected: Option<BundleError>,
    consecutive_failures: u32,
}

/// Returns the error of a thread or runtime that cannot be started.
fn no_thread(uri: &Uri, error: std::io::Error) -> SourceError {
    SourceError::Thread { origin: display(uri), error }
}

impl UrlSource {
    fn client(&self) -> Result<Client, SourceError> {
        let client = Client::new(&self.uri, self.token.as_ref(), self.timeout, MAX_BODY);
        client.map_err(|error| SourceError::Unreachable { origin: display(&self.uri), error })
    }

    /// Makes the first request.
    ///
    /// The request runs on a separate thread, because the caller may be inside a runtime, which cannot block on
    /// another one.
    pub(in crate::sources) fn open(self) -> Result<(RemoteSource, InitialRules), SourceError> {
        let uri = self.uri.clone();
        let opening = std::thread::Builder::new().name("tollgate-rules-open".into());
        let thread = opening.spawn(move || {
            let runtime = runtime().map_err(|error| no_thread(&self.uri, error))?;
            let opened = runtime.block_on(self.fetch_first());
            runtime.shutdown_background();
            opened
        });
        let thread = thread.map_err(|error| no_thread(&uri, error))?;
        let lost = || no_thread(&uri, std::io::Error::other("the thread panicked"));
        thread.join().unwrap_or_else(|_| Err(lost()))
    }

    async fn fetch_first(self) -> Result<(RemoteSource, InitialRules), SourceError> {
        let client = self.client()?;
        let mut copy_error = None;
        let copy_file = self.copy_folder.as_ref().and_then(|folder| {
            let copy_file = SavedCopy::new(folder, &self.uri.to_string());
            copy_file
                .map_err(|error| copy_error = Some(format!("{}: {error}", folder.display())))
                .ok()
        });
        let copy = copy_file.as_ref().and_then(|copy_file| {
            copy_file.read().unwrap_or_else(|error| {
                tracing::warn!(%error, "cannot use the saved copy of the rules");
                copy_error = Some(error);
                None
            })
        });
        let etag = copy.as_ref().and_then(|copy| copy.etag.clone());
        let fetched = fetch(&client, &self.uri, etag.as_deref(), None).await;
        let read = |content: &RemoteContent| {
            let (bundle, version) = content.bundle(&self.uri)?;
            CurrentSet::first(&bundle, version)
        };
        let response = match fetched {
            Ok(FetchResult { content: Some(content), .. }) => {
                read(&content).map(|(set, rules)| Some((content, set, rules)))
            }
            Ok(FetchResult { content: None, .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let (content, set, rules, copy_reason) = match (response, copy) {
            (Ok(Some((content, set, rules))), _) => {
                if let Some(copy_file) = &copy_file
                    && let Err(error) = copy_file.write(&content)
                {
                    copy_error = Some(error.to_string());
                }
                (content, set, rules, None)
            }
            (Ok(None), Some(copy)) => {
                let (set, rules) = read(&copy)?;
                (copy, set, rules, None)
            }
            (Ok(None), None) => {
                let origin = display(&self.uri);
                let reason = "answered `not modified` to the first request".to_owned();
                return Err(SourceError::Malformed { origin, reason });
            }
            (Err(error), Some(copy)) => match read(&copy) {
                Ok((set, rules)) => (copy, set, rules, Some(error)),
                Err(_) => return Err(error),
            },
            (Err(error), None) => return Err(error),
        };
        let remote = RemoteSource {
            source: self,
            copy_file,
            etag: content.etag,
            is_service: content.is_bundle,
            rejected: None,
            consecutive_failures: copy_reason.is_some().into(),
        };
        Ok((remote, InitialRules { set, rules, copy_reason, copy_error }))
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl RemoteSource {
    pub(in crate::sources) fn follow(
        self,
        set: CurrentSet,
        status: SharedStatus,
        target: impl Target,
    ) -> Follower {
        let (notify, stop) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let wake = {
            let (notify, stop) = (notify.clone(), stop.clone());
            move |wake| {
                if wake == WakeReason::Stop {
                    stop.store(true, Ordering::Release);
                }
                notify.notify_one();
            }
        };
        let body = {
            let status = status.clone();
            move || {
                let uri = self.source.uri.clone();
                let started = runtime().map_err(|error| no_thread(&uri, error));
                match started.and_then(|runtime| Ok((runtime, self.source.client()?))) {
                    Ok((runtime, client)) => {
                        let following = UrlFollower { remote: self, client, set, status, target };
                        runtime.block_on(following.run(&notify, &stop));
                        runtime.shutdown_background();
                    }
                    Err(error) => status.record(&Err(error)),
                }
            }
        };
        Follower::start(status, wake, body)
    }

    /// Returns the pause before the next request, after one that took `took`.
    fn pause(&self, waited: bool, changed: bool, took: Duration) -> Duration {
        let every = self.source.every;
        if self.consecutive_failures > 0 {
            let first = every.min(Duration::from_secs(1));
            let doubled = first.saturating_mul(1 << self.consecutive_failures.min(16));
            // Many limiters lose a service at the same moment and must not return together.
            return doubled.min(MAX_PAUSE.max(every)).mul_f64(0.5 + fastrand::f64() / 2.0);
        }
        if self.is_service && (changed || waited && took >= MIN_LONG_POLL) {
            return MIN_PAUSE;
        }
        every.mul_f64(0.8 + 0.4 * fastrand::f64())
    }
}

struct UrlFollower<T> {
    remote: RemoteSource,
    client: Client,
    set: CurrentSet,
    status: SharedStatus,
    target: T,
}

impl<T: Target> UrlFollower<T> {
    async fn run(mut self, wake: &Notify, stop: &AtomicBool) {
        let failed = self.remote.consecutive_failures > 0;
        let mut pause = self.remote.pause(false, !failed, Duration::ZERO);
        let mut interrupted = false;
        loop {
            let woken = tokio::time::timeout(pause, wake.notified()).await.is_ok();
            if stop.load(Ordering::Acquire) {
                return;
            }
            let began = Instant::now();
            let fetched = {
                let remote = &self.remote;
                // A refresh, and a retry after a failure, need an immediate response.
                let may_wait = !woken && !interrupted && remote.consecutive_failures == 0;
                let wait = (remote.is_service && may_wait).then_some(LONG_POLL);
                let etag = remote.etag.as_deref();
                tokio::select! {
                    fetched = fetch(&self.client, &remote.source.uri, etag, wait) => Some(fetched),
                    // A stop and a refresh both abort this request.
                    () = wake.notified() => None,
                }
            };
            if stop.load(Ordering::Acquire) {
                return;
            }
            interrupted = fetched.is_none();
            let Some(fetched) = fetched else {
                pause = Duration::ZERO;
                continue;
            };
            let waited = fetched.as_ref().is_ok_and(|fetched| fetched.waited);
            let outcome = catch_panic(BackgroundWorker::RulesSource, || {
                let update = self.process(fetched?)?;
                if let Some(RulesUpdate { rules, .. }) = &update {
                    self.target.activate(rules.clone());
                }
                Ok(update)
            });
            let outcome = outcome.unwrap_or_else(|panic| {
                Err(no_thread(&self.remote.source.uri, std::io::Error::other(panic)))
            });
            let changed = matches!(outcome, Ok(Some(_)));
            self.remote.consecutive_failures = match &outcome {
                // The service answers, so that a longer pause would not help.
                Ok(_) | Err(SourceError::Invalid(_)) => 0,
                Err(_) => self.remote.consecutive_failures.saturating_add(1),
            };
            self.status.record(&outcome);
            pause = self.remote.pause(waited, changed, began.elapsed());
        }
    }

    fn process(&mut self, fetched: FetchResult) -> Result<Option<RulesUpdate>, SourceError> {
        let Some(content) = fetched.content else {
            return match &self.remote.rejected {
                Some(error) => Err(SourceError::Invalid(error.clone())),
                None => Ok(None),
            };
        };
        let (bundle, version) = content.bundle(&self.remote.source.uri)?;
        self.remote.etag.clone_from(&content.etag);
        self.remote.is_service = content.is_bundle;
        self.remote.rejected = None;
        if version == self.set.version {
            return Ok(None);
        }
        match self.set.next(&bundle, version) {
            Ok(update) => {
                if let Some(copy_file) = &self.remote.copy_file {
                    let written = copy_file.write(&content);
                    self.status.record_copy(written.map_err(|error| error.to_string()));
                }
                Ok(Some(update))
            }
            Err(SourceError::Invalid(error)) => {
                self.remote.rejected = Some(error.clone());
                Err(SourceError::Invalid(error))
            }
            Err(error) => Err(error),
        }
    }
}
