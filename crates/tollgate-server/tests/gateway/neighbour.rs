//! Nine polite clients share an upstream of limited capacity with a noisy client, which sends a
//! hundred times as many requests.
//!
//! All requests of a round arrive before the upstream works on the first, so the assertions about
//! permits and the order of service do not depend on the speed of the machine.

use std::time::Duration;

use serde_json::Value;
use tollgate_rig::{WebClient, Workers, until};

use crate::support::{Gateway, start};

const WORKERS: usize = 4;
const EACH: Duration = Duration::from_millis(1);
/// The maximum number of requests at the upstream, queued or in progress.
const MOST: usize = 24;

const POLITE: usize = 9;
const NOISY: usize = 100 * ONE_EACH;
/// The number of requests that a polite client sends in a round.
const ONE_EACH: usize = 1;
const ROUNDS: usize = 3;

/// Rules that allow every request.
const OPEN: &str = "rules: [{ name: upstream, limit: 1000000/s burst 1000000 }]";
const FAIR: &str = "
rules:
  - name: upstream
    limit: 24 concurrent
    fair: { by: 'header[\"x-client\"]' }
";

/// The numbers of successful and failed requests of one kind of client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Answers {
    ok: usize,
    failed: usize,
}

/// All clients, with a connection for each request of a round.
struct ClientLoad<'a> {
    gateway: &'a Gateway,
    workers: &'a Workers,
    polite: Vec<WebClient>,
    noisy: Vec<WebClient>,
}

impl<'a> ClientLoad<'a> {
    fn new(gateway: &'a Gateway, workers: &'a Workers) -> ClientLoad<'a> {
        let connect = |count| (0..count).map(|_| gateway.connect()).collect();
        let mut clients =
            ClientLoad { gateway, workers, polite: connect(POLITE), noisy: connect(NOISY) };
        // The polite clients are active before the noisy one begins.
        ask_all(&mut clients.polite, "polite");
        assert_eq!(read_all(&mut clients.polite), Answers { ok: POLITE, failed: 0 });
        clients.arrived(POLITE);
        clients
    }

    /// Sends the requests of the noisy client, then those of the polite ones, then starts the work.
    fn round(&mut self) -> [Answers; 2] {
        self.workers.pause();
        let before = self.gateway.decided();
        ask_all(&mut self.noisy, "noisy");
        self.arrived(before + NOISY);
        ask_all(&mut self.polite, "polite");
        self.arrived(before + NOISY + POLITE);
        self.workers.resume();
        [read_all(&mut self.polite), read_all(&mut self.noisy)]
    }

    /// Waits until `decided` requests were decided, and the admitted ones reached the upstream or
    /// were rejected by it.
    fn arrived(&self, decided: usize) {
        let outcome = |outcome: &str| {
            let labels = format!("domain=\"default\",rule=\"upstream\",outcome=\"{outcome}\"");
            self.gateway.metric(&format!("tollgate_decisions_total{{{labels}}}"))
        };
        let all = || outcome("allowed") + outcome("denied");
        until("all are decided", || self.gateway.decided() == decided && all() == decided);
        let allowed = outcome("allowed");
        until("the allowed requests are at the upstream", || self.workers.arrived() == allowed);
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
    let mut clients = ClientLoad::new(&gateway, &workers);
    for _ in 0..ROUNDS {
        let [polite, noisy] = clients.round();
        assert_eq!(polite, Answers { ok: 0, failed: POLITE }, "the harm");
        assert_eq!(noisy, Answers { ok: MOST, failed: NOISY - MOST });
    }
    assert_eq!(longest_run(&workers.served()), ROUNDS * MOST);
}

#[test]
fn with_fair_shares_the_polite_ones_are_served_as_if_they_were_alone() {
    let workers = Workers::start(WORKERS, EACH, MOST);
    let gateway = start(FAIR, workers.upstream());
    let mut clients = ClientLoad::new(&gateway, &workers);
    // Each of the ten clients has two permits. One more is reserved for each client that had a
    // request in flight recently, and one for a client that had none.
    let most = MOST - POLITE;
    for _ in 0..ROUNDS {
        until("permits are free", || free_permits(&gateway) == MOST as u64);
        let [polite, noisy] = clients.round();
        assert_eq!(polite, Answers { ok: POLITE, failed: 0 });
        // The noisy client gets its own two permits and every permit that is not reserved.
        assert!((2..=most).contains(&noisy.ok), "{noisy:?}");
    }
    let served = workers.served();
    assert_eq!(served.iter().filter(|client| *client != "noisy").count(), (1 + ROUNDS) * POLITE);
    let run = longest_run(&served);
    assert!((2..=most).contains(&run), "{run} of the noisy one before a polite one");
    let (_, top) = gateway.admin("GET", "/v1/top?by=denied&limit=1");
    assert_eq!(top["keys"][0]["key"], "noisy", "{top}");
}

/// Returns the number of free permits.
fn free_permits(gateway: &Gateway) -> u64 {
    let ask = r#"{"attributes": {"header.x-client": "unused"}}"#;
    let answer = WebClient::connect(gateway.http()).send("POST", "/v1/peek", &[], ask);
    let peeked: Value = serde_json::from_slice(&answer.body).unwrap();
    peeked["limits"][0]["remaining"].as_u64().unwrap_or_else(|| panic!("{peeked}"))
}
