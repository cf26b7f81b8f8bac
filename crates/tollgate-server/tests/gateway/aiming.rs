//! Rules that count per upstream, and several upstreams: each request is one request.

use std::io::Write;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::{AfterResponse, Upstream, WebClient, until};

use crate::support::{Gateway, start_with};

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const PER_UPSTREAM: &str = "{ name: up, per: upstream, limit: 1 concurrent lease 2h }";

/// Two upstreams that answer when they are told to, and what tells each.
struct Pair {
    upstreams: [Upstream; 2],
    tell: [Sender<()>; 2],
}

impl Pair {
    fn new() -> Pair {
        let one = || {
            let (tell, told) = channel();
            let told = Mutex::new(told);
            let upstream = Upstream::answering(move |_, stream| {
                let _ = told.lock().unwrap().recv();
                match stream.write_all(OK) {
                    Ok(()) => AfterResponse::Keep,
                    Err(_) => AfterResponse::Close,
                }
            });
            (upstream, tell)
        };
        let ((first, tell_first), (second, tell_second)) = (one(), one());
        Pair { upstreams: [first, second], tell: [tell_first, tell_second] }
    }

    fn gateway(&self, rules: &str) -> Gateway {
        let urls = self.upstreams.each_ref().map(Upstream::url);
        start_with(&format!("rules: [{rules}]"), &urls.each_ref().map(String::as_str), |_| {})
    }

    /// Lets so many go that each has.
    fn answer(&self, each: usize) {
        (0..each).for_each(|_| self.tell.iter().for_each(|tell| tell.send(()).unwrap()));
    }

    /// One request is at each.
    fn fill(&self, gateway: &Gateway) -> [WebClient; 2] {
        [1, 2].map(|count| {
            let client = send(gateway);
            let arrived = || self.upstreams.iter().map(Upstream::count).sum::<usize>();
            until("it is there", || arrived() == count);
            client
        })
    }
}

/// A request whose answer is yet to come.
fn send(gateway: &Gateway) -> WebClient {
    let mut client = gateway.connect();
    client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
    client
}

#[test]
fn a_rate_of_all_upstreams_together_is_kept() {
    let pair = Pair::new();
    let gateway = pair.gateway(
        "{ name: even, limit: 2/s leaky burst 1, then: delay up to 1min },
         { name: up, per: upstream, limit: 100 concurrent }",
    );
    pair.answer(2);
    let clock = Clock::system();
    let began = clock.now();
    assert_eq!(
        [gateway.connect().get("/").status(), gateway.connect().get("/").status()],
        [200; 2]
    );
    let took = Duration::from(clock.now().since(began));
    assert!(took > Duration::from_millis(490), "the second was held back: {took:?}");
}

#[test]
fn who_waits_for_a_place_of_all_upstreams_together_stands_in_line() {
    let pair = Pair::new();
    let gateway = pair.gateway(
        "{ name: all, limit: 1 concurrent lease 1h, then: queue 9 up to 1h },
         { name: up, per: upstream, limit: 100 concurrent }",
    );
    let mut first = send(&gateway);
    until("it is there", || pair.upstreams.iter().any(|it| it.count() == 1));
    let mut second = send(&gateway);
    until("it stands in line", || gateway.waiting() == 1);
    pair.answer(2);
    assert_eq!([first.read().unwrap().status(), second.read().unwrap().status()], [200; 2]);
}

#[test]
fn a_refusal_counts_once_however_many_upstreams_are_full() {
    let pair = Pair::new();
    let guard = "{ name: guard, limit: 2/h fixed first_hit, then: 'ban [1h] after 3 denials in 1h', per: ip }";
    let gateway = pair.gateway(&format!("{guard}, {PER_UPSTREAM}"));
    let mut sent = pair.fill(&gateway);
    for is_banned in [false, false, true] {
        let refused = gateway.connect().get("/");
        assert_eq!(refused.status(), 429);
        assert_eq!(refused.text().contains("abnormal-usage-detected"), is_banned);
    }
    assert_eq!(gateway.decisions(), 5);
    pair.answer(1);
    sent.iter_mut().for_each(|client| assert_eq!(client.read().unwrap().status(), 200));
}

#[test]
fn who_waits_goes_to_whichever_upstream_is_free_first() {
    let queue = PER_UPSTREAM.replace(" }", ", then: queue 9 up to 1h }");
    for free in [0, 1] {
        let pair = Pair::new();
        let gateway = pair.gateway(&queue);
        let mut sent = pair.fill(&gateway);
        let mut waits = send(&gateway);
        until("it stands in line", || gateway.waiting() == 1);
        pair.tell[free].send(()).unwrap();
        until("it is there", || pair.upstreams[free].count() == 2);
        assert_eq!(gateway.waiting(), 0);
        pair.tell[free].send(()).unwrap();
        assert_eq!(waits.read().unwrap().status(), 200);
        pair.tell[1 - free].send(()).unwrap();
        sent.iter_mut().for_each(|client| assert_eq!(client.read().unwrap().status(), 200));
        assert_eq!(gateway.decisions(), 3);
    }
}
