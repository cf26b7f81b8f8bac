//! Requests wait no longer than one attempt to connect, and a short outage is no long one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use tollgate::Clock;
use tollgate_rig::{AfterResponse, Upstream, until};

use crate::support::{OPEN, start_with};

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// A listener that accepts nothing and whose queue is full, so that attempts to connect wait.
struct FullListener {
    listener: TcpListener,
    address: SocketAddr,
    _queued: Vec<TcpStream>,
}

impl FullListener {
    fn start() -> FullListener {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            queued.push(stream);
            assert!(queued.len() < 100, "the queue is never full");
        }
        FullListener { listener, address, _queued: queued }
    }

    /// Accepts and answers from now on; returns the number of requests so far.
    fn serve(self) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        std::thread::spawn(move || {
            for stream in self.listener.incoming() {
                let (Ok(mut stream), counted) = (stream, counted.clone()) else { return };
                std::thread::spawn(move || {
                    while stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
                        counted.fetch_add(1, Ordering::Relaxed);
                        let _ = stream.write_all(RESPONSE);
                    }
                });
            }
        });
        count
    }
}

/// A gate that holds responses back until it is open.
#[derive(Clone, Default)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let is_open = self.0.0.lock().unwrap();
        let wait = self.0.1.wait_timeout_while(is_open, crate::DEADLINE, |is_open| !*is_open);
        drop(wait.unwrap());
    }
}

fn held_back(gate: &Gate) -> Upstream {
    let gate = gate.clone();
    Upstream::answering(move |_, stream| {
        gate.wait();
        let _ = stream.write_all(RESPONSE);
        AfterResponse::Keep
    })
}

#[test]
fn requests_share_one_attempt_to_connect_over_http2() {
    const REQUESTS: u32 = 12;
    const CONNECT: Duration = Duration::from_secs(2);
    let upstream = FullListener::start();
    let gateway = start_with(OPEN, &[&format!("h2c://{}", upstream.address)], |config| {
        config.gateway.as_mut().unwrap().connect_timeout = CONNECT;
    });
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| gateway.connect()).collect();
    let clock = Clock::system();
    let began = clock.now();
    clients.iter_mut().for_each(|client| client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
    for client in &mut clients {
        assert_eq!(client.read().unwrap().status(), 503);
    }
    let took: Duration = clock.now().since(began).into();
    println!("{REQUESTS} requests to an h2c upstream that accepts nothing: {took:.1?}");
    assert!(took < CONNECT * REQUESTS / 2, "one after the other: {took:?}");
}

#[test]
fn requests_that_fail_together_eject_an_upstream_once() {
    const REQUESTS: usize = 24;
    let (gone, gate) = (FullListener::start(), Gate::default());
    let other = held_back(&gate);
    let name = format!("http://{}", gone.address);
    let gateway = start_with(OPEN, &[&name, &other.url()], |config| {
        config.gateway.as_mut().unwrap().connect_timeout = Duration::from_secs(1);
    });
    // Neither upstream answers yet, so that each gets half of the requests.
    let mut clients: Vec<_> = (0..REQUESTS).map(|_| gateway.connect()).collect();
    clients.iter_mut().for_each(|client| client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
    until("all are at the other one", || other.count() == REQUESTS);
    let healthy = format!("tollgate_gateway_upstream_healthy{{upstream=\"{name}\"}}");
    assert_eq!(gateway.metric(&healthy), 0);
    gate.open();
    clients.iter_mut().for_each(|client| assert_eq!(client.read().unwrap().status(), 200));
    // Twelve failures in a row would eject it for more than a minute.
    let count = gone.serve();
    let took = until("it is used again", || {
        assert_eq!(gateway.connect().get("/").status(), 200);
        count.load(Ordering::Relaxed) > 0
    });
    println!("used again {took:.1?} after {REQUESTS} requests were in flight during an outage");
    assert_eq!(gateway.metric(&healthy), 1);
}

#[test]
fn idle_connections_of_one_door_do_not_close_requests_of_another() {
    const REQUESTS: usize = 20;
    let gate = Gate::default();
    let upstream = held_back(&gate);
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.connections = Some(200);
    });
    let mut waiting: Vec<_> = (0..REQUESTS).map(|_| gateway.connect()).collect();
    waiting.iter_mut().for_each(|client| client.write("GET / HTTP/1.1\r\nhost: a\r\n\r\n"));
    until("all wait for the upstream", || upstream.count() == REQUESTS);
    let idle: Vec<_> = (0..400).map(|_| TcpStream::connect(gateway.http()).unwrap()).collect();
    assert!(gateway.metrics().contains("tollgate_connections{door=\"http\"}"), "still served");
    gate.open();
    let statuses: Vec<_> =
        waiting.iter_mut().map(|client| client.read().map(|answer| answer.status())).collect();
    assert_eq!(statuses, vec![Some(200); REQUESTS]);
    drop(idle);
}

#[test]
fn a_new_connection_is_refused_if_all_others_are_busy() {
    let gate = Gate::default();
    let upstream = held_back(&gate);
    let gateway = start_with(OPEN, &[&upstream.url()], |config| {
        config.bounds.connections = Some(16);
    });
    let request = "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    let refused = "tollgate_connections_refused_total{door=\"gateway\"}";
    let mut clients = Vec::new();
    while gateway.metric(refused) == 0 {
        let mut client = gateway.connect();
        client.write(request);
        clients.push(client);
        assert!(clients.len() < 100, "none is refused");
        until("it waits, or is refused", || {
            upstream.count() + gateway.metric(refused) == clients.len()
        });
    }
    assert!(clients.len() > 8, "{} connections", clients.len());
    let mut last = clients.pop().unwrap();
    assert!(last.read().is_none(), "the last one is refused");
    gate.open();
    for client in &mut clients {
        assert_eq!(client.read().unwrap().status(), 200, "no request was closed");
    }
}
