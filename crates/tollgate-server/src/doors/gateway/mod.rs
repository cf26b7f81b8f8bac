//! The gateway: a reverse proxy that decides every request before it forwards it.
//!
//! A request is [checked](ambiguity) for ambiguity, its body is [inspected](inspect_body) if rules
//! read fields of it, it is decided, delayed if a rule says so, and [forwarded](proxy_request) over
//! a [connection](upstreams) to an upstream; its response streams back the same way. The limiter
//! observes it through a [`RequestLifecycle`](tollgate_tower::lifecycle::RequestLifecycle).
//!
//! The gateway forwards exactly what it decided on: the target in one spelling, and the client's
//! address from [trusted](forwarded) sources. It [removes](client_headers) header fields that an
//! upstream could take for others, and rejects requests that two servers could read differently.

mod ambiguity;
mod body_fields;
mod body_reader;
mod choose_upstream;
mod client_headers;
mod continue_gate;
mod defer;
pub(crate) mod forward_target;
mod forwarded;
mod hop_headers;
mod inspect_body;
mod interim_relay;
mod local_response;
mod options;
mod proxy_request;
mod refuse_by_head;
mod replay;
mod trailers;
mod tunnel;
mod upload;
mod upstreams;
mod url;
mod via;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use ipnet::IpNet;
use parking_lot::Mutex;
use tollgate_rules::Rules;

use crate::deferred::{any_defers, replay as replay_deferred};
use crate::net::http::{ConnectionActivity, HttpServer};
use crate::net::{Connection, Door};
use crate::server::{Context, StartError};
use client_headers::PassedHeaders;
use forwarded::ConnectionPeer;
use trailers::AnnouncedTrailers;
use tunnel::{Tunnel, TunnelTimeouts};
use upstreams::Upstreams;
use via::ViaEntries;

pub(crate) use body_fields::RequestBodyFields;

pub use options::GatewayOptions;
pub use url::{UpstreamUrl, UpstreamUrlError};
pub use via::ViaName;

/// The gateway door.
#[derive(Clone, Debug)]
pub(crate) struct GatewayDoor {
    gateway: Arc<Gateway>,
    http: HttpServer,
}

/// The state that all connections share.
#[derive(Debug)]
struct Gateway {
    context: Context,
    options: Arc<GatewayOptions>,
    upstreams: Upstreams,
    passed_headers: PassedHeaders,
    /// The entries in `Via`; `None` if none are written.
    via: Option<ViaEntries>,
    trailers: AnnouncedTrailers,
    /// The last rule set, counted from 1, that the warning about its domains was logged for.
    warned_rules: AtomicU64,
    /// Whether the warning about a missing deferred queue was logged.
    warned_no_queue: AtomicBool,
}

/// One connection of a client.
#[derive(Debug)]
struct GatewayConnection {
    gateway: Arc<Gateway>,
    peer: ConnectionPeer,
    activity: Arc<ConnectionActivity>,
    /// The tunnel that the connection becomes after its last request.
    tunnel: Mutex<Option<Tunnel>>,
}

impl GatewayDoor {
    pub(crate) fn new(
        context: Context,
        options: &GatewayOptions,
    ) -> Result<GatewayDoor, StartError> {
        let http = HttpServer::new(context.config.bounds).for_proxy(options.head_bounds());
        check(options, &context.decisions.limiter().rules())?;
        let options = Arc::new(options.clone());
        let passed_headers = passed_headers(&options).map_err(StartError::Gateway)?;
        let via = ViaEntries::new(&options.via).map_err(StartError::Gateway)?;
        let trailers = AnnouncedTrailers::new(&options.trailers).map_err(StartError::Gateway)?;
        let upstreams = Upstreams::new(&options, context.decisions.telemetry());
        let upstreams = upstreams.map_err(StartError::Gateway)?;
        upstreams.start_maintenance(&context.drain);
        let gateway = Gateway {
            context,
            options,
            upstreams,
            passed_headers,
            via,
            trailers,
            warned_rules: AtomicU64::new(0),
            warned_no_queue: AtomicBool::new(false),
        };
        Ok(GatewayDoor { gateway: Arc::new(gateway), http })
    }

    /// Starts to send deferred requests, also those of earlier processes.
    pub(crate) async fn replay(&self) {
        let Context { deferred, drain, decisions, counted_until_ms, .. } = &self.gateway.context;
        match deferred {
            Some(deferred) => {
                let sender = self.gateway.clone();
                replay_deferred(deferred, sender, drain, *counted_until_ms).await;
            }
            None if any_defers(&decisions.limiter().rules()) => self.gateway.warn_without_queue(),
            None => {}
        }
    }
}

impl Door for GatewayDoor {
    async fn serve(&self, connection: Connection) {
        let Connection { peer, ref drain, ref stream, .. } = connection;
        let (drain, is_secret) = (drain.clone(), stream.is_encrypted());
        let peer = ConnectionPeer::new(peer.map(|peer| peer.ip()), is_secret);
        let mut served = None;
        self.http
            .serve(connection, |activity| {
                let (gateway, activity) = (self.gateway.clone(), activity.clone());
                let gateway_connection = Arc::new(GatewayConnection {
                    gateway,
                    peer,
                    activity,
                    tunnel: Mutex::default(),
                });
                served = Some(gateway_connection.clone());
                move |request| {
                    let gateway_connection = gateway_connection.clone();
                    async move { gateway_connection.handle(request).await }
                }
            })
            .await;
        let Some(gateway_connection) = served else { return };
        let tunnel = gateway_connection.tunnel.lock().take();
        if let Some(tunnel) = tunnel {
            let silence = self.gateway.options.tunnel_timeout;
            let times =
                TunnelTimeouts { silence, drain: self.gateway.context.config.drain.patience };
            tunnel.run(&gateway_connection.activity, &drain, times).await;
        }
    }
}

impl Gateway {
    /// Logs an error once if new rules lack the domain: all requests pass then.
    fn warn_without_domain(&self) {
        let limiter = self.context.decisions.limiter();
        let rules = limiter.status().replacements() + 1;
        if self.warned_rules.swap(rules, Ordering::Relaxed) != rules
            && let Err(why) = check_domain(&self.options, &limiter.rules())
        {
            tracing::error!("the gateway lets everything through: {why}");
        }
    }

    /// Logs a warning once if rules defer requests and there is no deferred queue.
    #[cold]
    fn warn_without_queue(&self) {
        if !self.warned_no_queue.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "rules say `then: defer`, and there is no data folder to keep requests in: those \
                 over the limit are refused with 429; start it with --data"
            );
        }
    }

    /// Returns the proxies that the settings or the rules trust.
    fn trusted_proxies(&self) -> Vec<IpNet> {
        let rules = self.context.decisions.limiter().rules();
        let by_rules = rules.trusted_proxies(self.options.domain.as_deref());
        self.context.config.trusted_proxies.iter().chain(by_rules).copied().collect()
    }
}

/// Checks the options of a gateway against rules. Opens nothing.
pub(crate) fn check(options: &GatewayOptions, rules: &Rules) -> Result<(), StartError> {
    check_domain(options, rules)
        .and_then(|()| upstreams::check(options))
        .and_then(|()| defer::check_prefix(&options.defer.prefix))
        .and_then(|()| passed_headers(options).map(drop))
        .and_then(|()| ViaEntries::new(&options.via).map(drop))
        .and_then(|()| AnnouncedTrailers::new(&options.trailers).map(drop))
        .map_err(StartError::Gateway)
}

fn passed_headers(options: &GatewayOptions) -> Result<PassedHeaders, String> {
    PassedHeaders::new(&options.pass_headers, options.underscores_in_headers)
}

/// Checks that exactly one domain applies to the gateway.
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
