//! The server process: start, open the doors, reload, stop.

use std::path::Path;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tollgate::Clock;

use crate::active_rules::ActiveRules;
use crate::admin;
use crate::background::{self, BackgroundWorker};
use crate::config::Config;
use crate::decisions::DecisionService;
use crate::deferred::Deferred;
use crate::doors::{gateway::GatewayDoor, grpc::GrpcDoor, http::HttpDoor, resp::RespDoor};
use crate::identity::IdentitySources;
use crate::key_secret;
use crate::live_tokens::AccessControl;
use crate::net::http::{BrowserGuard, RouterDoor};
use crate::net::{
    self, Address, Bind, BindError, BodyBudget, Connections, Door, Drain, Drainer, Listener, Tls,
};
use crate::rules_service::{MAX_BODY, ServiceError};
use crate::secret::Secret;
use crate::snapshot::Snapshots;
use crate::sources::SourceError;
use crate::store::{self, AnyStore, OpenedStore};
use crate::telemetry::{CountingDoor, Telemetry};
use crate::worker_thread::STOP_PATIENCE;

/// The rules of a server that starts without rules and without a data folder.
pub const SAMPLE_RULES: &str = include_str!("sample.yaml");

/// File descriptors that the process needs besides its connections.
const RESERVED_FILES: usize = 64 + net::SLACK;

/// The reason why a server cannot start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The rules cannot be read.
    #[error(transparent)]
    Rules(#[from] SourceError),
    /// This version rejects the rules in the data folder.
    #[error("the rules in the data folder are invalid for this version of tollgate: {0}")]
    Stored(String),
    /// The data folder cannot be used.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The exporter of traces cannot be set up.
    #[error("cannot send traces to {endpoint}: {reason}")]
    Traces {
        /// The configured OTLP endpoint.
        endpoint: String,
        /// The cause.
        reason: String,
    },
    /// The configured store cannot be used.
    #[error("cannot use the store: {0}")]
    Store(String),
    /// The gateway cannot be set up.
    #[error("cannot set up the gateway: {0}")]
    Gateway(String),
    /// The keys of tokens, or the API keys, cannot be used.
    #[error("cannot verify the identities of clients: {0}")]
    Identity(String),
    /// The secret of the hashes in keys cannot be read or created.
    #[error("cannot use the key secret: {0}")]
    KeySecret(String),
    /// The deferred queue cannot be opened.
    #[error("cannot open the deferred queue: {0}")]
    Deferred(String),
    /// A door cannot listen on its address.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// The parts of a server that every door uses. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) config: Arc<Config>,
    pub(crate) access: Arc<AccessControl>,
    pub(crate) decisions: DecisionService,
    pub(crate) rules: Arc<ActiveRules>,
    pub(crate) drain: Drain,
    /// The keys that verify who sent a request.
    pub(crate) identities: Arc<IdentitySources>,
    pub(crate) connections: Arc<Connections>,
    /// The memory for request bodies.
    pub(crate) bodies: Arc<BodyBudget>,
    /// The deferred queue, if the server has a gateway and durable storage.
    pub(crate) deferred: Option<Arc<Deferred>>,
    /// The time up to which the counters have the charges of the former process, since 1970.
    pub(crate) counted_until_ms: i64,
    /// The thread that writes snapshots, if the counters are saved.
    pub(crate) snapshots: Option<Arc<Snapshots>>,
}

/// A running server.
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

/// The addresses on which the doors listen.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Addresses {
    /// Address of the HTTP door.
    pub http: Option<Address>,
    /// Address of the gRPC door.
    pub grpc: Option<Address>,
    /// Address of the Redis-protocol door.
    pub resp: Option<Address>,
    /// Address of the gateway.
    pub gateway: Option<Address>,
    /// Address of the admin API, if it is not on the HTTP door.
    pub admin: Option<Address>,
}

impl Server {
    /// Reads the rules and opens the doors.
    ///
    /// The future is boxed so that the doors are compiled here, once, and not again in every crate
    /// that starts a server.
    pub fn start(config: Config) -> BoxFuture<'static, Result<Server, StartError>> {
        Box::pin(Server::open_all(config))
    }

    async fn open_all(config: Config) -> Result<Server, StartError> {
        let clock = config.clock.clone().unwrap_or_else(Clock::system);
        let telemetry = Telemetry::new(&config.telemetry)?;
        let OpenedStore { store, clock, saved, counted_until_ms } =
            AnyStore::open(&config, clock, &telemetry).await?;
        let key_secret = key_secret::open(&config, &store).await?;
        let reading = (config.clone(), clock.clone(), telemetry.clone(), key_secret.secret());
        let open = move || ActiveRules::open(&reading.0, &reading.1, store, reading.2, reading.3);
        let rules = tokio::task::spawn_blocking(open).await;
        let rules = Arc::new(rules.expect("reading rules does not panic")?);
        let (drainer, drain) = Drainer::new();
        let identities = Arc::new(IdentitySources::open(&config.identity, &drain).await?);
        let connections =
            Connections::new(config.bounds.connections.unwrap_or_else(max_connections));
        let limiter = rules.limiter().clone();
        let decisions = DecisionService::new(limiter, clock, telemetry, &config.bounds);
        let (watched, watching) = (decisions.clone(), drain.clone());
        background::spawn_restarting(BackgroundWorker::StoreHealth, move || {
            store::log_health_changes(watched.clone(), watching.clone())
        });
        let (limiter, comparing) = (rules.limiter().clone(), drain.clone());
        background::spawn_restarting(BackgroundWorker::KeySecret, move || {
            key_secret.clone().follow(limiter.clone(), comparing.clone())
        });
        saved.restore(&decisions).await;
        let snapshots = Snapshots::start(&config, &decisions).map(Arc::new);
        let deferred = Deferred::open(&config, decisions.store()).await?;
        decisions.set_defers(deferred.is_some());
        let access = AccessControl::new(rules.live_tokens(), config.data_tokens.clone());
        let bodies = BodyBudget::new(&config.bounds, largest_body(&config));
        let (config, access) = (Arc::new(config), Arc::new(access));
        let context = Context {
            config,
            access,
            decisions,
            rules,
            drain,
            identities,
            connections,
            bodies,
            deferred,
            counted_until_ms,
            snapshots,
        };
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
        let guard = BrowserGuard::new(&config.hosts);
        let routes = admin::own_router(context.clone());
        let admin = RouterDoor::new(config.bounds, context.bodies.clone(), routes, guard);
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
        // The gateway has its address in the setting `listen`.
        let setting = if name == "gateway" { "listen" } else { name };
        let listener = Listener::bind(setting, bind, protocols)?;
        let address = listener.address().unwrap_or_else(|_| bind.address.clone());
        self.certificates.extend(listener.tls().cloned());
        let Context { connections, drain, .. } = &self.context;
        let (connections, drain) = (connections.add_door(name), drain.clone());
        let door = CountingDoor::new(door, self.context.decisions.telemetry().register_door(name));
        let listener = Arc::new(listener);
        background::spawn_restarting(BackgroundWorker::Accept, move || {
            net::serve(listener.clone(), connections.clone(), drain.clone(), door.clone())
        });
        Ok(Some(address))
    }

    /// Returns the addresses on which the doors listen.
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the names of the domains of the rules in use.
    pub fn domain_names(&self) -> Vec<String> {
        self.context.rules.limiter().rules().domain_names().map(str::to_owned).collect()
    }

    /// Returns whether the rules in use are [`SAMPLE_RULES`].
    pub fn has_sample_rules(&self) -> bool {
        let rules = self.context.rules.limiter().rules();
        matches!(rules.sources(), [source] if source.text == SAMPLE_RULES)
    }

    /// Returns a token for the admin API.
    ///
    /// The token comes from the configuration or from the data folder. Without either, the server
    /// creates one that is valid until the process ends.
    pub fn admin_token(&self) -> Option<Secret> {
        self.context.rules.admin_token()
    }

    /// Returns the path of the token file, if this start created it.
    pub fn created_tokens(&self) -> Option<&Path> {
        self.context.rules.created_tokens()
    }

    /// Reads the rules, the tokens, the keys of identities and the certificates again.
    ///
    /// Errors are logged; what was read before stays in use.
    pub fn reload(&self) {
        self.context.rules.refresh();
        self.context.access.reload();
        self.context.identities.reload();
        for tls in &self.certificates {
            match tls.reload() {
                Ok(()) => tracing::info!("reloaded the certificate"),
                Err(error) => tracing::error!(
                    %error,
                    "cannot reload the certificate; the previous one stays in use"
                ),
            }
        }
    }

    /// Stops the server gracefully.
    ///
    /// The server first reports itself as not ready and answers as usual during the notice. Then it
    /// accepts no new connections and finishes the requests in flight.
    pub fn stop(self) -> BoxFuture<'static, ()> {
        Box::pin(self.drain_and_close())
    }

    async fn drain_and_close(self) {
        let drain = self.context.config.drain;
        self.drainer.leave();
        self.context.rules.stop_waiting();
        tokio::time::sleep(drain.notice).await;
        self.drainer.close();
        let connections = &self.context.connections;
        let deferred = self.context.deferred.clone();
        let replayed = async {
            if let Some(deferred) = &deferred {
                deferred.finish().await;
            }
        };
        let empty = async { tokio::join!(connections.wait_until_empty(), replayed) };
        if tokio::time::timeout(drain.patience, empty).await.is_err() {
            tracing::warn!(
                connections = connections.count(),
                "closing connections that did not end within the drain timeout"
            );
        }
        let Context { rules, decisions, snapshots, .. } = self.context;
        decisions.store().flush().await;
        let close_snapshots = move || {
            if let Some(snapshots) = snapshots {
                snapshots.stop();
            }
            true
        };
        let close_deferred = move || deferred.is_none_or(|deferred| deferred.close(STOP_PATIENCE));
        let close_rules = move || rules.close(STOP_PATIENCE);
        tokio::join!(
            close_database("snapshot", close_snapshots),
            close_database("deferred", close_deferred),
            close_database("rules", close_rules),
        );
        decisions.telemetry().export_statsd().await;
        let close_telemetry = move || decisions.telemetry().close();
        let _ = tokio::task::spawn_blocking(close_telemetry).await;
    }
}

/// Closes a database on a thread that may block, and logs what did not close in time.
async fn close_database(database: &'static str, close: impl FnOnce() -> bool + Send + 'static) {
    match tokio::task::spawn_blocking(close).await {
        Ok(true) => {}
        Ok(false) => tracing::error!(
            database,
            patience = ?STOP_PATIENCE,
            "stopping without the database, because its disk stalls; changes that were not \
             confirmed may be lost"
        ),
        Err(_) => tracing::error!(database, "a panic interrupted closing the database"),
    }
}

/// Returns the size of the largest request body that a door reads before it answers, in bytes.
fn largest_body(config: &Config) -> usize {
    let gateway = config.gateway.as_ref();
    let in_gateway = gateway.map_or(0, |options| options.read_body.max(options.defer.body));
    config.bounds.body.max(MAX_BODY).max(in_gateway)
}

/// Raises the limit of open files to its maximum and returns the connections that it allows.
fn max_connections() -> usize {
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
