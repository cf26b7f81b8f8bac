//! The rules of a server: where they come from, who may change them, and how that goes.
//!
//! There is always a rules service inside. Without another origin it keeps the rules themselves;
//! beside a file or a folder it keeps the data (overrides, lists, bans, modes); beside another service it
//! keeps nothing, because that one has the data too. In each case the limiter is handed whole sets,
//! and a change is in force before its answer is sent.

use std::sync::Arc;

use axum::Router;
use parking_lot::Mutex;
use tokio::sync::watch;
use tollgate::rules::Rules;
use tollgate::{Clock, Limiter};

use crate::access::Role;
use crate::config::Config;
use crate::rules_service::routes::{Elsewhere, Guard};
use crate::rules_service::{Options, RulesService};
use crate::secret::Secret;
use crate::server::{SAMPLE_RULES, StartError};
use crate::sources::{Follower, Target};
use crate::store::{AnyLimiter, AnyStore};

/// What the sample is called in the database.
const SAMPLE_NAME: &str = "sample";

/// The rules of a server.
#[derive(Debug)]
pub(crate) struct Rulebook {
    service: Arc<RulesService>,
    limiter: AnyLimiter,
    elsewhere: Option<Elsewhere>,
    follower: Mutex<Option<Follower>>,
    stopping: watch::Sender<bool>,
}

/// How it goes, for people and metrics.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct RulesStatus {
    /// The path, the URL, or nothing if they are from the service inside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    pub(crate) version: String,
    /// Whether a copy from the disk is in force, because the origin has not answered yet.
    pub(crate) from_copy: bool,
    /// How many looks at the origin failed.
    pub(crate) failures: u64,
    /// Why the last one did, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// Hands rules from a file to the service, which adds its data.
struct WithData(Arc<RulesService>);

impl Target for WithData {
    fn install(&self, rules: Rules) {
        self.0.take_files(rules);
    }
}

impl Rulebook {
    /// Reads the rules for the first time and follows them. Blocks the thread.
    pub(crate) fn open(
        config: &Config,
        clock: &Clock,
        store: AnyStore,
    ) -> Result<Rulebook, StartError> {
        let service = Arc::new(service(config, clock)?);
        let builder = Limiter::builder().store(store).clock(clock.clone());
        let install_in = |limiter: &AnyLimiter| {
            let limiter = limiter.clone();
            service.install_by(move |rules| limiter.replace(rules));
        };
        let Some(origin) = config.rules.clone() else {
            if service.revision() == 0 {
                service.import_files(vec![(SAMPLE_NAME.into(), SAMPLE_RULES.into())])?;
            }
            let limiter = builder.build_rules(service.current().0.map_err(StartError::Stored)?);
            install_in(&limiter);
            return Ok(Rulebook::new(service, limiter, None, None));
        };
        let (name, data_too) = (origin.to_string(), origin.is_url());
        let opened = origin.keep_in_unless_told(config.data.as_ref()).open()?;
        let limiter = builder.build_rules(opened.rules().clone());
        let follower = if data_too {
            opened.follow(limiter.clone())
        } else {
            install_in(&limiter);
            service.take_files(opened.rules().clone());
            opened.follow(WithData(service.clone()))
        };
        let elsewhere = Elsewhere { origin: name, data_too, limiter: limiter.clone() };
        Ok(Rulebook::new(service, limiter, Some(elsewhere), Some(follower)))
    }

    fn new(
        service: Arc<RulesService>,
        limiter: AnyLimiter,
        elsewhere: Option<Elsewhere>,
        follower: Option<Follower>,
    ) -> Rulebook {
        let (stopping, _) = watch::channel(false);
        Rulebook { service, limiter, elsewhere, follower: Mutex::new(follower), stopping }
    }

    pub(crate) fn limiter(&self) -> &AnyLimiter {
        &self.limiter
    }

    /// What those with a token may ask about rules, to be put behind the guard.
    pub(crate) fn routes(&self) -> Router {
        let limiter = self.limiter.clone();
        self.service.routes(self.stopping.subscribe(), self.elsewhere.clone(), limiter)
    }

    pub(crate) fn guard(&self) -> Guard {
        self.service.guard()
    }

    /// A token to administer with.
    pub(crate) fn admin_token(&self) -> Option<&Secret> {
        self.service.tokens().secret_for(Role::Write)
    }

    /// The file of tokens, if it was made just now.
    pub(crate) fn made_tokens(&self) -> Option<&std::path::Path> {
        self.service.made_tokens()
    }

    /// Looks at the origin now.
    pub(crate) fn refresh(&self) {
        if let Some(follower) = &*self.follower.lock() {
            follower.refresh();
        }
    }

    pub(crate) fn status(&self) -> RulesStatus {
        let origin = self.elsewhere.as_ref().map(|elsewhere| elsewhere.origin.clone());
        let (_, version) = self.service.current();
        let inside =
            RulesStatus { origin, version, from_copy: false, failures: 0, last_error: None };
        match &*self.follower.lock() {
            None => inside,
            Some(follower) => {
                let status = follower.status();
                let remote = self.elsewhere.as_ref().is_some_and(|elsewhere| elsewhere.data_too);
                RulesStatus {
                    // What a file says and the data on top of it have one version together.
                    version: if remote { status.version } else { inside.version },
                    from_copy: status.from_copy,
                    failures: status.failures,
                    last_error: status.last_error,
                    ..inside
                }
            }
        }
    }

    /// Overrides, lists and bans that do not fit the rules from elsewhere.
    pub(crate) async fn left_out(&self) -> Vec<String> {
        self.service.left_out().await
    }

    /// Nobody is kept waiting for new rules from now on.
    pub(crate) fn leave(&self) {
        self.stopping.send_replace(true);
    }

    /// Lets go of origin and database, so that another server may have them. Blocks the thread.
    pub(crate) fn close(&self) {
        let follower = self.follower.lock().take();
        drop(follower);
        self.service.close();
    }
}

fn service(config: &Config, clock: &Clock) -> Result<RulesService, StartError> {
    let (tokens, clock) = (config.admin_tokens.clone(), clock.clone());
    Ok(match &config.data {
        Some(folder) => RulesService::open(Options { tokens, clock, ..Options::new(folder) })?,
        None => RulesService::temporary(tokens, clock)?,
    })
}
