//! Nine polite clients and a noisy one, who asks a hundred times as often, in front of an upstream that
//! can only do so much.
//!
//! Everybody's requests arrive before the first of them is worked on, so that what is asserted does not
//! depend on how quick the machine is: who gets a place, and who is served before whom.

use std::time::Duration;

use serde_json::Value;
use tollgate_rig::{WebClient, Workers, until};

use crate::support::{Gateway, start};

const WORKERS: usize = 4;
const EACH: Duration = Duration::from_millis(1);
/// So many requests fit the upstream, waiting or worked on.
const MOST: usize = 24;

const POLITE: usize = 9;
const NOISY: usize = 100 * ONE_EACH;
/// What a polite client asks in a round.
const ONE_EACH: usize = 1;
const ROUNDS: usize = 3;

/// Under which everything passes.
const OPEN: &str = "rules: [{ name: upstream, limit: 1000000/s burst 1000000 }]";
const FAIR: &str = "
rules:
  - name: upstream
    limit: 24 concurrent
    fair: { by: 'header[\"x-client\"]' }
";

/// What became of the requests of one kind of client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    ok: usize,
    failed: usize,
}

/// All clients, with a connection for each request of a round.
struct Crowd<'a> {
    gateway: &'a Gateway,
    workers: &'a Workers,
    polite: Vec<WebClient>,
    noisy: Vec<WebClient>,
}

impl<'a> Crowd<'a> {
    fn new(gateway: &'a Gateway, workers: &'a Workers) -> Crowd<'a> {
        let connect = |count| (0..count).map(|_| gateway.connect()).collect();
        let mut crowd = Crowd { gateway, workers, polite: connect(POLITE), noisy: connect(NOISY) };
        // The polite ones are there before their neighbour moves in.
        ask_all(&mut crowd.polite, "polite");
        assert_eq!(read_all(&mut crowd.polite), Answers { ok: POLITE, failed: 0 });
        crowd.arrived(POLITE);
        crowd
    }

    /// The noisy one asks for everything, then each of the others for one thing; then work begins.
    fn round(&mut self) -> [Answers; 2] {
        self.workers.pause();
        let before = self.gateway.decided();
        ask_all(&mut self.noisy, "noisy");
        self.arrived(before + NOISY);
        ask_all(&mut self.polite, "polite");
        self.arrived(before + NOISY + POLITE);
        self.workers.go_on();
        [read_all(&mut self.polite), read_all(&mut self.noisy)]
    }

    /// So many were decided, and whoever passed is at the upstream, or was turned away by it.
    fn arrived(&self, decided: usize) {
        let outcome = |outcome: &str| {
            let labels = format!("domain=\"default\",rule=\"upstream\",outcome=\"{outcome}\"");
            self.gateway.metric(&format!("tollgate_decisions_total{{{labels}}}"))
        };
        let all = || outcome("allowed") + outcome("denied");
        until("all are decided", || self.gateway.decided() == decided && all() == decided);
        let allowed = outcome("allowed");
        until("whoever passed is at the upstream", || self.workers.arrived() == allowed);
    }
}

/// Each connection sends a request; of the polite ones each is a client of its own.
fn ask_all(clients: &mut [WebClient], who: &str) {
    for (number, client) in clients.iter_mut().enumerate() {
        let name = if who == "noisy" { who.to_owned() } else { format!("{who}-{number}") };
        client.write(format!("GET / HTTP/1.1\r\nhost: stub\r\nx-client: {name}\r\n\r\n"));
    }
}

fn read_all(clients: &mut [WebClient]) -> Answers {
    let ok = clients.iter_mut().filter_map(|client| client.read());
    let ok = ok.filter(|answer| answer.status() == 200).count();
    Answers { ok, failed: clients.len() - ok }
}

/// The longest run of requests of the noisy client between two polite ones.
fn longest_run(served: &[String]) -> usize {
    served.split(|client| client != "noisy").map(<[String]>::len).max().unwrap_or(0)
}

#[test]
fn without_a_limit_the_noisy_client_has_the_upstream_to_itself() {
    let workers = Workers::start(WORKERS, EACH, MOST);
    let gateway = start(OPEN, workers.upstream());
    let mut crowd = Crowd::new(&gateway, &workers);
    for _ in 0..ROUNDS {
        let [polite, noisy] = crowd.round();
        assert_eq!(polite, Answers { ok: 0, failed: POLITE }, "the harm");
        assert_eq!(noisy, Answers { ok: MOST, failed: NOISY - MOST });
    }
    assert_eq!(longest_run(&workers.served()), ROUNDS * MOST);
}

#[test]
fn with_fair_shares_the_polite_ones_are_served_as_if_they_were_alone() {
    let workers = Workers::start(WORKERS, EACH, MOST);
    let gateway = start(FAIR, workers.upstream());
    let mut crowd = Crowd::new(&gateway, &workers);
    // Each of the ten has two places. For who had one in flight lately one more is kept, and one for
    // who had none.
    let most = MOST - POLITE;
    for _ in 0..ROUNDS {
        until("places are free", || free_places(&gateway) == MOST as u64);
        let [polite, noisy] = crowd.round();
        assert_eq!(polite, Answers { ok: POLITE, failed: 0 });
        // It has its own two places, and whatever is not kept for anybody.
        assert!((2..=most).contains(&noisy.ok), "{noisy:?}");
    }
    let served = workers.served();
    assert_eq!(served.iter().filter(|client| *client != "noisy").count(), (1 + ROUNDS) * POLITE);
    let run = longest_run(&served);
    assert!((2..=most).contains(&run), "{run} of the noisy one before a polite one");
    let (_, top) = gateway.admin("GET", "/v1/top?by=denied&limit=1");
    assert_eq!(top["keys"][0]["key"], "noisy", "{top}");
}

/// How many places nobody holds.
fn free_places(gateway: &Gateway) -> u64 {
    let ask = r#"{"attributes": {"header.x-client": "nobody"}}"#;
    let answer = WebClient::connect(gateway.http()).send("POST", "/v1/peek", &[], ask);
    let peeked: Value = serde_json::from_slice(&answer.body).unwrap();
    peeked["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{peeked}"))
}
