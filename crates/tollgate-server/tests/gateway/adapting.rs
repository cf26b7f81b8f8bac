//! Limits that adapt, per upstream: overload, another upstream, one that goes down and returns.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tollgate::Clock;
use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::{Gateway, OPEN, start, start_with};

const PER_UPSTREAM: &str =
    "{ domain: d, rules: [{ name: up, per: upstream, limit: adaptive 2..100 concurrent }] }";
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
/// What a slow upstream works on at once, and for how long.
const PLACES: usize = 4;
const WORK: Duration = Duration::from_millis(60);

/// An upstream that works on a few requests at once; all others wait, however many there are.
fn slow_upstream() -> Upstream {
    let places = Arc::new((Mutex::new(PLACES), Condvar::new()));
    Upstream::answering(move |_, stream| {
        let (free, freed) = &*places;
        let mut left = freed.wait_while(free.lock().unwrap(), |free| *free == 0).unwrap();
        *left -= 1;
        drop(left);
        std::thread::park_timeout(WORK);
        *free.lock().unwrap() += 1;
        freed.notify_one();
        match stream.write_all(OK) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    })
}

/// What so many clients see who ask again as soon as they are answered, until that many were: the
/// median latency of answers, how long it all took, and how many were refused.
fn crowd(gateway: &Gateway, clients: usize, answers: usize) -> (Duration, Duration, usize) {
    let clock = Clock::system();
    let (refused, taken) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let began = clock.now();
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| {
                let mut client = gateway.connect();
                while taken.lock().unwrap().len() < answers {
                    let before = clock.now();
                    match client.get("/").status() {
                        200 => taken.lock().unwrap().push(clock.now().since(before)),
                        429 => {
                            refused.fetch_add(1, Ordering::Relaxed);
                            std::thread::park_timeout(Duration::from_millis(20));
                        }
                        other => panic!("{other}"),
                    }
                }
            });
        }
    });
    let took = clock.now().since(began).into();
    let mut taken = taken.into_inner().unwrap();
    taken.sort();
    (taken[taken.len() / 2].into(), took, refused.into_inner())
}

#[test]
fn an_overloaded_upstream_stays_quick_and_busy() {
    let (clients, answers) = (PLACES * 6, 200);
    let upstream = slow_upstream();
    let without = crowd(&start(OPEN, &upstream), clients, answers);
    let upstream = slow_upstream();
    let with = crowd(&start(PER_UPSTREAM, &upstream), clients, answers);
    println!("(median latency, time for {answers} answers, refused)");
    println!("without a limit: {without:?}; with: {with:?}");
    assert!(without.0 > WORK * 4, "everybody waits for everybody: {without:?}");
    assert!(with.0 < without.0 / 2, "only a few wait: {with:?}, {without:?}");
    assert!(with.1 < without.1 * 2, "it is as busy as before: {with:?}, {without:?}");
    assert!(with.2 > 0, "the others are refused");
}

/// An upstream that answers when it is told to.
fn held() -> (Upstream, std::sync::mpsc::Sender<()>) {
    let (tell, told) = channel();
    let told = Mutex::new(told);
    let upstream = Upstream::answering(move |_, stream| {
        let _ = told.lock().unwrap().recv();
        let _ = stream.write_all(OK);
        AfterResponse::Keep
    });
    (upstream, tell)
}

#[test]
fn who_is_full_leaves_it_to_another() {
    let rules = "{ domain: d, rules: [{ name: up, per: upstream, limit: 1 concurrent lease 1h }] }";
    let ((one, tell_one), (other, tell_other)) = (held(), held());
    let gateway = start_with(rules, &[&one.url(), &other.url()], |_| {});
    let send = || {
        let mut client = gateway.connect();
        client.write("GET / HTTP/1.1\r\nHost: stub\r\n\r\n");
        client
    };
    let mut first = send();
    until("one of them has it", || one.count() + other.count() == 1);
    let mut second = send();
    until("both have one", || one.count() == 1 && other.count() == 1);
    assert_eq!(gateway.connect().get("/").status(), 429, "both are full");
    for upstream in [&one, &other] {
        let at = |metric: &str| {
            let url = upstream.url();
            gateway.metric(&format!("{metric}{{domain=\"d\",rule=\"up\",upstream=\"{url}\"}}"))
        };
        assert_eq!(at("tollgate_concurrency_limit"), 1);
        assert_eq!(at("tollgate_concurrency_in_flight"), 1);
    }
    assert_eq!(gateway.decisions(), 3, "each request is one decision, wherever it was tried");
    tell_one.send(()).unwrap();
    tell_other.send(()).unwrap();
    assert_eq!([first.read().unwrap().status(), second.read().unwrap().status()], [200, 200]);
}

#[test]
fn who_returns_warms_up() {
    let answer = |_: &tollgate_rig::Message, stream: &mut std::net::TcpStream| {
        std::thread::park_timeout(Duration::from_millis(5));
        match stream.write_all(OK) {
            Ok(()) => AfterResponse::Keep,
            Err(_) => AfterResponse::Close,
        }
    };
    let upstream = Upstream::answering(answer);
    let (url, address) = (upstream.url(), upstream.address());
    let gateway = start(PER_UPSTREAM, &upstream);
    let series =
        format!("tollgate_concurrency_limit{{domain=\"d\",rule=\"up\",upstream=\"{url}\"}}");
    let limit = || gateway.metric(&series);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let mut client = gateway.connect();
                while !is_over.load(Ordering::Relaxed) {
                    if client.get("/").status() != 200 {
                        std::thread::park_timeout(Duration::from_millis(5));
                    }
                }
            });
        }
        until("it is found to bear more", || limit() >= 5);
        is_over.store(true, Ordering::Relaxed);
    });
    let healthy = format!("tollgate_gateway_upstream_healthy{{upstream=\"{url}\"}}");
    drop(upstream);
    until("it is missed", || {
        gateway.connect().get("/").status() == 503 && gateway.metric(&healthy) == 0
    });
    let _upstream = Upstream::answering_at(address, answer);
    until("it is back", || gateway.connect().get("/").status() == 200);
    assert_eq!(gateway.connect().get("/").status(), 200);
    assert_eq!((gateway.metric(&healthy), limit()), (1, 2), "it begins at its least");
}

#[test]
fn rules_that_do_not_name_upstreams_have_no_such_series() {
    let upstream = Upstream::start();
    let gateway = start("rules: [{ name: all, limit: adaptive 2..9 concurrent }]", &upstream);
    assert_eq!(gateway.connect().get("/").status(), 200);
    assert!(!gateway.metrics().contains("tollgate_concurrency"));
}
