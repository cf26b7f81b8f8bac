//! A primary, a replica, and three sentinels that watch them.

use crate::flavour::Flavour;
use crate::redis::Redis;
use crate::setup::Setup;
use crate::wait::{self, until};

/// The name of the primary.
const NAME: &str = "mymaster";

/// Two servers and three sentinels; stopped when dropped.
#[derive(Debug)]
pub struct Sentinels {
    servers: [Redis; 2],
    sentinels: Vec<Redis>,
}

impl Sentinels {
    /// Starts them, and waits until the sentinels know each other, the primary and the replica.
    ///
    /// A primary that is silent for half a second is replaced.
    pub fn start() -> Sentinels {
        Sentinels::start_with(&[])
    }

    /// Starts them as [`start`](Sentinels::start) does, with more command-line arguments for both
    /// servers.
    pub fn start_with(args: &[&str]) -> Sentinels {
        let common = ["--repl-diskless-sync-delay", "0"].iter().chain(args).copied();
        let setup = Setup::new(Flavour::Redis7).args(common);
        let primary = setup.start();
        let port = primary.port().to_string();
        let replica = setup.args(["--replicaof", "127.0.0.1", &port]).start();
        // A sentinel looks for replicas at once, and then every ten seconds only.
        until("the replica follows", || {
            let line = primary.info("slave0");
            line.is_some_and(|line| line.contains("state=online"))
                && replica.info("master_link_status").as_deref() == Some("up")
        });
        let lines = format!(
            "sentinel monitor {NAME} 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds {NAME} 500\n\
             sentinel failover-timeout {NAME} 3000\n\
             sentinel parallel-syncs {NAME} 1\n"
        );
        let sentinel = Setup::new(Flavour::Redis7).sentinel(lines);
        let starting: Vec<_> = (0..3).map(|_| sentinel.spawn()).collect();
        let sentinels = starting.into_iter().map(|sentinel| sentinel.ready()).collect();
        let all = Sentinels { servers: [primary, replica], sentinels };
        until("the sentinels know all servers", || {
            all.sentinels.iter().all(|sentinel| {
                let reports = |field: &str, count: &str| reports(sentinel, field, count);
                reports("num-other-sentinels", "2") && reports("num-slaves", "1")
            })
        });
        all
    }

    /// Returns the addresses of the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// Returns the name of the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Returns both servers; the first is the original primary.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// Returns the sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// Returns the primary, according to the first sentinel that answers.
    pub fn primary(&self) -> &Redis {
        let port = wait::answer(|| {
            let ask = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME];
            let replies = self.sentinels.iter().filter(|sentinel| sentinel.is_running());
            let address = replies.flat_map(|sentinel| sentinel.command(&ask)).next()?;
            address.list().get(1)?.int()
        });
        let port = port.expect("a sentinel knows the primary");
        let primary = self.servers.iter().find(|server| i64::from(server.port()) == port);
        primary.expect("the primary is one of ours")
    }

    /// Kills the primary and returns it, without waiting for its replacement: that is
    /// [`await_primary`](Sentinels::await_primary).
    pub fn kill_primary(&self) -> &Redis {
        let primary = self.primary();
        primary.kill();
        primary
    }

    /// Waits until the sentinels name another primary than `former`, and that server agrees.
    pub fn await_primary(&self, former: &Redis) -> &Redis {
        until("another server is the primary", || {
            let primary = self.primary();
            primary.port() != former.port() && primary.info("role").as_deref() == Some("master")
        });
        self.primary()
    }
}

/// Returns whether a sentinel reports this value of a field of the primary.
fn reports(sentinel: &Redis, field: &str, count: &str) -> bool {
    let reply = sentinel.command(&["SENTINEL", "MASTER", NAME]);
    let reply = reply.map(|reply| reply.text()).unwrap_or_default();
    let mut lines = reply.lines().skip_while(|line| *line != field);
    lines.nth(1) == Some(count)
}
