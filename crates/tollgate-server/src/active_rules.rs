//! The active rules of a server: their origin, the rules service and the limiter that applies them.
//!
//! Every server contains a rules service. What the service stores depends on the origin of the
//! rules. Without an origin, it stores the rules. With a file or a folder, it stores the data
//! (overrides, lists, bans, modes). With a URL, it stores nothing, because the remote service has
//! the data too. In each case the limiter receives complete rule sets, and a change is active before
//! the response to it is sent.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use parking_lot::Mutex;
use tokio::sync::watch;
use tollgate::Clock;
use tollgate_rules::{KeySecret, RuleLimiter, Rules};

use crate::access::Role;
use crate::clock;
use crate::config::Config;
use crate::live_tokens::LiveTokens;
use crate::rules_service::routes::{ExternalOrigin, TokenGuard};
use crate::rules_service::{RulesService, RulesServiceOptions};
use crate::secret::Secret;
use crate::server::{SAMPLE_RULES, StartError};
use crate::sources::{Follower, Target};
use crate::store::{AnyLimiter, AnyStore};
use crate::supply_log::SupplyLog;
use crate::telemetry::Telemetry;

/// The name of the sample rules in the database.
const SAMPLE_NAME: &str = "sample";

/// The active rules of a server.
#[derive(Debug)]
pub(crate) struct ActiveRules {
    service: Arc<RulesService>,
    limiter: AnyLimiter,
    external: Option<ExternalOrigin>,
    follower: Mutex<Option<Follower>>,
    stopping: watch::Sender<bool>,
}

/// The state of the active rules, for `/readyz` and metrics.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct RulesStatus {
    /// The path or the URL; `None` if the rules are stored in this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) origin: Option<String>,
    pub(crate) version: String,
    /// Whether the rules come from a saved copy, because the origin has not answered yet.
    pub(crate) from_copy: bool,
    /// The number of failed reads of the origin.
    pub(crate) failures: u64,
    /// The error of the last read, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) last_error: Option<String>,
}

/// A target that passes rules from a file to the service, which adds its data.
struct DataOverlay(Arc<RulesService>);

impl Target for DataOverlay {
    fn activate(&self, rules: Rules) {
        self.0.set_external_files(rules);
    }
}

/// A target that logs what the doors cannot supply before rules become active.
struct CheckedTarget {
    limiter: AnyLimiter,
    supply_log: Arc<SupplyLog>,
}

impl Target for CheckedTarget {
    fn activate(&self, rules: Rules) {
        self.supply_log.check(&rules);
        self.limiter.replace(rules);
    }
}

impl ActiveRules {
    /// Reads the rules for the first time and follows their origin. Blocks the thread.
    pub(crate) fn open(
        config: &Config,
        clock: &Clock,
        store: AnyStore,
        telemetry: Arc<Telemetry>,
        key_secret: KeySecret,
    ) -> Result<ActiveRules, StartError> {
        let service = Arc::new(service(config, clock)?);
        let hits = telemetry.clone();
        let builder = RuleLimiter::builder().store(store).clock(clock.clone()).on_settled(
            move |domain, rule, settled| telemetry.record_settlement(domain, rule, settled),
        );
        let builder = builder.on_descriptor_hits(move |found| hits.record_descriptor_hits(found));
        let builder = builder.key_secret(key_secret);
        let supply_log = Arc::new(SupplyLog::new(config));
        let activate_in = |limiter: &AnyLimiter| {
            let target = CheckedTarget { limiter: limiter.clone(), supply_log: supply_log.clone() };
            service.on_change(move |rules| target.activate(rules));
        };
        let Some(origin) = config.rules.clone() else {
            if service.revision() == 0 {
                service.import_files(vec![(SAMPLE_NAME.into(), SAMPLE_RULES.into())])?;
            }
            let rules = service.current().0.map_err(StartError::Stored)?;
            supply_log.check(&rules);
            let limiter = builder.build(rules);
            activate_in(&limiter);
            return Ok(ActiveRules::new(service, limiter, None, None));
        };
        let (name, has_data) = (origin.to_string(), origin.is_url());
        let opened = origin.default_copy_folder(config.data.as_ref()).open()?;
        supply_log.check(opened.rules());
        let limiter = builder.build(opened.rules().clone());
        let follower = if has_data {
            opened.follow(CheckedTarget { limiter: limiter.clone(), supply_log })
        } else {
            activate_in(&limiter);
            service.set_external_files(opened.rules().clone());
            opened.follow(DataOverlay(service.clone()))
        };
        let external = ExternalOrigin { origin: name, has_data, limiter: limiter.clone() };
        Ok(ActiveRules::new(service, limiter, Some(external), Some(follower)))
    }

    fn new(
        service: Arc<RulesService>,
        limiter: AnyLimiter,
        external: Option<ExternalOrigin>,
        follower: Option<Follower>,
    ) -> ActiveRules {
        let (stopping, _) = watch::channel(false);
        ActiveRules { service, limiter, external, follower: Mutex::new(follower), stopping }
    }

    pub(crate) fn limiter(&self) -> &AnyLimiter {
        &self.limiter
    }

    /// Returns the routes of the rules service, which the caller must protect with the guard.
    pub(crate) fn routes(&self) -> Router {
        let limiter = self.limiter.clone();
        self.service.routes(self.stopping.subscribe(), self.external.clone(), limiter)
    }

    pub(crate) fn guard(&self) -> TokenGuard {
        self.service.guard()
    }

    /// Returns a token with the role `write`.
    pub(crate) fn admin_token(&self) -> Option<Secret> {
        self.service.tokens().secret_for(Role::Write).cloned()
    }

    /// Returns the tokens of the admin API.
    pub(crate) fn live_tokens(&self) -> Arc<LiveTokens> {
        self.service.live_tokens()
    }

    /// Returns the path of the token file, if this start created it.
    pub(crate) fn created_tokens(&self) -> Option<&std::path::Path> {
        self.service.created_tokens()
    }

    /// Reads the origin now.
    pub(crate) fn refresh(&self) {
        if let Some(follower) = &*self.follower.lock() {
            follower.refresh();
        }
    }

    pub(crate) fn status(&self) -> RulesStatus {
        let origin = self.external.as_ref().map(|external| external.origin.clone());
        let (_, version) = self.service.current();
        let inside =
            RulesStatus { origin, version, from_copy: false, failures: 0, last_error: None };
        match &*self.follower.lock() {
            None => inside,
            Some(follower) => {
                let status = follower.status();
                let remote = self.external.as_ref().is_some_and(|external| external.has_data);
                RulesStatus {
                    // The service's version covers a file together with the data on top of it.
                    version: if remote { status.version } else { inside.version },
                    from_copy: status.from_copy,
                    failures: status.failures,
                    last_error: status.last_error,
                    ..inside
                }
            }
        }
    }

    /// Returns the overrides, lists and bans that do not match the rules of the external origin.
    pub(crate) fn left_out(&self) -> Vec<String> {
        self.service.left_out()
    }

    /// Returns how long the rules database has not answered, if that is too long.
    pub(crate) fn stalled_for(&self) -> Option<Duration> {
        self.service.stalled_for()
    }

    /// Ends the calls that wait for new rules.
    pub(crate) fn stop_waiting(&self) {
        self.stopping.send_replace(true);
    }

    /// Releases the origin and the database, so that another server can open them. Blocks the thread.
    ///
    /// Returns `false` if the origin or the database did not close within `patience`.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let started_ms = clock::monotonic_ms();
        let follower = self.follower.lock().take();
        let is_released = follower.is_none_or(|mut follower| follower.stop(patience));
        let elapsed = Duration::from_millis(clock::monotonic_ms().saturating_sub(started_ms));
        self.service.close(patience.saturating_sub(elapsed)) && is_released
    }
}

fn service(config: &Config, clock: &Clock) -> Result<RulesService, StartError> {
    let (tokens, clock) = (config.admin_tokens.clone(), clock.clone());
    Ok(match &config.data {
        Some(folder) => RulesService::open(RulesServiceOptions {
            tokens,
            clock,
            ..RulesServiceOptions::new(folder)
        })?,
        None => RulesService::temporary(tokens, clock)?,
    })
}
