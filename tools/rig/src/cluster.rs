//! A Redis Cluster on this machine.

use std::process::Command;

use crate::flavour::Flavour;
use crate::redis::Redis;
use crate::setup::Setup;
use crate::wait::until;

/// A cluster of servers that share the slots; stopped when dropped.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Redis>,
    masters: usize,
}

impl Cluster {
    /// Starts a cluster of Redis 7.0 with at least three masters, each with this many replicas.
    /// Waits until all nodes report a complete cluster.
    pub fn start(masters: usize, replicas_per_master: usize) -> Cluster {
        Cluster::start_flavour(Flavour::Redis7, masters, replicas_per_master)
    }

    /// Starts a cluster as [`start`](Cluster::start) does, with servers of any kind.
    pub fn start_flavour(flavour: Flavour, masters: usize, replicas_per_master: usize) -> Cluster {
        let setup = Setup::new(flavour).args([
            "--cluster-enabled",
            "yes",
            "--cluster-node-timeout",
            "1000",
            "--repl-diskless-sync-delay",
            "0",
        ]);
        let count = masters * (1 + replicas_per_master);
        let starting: Vec<_> = (0..count).map(|_| setup.spawn()).collect();
        let nodes: Vec<_> = starting.into_iter().map(|node| node.ready()).collect();
        let addresses = nodes.iter().map(address);
        let replicas = replicas_per_master.to_string();
        redis_cli(
            ["--cluster", "create", "--cluster-yes", "--cluster-replicas", &replicas]
                .map(str::to_owned)
                .into_iter()
                .chain(addresses),
        );
        let cluster = Cluster { nodes, masters };
        cluster.await_whole();
        cluster
    }

    /// Returns all nodes: the original masters first, then the replicas.
    pub fn nodes(&self) -> &[Redis] {
        &self.nodes
    }

    /// Returns one of [`nodes`](Cluster::nodes).
    pub fn node(&self, index: usize) -> &Redis {
        &self.nodes[index]
    }

    /// Returns the number of masters at the start.
    pub fn masters(&self) -> usize {
        self.masters
    }

    /// Returns the addresses of the nodes.
    pub fn urls(&self) -> Vec<String> {
        self.nodes.iter().map(Redis::url).collect()
    }

    /// Returns the slot of a key.
    pub fn slot_of(&self, key: &str) -> u16 {
        let slot = self.command_any(&["CLUSTER", "KEYSLOT", key]).parse();
        slot.expect("a slot is a number")
    }

    /// Returns the index of the node that owns a slot, according to a running node.
    pub fn owner_of(&self, slot: u16) -> usize {
        let nodes = self.command_any(&["CLUSTER", "NODES"]);
        let owns = |line: &&str| slots_in(line).any(|(from, to)| (from..=to).contains(&slot));
        let line = nodes.lines().find(owns).expect("the slot has an owner");
        let port = line.split([':', '@']).nth(1).and_then(|port| port.parse().ok());
        let index = self.nodes.iter().position(|node| Some(node.port()) == port);
        index.expect("the owner is one of ours")
    }

    /// Returns the number of slots that a node owns, according to itself.
    pub fn slots_at(&self, index: usize) -> usize {
        let nodes = command(self.node(index), &["CLUSTER", "NODES"]);
        let own = nodes.lines().find(|line| line.contains("myself")).expect("it knows itself");
        slots_in(own).map(|(from, to)| usize::from(to - from) + 1).sum()
    }

    /// Moves slots with all their keys from one master to another while both serve requests.
    pub fn move_slots(&self, from: usize, to: usize, count: usize) {
        let (node, count) = (address(self.node(from)), count.to_string());
        let (from, to) = (self.id_of(from), self.id_of(to));
        redis_cli(
            ["--cluster", "reshard", &node, "--cluster-yes", "--cluster-slots", &count]
                .into_iter()
                .chain(["--cluster-from", &from, "--cluster-to", &to])
                .map(str::to_owned),
        );
    }

    /// Begins to migrate one slot and stops half-way: its owner answers `ASK` for keys that it does
    /// not have.
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = self.owner_of(slot);
        let (number, source, target) = (slot.to_string(), self.id_of(from), self.id_of(to));
        command(self.node(to), &["CLUSTER", "SETSLOT", &number, "IMPORTING", &source]);
        command(self.node(from), &["CLUSTER", "SETSLOT", &number, "MIGRATING", &target]);
    }

    /// Migrates one key of a slot that is [half-way](Cluster::begin_move).
    pub fn migrate(&self, key: &str, to: usize) {
        let from = self.node(self.owner_of(self.slot_of(key)));
        let port = self.node(to).port().to_string();
        command(from, &["MIGRATE", "127.0.0.1", &port, key, "0", "5000"]);
    }

    /// Ends the migration that [`begin_move`](Cluster::begin_move) began: moves the other keys, and
    /// announces the new owner to all nodes.
    pub fn finish_move(&self, slot: u16, to: usize) {
        let (from, number) = (self.node(self.owner_of(slot)), slot.to_string());
        let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &number, "100000"]);
        for key in keys.expect("the owner lists its keys").list() {
            self.migrate(&key.text(), to);
        }
        let target = self.id_of(to);
        for node in [self.node(to), from].into_iter().chain(self.running()) {
            // A replica learns it from its master.
            if node.info("role").as_deref() == Some("master") {
                command(node, &["CLUSTER", "SETSLOT", &number, "NODE", &target]);
            }
        }
    }

    /// Waits until every running node reports a complete cluster and knows all others.
    pub fn await_whole(&self) {
        let all = format!("cluster_known_nodes:{}", self.nodes.len());
        until("every node says that the cluster is whole", || {
            self.running().all(|node| {
                let info = command(node, &["CLUSTER", "INFO"]);
                let has = |line: &str| info.lines().any(|has| has == line);
                has("cluster_state:ok") && has("cluster_slots_ok:16384") && has(&all)
            })
        });
    }

    fn running(&self) -> impl Iterator<Item = &Redis> {
        self.nodes.iter().filter(|node| node.is_running())
    }

    fn id_of(&self, index: usize) -> String {
        command(self.node(index), &["CLUSTER", "MYID"])
    }

    /// Sends a command to the first running node.
    fn command_any(&self, args: &[&str]) -> String {
        command(self.running().next().expect("a node runs"), args)
    }
}

fn address(node: &Redis) -> String {
    format!("127.0.0.1:{}", node.port())
}

fn command(node: &Redis, args: &[&str]) -> String {
    let reply = node.command(args);
    reply.unwrap_or_else(|error| panic!("{args:?}: {error}")).text()
}

/// Returns the slot ranges at the end of a line of `CLUSTER NODES`, without migrating slots, which
/// are in brackets.
fn slots_in(line: &str) -> impl Iterator<Item = (u16, u16)> {
    line.split_whitespace().skip(8).filter_map(|range| {
        let (from, to) = range.split_once('-').unwrap_or((range, range));
        Some((from.parse().ok()?, to.parse().ok()?))
    })
}

fn redis_cli(args: impl IntoIterator<Item = String>) {
    let mut command = Command::new("redis-cli");
    let output = command.args(args).output();
    let output = output.unwrap_or_else(|error| panic!("redis-cli: {error}"));
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}\n{stdout}", output.status);
}
