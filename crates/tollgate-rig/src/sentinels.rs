//! A primary, a replica, and three sentinels that watch them.

use crate::flavour::Flavour;
use crate::redis::Redis;
use crate::setup::Setup;
use crate::wait::{self, until};

/// What the sentinels call the primary.
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

    /// As [`start`](Sentinels::start), with more of a command line for both servers.
    pub fn start_with(args: &[&str]) -> Sentinels {
        let common = ["--repl-diskless-sync-delay", "0"].iter().chain(args).copied();
        let setup = Setup::new(Flavour::Redis7).args(common);
        let primary = setup.start();
        let port = primary.port().to_string();
        let replica = setup.args(["--replicaof", "127.0.0.1", &port]).start();
        // A sentinel looks for replicas at once, and then only every ten seconds.
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
        until("the sentinels know everybody", || {
            all.sentinels.iter().all(|sentinel| {
                let knows = |field: &str, count: &str| knows(sentinel, field, count);
                knows("num-other-sentinels", "2") && knows("num-slaves", "1")
            })
        });
        all
    }

    /// Where clients find the sentinels.
    pub fn urls(&self) -> Vec<String> {
        self.sentinels.iter().map(Redis::url).collect()
    }

    /// What the sentinels call the primary.
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Both servers, whichever is the primary: the first was in the beginning.
    pub fn servers(&self) -> &[Redis; 2] {
        &self.servers
    }

    /// The sentinels.
    pub fn sentinels(&self) -> &[Redis] {
        &self.sentinels
    }

    /// The primary, as the first sentinel that answers says.
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

    /// Kills the primary, and returns it. It does not wait for another to take its place: that is
    /// [`await_primary`](Sentinels::await_primary).
    pub fn kill_primary(&self) -> &Redis {
        let primary = self.primary();
        primary.kill();
        primary
    }

    /// Waits until the sentinels name another primary than `former`, and it says that it is one.
    pub fn await_primary(&self, former: &Redis) -> &Redis {
        until("another server is the primary", || {
            let primary = self.primary();
            primary.port() != former.port() && primary.info("role").as_deref() == Some("master")
        });
        self.primary()
    }
}

/// Whether a sentinel has this in what it says of the primary.
fn knows(sentinel: &Redis, field: &str, count: &str) -> bool {
    let said = sentinel.command(&["SENTINEL", "MASTER", NAME]);
    let said = said.map(|reply| reply.text()).unwrap_or_default();
    let mut lines = said.lines().skip_while(|line| *line != field);
    lines.nth(1) == Some(count)
}
