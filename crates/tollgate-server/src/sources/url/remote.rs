//! A URL that is opened once and asked again and again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::Uri;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fetch::{Content, Fetched, display, fetch};
use crate::bundle::BundleError;
use crate::client::Client;
use crate::secret::Secret;
use crate::sources::follower::Wake;
use crate::sources::kept::Kept;
use crate::sources::origin::First;
use crate::sources::set::{CurrentSet, Update};
use crate::sources::status::Shared;
use crate::sources::{Follower, SourceError, Target};

/// What a URL may serve: as much as files may have, written as JSON.
const MAX_BODY: usize = 48 << 20;
/// How long a rules service may hold its answer back.
const WAIT: Duration = Duration::from_secs(30);
/// An answer that was held back took at least so long; faster ones do not earn the next question
/// at once, or a wrong cache in between would have us ask without a pause.
const HELD_BACK: Duration = Duration::from_secs(1);
/// Between two questions, whatever the answers.
const PAUSE: Duration = Duration::from_millis(50);
/// Between two questions while there is no answer, at most.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Everything there is to know about a URL before it was asked.
#[derive(Debug)]
pub(in crate::sources) struct UrlSource {
    pub(in crate::sources) uri: Uri,
    pub(in crate::sources) token: Option<Secret>,
    pub(in crate::sources) every: Duration,
    pub(in crate::sources) timeout: Duration,
    pub(in crate::sources) keep_in: Option<PathBuf>,
}

/// A URL that was asked.
#[derive(Debug)]
pub(in crate::sources) struct Remote {
    source: UrlSource,
    kept: Option<Kept>,
    /// Of the last answer, right or wrong.
    etag: Option<String>,
    /// Whether it knows how to hold an answer back.
    is_service: bool,
    /// What was wrong with the last answer: as long as nothing changes, it still is.
    rejected: Option<BundleError>,
    failures_in_a_row: u32,
}

/// An error of the thread that asks, or of its runtime.
fn no_thread(uri: &Uri, error: std::io::Error) -> SourceError {
    SourceError::Thread { origin: display(uri), error }
}

impl UrlSource {
    fn client(&self) -> Result<Client, SourceError> {
        let client = Client::new(&self.uri, self.token.as_ref(), self.timeout, MAX_BODY);
        client.map_err(|error| SourceError::Unreachable { origin: display(&self.uri), error })
    }

    /// Asks for the first time. On a thread of its own, because the caller may be in a runtime,
    /// in which no other may be waited for.
    pub(in crate::sources) fn open(self) -> Result<(Remote, First), SourceError> {
        let uri = self.uri.clone();
        let opening = std::thread::Builder::new().name("tollgate-rules-open".into());
        let thread = opening.spawn(move || {
            let runtime = runtime().map_err(|error| no_thread(&self.uri, error))?;
            let opened = runtime.block_on(self.ask_first());
            runtime.shutdown_background();
            opened
        });
        let thread = thread.map_err(|error| no_thread(&uri, error))?;
        let lost = || no_thread(&uri, std::io::Error::other("the thread panicked"));
        thread.join().unwrap_or_else(|_| Err(lost()))
    }

    async fn ask_first(self) -> Result<(Remote, First), SourceError> {
        let client = self.client()?;
        let mut copy_error = None;
        let kept = self.keep_in.as_ref().and_then(|folder| {
            let kept = Kept::new(folder, &self.uri.to_string());
            kept.map_err(|error| copy_error = Some(format!("{}: {error}", folder.display()))).ok()
        });
        let copy = kept.as_ref().and_then(|kept| {
            kept.read().unwrap_or_else(|error| {
                tracing::warn!(%error, "the copy of the rules cannot be used");
                copy_error = Some(error);
                None
            })
        });
        let etag = copy.as_ref().and_then(|copy| copy.etag.clone());
        let asked = fetch(&client, &self.uri, etag.as_deref(), None).await;
        let read = |content: &Content| {
            let (bundle, version) = content.bundle(&self.uri)?;
            CurrentSet::first(&bundle, version)
        };
        // The answer, if it is right; otherwise why not.
        let answered = match asked {
            Ok(Fetched { content: Some(content), .. }) => {
                read(&content).map(|(set, rules)| Some((content, set, rules)))
            }
            Ok(Fetched { content: None, .. }) => Ok(None),
            Err(error) => Err(error),
        };
        let (content, set, rules, instead_of) = match (answered, copy) {
            (Ok(Some((content, set, rules))), _) => {
                if let Some(kept) = &kept
                    && let Err(error) = kept.write(&content)
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
                let why = "says that nothing changed, but nothing was there".to_owned();
                return Err(SourceError::Garbled { origin, why });
            }
            (Err(error), Some(copy)) => match read(&copy) {
                Ok((set, rules)) => (copy, set, rules, Some(error)),
                Err(_) => return Err(error),
            },
            (Err(error), None) => return Err(error),
        };
        let remote = Remote {
            source: self,
            kept,
            etag: content.etag,
            is_service: content.is_bundle,
            rejected: None,
            failures_in_a_row: instead_of.is_some().into(),
        };
        Ok((remote, First { set, rules, instead_of, copy_error }))
    }
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

impl Remote {
    pub(in crate::sources) fn follow(
        self,
        set: CurrentSet,
        shared: Shared,
        target: impl Target,
    ) -> Follower {
        let (notify, stop) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let wake = {
            let (notify, stop) = (notify.clone(), stop.clone());
            move |wake| {
                if wake == Wake::Stop {
                    stop.store(true, Ordering::Release);
                }
                notify.notify_one();
            }
        };
        let body = {
            let shared = shared.clone();
            move || {
                let uri = self.source.uri.clone();
                let started = runtime().map_err(|error| no_thread(&uri, error));
                match started.and_then(|runtime| Ok((runtime, self.source.client()?))) {
                    Ok((runtime, client)) => {
                        let following = Following { remote: self, client, set, shared, target };
                        runtime.block_on(following.run(&notify, &stop));
                        runtime.shutdown_background();
                    }
                    Err(error) => shared.record(&Err(error)),
                }
            }
        };
        Follower::start(shared, wake, body)
    }

    /// How long until the next question after an answer, or none, that took `took`.
    fn pause(&self, waited: bool, changed: bool, took: Duration) -> Duration {
        let every = self.source.every;
        if self.failures_in_a_row > 0 {
            let first = every.min(Duration::from_secs(1));
            let doubled = first.saturating_mul(1 << self.failures_in_a_row.min(16));
            // Many limiters lose one service at the same moment: they must not return together.
            return doubled.min(LONGEST_PAUSE.max(every)).mul_f64(0.5 + fastrand::f64() / 2.0);
        }
        if self.is_service && (changed || waited && took >= HELD_BACK) {
            return PAUSE;
        }
        every.mul_f64(0.8 + 0.4 * fastrand::f64())
    }
}

struct Following<T> {
    remote: Remote,
    client: Client,
    set: CurrentSet,
    shared: Shared,
    target: T,
}

impl<T: Target> Following<T> {
    async fn run(mut self, wake: &Notify, stop: &AtomicBool) {
        let failed = self.remote.failures_in_a_row > 0;
        let mut pause = self.remote.pause(false, !failed, Duration::ZERO);
        let mut hurried = false;
        loop {
            let woken = tokio::time::timeout(pause, wake.notified()).await.is_ok();
            if stop.load(Ordering::Acquire) {
                return;
            }
            let began = Instant::now();
            let asked = {
                let remote = &self.remote;
                // Who was told to look, or does not know whether the service is back, wants to
                // know now.
                let patient = !woken && !hurried && remote.failures_in_a_row == 0;
                let wait = (remote.is_service && patient).then_some(WAIT);
                let etag = remote.etag.as_deref();
                tokio::select! {
                    asked = fetch(&self.client, &remote.source.uri, etag, wait) => Some(asked),
                    // Stopped, or told to look now: either way this question is given up.
                    () = wake.notified() => None,
                }
            };
            if stop.load(Ordering::Acquire) {
                return;
            }
            hurried = asked.is_none();
            let Some(asked) = asked else {
                pause = Duration::ZERO;
                continue;
            };
            let waited = asked.as_ref().is_ok_and(|fetched| fetched.waited);
            let outcome = asked.and_then(|fetched| self.digest(fetched));
            let changed = matches!(outcome, Ok(Some(_)));
            self.remote.failures_in_a_row = match &outcome {
                // It answers: to ask less often would not make the answer better.
                Ok(_) | Err(SourceError::Invalid(_)) => 0,
                Err(_) => self.remote.failures_in_a_row.saturating_add(1),
            };
            if let Ok(Some(Update { rules, .. })) = &outcome {
                self.target.install(rules.clone());
            }
            self.shared.record(&outcome);
            pause = self.remote.pause(waited, changed, began.elapsed());
        }
    }

    fn digest(&mut self, fetched: Fetched) -> Result<Option<Update>, SourceError> {
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
                if let Some(kept) = &self.remote.kept {
                    let written = kept.write(&content);
                    self.shared.record_copy(written.map_err(|error| error.to_string()));
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
