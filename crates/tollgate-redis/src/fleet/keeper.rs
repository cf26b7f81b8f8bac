//! Keeps a server connected: looks for it while it rests, replaces connections that broke.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::smallvec;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::dial::{Dialer, Examination};
use super::link::Link;
use super::scripts::Road;
use super::sentinel::Sentinels;
use super::server::{Condition, Resting, Server};
use super::slots;
use crate::options::Address;
use crate::trouble::Trouble;

/// How often a server in trouble is looked at.
const PROBE_EVERY: Duration = Duration::from_millis(100);
/// How often the sentinels of a master that is well are asked whether it still is one.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// The least time between two connections, however often they break.
const DIAL_EVERY: Duration = Duration::from_millis(5);

/// Where a server is to be found.
#[derive(Clone)]
pub(super) enum Finder {
    At(Address),
    Master(Arc<Sentinels>),
}

/// A server with somebody who keeps it connected, for as long as this lives.
#[derive(Debug)]
pub(super) struct Kept {
    server: Arc<Server>,
    keeper: AbortHandle,
}

impl Deref for Kept {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.server
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Kept {
    /// Starts to keep a server connected.
    pub(super) fn new(server: Server, finder: Finder, dialer: Dialer, wish: Wish) -> Arc<Kept> {
        let server = Arc::new(server);
        let keeper = Keeper { server: server.clone(), finder, dialer, wish };
        let keeper = tokio::spawn(keeper.keep()).abort_handle();
        Arc::new(Kept { server, keeper })
    }
}

/// What is wanted of every server.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) connections: usize,
    pub(super) prefix: Arc<str>,
}

struct Keeper {
    server: Arc<Server>,
    finder: Finder,
    dialer: Dialer,
    wish: Wish,
}

impl Keeper {
    async fn keep(self) {
        let server = &*self.server;
        loop {
            let condition = server.condition.load_full();
            match &*condition {
                Condition::Well { address, links } => {
                    let alive = || links.iter().filter(|link| !link.is_lost()).cloned();
                    if alive().next().is_none() {
                        server.rest_from(&condition, server.hung_up());
                        sleep(DIAL_EVERY).await;
                    } else if alive().count() < self.wish.connections {
                        self.add_link(&condition, address, alive().collect()).await;
                    } else {
                        self.watch(&condition, address).await;
                    }
                }
                Condition::Connecting => match self.probe(Examination::default()).await {
                    Ok((address, link)) => self.is_well(&condition, address, link),
                    Err(trouble) => {
                        let since = server.clock.now();
                        self.rests_on(&condition, since, trouble);
                    }
                },
                Condition::Resting(resting) => {
                    match self.probe(self.examination(&resting.because)).await {
                        Ok((address, link)) => self.is_well(&condition, address, link),
                        Err(trouble) => {
                            self.rests_on(&condition, resting.since, trouble);
                            sleep(jittered(PROBE_EVERY)).await;
                        }
                    }
                }
            }
        }
    }

    /// Waits until something happens. A master may also step down without a word, and be
    /// written to for seconds before anybody tells it: so its sentinels are asked.
    async fn watch(&self, condition: &Arc<Condition>, address: &Address) {
        let rung = self.server.bell.notified();
        match &self.finder {
            Finder::At(_) => rung.await,
            Finder::Master(sentinels) => {
                if timeout(jittered(ASK_EVERY), rung).await.is_err()
                    && sentinels.name_another(address).await
                {
                    let why = "the sentinels name another master";
                    let moved = Trouble::unreachable(&self.server.name, why);
                    self.server.rest_from(condition, moved);
                }
            }
        }
    }

    async fn add_link(
        &self,
        condition: &Arc<Condition>,
        address: &Address,
        mut links: smallvec::SmallVec<[Arc<Link>; 2]>,
    ) {
        match self.dialer.dial(address, &self.server.bell).await {
            Ok(link) => {
                links.push(Arc::new(link));
                self.server.change(condition, Condition::Well { address: address.clone(), links });
                sleep(DIAL_EVERY).await;
            }
            // Those that are there go on: a server may have no place for more.
            Err(trouble) => {
                tracing::debug!(%trouble, "no further connection");
                let _ = timeout(PROBE_EVERY, self.server.bell.notified()).await;
            }
        }
    }

    /// Finds the server and sees whether it is well.
    async fn probe(&self, wanted: Examination) -> Result<(Address, Link), Trouble> {
        let server = &*self.server;
        let (address, wanted) = match &self.finder {
            Finder::At(address) => (address.clone(), wanted),
            Finder::Master(sentinels) => {
                (sentinels.master().await?, Examination { master: true, ..wanted })
            }
        };
        let link = self.dialer.dial(&address, &server.bell).await?;
        self.dialer.examine(&link, &address.to_string().into(), &wanted, &server.time).await?;
        Ok((address, link))
    }

    /// A server that answered but refused to write is well once it lets us write.
    fn examination(&self, because: &Trouble) -> Examination {
        let refused = matches!(because, Trouble::Refused { .. });
        Examination { master: false, write: refused.then(|| self.key_to_write()) }
    }

    fn key_to_write(&self) -> String {
        let wanted = self.server.slot.load(Ordering::Relaxed);
        // Some number below a hundred thousand or so is in any slot.
        let mut tags = (0..1_000_000u32).map(|number| number.to_string());
        let tag = tags.find(|tag| slots::slot(tag.as_bytes()) == wanted).unwrap_or_default();
        format!("{}:{{{tag}}}probe", self.wish.prefix)
    }

    fn is_well(&self, condition: &Arc<Condition>, address: Address, link: Link) {
        // It may be another server than before.
        self.server.road.store(Road::Unknown as u8, Ordering::Relaxed);
        let links = smallvec![Arc::new(link)];
        self.server.change(condition, Condition::Well { address, links });
    }

    fn rests_on(&self, condition: &Arc<Condition>, since: tollgate::Time, trouble: Trouble) {
        let because = Arc::new(trouble);
        self.server.change(condition, Condition::Resting(Resting { since, because }));
    }
}

/// That long, give or take a tenth, so that nodes do not knock all at once.
pub(super) fn jittered(duration: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) % 201;
    duration * (900 + random as u32) / 1000
}
