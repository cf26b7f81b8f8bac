//! Wrong passwords are counted, also before their responses are there.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tollgate_rig::{AfterResponse, Message, Upstream, WebClient, until};

use super::{Gate, all_settled};
use crate::support::start;

fn login(password: &str, address: std::net::SocketAddr) -> Message {
    WebClient::connect(address).send("POST", &format!("/login?{password}"), &[], "")
}

/// Knows one password, and answers when the gate is open.
fn guarded(gate: &Arc<Gate>) -> Upstream {
    let gate = gate.clone();
    Upstream::answering(move |request, stream| {
        gate.pass();
        let answer = match request.target() == "/login?right" {
            true => "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            false => "HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n",
        };
        let _ = stream.write_all(answer.as_bytes());
        AfterResponse::Keep
    })
}

const RULES: &str = "
rules:
  - { name: login, route: POST /login, per: ip, limit: 5/year, count: response.status == 401 }
";

fn at_once(address: std::net::SocketAddr, upstream: &Upstream, gate: &Gate) -> usize {
    gate.set(false);
    let (before, refused) = (upstream.count(), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..100 {
            scope.spawn(|| {
                let answer = login("wrong", address).status();
                refused.fetch_add(usize::from(answer == 429), Ordering::SeqCst);
            });
        }
        until("all are refused or under way", || {
            refused.load(Ordering::SeqCst) + upstream.count() - before == 100
        });
        gate.set(true);
    });
    upstream.count() - before
}

#[test]
fn a_hundred_guesses_at_once_are_five_guesses() {
    let gate = Arc::new(Gate::default());
    let upstream = guarded(&gate);
    let gateway = start(RULES, &upstream);
    assert_eq!(at_once(gateway.address(), &upstream, &gate), 5);
    assert_eq!(login("right", gateway.address()).status(), 429);
    assert_eq!(at_once(gateway.address(), &upstream, &gate), 0);
}

#[test]
fn right_passwords_cost_nothing() {
    let gate = Arc::new(Gate::default());
    gate.set(true);
    let upstream = guarded(&gate);
    let gateway = start(RULES, &upstream);
    for round in 1..=20 {
        assert_eq!(login("right", gateway.address()).status(), 200);
        until("it is settled", || all_settled(&gateway, "login") == round);
    }
    assert_eq!(at_once(gateway.address(), &upstream, &gate), 5);
}
