//! Keeps a server connected: looks for it while it rests, replaces connections that broke.

use std::hash::{BuildHasher, RandomState};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use smallvec::smallvec;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};
use tollgate::{Span, Time};

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
        let mut relapses = Relapses::default();
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
                    if let Some(pause) = relapses.pause(resting) {
                        sleep(jittered(pause)).await;
                    }
                    match self.probe(self.examination(&resting.because)).await {
                        Ok((address, link)) => {
                            relapses.well_at = Some(server.clock.now());
                            self.is_well(&condition, address, link);
                        }
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

    fn rests_on(&self, condition: &Arc<Condition>, since: Time, trouble: Trouble) {
        let because = Arc::new(trouble);
        self.server.change(condition, Condition::Resting(Resting { since, because }));
    }
}

/// Servers that seem well when looked at, and are not.
#[derive(Default)]
struct Relapses {
    well_at: Option<Time>,
    count: u32,
}

impl Relapses {
    /// How long to leave a server alone before it is looked at. One that relapses is left alone
    /// for longer each time; a connection that breaks is no relapse.
    fn pause(&mut self, resting: &Resting) -> Option<Duration> {
        let well_at = self.well_at.take()?;
        let soon = resting.since.since(well_at) < Span::from_secs(1);
        if !soon || matches!(*resting.because, Trouble::Unreachable { .. }) {
            self.count = 0;
            return None;
        }
        self.count = (self.count + 1).min(4);
        Some(PROBE_EVERY * 2u32.pow(self.count - 1))
    }
}

/// That long, give or take a tenth, so that nodes do not knock all at once.
pub(super) fn jittered(duration: Duration) -> Duration {
    let random = RandomState::new().hash_one(0u8) % 201;
    duration * (900 + random as u32) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_relapses_is_left_alone_for_longer_each_time() {
        let server: Arc<str> = "cache:6379".into();
        let late = Trouble::TimedOut { server: server.clone(), after: PROBE_EVERY };
        let broken = Trouble::unreachable(&server, "it hung up");
        let resting = |ms: u64, because: &Trouble| Resting {
            since: Time::EPOCH + Span::from_millis(ms),
            because: Arc::new(because.clone()),
        };
        let mut relapses = Relapses::default();
        let mut pause = |well_ms: Option<u64>, resting: Resting| {
            if let Some(ms) = well_ms {
                relapses.well_at = Some(Time::EPOCH + Span::from_millis(ms));
            }
            relapses.pause(&resting).map(|pause| pause.as_millis())
        };
        assert_eq!(pause(None, resting(0, &late)), None);
        assert_eq!(pause(Some(0), resting(2_000, &late)), None);
        for expected in [100, 200, 400, 800, 800] {
            assert_eq!(pause(Some(10), resting(60, &late)), Some(expected));
            assert_eq!(pause(None, resting(60, &late)), None);
        }
        assert_eq!(pause(Some(10), resting(60, &broken)), None);
        assert_eq!(pause(Some(10), resting(60, &late)), Some(100));
    }
}
