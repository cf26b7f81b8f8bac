//! A running server: rules opened, doors open, until it is told to go.

use std::path::Path;
use std::sync::Arc;

use tollgate::Clock;

use crate::admin;
use crate::config::Config;
use crate::deferred::Deferred;
use crate::doors::{gateway::GatewayDoor, grpc::GrpcDoor, http::HttpDoor, resp::RespDoor};
use crate::engine::Engine;
use crate::net::http::RouterDoor;
use crate::net::{
    self, Address, Bind, BindError, Connections, Door, Drain, Drainer, Listener, Tls,
};
use crate::rulebook::Rulebook;
use crate::rules_service::ServiceError;
use crate::secret::Secret;
use crate::sources::SourceError;
use crate::store::{self, AnyStore};
use crate::telemetry::{Counted, Telemetry};

/// The rules of a server that was given none.
pub const SAMPLE_RULES: &str = include_str!("sample.yaml");

/// Files the process needs beside connections.
const RESERVED_FILES: usize = 128;

/// Why a server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The rules cannot be read.
    #[error(transparent)]
    Rules(#[from] SourceError),
    /// The rules that were kept are wrong for this version.
    #[error("the rules in the data folder are wrong for this version of tollgate: {0}")]
    Stored(String),
    /// The data folder cannot be used.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Traces cannot be sent.
    #[error("traces cannot be sent to {to}: {why}")]
    Traces {
        /// Where they were to go.
        to: String,
        /// Why they cannot.
        why: String,
    },
    /// The store cannot be used as it is set up.
    #[error("the store cannot be used: {0}")]
    Store(String),
    /// The gateway cannot be set up.
    #[error("the gateway: {0}")]
    Gateway(String),
    /// Deferred requests cannot be kept.
    #[error("deferred requests cannot be kept: {0}")]
    Deferred(String),
    /// A door cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// What every door has at hand. Clones share everything.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) engine: Engine,
    pub(crate) rules: Arc<Rulebook>,
    pub(crate) drain: Drain,
    pub(crate) connections: Arc<Connections>,
    /// Requests that are kept for later, if there is a gateway and a place for them.
    pub(crate) deferred: Option<Arc<Deferred>>,
}

/// A server whose doors are open.
///
/// ```
/// use tollgate_server::{Config, Server, net::{Address, Bind}};
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let mut config = Config::default();
/// let any: Address = "127.0.0.1:0".parse()?;
/// (config.http, config.grpc, config.resp) = (Some(Bind::plain(any)), None, None);
/// let server = Server::start(config).await?;
/// println!("http://{}", server.addresses().http.as_ref().unwrap());
/// server.stop().await;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Server {
    context: Context,
    addresses: Addresses,
    drainer: Drainer,
    certificates: Vec<Arc<Tls>>,
}

/// Where the doors are in fact.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Addresses {
    /// HTTP.
    pub http: Option<Address>,
    /// gRPC.
    pub grpc: Option<Address>,
    /// The Redis protocol.
    pub resp: Option<Address>,
    /// The gateway.
    pub gateway: Option<Address>,
    /// The admin API, if it is not on the HTTP door.
    pub admin: Option<Address>,
}

impl Server {
    /// Reads the rules and opens the doors.
    pub async fn start(config: Config) -> Result<Server, StartError> {
        let clock = config.clock.clone().unwrap_or_else(Clock::system);
        let telemetry = Telemetry::new(&config.telemetry)?;
        let store = AnyStore::open(&config, &clock, &telemetry).await?;
        let reading = (config.clone(), clock.clone());
        let open = move || Rulebook::open(&reading.0, &reading.1, store);
        let rules = tokio::task::spawn_blocking(open).await;
        let rules = Arc::new(rules.expect("reading rules does not panic")?);
        let (drainer, drain) = Drainer::new();
        let connections = Connections::new(config.bounds.connections.unwrap_or_else(most_files));
        let engine = Engine::new(rules.limiter().clone(), clock, telemetry);
        tokio::spawn(store::watch(engine.clone(), drain.clone()));
        let deferred = Deferred::open(&config, engine.store()).await?;
        engine.defers(deferred.is_some());
        let config = Arc::new(config);
        let context = Context { config, engine, rules, drain, connections, deferred };
        let mut server = Server {
            context: context.clone(),
            addresses: Addresses::default(),
            drainer,
            certificates: Vec::new(),
        };
        let config = &context.config;
        let http = HttpDoor::new(context.clone());
        server.addresses.http = server.open("http", &config.http, &["h2", "http/1.1"], http)?;
        let grpc = GrpcDoor::new(context.clone());
        server.addresses.grpc = server.open("grpc", &config.grpc, &["h2"], grpc)?;
        let resp = RespDoor::new(context.clone());
        server.addresses.resp = server.open("resp", &config.resp, &[], resp)?;
        if let Some(options) = &config.gateway {
            let gateway = GatewayDoor::new(context.clone(), options)?;
            gateway.replay().await;
            let listen = Some(options.listen.clone());
            server.addresses.gateway =
                server.open("gateway", &listen, &["h2", "http/1.1"], gateway)?;
        }
        let admin = RouterDoor::new(config.bounds, admin::own_router(context.clone()));
        server.addresses.admin = server.open("admin", &config.admin, &["h2", "http/1.1"], admin)?;
        Ok(server)
    }

    fn open(
        &mut self,
        name: &'static str,
        bind: &Option<Bind>,
        protocols: &[&str],
        door: impl Door,
    ) -> Result<Option<Address>, BindError> {
        let Some(bind) = bind else { return Ok(None) };
        let listener = Listener::bind(bind, protocols)?;
        let address = listener.address().unwrap_or_else(|_| bind.address.clone());
        self.certificates.extend(listener.tls().cloned());
        let Context { connections, drain, .. } = self.context.clone();
        let door = Counted::new(door, self.context.engine.telemetry().connections_of(name));
        tokio::spawn(net::serve(listener, connections, drain, door));
        Ok(Some(address))
    }

    /// Where the doors are.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// A token to administer with: of the configuration, of the data folder, or made for this
    /// process alone where there is neither.
    pub fn admin_token(&self) -> Option<&Secret> {
        self.context.rules.admin_token()
    }

    /// The file of tokens, if this start made it.
    pub fn made_tokens(&self) -> Option<&Path> {
        self.context.rules.made_tokens()
    }

    /// Looks at the rules and the certificates now. What is wrong is logged, and the old goes on.
    pub fn reload(&self) {
        self.context.rules.refresh();
        for tls in &self.certificates {
            match tls.reload() {
                Ok(()) => tracing::info!("the certificate was read again"),
                Err(error) => tracing::error!(%error, "the old certificate goes on"),
            }
        }
    }

    /// Goes down in good order: says that it is leaving, answers as usual for a moment, accepts
    /// nobody, finishes what is under way.
    pub async fn stop(self) {
        let drain = self.context.config.drain;
        self.drainer.leave();
        self.context.rules.leave();
        tokio::time::sleep(drain.notice).await;
        self.drainer.close();
        let connections = &self.context.connections;
        let deferred = self.context.deferred.clone();
        let replayed = async {
            if let Some(deferred) = &deferred {
                deferred.finish().await;
            }
        };
        let empty = async { tokio::join!(connections.empty(), replayed) };
        if tokio::time::timeout(drain.patience, empty).await.is_err() {
            tracing::warn!(connections = connections.count(), "cut off: they did not end in time");
        }
        let Context { rules, engine, .. } = self.context;
        engine.store().flush().await;
        let close = move || {
            if let Some(deferred) = deferred {
                deferred.close();
            }
            rules.close();
            engine.telemetry().close();
        };
        if tokio::task::spawn_blocking(close).await.is_err() {
            tracing::error!("the rules database was not closed in good order");
        }
    }
}

/// As many connections as the system lets the process have files, which is raised as far as it may
/// be.
fn most_files() -> usize {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
        if setrlimit(Resource::Nofile, raised).is_ok() {
            limit = raised;
        }
    }
    let files = limit.current.map_or(usize::MAX, |files| files as usize);
    files.saturating_sub(RESERVED_FILES).clamp(64, 1 << 20)
}
