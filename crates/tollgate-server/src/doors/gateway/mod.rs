//! The gateway: a reverse proxy that asks the engine before it lets a request through.
//!
//! A request is [looked at](sound), [into](look) if rules name fields of its body, decided, held back if a rule says so, and [sent on](pass) over a
//! [lane](upstreams) to an upstream; its answer streams back the same way. Its whole life is told to
//! the limiter through a [`Passage`](tollgate_tower::passage::Passage).
//!
//! What is decided on is what is sent on: the target in one spelling, the client's address by whom
//! it is [believed](forwarded). What two servers could read differently goes no further.

mod aim;
mod answer;
mod defer;
mod forwarded;
mod hops;
mod look;
mod options;
mod pass;
mod replay;
mod said;
mod sound;
mod tunnel;
mod upload;
mod upstreams;
mod url;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ipnet::IpNet;
use parking_lot::Mutex;
use tollgate::Rules;

use crate::deferred::replay as replay_deferred;
use crate::net::http::{HttpServer, Pulse};
use crate::net::{Connection, Door};
use crate::server::{Context, StartError};
use forwarded::Peer;
use tunnel::{Times, Tunnel};
use upstreams::Upstreams;

pub(crate) use said::Said;

pub use options::GatewayOptions;
pub use url::{UpstreamUrl, UpstreamUrlError};

/// The gateway.
#[derive(Clone, Debug)]
pub(crate) struct GatewayDoor {
    gateway: Arc<Gateway>,
    http: HttpServer,
}

/// What every connection is served with.
#[derive(Debug)]
struct Gateway {
    context: Context,
    options: Arc<GatewayOptions>,
    upstreams: Upstreams,
    /// Bodies that are kept until they are sent on.
    bodies: Arc<look::Bodies>,
    /// The rules of which it was said that they decide nothing here, counted from 1.
    said_of: AtomicU64,
    /// Whether it was said that there is no place for what rules defer.
    said_no_place: AtomicBool,
}

/// One connection of a client.
#[derive(Debug)]
struct Visitor {
    gateway: Arc<Gateway>,
    peer: Peer,
    pulse: Arc<Pulse>,
    /// What the connection becomes after its last request.
    tunnel: Mutex<Option<Tunnel>>,
}

impl GatewayDoor {
    pub(crate) fn new(
        context: Context,
        options: &GatewayOptions,
    ) -> Result<GatewayDoor, StartError> {
        let http = HttpServer::new(context.config.bounds).for_others();
        check(options, &context.engine.limiter().rules())?;
        let options = Arc::new(options.clone());
        let upstreams = Upstreams::new(&options, context.engine.telemetry());
        let upstreams = upstreams.map_err(StartError::Gateway)?;
        upstreams.tend(&context.drain);
        let gateway = Gateway {
            context,
            options,
            upstreams,
            bodies: Arc::default(),
            said_of: AtomicU64::new(0),
            said_no_place: AtomicBool::new(false),
        };
        Ok(GatewayDoor { gateway: Arc::new(gateway), http })
    }

    /// Begins to send what was deferred, also before this process began.
    pub(crate) async fn replay(&self) {
        let Context { deferred, drain, engine, .. } = &self.gateway.context;
        match deferred {
            Some(deferred) => {
                let counters_survive = engine.store().memory().is_none();
                replay_deferred(deferred, self.gateway.clone(), drain, counters_survive).await;
            }
            None if engine.limiter().rules().defer() => self.gateway.say_that_nothing_is_kept(),
            None => {}
        }
    }
}

impl Door for GatewayDoor {
    async fn serve(&self, connection: Connection) {
        let Connection { peer, ref drain, ref stream, .. } = connection;
        let (drain, is_secret) = (drain.clone(), stream.is_secret());
        let peer = Peer::new(peer.map(|peer| peer.ip()), is_secret);
        let mut visiting = None;
        self.http
            .serve(connection, |pulse| {
                let (gateway, pulse) = (self.gateway.clone(), pulse.clone());
                let visitor = Arc::new(Visitor { gateway, peer, pulse, tunnel: Mutex::default() });
                visiting = Some(visitor.clone());
                move |request| {
                    let visitor = visitor.clone();
                    async move { visitor.pass(request).await }
                }
            })
            .await;
        let Some(visitor) = visiting else { return };
        let tunnel = visitor.tunnel.lock().take();
        if let Some(tunnel) = tunnel {
            let silence = self.gateway.options.tunnel_timeout;
            let times = Times { silence, drain: self.gateway.context.config.drain.patience };
            tunnel.run(&visitor.pulse, &drain, times).await;
        }
    }
}

impl Gateway {
    /// Rules that came while running may lack the domain: everything passes then, and that is said
    /// once.
    fn say_that_nobody_decides(&self) {
        let limiter = self.context.engine.limiter();
        let rules = limiter.replacements() + 1;
        if self.said_of.swap(rules, Ordering::Relaxed) != rules
            && let Err(why) = check_domain(&self.options, &limiter.rules())
        {
            tracing::error!("the gateway lets everything through: {why}");
        }
    }

    /// Rules defer, and there is no place that outlives the process: that is said once.
    #[cold]
    fn say_that_nothing_is_kept(&self) {
        if !self.said_no_place.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "rules say `then: defer`, and there is no data folder to keep requests in: those \
                 over the limit are refused with 429; start it with --data"
            );
        }
    }

    /// The proxies that are trusted, by the settings and by the rules.
    fn trusted_proxies(&self) -> Vec<IpNet> {
        let rules = self.context.engine.limiter().rules();
        let by_rules = rules.trusted_proxies(self.options.domain.as_deref());
        self.context.config.trusted_proxies.iter().chain(by_rules).copied().collect()
    }
}

/// Whether a gateway can be set up so, under these rules. Opens nothing.
pub(crate) fn check(options: &GatewayOptions, rules: &Rules) -> Result<(), StartError> {
    check_domain(options, rules)
        .and_then(|()| upstreams::check(options))
        .and_then(|()| defer::check_prefix(&options.defer.prefix))
        .map_err(StartError::Gateway)
}

/// Whether it is clear whose rules the gateway follows.
fn check_domain(options: &GatewayOptions, rules: &Rules) -> Result<(), String> {
    let names: Vec<&str> = rules.domain_names().collect();
    let there_are = || format!("there are: {}", names.join(", "));
    let wrong = match &options.domain {
        Some(domain) if !names.contains(&domain.as_str()) => {
            format!("the rules have no domain {domain:?}; {}", there_are())
        }
        None if names.len() > 1 => {
            format!("the rules have several domains: say which with --domain; {}", there_are())
        }
        _ => return Ok(()),
    };
    Err(wrong)
}
